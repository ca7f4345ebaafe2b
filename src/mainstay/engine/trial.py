"""A change tried: the demand as it would be, decided on again.

The plain form, a whole decision for each change, is tests/oracles/plain_trial.py.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.again import Recoder
from mainstay.engine.asked import Asked
from mainstay.engine.certificate import (
    LISTED_MAX,
    Change,
    Drop,
    Fewer,
    HigherPriority,
    MoreQuota,
    Relaxation,
    SmallerUnit,
    SoftSpread,
    Wait,
    Widen,
)
from mainstay.engine.domains import domain_sums
from mainstay.engine.lanes import is_short
from mainstay.engine.lookup import Topic, group_of, named_by, wanted
from mainstay.engine.normalize import normalize
from mainstay.engine.plan import Memory, Plan
from mainstay.engine.quota import Place, Quota
from mainstay.engine.refused import preempt_unless_refused
from mainstay.engine.resume import claim_again
from mainstay.engine.rows import Mask, Matrix, Walk
from mainstay.engine.trace import claim
from mainstay.engine.usage import cluster_use, in_place, is_free
from mainstay.engine.world import NO_ROWS, World
from mainstay.model.assignment import NeedRef
from mainstay.model.ids import ClusterId
from mainstay.model.need import Need, WhenUnsatisfiable
from mainstay.model.state import State
from mainstay.model.texts import Rows

_NEARLY: Final = 1 - 1e-6


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a decision on a changed demand comes to, as far as an explanation needs it."""

    walk: Walk
    owner: NDArray[np.int32]
    missing: Matrix
    """After phase 2."""

    acquired: tuple[Rows, Rows]
    """Machines, and the place of the need of each."""

    drained: tuple[Rows, Rows]

    def short(self) -> set[NeedRef]:
        """The needs that are not admitted."""
        return {self.walk.need_at(p).ref for p in np.flatnonzero(is_short(self.missing)).tolist()}


def places_of(walk: Walk, rows: Mask) -> list[int]:
    """Where these rows of demand are in a walk, as they are or folded."""
    found = (walk.need >= 0) & rows[walk.need]
    if walk.members:
        sizes = np.array([len(gangs) for gangs in walk.members])
        of_fold = np.logical_or.reduceat(
            rows[np.concatenate(walk.members)], np.cumsum(sizes) - sizes
        )
        folded = np.flatnonzero(walk.folded)
        found[folded] = of_fold[-1 - walk.need[folded]]
    return np.flatnonzero(found).tolist()


def stage_of(plan: Plan) -> World:
    """The machines of a plan, for many decisions on demands that are nearly the same."""
    walk, barred = plan.walk, plan.demand.barred
    return World(plan.snapshot, walk.asked, kept=plan.kept, walk=walk, barred=barred)


class Ground:
    """Where the changes of one need are tried: what all these decisions share is made once.

    A trial is mainstay.engine.decide.decide without what it tells of needs and idle machines.
    """

    def __init__(self, topic: Topic) -> None:
        plan = topic.plan
        self._topic, self._asked = topic, plan.walk.asked
        self._memory = memory_before(plan)
        self._recoder = Recoder(self._asked)
        self._stage = stage_of(plan)
        at = int(plan.walk.need[topic.place])
        self._at = [at] if at >= 0 else plan.walk.members[-1 - at].tolist()

    @cached_property
    def _short(self) -> set[NeedRef]:
        return {told.need.ref for told in self._topic.plan.unsatisfied if told.unresolved}

    def attempt(self, change: Change) -> Relaxation | None:
        """Decide again with one change; None when the need is not admitted then either."""
        sources = changed(self._topic, change)
        if any(map(self._is_beyond, sources)):
            return None
        asked, origin = self._recoder.changed(self._at, sources)
        ages = dict(self._memory.gang_ages)
        if isinstance(change, Wait):
            ages.pop(self._topic.need.ref, None)
        outcome = self._outcome(asked, ages, _quota(self._topic, change), origin)
        if outcome is None:
            return None
        places = places_of(outcome.walk, origin < 0)
        if is_short(outcome.missing[places]).any():
            return None
        return self._relaxation(change, outcome, places)

    def _is_beyond(self, need: Need) -> bool:
        """Whether all machines together, or those of any one domain, are too few for a need.

        So much can be told by counting. A gang that one machine could hold is not looked at.
        """
        world, shapes = self._stage, self._topic.plan.snapshot.shapes
        asked, unit = (
            np.array([units.get(name, 0) for name in world.dimensions], dtype=np.int64)
            for units in (need.aggregate, need.min_unit)
        )
        fits = shapes.matching(need.profile.requirements) & (world.alloc >= unit).all(axis=1)
        counts = np.where(fits, world.machines_by_shape, 0)
        keys = need.profile.same_keys
        if not keys:
            # In floats, which do not run over; so what is near is decided.
            most = counts.astype(np.float64) @ world.alloc.astype(np.float64)
            return bool((most < asked * _NEARLY).any())
        if (world.alloc >= asked).all(axis=1).any():
            return False
        total, _ = domain_sums(world.domains(keys), world.alloc, counts)
        return not (total >= asked).all(axis=1).any()

    def _outcome(
        self, asked: Asked, ages: Mapping[NeedRef, int], quota: Quota, origin: Rows
    ) -> Outcome | None:
        """What a decision comes to; None once it is known that the changed rows are not admitted.

        `origin` is the place that each row had in the demand; -1 for a changed one.
        """
        plan, world = self._topic.plan, self._stage
        world.begin(asked)
        walk = normalize(world, plan.walk)
        parked = self._parked(walk, ages)
        if plan.trace is not None:
            coverage = claim_again(world, walk, parked, plan.trace, origin, quota=quota)
        else:
            coverage, _ = claim(world, walk, parked, quota, plan.kinds)
        about = places_of(walk, origin < 0)
        takings = preempt_unless_refused(world, coverage, plan.demand.heard, about)
        if takings is None:
            return None
        victims, excess = takings.victims, takings.excess
        return Outcome(
            walk=walk,
            owner=world.owner,
            missing=coverage.missing,
            acquired=(
                np.concatenate([NO_ROWS, *(rows for rows, _ in coverage.acquired)]),
                np.concatenate([NO_ROWS, *(places for _, places in coverage.acquired)]),
            ),
            drained=(
                np.concatenate([victims.rows, excess.rows]),
                np.concatenate([victims.places, excess.places]),
            ),
        )

    def _parked(self, walk: Walk, ages: Mapping[NeedRef, int]) -> Mask:
        parked = np.zeros(len(walk), dtype=np.bool_)
        for place, ref in walk.gang_refs.items() if ages else ():
            parked[place] = self._topic.plan.policy.is_parked(ages.get(ref, 0))
        return parked

    def _relaxation(self, change: Change, outcome: Outcome, places: list[int]) -> Relaxation:
        """A change that was tried and admits the need, with its evidence."""
        snapshot = self._topic.plan.snapshot
        refs = {outcome.walk.need_at(place).ref for place in places}
        named = named_by(outcome.walk, refs)
        acquired, drained = (rows[named[of]] for rows, of in (outcome.acquired, outcome.drained))
        prices = snapshot.price_per_hour[np.concatenate([acquired, drained])]
        displaced = outcome.short() - self._short - refs
        return Relaxation(
            change=change,
            acquired=group_of(snapshot, acquired),
            drained=group_of(snapshot, drained),
            price_per_hour=math.fsum(prices.tolist()),
            displaced=tuple(sorted(displaced, key=_name)[:LISTED_MAX]),
        )

    def quota_used(self) -> MoreQuota:
        """How much more than is held would be used if there were no limit."""
        topic, quota = self._topic, self._topic.plan.demand.quota
        cluster = topic.need.cluster
        others = {c: held for c, held in quota.machines.items() if c != cluster}
        unchanged = np.arange(len(self._asked.needs))
        outcome = self._outcome(self._asked, self._memory.gang_ages, Quota(others, {}), unchanged)
        if outcome is None:
            raise AssertionError("nobody was named who could be refused")
        held = quota.machines.get(cluster)
        more = 0 if held is None else self._machines_used(outcome, cluster) - held
        slots = {
            place: self._slots_used(outcome, place) - held for place, held in quota.slots.items()
        }
        return MoreQuota(max(0, more), {place: n for place, n in slots.items() if n > 0})

    def _machines_used(self, outcome: Outcome, cluster: ClusterId) -> int:
        """As mainstay.engine.usage.cluster_use has it planned."""
        snapshot, walk = self._topic.plan.snapshot, outcome.walk
        names = np.array([name == cluster for name in walk.asked.clusters], dtype=np.bool_)
        of_cluster = np.append(names[walk.cluster], np.False_)
        own = np.array([name == cluster for name in snapshot.clusters], dtype=np.bool_)
        rows, places = outcome.drained
        drained = rows[of_cluster[places]]
        taken = is_free(snapshot) & of_cluster[outcome.owner]
        used = cluster_use(self._topic.plan, cluster).now
        return (
            used
            + int(np.count_nonzero(~own[snapshot.cluster[drained]]))
            + int(np.count_nonzero(taken))
        )

    def _slots_used(self, outcome: Outcome, place: Place) -> int:
        """As mainstay.engine.usage.place_use has it planned."""
        snapshot = self._topic.plan.snapshot
        here = in_place(snapshot, place)
        slots = snapshot.state == State.SPECULATIVE
        used = here & (~slots | (outcome.owner >= 0))
        return int(np.count_nonzero(used))


def changed(topic: Topic, change: Change) -> tuple[Need, ...]:
    """The rows of demand behind a need, as they would be; always new ones."""
    if isinstance(change, Fewer):
        return _fewer(topic, change)
    return tuple(_changed(source, change) for source in topic.sources)


def _changed(need: Need, change: Change) -> Need:
    profile = need.profile
    match change:
        case SoftSpread():
            soft = WhenUnsatisfiable.SCHEDULE_ANYWAY
            spread = tuple(replace(s, when_unsatisfiable=soft) for s in profile.spread)
            return replace(need, profile=replace(profile, spread=spread))
        case Widen(old, new):
            asked = tuple(new if r == old else r for r in profile.requirements)
            return replace(need, profile=replace(profile, requirements=asked))
        case Drop(requirement):
            kept = tuple(r for r in profile.requirements if r != requirement)
            return replace(need, profile=replace(profile, requirements=kept))
        case SmallerUnit(min_unit):
            return replace(need, min_unit=min_unit)
        case HigherPriority(priority):
            return replace(need, profile=replace(profile, priority=priority))
        case _:
            return replace(need)


def pieces(topic: Topic) -> int:
    """How many a need is made of: gangs, min units, or what divides all its amounts."""
    if topic.gangs:
        return len(topic.gangs)
    total = wanted(topic.need.aggregate)
    unit = {name: amount for name, amount in wanted(topic.need.min_unit).items() if name in total}
    if not unit:
        return math.gcd(*total.values())
    return max(1, min(total[name] // amount for name, amount in unit.items()))


def _fewer(topic: Topic, change: Fewer) -> tuple[Need, ...]:
    if topic.gangs:
        return tuple(replace(gang) for gang in topic.gangs[: change.pieces])
    total = topic.need.aggregate
    part = {name: amount * change.pieces // change.of for name, amount in total.items()}
    return (replace(topic.need, aggregate=part),)


def in_order(rows: list[Need]) -> tuple[Need, ...]:
    """Needs in the order of mainstay.model.needs.NeedsTable.snapshot."""
    rows.sort(key=lambda n: (-n.profile.priority, n.arrival_nanos, n.cluster))
    return tuple(rows)


def _quota(topic: Topic, change: Change) -> Quota:
    quota = topic.plan.demand.quota
    if not isinstance(change, MoreQuota):
        return quota
    machines, slots = dict(quota.machines), dict(quota.slots)
    if change.machines:
        machines[topic.need.cluster] += change.machines
    for place, more in change.slots.items():
        slots[place] += more
    return Quota(machines, slots)


def memory_before(plan: Plan) -> Memory:
    """What a plan tells of the memory it was made from: its gangs without hope, a cycle younger.

    The plan itself goes with it: what it has sorted need not be sorted again. Not so its world:
    the next decision works on that, in another thread maybe.
    """
    ages = {ref: age - 1 for ref, age in plan.gang_ages.items()}
    return Memory(MappingProxyType(ages), MappingProxyType({}), replace(plan, world=None))


def _name(ref: NeedRef) -> tuple[str, str, str]:
    return ref.cluster, ref.fingerprint, ref.group
