"""What a plan tells of the needs it could not satisfy: reasons, shortfalls, ages."""

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType

import numpy as np

from mainstay.engine.cover import FREE, Coverage
from mainstay.engine.gangs import domains_of
from mainstay.engine.lanes import is_short
from mainstay.engine.lockout import Lockout
from mainstay.engine.plan import Memory, Shortfall, Unmet, Unsatisfied
from mainstay.engine.preempt import Takings
from mainstay.engine.rows import Mask, Matrix, Row, Vector, Walk
from mainstay.engine.sorting import sorted_by
from mainstay.engine.spread import strict_spread
from mainstay.engine.take import additions
from mainstay.engine.world import World
from mainstay.model.assignment import NeedRef
from mainstay.model.ids import Fingerprint
from mainstay.model.resources import Units, add
from mainstay.model.state import State
from mainstay.model.texts import Rows


def unsatisfied_of(
    coverage: Coverage, deficits: Matrix, takings: Takings, lockout: Lockout
) -> tuple[Unsatisfied, ...]:
    """Every need that phase 1 could not cover, with its reason."""
    world = lockout.world
    drained_for = {*takings.victims.places.tolist(), *takings.excess.places.tolist()}
    found, supply = [], _Supply(world, coverage.walk)
    for place in np.flatnonzero(is_short(deficits)).tolist():
        row, choice = coverage.walk.row(place), coverage.choice_of(place)
        domain = None if choice.domain is None else domains_of(world, row).values[choice.domain]
        short = Unsatisfied(
            need=row.need,
            deficit=world.units(deficits[place]),
            domain=domain,
            satisfiable=choice.satisfiable,
            parked=bool(coverage.parked[place]),
            unresolved=world.units(coverage.missing[place]),
            reason=_reason(coverage, row, lockout, supply, is_drained_for=place in drained_for),
            ceiling=coverage.hopeless.get(place),
        )
        found.append(short)
    return tuple(found)


def _reason(
    coverage: Coverage, row: Row, lockout: Lockout, supply: "_Supply", *, is_drained_for: bool
) -> Unmet:
    """The first that applies (docs/explanation/decision.md, section 5)."""
    if not coverage.is_short(row.place):
        return Unmet.WAITING
    if row.place in coverage.hopeless:
        return Unmet.IMPOSSIBLE
    if coverage.allowance.stopped[row.place]:
        return Unmet.QUOTA
    if lockout.holds(row):
        return Unmet.BARRED
    if _is_out_of_place(lockout.world, coverage, row):
        return Unmet.TOPOLOGY
    if not supply.is_there_for(row):
        return Unmet.NO_SUPPLY
    return Unmet.PREEMPTION_EXHAUSTED if is_drained_for else Unmet.STARVED


def _is_out_of_place(world: World, coverage: Coverage, row: Row) -> bool:
    """Whether a gang found no domain that holds it, or a spread keeps a need from what is left."""
    if row.is_gang:
        choice = coverage.choice_of(row.place)
        return bool(coverage.parked[row.place]) or not choice.satisfiable
    return strict_spread(row) is not None and _is_any_left(world, coverage, row)


def _is_any_left(world: World, coverage: Coverage, row: Row) -> bool:
    """Whether an unclaimed machine is left that would help a need, were it not for its spread."""
    pools = np.concatenate([world.pool(row, state).rows for state in FREE])
    free = pools[world.owner[pools] < 0]
    wanted = coverage.missing[row.place] > 0
    return bool((additions(world, row, free)[:, wanted] > 0).any())


class _Supply:
    """The Idle, Speculative and Configured machines by class and by the need that claims them."""

    def __init__(self, world: World, walk: Walk) -> None:
        self._world, self._walk = world, walk
        self._helping: dict[tuple[int, int, bool, bytes], Mask] = {}

    @cached_property
    def _rows(self) -> Rows:
        states = np.zeros(256, dtype=np.bool_)
        states[[*FREE, State.CONFIGURED]] = True
        return np.flatnonzero(states[self._world.snapshot.state])

    @cached_property
    def _by_class(self) -> Vector:
        shapes = self._world.snapshot.shape[self._rows]
        return np.bincount(shapes, minlength=len(self._world.alloc))

    @cached_property
    def _by_need(self) -> tuple[Rows, Vector]:
        """Those that are claimed, need after need; and the place of the need of each."""
        rows = self._rows[self._world.owner[self._rows] >= 0]
        rows = rows[sorted_by(self._world.owner[rows])]
        return rows, self._world.owner[rows].astype(np.int64)

    def is_there_for(self, row: Row) -> bool:
        """Whether a machine that a need does not claim itself fits it and adds what it asks for."""
        helping = self._classes(row)
        rows, owners = self._by_need
        first, last = np.searchsorted(owners, [row.place, row.place + 1])
        own = helping[self._world.snapshot.shape[rows[first:last]]]
        return int(self._by_class[helping].sum()) > int(np.count_nonzero(own))

    def _classes(self, row: Row) -> Mask:
        wanted = self._walk.aggregate[row.place] > 0
        key = (row.requirement_set, row.min_unit, row.folded, wanted.tobytes())
        if key not in self._helping:
            adds = (self._world.adds(row)[:, wanted] > 0).any(axis=1)
            self._helping[key] = self._world.fits(row) & adds
        return self._helping[key]


def shortfalls_of(unsatisfied: tuple[Unsatisfied, ...], memory: Memory) -> tuple[Shortfall, ...]:
    """Summed per fingerprint, aged once per cycle."""
    deficits: dict[Fingerprint, Units] = {}
    priorities: dict[Fingerprint, int] = {}
    for short in unsatisfied:
        if short.unresolved:
            fingerprint = short.need.profile.fingerprint
            deficits[fingerprint] = add(deficits.get(fingerprint, {}), short.unresolved)
            priorities[fingerprint] = short.need.profile.priority
    shortfalls = [
        Shortfall(f, priorities[f], deficit, memory.shortfall_ages.get(f, 0) + 1)
        for f, deficit in deficits.items()
    ]
    return tuple(sorted(shortfalls, key=lambda s: (-s.priority, -s.age, s.fingerprint)))


def shortfall_ages(shortfalls: tuple[Shortfall, ...]) -> Mapping[Fingerprint, int]:
    """For how many cycles each has been missing something."""
    return MappingProxyType({short.fingerprint: short.age for short in shortfalls})


def gang_ages(
    coverage: Coverage, deficits: Matrix, memory: Memory, lockout: Lockout
) -> Mapping[NeedRef, int]:
    """A gang without hope grows older, but not for a bar; any other is forgotten."""
    ages: dict[NeedRef, int] = {}
    for place in np.flatnonzero(coverage.walk.is_gang & is_short(deficits)).tolist():
        if coverage.choice_of(place).satisfiable:
            continue
        if not lockout.holds(coverage.walk.row(place)):
            ref = coverage.walk.gang_refs[place]
            ages[ref] = memory.gang_ages.get(ref, 0) + 1
    return MappingProxyType(ages)
