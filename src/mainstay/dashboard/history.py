"""What the last half hour was like: a few sums of each shard every five seconds, in memory.

It is recorded whether or not somebody looks: one question to each shard, whose answer is ready.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mainstay.dashboard.told import Told
from mainstay.dashboard.words import dollars, number
from mainstay.model import views as v
from mainstay.model.errors import MainstayError
from mainstay.model.state import State

EVERY_S: Final = 5.0
KEPT_S: Final = 1_800.0
TICKS_MAX: Final = int(KEPT_S / EVERY_S)
SHARDS_MAX: Final = 64
"""Of more shards no history is kept: it would no longer be small."""

_ON_THE_WAY: Final = (State.CREATING, State.CONFIGURING, State.DRAINING, State.DELETING)


def _machines(*states: State) -> Callable[[v.Summary], float]:
    return lambda told: sum(told.machines.get(str(state), 0) for state in states)


def _cycle_ms(told: v.Summary) -> float:
    """All phases of the last cycle together, where it is not told as a whole."""
    seconds = told.seconds
    return 1000 * (seconds["total"] if "total" in seconds else sum(seconds.values()))


def _milliseconds(value: float) -> str:
    return f"{value:,.1f} ms"


@dataclass(frozen=True, slots=True)
class Measure:
    """One line of a history."""

    name: str
    of: Callable[[v.Summary], float]
    told: Callable[[float], str] = number
    joined: Callable[[Iterable[float]], float] = sum
    """How shards are one fleet."""


MEASURES: Final = (
    Measure("Serving", _machines(State.CONFIGURED)),
    Measure("Idle", _machines(State.IDLE)),
    Measure("On the way", _machines(*_ON_THE_WAY)),
    Measure("Failed", _machines(State.FAILED)),
    Measure("Spend per hour", lambda told: sum(told.spend_per_hour.values()), dollars),
    Measure("Needs short", lambda told: told.unmet),
    Measure("Cycle time", _cycle_ms, _milliseconds, max),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tick:
    """All measures of each shard that answered, at one moment."""

    at_s: float
    shards: Mapping[str, tuple[float, ...]]
    silent: bool
    """Whether one that is known did not answer: the fleet has no sum then."""


@dataclass(frozen=True, slots=True)
class Line:
    """One measure over time; None where nobody could tell."""

    measure: Measure
    at_s: Sequence[float]
    values: Sequence[float | None]


class History:
    """The last ticks, and no more of them than `TICKS_MAX`."""

    def __init__(self) -> None:
        self._ticks: deque[Tick] = deque(maxlen=TICKS_MAX)

    def record(self, told: Sequence[Told[v.Summary]], at_s: float) -> None:
        """One moment. What is stale is of another moment, and not recorded."""
        known = [(each.source, each.value) for each in told if each.value and not each.is_stale]
        rows = {
            name: tuple(measure.of(summary) for measure in MEASURES)
            for name, summary in known[:SHARDS_MAX]
        }
        self._ticks.append(Tick(at_s, rows, silent=len(rows) < len(told)))

    def __len__(self) -> int:
        return len(self._ticks)

    def lines(self, shard: str = "") -> tuple[Line, ...]:
        """Of one shard, or of all together."""
        ticks = tuple(self._ticks)
        at_s = [tick.at_s for tick in ticks]
        return tuple(
            Line(measure, at_s, [_value(tick, place, measure, shard) for tick in ticks])
            for place, measure in enumerate(MEASURES)
        )


def _value(tick: Tick, place: int, measure: Measure, shard: str) -> float | None:
    if shard:
        row = tick.shards.get(shard)
        return None if row is None else row[place]
    if tick.silent or not tick.shards:
        return None
    return measure.joined(row[place] for row in tick.shards.values())


async def recording(
    history: History, summaries: Callable[[], Awaitable[Sequence[Told[Any]]]],
    now_s: Callable[[], float],
) -> None:  # fmt: skip
    """Until it is cancelled. When nobody can be asked there is a gap."""
    while True:
        try:
            history.record(await summaries(), now_s())
        except MainstayError:
            history.record((), now_s())
        await asyncio.sleep(EVERY_S)
