"""The funnel: from all machines to those a need could still have, filter by filter.

It works on whole columns and on counts per shape class; no Python loop goes over machines.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.barred import barred_rows
from mainstay.engine.certificate import (
    CLOSING,
    LIFTABLE,
    LISTED_MAX,
    Filter,
    Holder,
    Miss,
    NearMiss,
    Step,
)
from mainstay.engine.doings import DRAINS, doings
from mainstay.engine.lookup import Topic, wanted
from mainstay.engine.sorting import counted
from mainstay.engine.usage import cluster_use, in_place, is_free, place_use
from mainstay.engine.widest import widest_domain
from mainstay.model.assignment import NeedRef
from mainstay.model.ids import MachineId
from mainstay.model.need import Requirement, WhenUnsatisfiable
from mainstay.model.resources import Units, add, subtract
from mainstay.model.state import State, state_of
from mainstay.model.texts import Rows

Mask = NDArray[np.bool_]

_NOBODY: Final = -1
_UNLIMITED: Final = np.iinfo(np.int64).max
_USABLE: Final = (State.IDLE, State.SPECULATIVE, State.CONFIGURED)


@dataclass(frozen=True, slots=True)
class Sieve:
    """One filter: which of the live machines, in order of ids, pass it."""

    filter: Filter
    requirement: Requirement | None
    passes: Mask


@dataclass(frozen=True)
class Reach:
    """All that keeps machines from one need that misses something."""

    topic: Topic

    @cached_property
    def rows(self) -> Rows:
        """Every live row, in order of ids."""
        return self.topic.plan.snapshot.order.astype(np.intp)

    @cached_property
    def dimensions(self) -> tuple[str, ...]:
        """What is missing, by name."""
        return tuple(wanted(self.topic.missing))

    @cached_property
    def sieves(self) -> tuple[Sieve, ...]:
        """The filters, in the order of the funnel."""
        return tuple(self._sieves())

    def _sieves(self) -> Iterator[Sieve]:
        need, shapes = self.topic.need, self.topic.plan.snapshot.shapes
        shape = self.topic.plan.snapshot.shape[self.rows]
        everything = np.ones(len(self.rows), dtype=np.bool_)
        yield Sieve(Filter.FLEET, None, everything)
        yield Sieve(Filter.SERVING, None, ~self.serving)
        for requirement in need.profile.requirements:
            fulfilled = shapes.matching((requirement,))
            yield Sieve(Filter.REQUIREMENT, requirement, fulfilled[shape])
        holds_unit: Mask = np.all(self.unit_alloc >= self._min_unit, axis=1)
        yield Sieve(Filter.MIN_UNIT, None, holds_unit[shape])
        adds_any: Mask = np.any(self.adds > 0, axis=1)
        yield Sieve(Filter.ADDS, None, adds_any[shape])
        if self.domain is not None:
            yield Sieve(Filter.DOMAIN, None, self._in_domain(self.domain)[shape])
        yield Sieve(Filter.STATE, None, np.isin(self.state, _USABLE))
        barred = barred_rows(self.topic.plan.snapshot, self.topic.plan.demand.barred)
        if barred is not None:
            yield Sieve(Filter.BARRED, None, ~barred[self.rows])
        yield Sieve(Filter.CLAIMED, None, self._is_open)
        yield Sieve(Filter.QUOTA, None, self.room > 0)
        if self.has_hard_spread:
            yield Sieve(Filter.SPREAD, None, ~is_free(self.topic.plan.snapshot)[self.rows])
        told = self.topic.told
        if told is not None and need.profile.same_keys:
            if told.parked or told.domain is None:
                yield Sieve(Filter.PARKED, None, ~everything)
            yield Sieve(Filter.WHOLE, None, ~everything)

    @cached_property
    def domain(self) -> tuple[str, ...] | None:
        """Where a gang looks, or where there is most for one that looks nowhere."""
        topic = self.topic
        if topic.told is None or topic.told.domain is not None or not topic.need.profile.same_keys:
            return None if topic.told is None else topic.told.domain
        return widest_domain(topic.plan.snapshot, topic.need)

    @property
    def has_hard_spread(self) -> bool:
        """Whether a plain need must be spread."""
        profile = self.topic.need.profile
        hard = WhenUnsatisfiable.DO_NOT_SCHEDULE
        return not profile.same_keys and any(s.when_unsatisfiable is hard for s in profile.spread)

    @cached_property
    def state(self) -> NDArray[np.uint8]:
        """Of every live machine."""
        return self.topic.plan.snapshot.state[self.rows]

    @cached_property
    def owner(self) -> NDArray[np.int32]:
        """The place of the need that claims each live machine, or -1."""
        return self.topic.plan.owner[self.rows]

    @cached_property
    def taker(self) -> NDArray[np.int64]:
        """The number of the ref for which phase 2 drains each live machine, or -1."""
        plan = self.topic.plan
        taker = np.full(len(self.rows), _NOBODY, dtype=np.int64)
        found = doings(plan)
        taken = found.are(DRAINS) & (found.place >= 0)
        taker[plan.snapshot.rank[found.row[taken]]] = self._number[found.place[taken]]
        return taker

    @cached_property
    def _names(self) -> dict[NeedRef, int]:
        refs = dict.fromkeys(need.ref for need in self.topic.plan.needs)
        return {ref: number for number, ref in enumerate(refs)}

    @cached_property
    def _number(self) -> NDArray[np.int64]:
        """Of the ref of each need, by its place in the plan."""
        return np.array([self._names[need.ref] for need in self.topic.plan.needs], dtype=np.int64)

    @cached_property
    def refs(self) -> tuple[NeedRef, ...]:
        """The names of all needs of the plan; their places here are the numbers of takers."""
        return tuple(self._names)

    @cached_property
    def serving(self) -> Mask:
        """Which machines count for the need: those it claims and those drained for it."""
        number = self._names[self.topic.need.ref]
        found: Mask = (self.owner == self.topic.place) | (self.taker == number)
        return found

    @cached_property
    def unit_alloc(self) -> NDArray[np.int64]:
        """Per shape class, of each dimension of the min unit."""
        return self._columns(tuple(wanted(self.topic.need.min_unit)))

    @cached_property
    def _min_unit(self) -> NDArray[np.int64]:
        return np.array(list(wanted(self.topic.need.min_unit).values()), dtype=np.int64)

    def _columns(self, names: tuple[str, ...]) -> NDArray[np.int64]:
        shapes = self.topic.plan.snapshot.shapes
        found = np.zeros((len(shapes.values), len(names)), dtype=np.int64)
        for place, name in enumerate(names):
            if name in shapes.dimensions:
                found[:, place] = shapes.allocatable[:, shapes.dimensions.index(name)]
        return found

    @cached_property
    def adds(self) -> NDArray[np.int64]:
        """Per shape class, what a machine adds to each missing dimension."""
        unit = wanted(self.topic.need.min_unit)
        if not self.topic.gangs or not unit:
            return self._columns(self.dimensions)
        whole = (self.unit_alloc // self._min_unit).min(axis=1)
        unit_of = np.array([unit.get(name, 0) for name in self.dimensions], dtype=np.int64)
        added: NDArray[np.int64] = whole[:, None] * unit_of
        return added

    def _in_domain(self, domain: tuple[str, ...]) -> Mask:
        shapes = self.topic.plan.snapshot.shapes
        inside = np.ones(len(shapes.values), dtype=np.bool_)
        for key, wanted_value in zip(self.topic.need.profile.same_keys, domain, strict=True):
            codes, values = shapes.attribute(key)
            inside &= np.array([value == wanted_value for value in values], dtype=np.bool_)[codes]
        return inside

    @cached_property
    def priority(self) -> NDArray[np.int64]:
        """At what priority each live machine is held; the least number when nobody holds it."""
        plan = self.topic.plan
        least = np.iinfo(np.int64).min
        of_need = np.append(plan.walk.priority, least)
        held = of_need[self.owner]
        assigned = plan.snapshot.assignments.priority[plan.snapshot.assignment[self.rows]]
        configured = self.state == State.CONFIGURED
        held[configured] = np.maximum(held, assigned)[configured]
        of_taker = np.full(len(self.refs) + 1, least, dtype=np.int64)
        of_taker[self._number] = plan.walk.priority
        return np.where(self.taker >= 0, of_taker[self.taker], held)

    @cached_property
    def _is_open(self) -> Mask:
        """Not claimed; a Configured machine also when it may be drained for this need."""
        plan = self.topic.plan
        heard = np.array([name in plan.demand.heard for name in plan.snapshot.clusters])
        excess = (self.owner < 0) & heard[plan.snapshot.cluster[self.rows]]
        drainable = excess | (self.priority < self.topic.need.profile.priority)
        drainable &= self.taker < 0
        found: Mask = np.where(self.state == State.CONFIGURED, drainable, self.owner < 0)
        return found

    @cached_property
    def cluster_room(self) -> int:
        """How many machines more the cluster may use after the plan."""
        room = cluster_use(self.topic.plan, self.topic.need.cluster).room
        return _UNLIMITED if room is None else room

    @cached_property
    def slot(self) -> NDArray[np.int64]:
        """For each live slot of a limited (provider, region), the number of that; else -1."""
        plan = self.topic.plan
        found = np.full(len(self.rows), _NOBODY, dtype=np.int64)
        for number, place in enumerate(sorted(plan.demand.quota.slots)):
            found[in_place(plan.snapshot, place)[self.rows]] = number
        found[self.state != State.SPECULATIVE] = _NOBODY
        return found

    @cached_property
    def _slot_rooms(self) -> NDArray[np.int64]:
        plan = self.topic.plan
        rooms = [place_use(plan, place).room or 0 for place in sorted(plan.demand.quota.slots)]
        return np.array([*rooms, _UNLIMITED], dtype=np.int64)

    @cached_property
    def room(self) -> NDArray[np.int64]:
        """How many machines like each live one the quota leaves room for."""
        room = np.minimum(self._slot_rooms[self.slot], self.cluster_room)
        return np.where(self._is_counted, _UNLIMITED, room)

    @cached_property
    def _is_counted(self) -> Mask:
        """Which live machines the need's cluster holds already: draining them takes no more."""
        snapshot, cluster = self.topic.plan.snapshot, self.topic.need.cluster
        own = np.array([name == cluster for name in snapshot.clusters], dtype=np.bool_)
        found: Mask = (self.state == State.CONFIGURED) & own[snapshot.cluster[self.rows]]
        return found

    @cached_property
    def machine_sieves(self) -> tuple[Sieve, ...]:
        """The filters that are about machines; FLEET stops none."""
        return tuple(sieve for sieve in self.sieves if sieve.filter not in CLOSING)

    @cached_property
    def failures(self) -> NDArray[np.int16]:
        """How many filters each live machine fails."""
        failures = np.zeros(len(self.rows), dtype=np.int16)
        for sieve in self.machine_sieves:
            failures += ~sieve.passes
        return failures

    def only(self, *sieves: Sieve) -> Mask:
        """The machines that pass every filter but perhaps these."""
        forgiven = sum((~sieve.passes for sieve in sieves), np.zeros(len(self.rows), np.int16))
        found: Mask = self.failures == forgiven
        return found

    def first(self, filter_: Filter) -> Sieve | None:
        """The filter of a kind, if the funnel has it."""
        return next((sieve for sieve in self.sieves if sieve.filter is filter_), None)

    def capacity(self, chosen: Mask) -> dict[str, int]:
        """What machines provide of each missing dimension together."""
        classes = self.topic.plan.snapshot.shape[self.rows[chosen]]
        counts = np.bincount(classes, minlength=len(self.adds))
        return dict(zip(self.dimensions, (counts @ self.adds).tolist(), strict=True))

    def most(self, chosen: Mask) -> dict[str, int]:
        """The most they could provide of each missing dimension within the quota."""
        at = np.flatnonzero(chosen & ~self._is_counted)
        adds = self.adds[self.topic.plan.snapshot.shape[self.rows[at]]]
        sums = [self._largest(self.slot[at], adds[:, place]) for place in range(adds.shape[1])]
        more = dict(zip(self.dimensions, sums, strict=True))
        return add(self.capacity(chosen & self._is_counted), more)

    def _largest(self, slot: NDArray[np.int64], amounts: NDArray[np.int64]) -> int:
        order = np.lexsort((-amounts, slot))
        slot, amounts = slot[order], amounts[order]
        start = np.searchsorted(slot, slot)
        kept = amounts[np.arange(len(slot)) - start < self._slot_rooms[slot]]
        return int(np.sort(kept)[::-1][: self.cluster_room].sum())

    @property
    def is_limited(self) -> bool:
        """Whether the quota leaves room for so many only."""
        quota = self.topic.plan.demand.quota
        return self.cluster_room != _UNLIMITED or bool(quota.slots)


def count(reach: Reach) -> tuple[Step, ...]:
    """How many machines each filter leaves, and what they would provide."""
    left = np.ones(len(reach.rows), dtype=np.bool_)
    limited = False
    steps = []
    for sieve in reach.sieves:
        left &= sieve.passes
        limited |= sieve.filter is Filter.QUOTA and reach.is_limited
        steps.append(
            Step(
                filter=sieve.filter,
                requirement=sieve.requirement,
                left=int(np.count_nonzero(left)),
                capacity=reach.most(left) if limited else reach.capacity(left),
                lifted=_lifted(reach, sieve),
            )
        )
    return tuple(steps)


def _lifted(reach: Reach, sieve: Sieve) -> int | None:
    return int(np.count_nonzero(reach.only(sieve))) if sieve.filter in LIFTABLE else None


def holders(reach: Reach) -> tuple[Holder, ...]:
    """Who holds the machines that only stop at `CLAIMED`."""
    stopped = np.ones(len(reach.rows), dtype=np.bool_)
    for sieve in reach.sieves:
        if sieve.filter is Filter.CLAIMED:
            stopped &= ~sieve.passes
            break
        stopped &= sieve.passes
    at = np.flatnonzero(stopped)
    holder = np.where(reach.taker[at] >= 0, -2 - reach.taker[at], reach.owner[at])
    held: Counter[tuple[NeedRef | None, int]] = Counter()
    for owner, priority, number in counted(holder, reach.priority[at]):
        held[_holder(reach, owner, -2 - owner), priority] += number
    told = [Holder(ref, priority, number) for (ref, priority), number in held.items()]
    return tuple(sorted(told, key=_most_first)[:LISTED_MAX])


def _most_first(holder: Holder) -> tuple[int, int, tuple[str, ...]]:
    ref = holder.need
    name = () if ref is None else (ref.cluster, ref.fingerprint, ref.group)
    return -holder.count, -holder.priority, name


def _holder(reach: Reach, owner: int, taker: int) -> NeedRef | None:
    if taker >= 0:
        return reach.refs[taker]
    return None if owner < 0 else reach.topic.plan.needs[owner].ref


def nearest(reach: Reach) -> NearMiss | None:
    """The machine that fails the fewest filters, those as late as can be, then by id."""
    candidates = np.flatnonzero(~reach.serving & (reach.failures > 0))
    if not len(candidates):
        return None
    failures = reach.failures[candidates]
    candidates = candidates[failures == failures.min()]
    for sieve in reach.machine_sieves:
        passing = candidates[sieve.passes[candidates]]
        candidates = passing if len(passing) else candidates
    at = int(candidates[0])
    misses = tuple(
        _miss(reach, step, sieve, at)
        for step, sieve in enumerate(reach.machine_sieves)
        if not sieve.passes[at]
    )
    return NearMiss(MachineId(reach.topic.plan.snapshot.ids[int(reach.rows[at])]), misses)


def _miss(reach: Reach, step: int, sieve: Sieve, at: int) -> Miss:
    snapshot, row = reach.topic.plan.snapshot, int(reach.rows[at])
    need, shape = reach.topic.need, snapshot.shapes.values[snapshot.shape.item(row)]
    has: tuple[str | None, ...] = ()
    lacks: Units = {}
    if sieve.filter is Filter.REQUIREMENT and sieve.requirement is not None:
        has = (shape.profile.attribute(sieve.requirement.key),)
    elif sieve.filter is Filter.DOMAIN:
        has = tuple(shape.profile.attribute(key) for key in need.profile.same_keys)
    elif sieve.filter is Filter.STATE:
        has = (str(state_of(snapshot.state.item(row))),)
    elif sieve.filter is Filter.MIN_UNIT:
        effective = shape.allocatable or shape.profile.resources
        lacks = wanted(subtract(need.min_unit, effective.units))
    told = tuple(value for value in has if value is not None)
    if sieve.filter is not Filter.CLAIMED:
        return Miss(step, told, lacks, None, None)
    holder = _holder(reach, int(reach.owner[at]), int(reach.taker[at]))
    return Miss(step, told, lacks, holder, int(reach.priority[at]))
