"""Standings for tests of the planner, made in short or read from a file.

A file has a title, shards with what they miss and have, past moves, options, and the plan as it is
told to people:

    title: Idle machines come first.
    shard a providers=metal
      short web needs=3xcpu:4 age=6 types=m5
    shard b providers=metal
      free m5 za idle=20 speculative=5
      serving m5 za machines=4 priority=1 penalty=0
    move b -> a tier=idle kind=web types=m5 machines=3 ago=9
    option machines_max=5
    plan
      a line of the plan,
        which may go on here

Times are intervals between reports: `heard=2`, `ago=9`; a move without `ago` is open.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from mainstay.coordinator.rebalance import Options, PastMove, Planned, ShardStanding, Standing, Tier
from mainstay.model.coordination import FreeRow, Missing, ServingRow, Summary
from mainstay.model.ids import ShardId
from mainstay.model.need import Operator, Requirement
from mainstay.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY
from mainstay.model.resources import Resources, scale

INTERVAL: Final = Options().report_interval_ns
NOW: Final = 1_000 * INTERVAL
METAL: Final = frozenset({"metal"})

Part: TypeAlias = FreeRow | ServingRow | Missing
"""What a shard has or misses."""

_TIMES: Final = re.compile(r"(?:([0-9]+)x)?(.*)")


def short(
    kind: str = "web",
    needs: str = "3xcpu:4",
    *,
    priority: int = 10,
    age: int = 6,
    penalty: int = 3,
    types: tuple[str, ...] = ("m5",),
    zones: tuple[str, ...] = (),
) -> Missing:
    """`3xcpu:4` are three units of 4 cpu each; `cpu:12` are 12 cpu in units that nobody told."""
    found = _TIMES.fullmatch(needs)
    assert found is not None
    times, unit = found.groups()
    amounts = dict(part.split(":") for part in unit.split(",") if part)
    units = Resources(amounts).units
    wanted = [(INSTANCE_TYPE_KEY, types), (ZONE_KEY, zones)]
    return Missing(
        requirements=tuple(Requirement(key, Operator.IN, of) for key, of in wanted if of),
        deficit=scale(units, int(times or 1)),
        priority=priority,
        age_cycles=age,
        interruption_penalty_bucket=penalty,
        min_unit=units if times else {},
        fingerprint=kind,
    )


def free(
    idle: int = 0,
    speculative: int = 0,
    *,
    of: str = "m5",
    zone: str = "za",
    provider: str = "metal",
) -> FreeRow:
    return FreeRow(provider, of, zone, idle, speculative)


def serving(
    machines: int,
    *,
    priority: int = 1,
    penalty: int = 0,
    of: str = "m5",
    zone: str = "za",
    provider: str = "metal",
) -> ServingRow:
    return ServingRow(provider, of, zone, priority, penalty, machines)


def shard(*parts: Part, heard: int = 0) -> ShardStanding:
    """One that was last heard of so many intervals ago, with these rows and shortfalls."""
    return ShardStanding(
        summary=Summary(
            free=tuple(part for part in parts if isinstance(part, FreeRow)),
            serving=tuple(part for part in parts if isinstance(part, ServingRow)),
        ),
        missing=tuple(part for part in parts if isinstance(part, Missing)),
        providers=METAL,
        reported_at_ns=NOW - heard * INTERVAL,
    )


def moved(
    donor: str,
    recipient: str,
    *,
    ago: int | None = None,
    tier: Tier = Tier.IDLE,
    kind: str = "web",
    types: tuple[str, ...] = ("m5",),
    machines: int = 3,
) -> PastMove:
    """A move that ended so many intervals ago, or is open."""
    return PastMove(
        donor=ShardId(donor), recipient=ShardId(recipient), tier=tier, fingerprint=kind,
        instance_types=types, machines=machines, open=ago is None,
        settled_at_ns=0 if ago is None else NOW - ago * INTERVAL,
    )  # fmt: skip


def fleet(*moves: PastMove, **shards: ShardStanding) -> Standing:
    return Standing(
        now_ns=NOW, shards={ShardId(name): each for name, each in shards.items()}, moves=moves
    )


class Step(NamedTuple):
    """A proposal in short."""

    donor: str
    recipient: str
    tier: Tier
    machines: int


def steps(planned: Planned) -> list[Step]:
    return [
        Step(each.donor, each.recipient, each.tier, each.wanted.machines_max)
        for each in planned.proposals
    ]


class Told(NamedTuple):
    """A file."""

    title: str
    standing: Standing
    options: Options
    plan: tuple[str, ...]


def read(path: Path) -> Told:
    """A file as values; ValueError with the line for one that is wrong."""
    reading = _Reading()
    for line in path.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            try:
                reading.hear(line)
            except (ValueError, TypeError, KeyError, IndexError) as error:
                raise ValueError(f"{path.name}: {line.strip()!r}: {error}") from error
    return Told(
        reading.title,
        Standing(now_ns=NOW, shards=reading.shards, moves=tuple(reading.moves)),
        Options(**reading.options),
        tuple(reading.plan),
    )


class _Reading:
    def __init__(self) -> None:
        self.title = ""
        self.shards: dict[ShardId, ShardStanding] = {}
        self.moves: list[PastMove] = []
        self.options: dict[str, int] = {}
        self.plan: list[str] = []
        self._planned = False
        self._current = ShardId("")

    def hear(self, line: str) -> None:
        if self._planned and line.startswith("    "):
            self.plan[-1] += " " + line.strip()
        elif self._planned:
            self.plan.append(line.strip())
        elif line.startswith("title: "):
            self.title = line.removeprefix("title: ")
        elif line == "plan":
            self._planned = True
        else:
            self._hear_words(line.split())

    def _hear_words(self, words: list[str]) -> None:
        what, *plain = [word for word in words if "=" not in word]
        given = _given(words)
        match what:
            case "shard":
                self._current = ShardId(plain[0])
                self.shards[self._current] = _shard(given, plain[1:])
            case "move":
                self.moves.append(_move(plain, given))
            case "option":
                self.options |= {name: int(value) for name, value in given.items()}
            case _:
                self._add(_PARTS[what](plain, given))

    def _add(self, part: Part) -> None:
        old = self.shards[self._current]
        new = shard(*old.summary.free, *old.summary.serving, *old.missing, part)
        self.shards[self._current] = replace(old, summary=new.summary, missing=new.missing)


def _given(words: list[str]) -> dict[str, str]:
    pairs = [word.partition("=") for word in words if "=" in word]
    return {name: value for name, _, value in pairs}


def _numbers(given: Mapping[str, str], *names: str) -> Iterator[tuple[str, int]]:
    for name in names:
        if name in given:
            yield name, int(given[name])


def _names(given: Mapping[str, str], key: str) -> tuple[str, ...]:
    return tuple(filter(None, given.get(key, "").split(",")))


def _known(given: Mapping[str, str], *names: str) -> None:
    if unknown := sorted(given.keys() - set(names)):
        raise ValueError(f"unknown word {unknown[0]} (one of {', '.join(names)})")


def _flags(plain: list[str], *names: str) -> set[str]:
    if unknown := sorted(set(plain) - set(names)):
        raise ValueError(f"unknown word {unknown[0]} (one of {', '.join(names)})")
    return set(plain)


def _shard(given: Mapping[str, str], plain: list[str]) -> ShardStanding:
    _known(given, "providers", "heard")
    flags = _flags(plain, "removing", "old", "everything")
    return replace(
        shard(heard=int(given.get("heard", "0"))),
        providers=frozenset(_names(given, "providers")),
        removing="removing" in flags,
        can_hand_over="old" not in flags,
        takes_all="everything" in flags,
    )


def _short(plain: list[str], given: Mapping[str, str]) -> Missing:
    kind, *rest = plain
    _known(given, "needs", "priority", "age", "penalty", "types", "zones")
    flags = _flags(rest, "topology", "quota")
    numbers = dict(_numbers(given, "priority", "age", "penalty"))
    types, zones = _names(given, "types"), _names(given, "zones")
    made = short(kind, given["needs"], types=types, zones=zones, **numbers)
    return replace(made, topology="topology" in flags, quota="quota" in flags)


def _free(plain: list[str], given: Mapping[str, str]) -> FreeRow:
    _known(given, "idle", "speculative", "provider")
    of, zone = plain
    numbers = dict(_numbers(given, "idle", "speculative"))
    return free(**numbers, of=of, zone=zone, provider=given.get("provider", "metal"))


def _serving(plain: list[str], given: Mapping[str, str]) -> ServingRow:
    _known(given, "machines", "priority", "penalty", "provider")
    of, zone = plain
    numbers = dict(_numbers(given, "machines", "priority", "penalty"))
    return serving(**numbers, of=of, zone=zone, provider=given.get("provider", "metal"))


def _move(plain: list[str], given: Mapping[str, str]) -> PastMove:
    _known(given, "tier", "kind", "types", "machines", "ago")
    donor, _, recipient = plain
    return moved(
        donor, recipient, tier=Tier[given["tier"].upper()], kind=given.get("kind", ""),
        types=_names(given, "types"), **dict(_numbers(given, "machines", "ago")),
    )  # fmt: skip


_PARTS: Final[Mapping[str, Callable[[list[str], Mapping[str, str]], Part]]] = {
    "short": _short,
    "free": _free,
    "serving": _serving,
}
