"""The smallest changes that would admit a need: found by counting, proved by deciding again.

Counts from the funnel say what is worth trying; nothing is claimed that was not decided. What is
not found is not claimed to be impossible. The number of decisions is bounded by DECISIONS_MAX, and
by whoever waits: what is likeliest to help is tried first, and what was left out is told.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
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
"""Whether no more changes are to be tried: nobody waits for the rest. One always is."""


def _never() -> bool:
    return False


class Tried(NamedTuple):
    """What was found."""

    relaxations: tuple[Relaxation, ...]
    """At most one per way to relax, the smallest first."""

    tried: int = 0
    """Changes."""

    left_out: int = 0
    """Ways to relax of which not all changes were tried because it was enough."""


class Bench:
    """Tries changes and keeps what admits the need."""

    def __init__(self, topic: Topic, enough: Enough = _never) -> None:
        self.ground = Ground(topic)
        self._enough = enough
        self._last: Relaxation | None = None
        self._is_over = self._is_cut = False
        self.found: list[Relaxation] = []
        self.tried = 0

    def is_cut(self, way: "Way") -> bool:
        """Go one way; whether something of it was left out."""
        self._is_cut = False
        way(self)
        return self._is_cut

    def is_over(self) -> bool:
        """Whether no more is to be tried; that it was asked means that something was left out."""
        self._is_over = self._is_over or (self._enough() and self.tried > 0)
        self._is_cut = self._is_cut or self._is_over
        return self._is_over

    def admits(self, change: Change) -> bool | None:
        """Whether the need is admitted under a change; None when that is not tried."""
        if self.is_over():
            return None
        self.tried += 1
        trial = self.ground.attempt(change)
        if trial is not None:
            self._last = trial
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


Way = Callable[[Bench], object]
"""One way to relax, gone on a bench."""


def relaxations(reach: Reach, enough: Enough = _never) -> Tried:
    """Try changes until it is enough: what takes one decision, then what helps nearly always, then
    requirement after requirement.

    DECISIONS_MAX decisions at most.
    """
    bench = Bench(reach.topic, enough)
    left_out = sum(bench.is_cut(way) for way in _ways(reach))
    order = {kind: place for place, kind in enumerate(CHANGES)}
    found = sorted(bench.found, key=lambda r: (order[type(r.change)], r.price_per_hour))
    return Tried(tuple(found), bench.tried, left_out)


def _ways(reach: Reach) -> Iterator[Way]:
    yield lambda bench: bench.keep_first(_as_it_is(reach))
    yield lambda bench: bench.keep_first(SoftSpread() for _ in range(reach.has_hard_spread))
    yield lambda bench: bench.keep_first(_smaller_unit(reach))
    yield lambda bench: bench.keep_first(_more_quota(reach, bench))
    yield lambda bench: _fewer(reach, bench)
    yield lambda bench: _higher_priority(reach, bench)
    yield from _requirements(reach)


def _as_it_is(reach: Reach) -> Iterator[Change]:
    plan, ref = reach.topic.plan, reach.topic.need.ref
    if reach.topic.need.profile.same_keys and plan.policy.is_parked(
        memory_before(plan).gang_ages.get(ref, 0)
    ):
        yield Wait()


def _requirements(reach: Reach) -> Iterator[Way]:
    domain = reach.first(Filter.DOMAIN)
    tried = 0
    for sieve in reach.sieves:
        if sieve.requirement is None or tried == REQUIREMENTS_TRIED:
            continue
        kept_away = reach.only(*filter(None, (sieve, domain))) & ~reach.only()
        if kept_away.any():
            tried += 1
            changes = chain(_widened(reach, sieve, kept_away), [Drop(sieve.requirement)])
            yield partial(Bench.keep_first, changes=changes)


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
    total: int, guess: int, is_admitted: Callable[[int], bool | None], tries: int
) -> tuple[int, int]:
    """A number that is admitted (0 if none was found) and a larger one that is not.

    `total` is known not to be. The guess is tried first, then its neighbour, then twice as far
    from it each time until the answer turns, then halves: the two are neighbours unless `tries`
    run out, or nobody says whether a number is admitted.
    """
    admitted, refused = 0, total
    number, step = min(max(guess, 1), total - 1), 1
    while refused - admitted > 1 and tries:
        tries -= 1
        answer = is_admitted(number)
        if answer is None:
            break
        if answer:
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
