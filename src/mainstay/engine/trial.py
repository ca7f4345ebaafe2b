"""A change tried: the demand as it would be, decided on again."""

import math
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

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
from mainstay.engine.decide import decide
from mainstay.engine.doings import ACQUISITIONS, DRAINS, doings, with_ref
from mainstay.engine.lookup import (
    Topic,
    group_of,
    places_of,
    told_at,
    wanted,
)
from mainstay.engine.plan import Demand, Memory, Plan
from mainstay.engine.quota import Quota
from mainstay.model.assignment import NeedRef
from mainstay.model.need import Need, WhenUnsatisfiable


@dataclass(frozen=True, slots=True)
class Trial:
    """The plan under a change, and the rows of demand that stand for the need in it."""

    plan: Plan
    sources: tuple[Need, ...]


def attempt(topic: Topic, change: Change) -> Trial | None:
    """Decide again with one change; None when the need is not admitted then either."""
    plan = topic.plan
    sources = changed(topic, change)
    demand = _demand(topic, sources, _quota(topic, change))
    # Deletions alone look at the time, and they take nothing that a need could have.
    after = decide(plan.snapshot, demand, _memory(topic, change), plan.policy, 0.0)
    told = told_at(after)
    short = [place for place in places_of(after, sources) if place in told]
    if any(told[place].unresolved for place in short):
        return None
    return Trial(after, sources)


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


def _demand(topic: Topic, sources: tuple[Need, ...], quota: Quota) -> Demand:
    demand = topic.plan.demand
    place = {id(source): number for number, source in enumerate(topic.sources)}
    rows: list[Need] = []
    for need in demand.needs:
        number = place.get(id(need))
        if number is None:
            rows.append(need)
        elif number < len(sources):
            rows.append(sources[number])
    return replace(demand, needs=in_order(rows), quota=quota)


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


def _memory(topic: Topic, change: Change) -> Memory:
    memory = memory_before(topic.plan)
    if not isinstance(change, Wait):
        return memory
    ages = {ref: age for ref, age in memory.gang_ages.items() if ref != topic.need.ref}
    return replace(memory, gang_ages=MappingProxyType(ages))


def memory_before(plan: Plan) -> Memory:
    """What a plan tells of the memory it was made from: its gangs without hope, a cycle younger.

    The plan itself goes with it: what it has sorted need not be sorted again.
    """
    ages = {ref: age - 1 for ref, age in plan.gang_ages.items()}
    return Memory(MappingProxyType(ages), MappingProxyType({}), plan)


def relaxation(topic: Topic, change: Change, trial: Trial) -> Relaxation:
    """A change that was tried and admits the need, with its evidence."""
    plan, snapshot = trial.plan, topic.plan.snapshot
    refs = {plan.needs[place].ref for place in places_of(plan, trial.sources)}
    found, named = doings(plan), with_ref(plan, refs)
    acquired, drained = (found.for_needs(named, kinds) for kinds in (ACQUISITIONS, DRAINS))
    prices = snapshot.price_per_hour[np.concatenate([acquired, drained])]
    displaced = _short(plan) - _short(topic.plan) - refs
    return Relaxation(
        change=change,
        acquired=group_of(snapshot, acquired),
        drained=group_of(snapshot, drained),
        price_per_hour=math.fsum(prices.tolist()),
        displaced=tuple(sorted(displaced, key=_name)[:LISTED_MAX]),
    )


def _short(plan: Plan) -> set[NeedRef]:
    return {told.need.ref for told in plan.unsatisfied if told.unresolved}


def _name(ref: NeedRef) -> tuple[str, str, str]:
    return ref.cluster, ref.fingerprint, ref.group
