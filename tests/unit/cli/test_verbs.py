"""Every verb of the command line keeps the same manners: read off the table of commands."""

import importlib
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
import typer.main

from mainstay.cli import exits, main
from mainstay.cli.output import Format

Captured = pytest.CaptureFixture[str]

FORMS: Final = [form.value for form in Format]
OTHER_FORMS: Final = {"conformance": ["table", "json", "junit"]}
"""A report is not a table of rows."""

ASKS_A_SHARD: Final = {
    "get machines": "", "get needs": "", "get clusters": "", "get actions": "",
    "get shortfalls": "", "get providers": "", "get controls": "", "get money": "", "money": "",
    "explain need": "web", "explain gang": "web g", "explain machine": "m-1",
    "explain cluster": "web", "whatif": "--lose-zone z", "top": "--once",
    "pause": "--reason r --for 1m", "shadow": "--reason r --for 1m", "resume": "--reason r",
    "limit": "--actions 3 --reason r --for 1m", "retire": "m-1 --reason r",
}  # fmt: skip
"""Each with words that mean something."""


def leaves(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Every command that does something, by all its words."""
    inside = getattr(command, "commands", None)
    if not inside:
        yield name, command
        return
    for word, each in inside.items():
        yield from leaves(each, f"{name} {word}")


def verbs() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, row in main.COMMANDS.items():
        app = getattr(importlib.import_module(row.module), row.app)
        found |= dict(leaves(typer.main.get_command(app), name))
    return found


VERBS: Final = verbs()


def options(command: Any) -> dict[str, Any]:
    """By its first long flag."""
    return {
        next((flag for flag in each.opts if flag.startswith("--")), each.opts[0]): each
        for each in command.params
        if each.param_type_name == "option" and each.name != "help"
    }


@pytest.mark.parametrize("name", VERBS)
class TestEveryVerb:
    def test_is_in_small_letters_and_dashes_like_its_flags(self, name: str) -> None:
        assert all(re.fullmatch(r"[a-z][a-z0-9-]*", word) for word in name.split())
        for flag in options(VERBS[name]):
            assert re.fullmatch(r"--[a-z][a-z0-9-]*", flag), flag

    def test_says_what_it_does_and_so_does_each_of_its_flags(self, name: str) -> None:
        command = VERBS[name]
        assert (command.help or "").strip(), name
        silent = [flag for flag, each in options(command).items() if not (each.help or "").strip()]
        assert silent == [], name

    def test_prints_in_the_same_forms_by_the_same_flag(self, name: str) -> None:
        output = options(VERBS[name]).get("--output")
        if output is None:
            return
        assert list(output.opts) == ["--output", "-o"]
        assert [form.value for form in type(output.default)] == OTHER_FORMS.get(name, FORMS), name


@pytest.mark.parametrize("name", [name for name in VERBS if name.startswith("get ")])
class TestEveryNoun:
    def test_may_be_watched_and_printed_as_data(self, name: str) -> None:
        found = options(VERBS[name])
        assert list(found["--watch"].opts) == ["--watch", "-w"]
        assert "--output" in found

    def test_may_be_sorted_and_printed_as_names(self, name: str) -> None:
        found = options(VERBS[name])
        assert list(found["--sort-by"].opts) == ["--sort-by"]

    def test_is_of_many(self, name: str) -> None:
        assert name.endswith("s") or name == "get money"


@pytest.mark.parametrize("name", ASKS_A_SHARD)
def test_without_a_shard_it_says_what_to_do_and_ends_with_its_own_code(
    name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("MAINSTAY_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("MAINSTAY_SERVER", raising=False)

    code = main.dispatch([*name.split(), *ASKS_A_SHARD[name].split()])

    shown = capsys.readouterr()
    assert code == exits.NOT_REACHABLE, shown.err
    assert "no shard runs here" in shown.err
    assert shown.err.endswith("start one, or name it with --server HOST:PORT\n")
    assert shown.err.count("\n") == 1


@pytest.mark.parametrize("name", VERBS)
def test_a_flag_that_it_does_not_have_is_wrong_usage_in_one_line(
    name: str, capsys: Captured
) -> None:
    code = main.dispatch([*name.split(), "--no-such-flag"])

    shown = capsys.readouterr()
    assert code == exits.WRONG_USAGE
    assert shown.err.startswith("mainstay: ")
    assert f"`mainstay {name} --help` tells what it takes" in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""


def test_the_catalogue_is_found_by_both_of_its_spellings_and_listed_by_one() -> None:
    both = [VERBS[f"alloc {word}"] for word in ("catalog", "catalogue")]

    assert both[0].callback.__wrapped__ is both[1].callback.__wrapped__
    assert [each.hidden for each in both] == [False, True]


def test_the_verbs_that_ask_a_shard_are_all_here() -> None:
    asking = {name for name, each in VERBS.items() if "--shard" in options(each)}
    of_a_coordinator = {name for name in asking if "--server" not in options(VERBS[name])}

    assert set(ASKS_A_SHARD) <= asking
    assert {name for name in asking - of_a_coordinator if "--context" in options(VERBS[name])} >= {
        *ASKS_A_SHARD
    }
