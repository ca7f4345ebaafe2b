"""Scenario files as values, with every key checked: a file that is wrong is told in one line."""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import yaml
from typing_extensions import override

from mainstay.model.action import ActionKind
from mainstay.sim.spec import SETTINGS
from scenarios.stages import STAGE_KEYS, Stage, changed
from scenarios.words import Raw, Wrong, check_keys, check_type

THEMES: Final = (
    "normalise", "plain", "gangs", "spread", "preempt", "release", "loop", "departures",
)  # fmt: skip
"""The folders there are."""

ROOT: Final = Path(__file__).parent

SEVERAL: Final = ("cases", "cycles")
_COMMON: Final = ("departs", "why", *STAGE_KEYS, "expect")
FILE_KEYS: Final = ("scenario", "title", *_COMMON, *SEVERAL)
STEP_KEYS: Final = ("name", *_COMMON)
LOOP_KEYS: Final = ("seed", "cycles", "scene", "events", *SETTINGS)

DECISION_KEYS: Final = ("actions", "claimed", "unsatisfied", "shortfalls", "ages")
RUN_KEYS: Final = ("totals", "when", "quiet", "last")
ROW_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "actions": (*ActionKind, "cluster", "for", "grace"),
    "unsatisfied": (
        "need", "wants", "unit", "arrival", "deficit", "domain", "satisfiable", "parked",
        "unresolved", "reason", "ceiling",
    ),
    "shortfalls": ("need", "priority", "deficit", "age"),
}  # fmt: skip
"""What may be said of each of several things under `expect`."""


@dataclass(frozen=True)
class Step:
    """One decision or one run, and what is expected of it."""

    name: str
    stage: Stage
    expect: Raw | None


@dataclass(frozen=True)
class Scenario:
    """One file."""

    path: Path
    numbers: tuple[str, ...]
    title: str
    departs: tuple[str, ...]
    """The decisions for which its end differs from that in the Go reference."""

    steps: tuple[Step, ...]
    chained: bool
    """Whether each step goes on from the one before, or all from the start."""

    @property
    def name(self) -> str:
        """Its path below the folder of scenarios."""
        return named(self.path)


def named(path: Path) -> str:
    """How a file is called in tests and in errors."""
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name


def files() -> list[Path]:
    """All scenario files, in order."""
    return sorted(ROOT.rglob("*.yaml"))


def read(path: Path) -> Scenario:
    """A file, or one line that says what is wrong with it."""
    file = named(path)
    raw = check_keys(_load(path, file), FILE_KEYS, file)
    for key in ("scenario", "title"):
        if key not in raw:
            raise Wrong(f"{file}: no {key}")
    numbers = raw["scenario"] if isinstance(raw["scenario"], list) else [raw["scenario"]]
    steps = tuple(_steps(raw, file))
    return Scenario(
        path=path,
        numbers=tuple(numbers),
        title=check_type(raw["title"], str, "title", file),
        departs=tuple(_departures(raw, file)),
        steps=steps,
        chained="cycles" in raw,
    )


def _steps(raw: Raw, file: str) -> Iterator[Step]:
    given = [key for key in ("expect", *SEVERAL) if key in raw]
    if len(given) != 1:
        raise Wrong(f"{file}: must have one of expect, cases and cycles: {', '.join(given)}")
    stage = changed(Stage(file), raw, file)
    if given == ["expect"]:
        yield _step(file, stage, raw)
        return
    for number, part in enumerate(check_type(raw[given[0]], list, given[0], file), start=1):
        where = f"{file}: {given[0]} {number}"
        check_keys(part, STEP_KEYS, where)
        after = changed(stage, part, where)
        yield _step(part.get("name", str(number)), after, part)
        if given == ["cycles"]:
            stage = replace(after, memory={})  # the first decision hands its own on


def _step(name: str, stage: Stage, raw: Raw) -> Step:
    where = stage.where
    check_keys(stage.loop, LOOP_KEYS, f"{where}: loop")
    if "expect" not in raw:
        raise Wrong(f"{where}: no expect")
    expect = raw["expect"]
    if expect is not None:
        check_keys(expect, RUN_KEYS if stage.loop else DECISION_KEYS, f"{where}: expect")
        for key, known in ROW_KEYS.items():
            for row in expect.get(key) or ():
                check_keys(row, known, f"{where}: expect: {key}")
    return Step(str(name), stage, expect)


def _departures(raw: Raw, file: str) -> Iterator[str]:
    parts = [raw, *(part for key in SEVERAL for part in raw.get(key, []))]
    for part in parts:
        if "departs" in part:
            if not part.get("why"):
                raise Wrong(f"{file}: departs without a why")
            yield from str(part["departs"]).replace(",", " ").split()


class _Loader(yaml.SafeLoader):
    """Refuses a key that is there twice; the second would silently win."""

    @override
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise Wrong(f"key {key!r} is there twice")
            seen.add(key)
        return super().construct_mapping(node, deep)


def loaded(text: str) -> Any:
    """YAML as plain values."""
    return yaml.load(text, _Loader)


def _load(path: Path, file: str) -> Mapping[str, Any]:
    try:
        found = loaded(path.read_text())
    except Wrong as error:
        raise Wrong(f"{file}: {error.message}") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise Wrong(f"{file}: not YAML: {error.problem} in line {line}") from error
    if not isinstance(found, Mapping):
        raise Wrong(f"{file}: must be a mapping")
    return found
