"""How a scenario file is read, refused, told and rewritten."""

import shutil
import sys
from pathlib import Path
from typing import Final

import pytest

import outside
import pages
from mainstay.engine.barred import Barred
from mainstay.engine.plan import Ceiling, Memory, Unmet, Unsatisfied
from mainstay.engine.quota import Quota
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.needs import NeedsTable
from oracles.plain_engine import PlainPlan
from scenarios.playing import NUMPY, differences, play, rewrite
from scenarios.reading import FILE_KEYS, read
from scenarios.stages import MACHINE_KEYS, NEED_KEYS, Cast, a_world
from scenarios.telling import flow, told_plan
from scenarios.words import Wrong, names, told_names

TESTS: Final = outside.ROOT / "tests"
PAGE: Final = outside.ROOT / "docs/how-to/write-a-scenario.md"

GOOD: Final = """\
scenario: S11
title: No more is taken than is needed.
fleet:
  2 x a-: {state: Idle}  # two
demand:
  w: {wants: 1 x G}
expect:
  actions:
    - {bootstrap: a-1, cluster: x, for: w}
  claimed: a-1
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "s.yaml"
    path.write_text(text)
    return path


class TestMistakes:
    """Each is one line that names the file and what is wrong there."""

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("title:", "titel:", "s.yaml: unknown key 'titel' (one of scenario, title, "),
            ("scenario: S11\n", "", "s.yaml: no scenario"),
            ("state: Idle", "stat: Idle", "s.yaml: machine a-1: unknown key 'stat' (one of state,"),
            ("state: Idle", "state: Idel", "s.yaml: machine a-1: no such state: 'Idel' (one of "),
            ("Idle}", "Idle, price: cheap}", "s.yaml: machine a-1: price must be of type float"),
            ("Idle}", "Idle, price: -1}", "s.yaml: machine a-1: machine a-1: price_per_hour"),
            ("Idle}", "Idle, cluster: x}", "s.yaml: machine a-1: in state Idle it has no cluster"),
            ("Idle}", "Creating, for: v}", "s.yaml: no need 'v' (one of w)"),
            (
                "2 x a-: {state: Idle}",
                "2 x a-: x",
                "s.yaml: fleet: a-1 must be a mapping or 'gone'",
            ),
            ("wants:", "want:", "s.yaml: need w: unknown key 'want' (one of cluster, wants,"),
            ("1 x G", "one G", "s.yaml: need w: wants must be such as '3 x G' or {cpu: 8}: "),
            ("1 x G", "{gpu: many}", "s.yaml: need w: not a quantity: 'many'"),
            ("1 x G}", "1 x G, requires: {type: a3}}", "s.yaml: need w: requires type: one of in,"),
            ("1 x G}", "1 x G}\n  v: {wants: 1 x G}", "s.yaml: needs 'w' and 'v' are one and the"),
            ("demand:", "demnd:", "s.yaml: unknown key 'demnd'"),
            ("demand:", "policy: {hold: 1}\ndemand:", "s.yaml: policy: unknown key 'hold' (one of"),
            ("demand:", "memory: {gang: {}}\ndemand:", "s.yaml: memory: unknown key 'gang' (one"),
            (
                "demand:",
                "memory: {gangs: 7}\ndemand:",
                "s.yaml: memory: gangs must be of type dict",
            ),
            (
                "demand:",
                "quota: {slots: {eu: 1}}\ndemand:",
                "s.yaml: quota: slots are of a provider",
            ),
            (
                "demand:",
                "barred: {racks: r-1}\ndemand:",
                "s.yaml: barred: unknown key 'racks' (one",
            ),
            ("demand:", "barred: {values: r-1}\ndemand:", "s.yaml: barred: values must be of type"),
            ("demand:", "policy: {park_after: 0}\ndemand:", "s.yaml: policy: park_after and "),
            ("demand:", "heard: x\ndemand:", "s.yaml: heard must be of type list: 'x'"),
            ("demand:", "fleet: {}\ndemand:", "s.yaml: key 'fleet' is there twice"),
            ("claimed:", "claims:", "s.yaml: expect: unknown key 'claims' (one of actions, "),
            ("for: w}", "fr: w}", "s.yaml: expect: actions: unknown key 'fr' (one of bootstrap,"),
            ("expect:", "cases: []\nexpect:", "s.yaml: must have one of expect, cases and cycles:"),
            ("expect:", "departs: ADR-0011\nexpect:", "s.yaml: departs without a why"),
            ("expect:", "loop: {dwell: 3}\nexpect:", "s.yaml: loop: unknown key 'dwell' (one of"),
            ("fleet:", "fleet: {", "s.yaml: not YAML: "),
        ],
    )
    def test_a_mistake_is_told_in_one_line(
        self, tmp_path: Path, old: str, new: str, message: str
    ) -> None:
        path = written(tmp_path, GOOD.replace(old, new, 1))

        with pytest.raises(Wrong) as caught:
            play(read(path), NUMPY)

        assert caught.value.message.startswith(message)
        assert "\n" not in caught.value.message

    def test_a_file_without_mistakes_is_read(self, tmp_path: Path) -> None:
        scenario = read(written(tmp_path, GOOD))

        assert differences(scenario, play(scenario, NUMPY)) == ""


def test_the_example_of_the_documentation_ends_as_it_says(tmp_path: Path) -> None:
    page = PAGE.read_text()
    (example,) = [block.text for block in pages.blocks(page) if block.info == "yaml"]
    scenario = read(written(tmp_path, example))

    assert differences(scenario, play(scenario, NUMPY)) == ""


def test_the_documentation_names_every_key() -> None:
    page = PAGE.read_text()
    keys = {*FILE_KEYS, *MACHINE_KEYS, *NEED_KEYS} - {"name"}

    assert sorted(key for key in keys if f"`{key}" not in page and f"{key}:" not in page) == []


class TestRewriting:
    WRONG: Final = GOOD.replace("bootstrap: a-1", "bootstrap: a-2")

    def test_only_what_is_expected_is_written_anew(self, tmp_path: Path) -> None:
        path = written(tmp_path, self.WRONG)
        scenario = read(path)
        told = play(scenario, NUMPY)

        assert "-    - {bootstrap: a-2, cluster: x, for: w}" in differences(scenario, told)
        rewrite(path, told)

        assert path.read_text() == GOOD

    def test_an_expectation_that_is_still_empty_is_filled_in(self, tmp_path: Path) -> None:
        path = written(tmp_path, GOOD.partition("expect:")[0] + "expect:\n")

        rewrite(path, play(read(path), NUMPY))

        assert path.read_text() == GOOD

    def test_the_flag_does_it(self, tmp_path: Path) -> None:
        for pattern in ("*.py", "oracles/*.py", "scenarios/*.py"):
            for path in TESTS.glob(pattern):
                copy = tmp_path / "tests" / path.relative_to(TESTS)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)
        for name in ("pyproject.toml", "system-packages.txt", "tools/system_packages.py"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(outside.ROOT / name, tmp_path / name)
        (tmp_path / "tests/scenarios/plain").mkdir()
        path = written(tmp_path / "tests/scenarios/plain", self.WRONG)
        command = [
            sys.executable, "-m", "pytest", "-q", "-p", "no:schemathesis",
            "tests/scenarios", "-k", "its_file_says",
        ]  # fmt: skip

        codes = [
            outside.run([*command, *flag], cwd=tmp_path).returncode
            for flag in ([], ["--rewrite"], [])
        ]

        assert codes == [1, 0, 0]
        assert path.read_text() == GOOD


class TestQuotaAndReasons:
    def test_a_quota_is_part_of_the_demand(self, tmp_path: Path) -> None:
        quota = "quota: {clusters: {x: 3}, slots: {sim/eu: 4}}\ndemand:"
        stage = read(written(tmp_path, GOOD.replace("demand:", quota))).steps[0].stage

        world = a_world(stage, Cast(stage), NeedsTable(), Memory.empty())

        assert world.demand.quota == Quota({ClusterId("x"): 3}, {("sim", "eu"): 4})

    def test_what_is_barred_is_part_of_the_demand(self, tmp_path: Path) -> None:
        barred = "barred: {providers: sim, values: {rack: r-1 r-2}, machines: 2 x a-}\ndemand:"
        stage = read(written(tmp_path, GOOD.replace("demand:", barred))).steps[0].stage

        world = a_world(stage, Cast(stage), NeedsTable(), Memory.empty())

        racks = {("rack", "r-1"), ("rack", "r-2")}
        machines = map(MachineId, ("a-1", "a-2"))
        assert world.demand.barred == Barred(
            frozenset({"sim"}), frozenset(racks), frozenset(machines)
        )

    def test_a_reason_and_a_ceiling_are_told(self, tmp_path: Path) -> None:
        scenario = read(written(tmp_path, GOOD))
        cast = Cast(scenario.steps[0].stage)
        ceiling = Ceiling(("za",), {"nvidia.com/gpu": 16})
        short = Unsatisfied(
            cast.needs["w"], {}, None, satisfiable=False, parked=False, unresolved={},
            reason=Unmet.IMPOSSIBLE, ceiling=ceiling,
        )  # fmt: skip
        plan = PlainPlan((), frozenset(), (short,), (), Memory.empty())

        told = told_plan(plan, cast)["unsatisfied"][0]

        assert flow(told["ceiling"]) == "{domain: za, has: {gpu: 16}}"
        assert told["reason"] == "impossible"


class TestWords:
    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("a", ["a"]), ("a b", ["a", "b"]), ("2 x m-", ["m-1", "m-2"]),
            ("m-1..m-3 z", ["m-1", "m-2", "m-3", "z"]), ("m-11..m-09", ["m-11", "m-10", "m-09"]),
        ],
    )  # fmt: skip
    def test_names_are_written_in_short(self, text: str, found: list[str]) -> None:
        assert names(text, "here") == found

    def test_more_than_nine_are_numbered_so_that_their_order_is_that_of_their_numbers(self) -> None:
        found = names("12 x m-", "here")

        assert found == sorted(found)
        assert (found[0], found[-1]) == ("m-01", "m-12")

    @pytest.mark.parametrize("text", ["m-1..n-3", "m-9..m-10", "a..b", "", 3])
    def test_what_is_no_name_is_refused(self, text: object) -> None:
        with pytest.raises(Wrong, match="here: not a "):
            names(text, "here")

    @pytest.mark.parametrize(
        "text", ["a-1..a-3", "a-3..a-1 a-2", "a-1 a-2", "a-1..a-3 a-2 b-1", "a b-09..b-11", "x"]
    )
    def test_names_are_told_as_they_are_written(self, text: str) -> None:
        assert told_names(names(text, "here")) == text

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            ("a-1", "a-1"), ("31", '"31"'), ("null", '"null"'), ("64Gi", "64Gi"), ("yes", '"yes"'),
            (None, "null"), (True, "true"), ({"a": [1, 2.5]}, "{a: [1, 2.5]}"), ("", '""'),
            ("1..60", "1..60"), ("a: b", '"a: b"'), ({}, "{}"),
        ],
    )  # fmt: skip
    def test_a_value_is_written_plainly_where_it_is_read_back_as_itself(
        self, value: object, text: str
    ) -> None:
        assert flow(value) == text
