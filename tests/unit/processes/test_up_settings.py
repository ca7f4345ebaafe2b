"""What `mainstay up` does not hand on: every place and every name among the settings is decided."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from mainstay.cli import coordinator, dashboard, postgres, shard, tenancy, world
from mainstay.cli.options import Option
from mainstay.config.load import SECTIONS, Sources, variable_name
from mainstay.config.up import UpConfig
from mainstay.model.errors import Rejected
from mainstay.processes.up_plan import USUAL_PORTS, Stage, parts
from mainstay.processes.up_settings import REFUSED, check_handed_on

TAKEN: Final[Mapping[str, tuple[str, tuple[Option, ...]]]] = {
    "world": ("world", world.OPTIONS),
    "shard": ("shard", shard.OPTIONS),
    "coordinator": ("coordinator", coordinator.OPTIONS),
    "dashboard": ("dashboard", dashboard.OPTIONS),
    "postgres": ("postgres", postgres.OPTIONS),
    "api": ("api", tenancy.OF_API),
    "bridge": ("api", tenancy.CLUSTER),
}
"""Each section that is read by a process of `up`: the command that reads it, and its options."""

LET_BE: Final = frozenset({
    "world.hold_for", "shard.breaker_rack_label", "coordinator.fleet", "coordinator.etcd_ca",
    "coordinator.etcd_cert", "coordinator.etcd_key", "coordinator.etcd_insecure",
    "dashboard.insecure", "api.agents_name", "api.http", "api.oidc_issuer", "api.oidc_audience",
    "api.oidc_jwks", "api.oidc_role_claim", "api.oidc_project_claim", "bridge.http",
    "bridge.head_room",
})  # fmt: skip
"""Texts that lead to no other fleet and stop no process: without etcd nobody reads what is for it,
and no process of `up` reads the two of `http`.
"""

VALUES: Final[Mapping[object, tuple[object, str]]] = {
    str: ("/elsewhere", "/elsewhere"),
    bool: (True, "true"),
    tuple[str, ...]: (["/elsewhere"], "/elsewhere"),
}
"""By the kind of a setting: something in the file, and the same in the environment."""


def kind_of(setting: str) -> Any:
    section, _, name = setting.partition(".")
    return next(each.type for each in dataclasses.fields(SECTIONS[section]) if each.name == name)


def of_file(setting: str, value: object) -> Sources:
    section, _, name = setting.partition(".")
    return Sources({section: {name: value}}, {}, Path("mainstay.toml"))


def of_environment(setting: str, text: str) -> Sources:
    return Sources({}, {variable_name(*setting.split(".")): text})


def refused(sources: Sources) -> str:
    with pytest.raises(Rejected) as told:
        check_handed_on(UpConfig(), sources)
    assert "\n" not in told.value.message
    return told.value.message


@pytest.mark.parametrize("setting", sorted(REFUSED))
def test_a_setting_that_is_not_for_up_is_one_line_that_names_it(setting: str) -> None:
    value, text = VALUES[kind_of(setting)]
    variable = variable_name(*setting.split("."))

    for told, where in (
        (refused(of_file(setting, value)), f"{setting} in mainstay.toml"),
        (refused(of_environment(setting, text)), variable),
    ):
        assert told.startswith(f"not for `mainstay up`: {where}: {REFUSED[setting]}; leave it out ")


@pytest.mark.parametrize("setting", sorted(REFUSED))
def test_one_that_says_what_is_built_in_is_let_through(setting: str) -> None:
    section, _, name = setting.partition(".")
    fields = {each.name: each for each in dataclasses.fields(SECTIONS[section])}
    nothing = fields[name].default
    is_list = isinstance(nothing, tuple)

    check_handed_on(UpConfig(), of_file(setting, [] if is_list else nothing))
    check_handed_on(UpConfig(), of_environment(setting, str(nothing) if nothing is False else ""))


def test_without_tenants_nobody_reads_what_is_theirs() -> None:
    for setting in (each for each in REFUSED if each.startswith(("api.", "bridge."))):
        check_handed_on(UpConfig(tenancy=False), of_file(setting, VALUES[kind_of(setting)][0]))


def test_what_is_refused_says_which_command_may_have_it() -> None:
    assert refused(of_file("coordinator.etcd", ["http://h:2379"])) == (
        "not for `mainstay up`: coordinator.etcd in mainstay.toml: its coordinator would stand for"
        " election in the fleet that is there; leave it out of what up reads, or run"
        " `mainstay coordinator` alone"
    )
    assert refused(of_environment("bridge.insecure", "true")).endswith("run `mainstay api` alone")


@pytest.mark.parametrize("section", sorted(TAKEN))
def test_every_place_and_name_is_given_by_up_or_refused_or_known_to_do_no_harm(
    section: str,
) -> None:
    """A new setting that is a text, or lets plaintext in, has to be one of the three."""
    places = {
        f"{section}.{each.name}"
        for each in dataclasses.fields(SECTIONS[section])
        if each.type in (str, tuple[str, ...]) or "insecure" in each.name
    }
    given = {f"{section}.{name}" for name in _given(section)}

    assert places - given - REFUSED.keys() == {each for each in LET_BE if each in places}
    assert not given & REFUSED.keys()


def _given(section: str) -> set[str]:
    """The settings that `up` gives as flags to all processes that read this section."""
    command, options = TAKEN[section]
    stage = Stage(UpConfig(), Path("home"), USUAL_PORTS)
    words = [{*part.words} for part in parts(stage) if part.words[0] == command]
    assert words
    return {
        tenancy.AS_BRIDGE.get(each.name, each.name) if section == "bridge" else each.name
        for each in options
        if all({*each.flags, f"--{each.name.replace('_', '-')}"} & told for told in words)
    }
