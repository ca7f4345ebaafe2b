"""The smallest changes that would admit a need: found by counting, proved by deciding again.

Counts from the funnel say what is worth trying; nothing is claimed that was not decided. What is
not found is not claimed to be impossible. The number of decisions is bounded by DECISIONS_MAX.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from mainstay.engine.certificate import (
    CHANGES,
    Change,
    Drop,
    Fewer,
    Filter,
    HigherPriority,
    Relaxation,
    SmallerUnit,
    SoftSpread,
    Wait,
    Widen,
)
from mainstay.engine.funnel import Mask, Reach, Sieve
from mainstay.engine.lookup import Topic, wanted
from mainstay.engine.trial import Ground, memory_before, pieces
from mainstay.model.assignment import PRIORITY_MAX
from mainstay.model.need import Operator, Requirement
from mainstay.model.resources import Units, add, covers

REQUIREMENTS_TRIED: Final = 4
"""Requirements that are widened or dropped: the first ones that keep machines away alone."""

VALUES_TRIED: Final = 3
"""Ways to widen one requirement."""

FEWER_TRIED: Final = 4
PRIORITIES_TRIED: Final = 4

DECISIONS_MAX: Final = (
    2 + REQUIREMENTS_TRIED * (VALUES_TRIED + 1) + 1 + FEWER_TRIED + 2 + PRIORITIES_TRIED
)
"""Wait and soft spread, requirements, min unit, fewer, quota, priority."""

_JOINED_MAX: Final = 8
"""So many values at most are added to one requirement."""


Enough = Callable[[], bool]
"""Whether no more changes are to be tried: nobody waits for the rest. Until one helps all are: an
answer without any is hardly worth its wait."""


def _never() -> bool:
    return False


class Tried(NamedTuple):
    """What was found."""

    relaxations: tuple[Relaxation, ...]
    """At most one per way to relax, the smallest first."""

    is_cut: bool = False
    """Whether changes were left out because it was enough."""


class Bench:
    """Tries changes and keeps what admits the need."""

    def __init__(self, topic: Topic, enough: Enough = _never) -> None:
        self.ground = Ground(topic)
        self._enough = enough
        self._last: Relaxation | None = None
        self._has_helped = False
        self.found: list[Relaxation] = []
        self.is_cut = False

    def is_over(self) -> bool:
        """Whether no more is to be tried; that it was asked means that something was left out."""
        is_enough = self._enough()
        self.is_cut = self.is_cut or (is_enough and self._has_helped)
        return self.is_cut

    def admits(self, change: Change) -> bool:
        """Whether the need is admitted under a change; not when it is not tried."""
        if self.is_over():
            return False
        trial = self.ground.attempt(change)
        if trial is not None:
            self._last, self._has_helped = trial, True
        return trial is not None

    def keep(self, change: Change | None = None) -> None:
        """The last change that was admitted is an answer; told in other words if given."""
        if self._last is not None:
            tried = self._last
            self.found.append(tried if change is None else replace(tried, change=change))
            self._last = None

    def keep_first(self, changes: Iterator[Change]) -> bool:
        """The first that admits the need is an answer; whether there is one."""
        for change in changes:
            if self.admits(change):
                self.keep()
                return True
        return False


def relaxations(reach: Reach, enough: Enough = _never) -> Tried:
    """Try changes, the smallest first, until one helps and it is enough.

    DECISIONS_MAX decisions at most.
    """
    bench = Bench(reach.topic, enough)
    bench.keep_first(_as_it_is(reach))
    bench.keep_first(SoftSpread() for _ in range(reach.has_hard_spread))
    _requirements(reach, bench)
    bench.keep_first(_smaller_unit(reach))
    _fewer(reach, bench)
    bench.keep_first(_more_quota(reach, bench))
    _higher_priority(reach, bench)
    order = {kind: place for place, kind in enumerate(CHANGES)}
    found = sorted(bench.found, key=lambda r: (order[type(r.change)], r.price_per_hour))
    return Tried(tuple(found), bench.is_cut)


def _as_it_is(reach: Reach) -> Iterator[Change]:
    plan, ref = reach.topic.plan, reach.topic.need.ref
    if reach.topic.need.profile.same_keys and plan.policy.is_parked(
        memory_before(plan).gang_ages.get(ref, 0)
    ):
        yield Wait()


def _requirements(reach: Reach, bench: Bench) -> None:
    domain = reach.first(Filter.DOMAIN)
    tried = 0
    for sieve in reach.sieves:
        requirement = sieve.requirement
        if requirement is None or tried == REQUIREMENTS_TRIED:
            continue
        kept_away = reach.only(*filter(None, (sieve, domain))) & ~reach.only()
        if kept_away.any():
            tried += 1
            bench.keep_first(
                change
                for changes in (_widened(reach, sieve, kept_away), iter([Drop(requirement)]))
                for change in changes
            )


def _widened(reach: Reach, sieve: Sieve, kept_away: Mask) -> Iterator[Change]:
    """One more value, or as many as would do together; never more than VALUES_TRIED ways."""
    requirement = sieve.requirement
    if requirement is None or not _is_list(requirement):
        return
    values = _values(reach, requirement, kept_away & ~sieve.passes)
    missing = reach.topic.missing
    is_gang = bool(reach.topic.need.profile.same_keys)
    singles = [v for v, capacity in values if is_gang or covers(capacity, missing)]
    ways: list[tuple[str, ...]] = [(value,) for value in singles[:VALUES_TRIED]]
    if not is_gang and not singles:
        ways = [joined for joined in [_together(values, missing)] if joined]
    for way in ways:
        yield Widen(requirement, _admitting(requirement, way))


def _is_list(requirement: Requirement) -> bool:
    """Whether it names values, so that it can name others."""
    lists = (Operator.IN, Operator.NOT_IN, Operator.SAME)
    return requirement.operator in lists and bool(requirement.values)


def _values(reach: Reach, requirement: Requirement, rows: Mask) -> list[tuple[str, Units]]:
    """Values of the attribute among some machines, the most frequent first, and their capacity."""
    snapshot = reach.topic.plan.snapshot
    codes, names = snapshot.shapes.attribute(requirement.key)
    of_row = codes[snapshot.shape[reach.rows]]
    counts = np.bincount(of_row[rows], minlength=len(names)).tolist()
    seen = [(count, name) for count, name in zip(counts, names, strict=True) if count]
    named = sorted((-count, name) for count, name in seen if name is not None)[:_JOINED_MAX]
    return [(name, reach.capacity(rows & (of_row == names.index(name)))) for _, name in named]


def _together(values: list[tuple[str, Units]], missing: Units) -> tuple[str, ...]:
    """As many of the values as it takes to cover what is missing; none if all do not."""
    capacity: Units = {}
    for place, (_, more) in enumerate(values, start=1):
        capacity = add(capacity, more)
        if covers(capacity, missing):
            return tuple(value for value, _ in values[:place])
    return ()


def _admitting(requirement: Requirement, values: tuple[str, ...]) -> Requirement:
    if requirement.operator is Operator.NOT_IN:
        kept = tuple(v for v in requirement.values if v not in values)
        return replace(requirement, values=kept)
    return replace(requirement, values=(*requirement.values, *values))


def _smaller_unit(reach: Reach) -> Iterator[Change]:
    """The largest min unit that lets in as many more machines as would do."""
    sieve = reach.first(Filter.MIN_UNIT)
    if sieve is None or reach.topic.gangs:
        return
    kept_away = reach.only(sieve) & ~sieve.passes
    unit = wanted(reach.topic.need.min_unit)
    limit = np.array(list(unit.values()), dtype=np.int64)
    classes = reach.topic.plan.snapshot.shape[reach.rows]
    clipped = np.minimum(reach.unit_alloc, limit)
    kinds, kind = np.unique(clipped, axis=0, return_inverse=True)
    of_row = kind.reshape(-1)[classes]
    capacity: Units = {}
    for place in np.unique(of_row[kept_away])[::-1].tolist():
        limit = np.minimum(limit, kinds[place])
        capacity = add(capacity, reach.capacity(kept_away & (of_row == place)))
        if covers(capacity, reach.topic.missing):
            yield SmallerUnit(dict(zip(unit, limit.tolist(), strict=True)))
            return


def _fewer(reach: Reach, bench: Bench) -> None:
    topic, total = reach.topic, pieces(reach.topic)
    near = add(topic.need.aggregate, reach.capacity(reach.only()))
    guess = min(
        (near[name] - amount) * total // topic.need.aggregate[name]
        for name, amount in topic.missing.items()
    )
    most, refused = largest(
        total, guess, lambda number: bench.admits(Fewer(number, total, total)), FEWER_TRIED
    )
    if most:
        bench.keep(Fewer(most, total, refused))


def largest(
    total: int, guess: int, is_admitted: Callable[[int], bool], tries: int
) -> tuple[int, int]:
    """A number that is admitted (0 if none was found) and a larger one that is not.

    `total` is known not to be. The guess is tried first, then its neighbour, then twice as far
    from it each time until the answer turns, then halves: the two are neighbours unless `tries`
    run out.
    """
    admitted, refused = 0, total
    number, step = min(max(guess, 1), total - 1), 1
    while refused - admitted > 1 and tries:
        tries -= 1
        if is_admitted(number):
            admitted = number
        else:
            refused = number
        further = admitted + step if refused == total else refused - step
        turned = admitted and refused < total
        number = (admitted + refused) // 2 if turned else min(max(further, 1), total - 1)
        step *= 2
    return admitted, refused


def _more_quota(reach: Reach, bench: Bench) -> Iterator[Change]:
    """As many more as would be used if there were no limit: one decision to learn that number."""
    if not reach.is_limited or bench.is_over():
        return
    change = bench.ground.quota_used()
    if change.machines or change.slots:
        yield change


def _higher_priority(reach: Reach, bench: Bench) -> None:
    """The smallest one that is above enough of those who hold what it could use."""
    sieve = reach.first(Filter.CLAIMED)
    if sieve is None:
        return
    now = reach.topic.need.profile.priority
    kept_away = reach.only(sieve) & ~sieve.passes
    held = np.unique(reach.priority[kept_away]).tolist()
    above = sorted({max(p, now) + 1 for p in held if p < PRIORITY_MAX}, reverse=True)
    if not above:
        return
    enough = _enough(reach, kept_away)
    steps, refused = largest(
        len(above) + 1,
        max(1, sum(priority > enough for priority in above)),
        lambda number: bench.admits(HigherPriority(above[number - 1], now)),
        PRIORITIES_TRIED,
    )
    if steps:
        below = now if refused > len(above) else above[refused - 1]
        bench.keep(HigherPriority(above[steps - 1], below))


def _enough(reach: Reach, rows: Mask) -> int:
    """The least priority such that all machines held at it or below would do."""
    at = np.flatnonzero(rows)
    at = at[np.argsort(reach.priority[at], kind="stable")]
    adds = reach.adds[reach.topic.plan.snapshot.shape[reach.rows[at]]]
    missing = [reach.topic.missing[name] for name in reach.dimensions]
    covered = np.flatnonzero((np.cumsum(adds, axis=0) >= missing).all(axis=1))
    return int(reach.priority[at[covered[0] if len(covered) else -1]])
