"""What a change would do, the slow way: a whole decision on the demand as it would be."""

import math
from dataclasses import replace

import numpy as np

from mainstay.engine.certificate import LISTED_MAX, Change, MoreQuota, Relaxation, Wait
from mainstay.engine.decide import decide
from mainstay.engine.doings import ACQUISITIONS, DRAINS, doings, with_ref
from mainstay.engine.lookup import Topic, group_of, places_of, told_at
from mainstay.engine.plan import Demand, Plan
from mainstay.engine.quota import Quota
from mainstay.engine.trial import changed, in_order, memory_before
from mainstay.engine.usage import cluster_use, place_use
from mainstay.model.assignment import NeedRef
from mainstay.model.need import Need


class PlainGround:
    """As mainstay.engine.trial.Ground, and nothing is shared between two tries."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic

    def attempt(self, change: Change) -> Relaxation | None:
        topic, plan = self._topic, self._topic.plan
        sources = changed(topic, change)
        memory = memory_before(plan)
        if isinstance(change, Wait):
            ages = {ref: age for ref, age in memory.gang_ages.items() if ref != topic.need.ref}
            memory = replace(memory, gang_ages=ages)
        after = decide(
            plan.snapshot, _demand(topic, sources, _quota(topic, change)), memory, plan.policy, 0.0
        )
        told = told_at(after)
        short = [place for place in places_of(after, sources) if place in told]
        if any(told[place].unresolved for place in short):
            return None
        return _relaxation(topic, change, after, sources)

    def quota_used(self) -> MoreQuota:
        topic, demand = self._topic, self._topic.plan.demand
        cluster, machines = topic.need.cluster, demand.quota.machines
        free = Quota({c: held for c, held in machines.items() if c != cluster}, {})
        plan = topic.plan
        loose = decide(
            plan.snapshot, replace(demand, quota=free), memory_before(plan), plan.policy, 0.0
        )
        held = machines.get(cluster)
        more = 0 if held is None else cluster_use(loose, cluster).planned - held
        slots = {p: place_use(loose, p).planned - held for p, held in demand.quota.slots.items()}
        return MoreQuota(max(0, more), {place: n for place, n in slots.items() if n > 0})


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


def _relaxation(topic: Topic, change: Change, plan: Plan, sources: tuple[Need, ...]) -> Relaxation:
    snapshot = topic.plan.snapshot
    refs = {plan.needs[place].ref for place in places_of(plan, sources)}
    found, named = doings(plan), with_ref(plan, refs)
    acquired, drained = (found.for_needs(named, kinds) for kinds in (ACQUISITIONS, DRAINS))
    prices = snapshot.price_per_hour[np.concatenate([acquired, drained])]
    displaced = _short(plan) - _short(topic.plan) - refs
    return Relaxation(
        change=change,
        acquired=group_of(snapshot, acquired),
        drained=group_of(snapshot, drained),
        price_per_hour=math.fsum(prices.tolist()),
        displaced=tuple(
            sorted(displaced, key=lambda ref: (ref.cluster, ref.fingerprint, ref.group))[
                :LISTED_MAX
            ]
        ),
    )


def _short(plan: Plan) -> set[NeedRef]:
    return {told.need.ref for told in plan.unsatisfied if told.unresolved}
