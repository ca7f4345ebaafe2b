"""What a plan tells of the needs it could not satisfy: reasons, shortfalls, ages."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from mainstay.engine.cover import Coverage
from mainstay.engine.gangs import domains_of
from mainstay.engine.lanes import is_short
from mainstay.engine.plan import Memory, Shortfall, Unmet, Unsatisfied
from mainstay.engine.preempt import Takings
from mainstay.engine.rows import Matrix, Row
from mainstay.engine.world import World
from mainstay.model.assignment import NeedRef
from mainstay.model.ids import Fingerprint
from mainstay.model.resources import Units, add


def unsatisfied_of(
    world: World, coverage: Coverage, deficits: Matrix, takings: Takings
) -> tuple[Unsatisfied, ...]:
    """Every need that phase 1 could not cover, with its reason."""
    drained_for = {place for _, place in takings.victims} | set(takings.excess.values())
    found = []
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
            reason=_reason(world, coverage, row, is_drained_for=place in drained_for),
            ceiling=coverage.hopeless.get(place),
        )
        found.append(short)
    return tuple(found)


def _reason(world: World, coverage: Coverage, row: Row, *, is_drained_for: bool) -> Unmet:
    """The first that applies (docs/explanation/decision.md, section 5)."""
    choice = coverage.choice_of(row.place)
    if not coverage.is_short(row.place):
        return Unmet.WAITING
    if row.place in coverage.hopeless:
        return Unmet.IMPOSSIBLE
    if coverage.allowance.stopped[row.place]:
        return Unmet.QUOTA
    if row.is_gang and (coverage.parked[row.place] or not choice.satisfiable):
        return Unmet.TOPOLOGY
    if not (world.fits(row) & world.is_supply_shape).any():
        return Unmet.NO_SUPPLY
    return Unmet.PREEMPTION_EXHAUSTED if is_drained_for else Unmet.STARVED


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


def gang_ages(coverage: Coverage, deficits: Matrix, memory: Memory) -> Mapping[NeedRef, int]:
    """A gang without hope grows older; any other is forgotten."""
    ages: dict[NeedRef, int] = {}
    for place in np.flatnonzero(coverage.walk.is_gang & is_short(deficits)).tolist():
        if not coverage.choice_of(place).satisfiable:
            ref = coverage.walk.need_at(place).ref
            ages[ref] = memory.gang_ages.get(ref, 0) + 1
    return MappingProxyType(ages)
