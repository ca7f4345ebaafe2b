"""What `mainstay bench explain` asks about needs that nothing helps: there all changes are tried.

Each is a gang at the lowest priority whose type has nothing left in its zone, of a cluster that may
hold a few machines more: another type, another zone, a higher priority stop at the quota, and more
quota finds nothing to take.
"""

import dataclasses
from collections.abc import Iterator
from itertools import cycle
from typing import Final

import numpy as np

from mainstay.bench.lcg import RACK_KEY
from mainstay.engine.doings import ACQUISITIONS, DRAINS, doings
from mainstay.engine.plan import Demand, Plan
from mainstay.engine.quota import Quota
from mainstay.engine.trial import in_order
from mainstay.engine.usage import cluster_use, is_free
from mainstay.model.ids import ClusterId
from mainstay.model.need import Need, NeedProfile, Operator, Requirement
from mainstay.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY
from mainstay.model.questions import About, Question
from mainstay.model.resources import scale

ROOM: Final = 3
"""Machines more that each of the clusters may hold."""

MEMBERS: Final = 20
"""Machines that each gang asks for."""

LOWEST: Final = 0
LATE_NANOS: Final = 2
GROUP: Final = "in-vain"


def demand_in_vain(plan: Plan, count: int) -> tuple[Demand, tuple[Question, ...]]:
    """The demand of a plan with so many gangs more, of a cluster each; and the questions."""
    clusters = list(_at_rest(plan))[:count]
    scarce = list(_scarce(plan))
    most = max((whole["cpu"] for *_, whole in scarce), default=0)
    largest = [kind for kind in scarce if kind[-1]["cpu"] == most]  # a few others are not as much
    more = [_gang(cluster, *kind) for cluster, kind in zip(clusters, cycle(largest), strict=False)]
    held = {cluster: cluster_use(plan, cluster).planned + ROOM for cluster in clusters}
    demand = dataclasses.replace(
        plan.demand, needs=in_order([*plan.demand.needs, *more]), quota=Quota(held, {})
    )
    asked = (
        Question(
            about=About.GANG,
            name=need.cluster,
            fingerprint=need.profile.fingerprint,
            group=need.group,
        )
        for need in more
    )
    return demand, tuple(asked)


def _at_rest(plan: Plan) -> Iterator[ClusterId]:
    """Clusters for which nothing is acquired or drained: then nobody else uses their quota."""
    found, walk = doings(plan), plan.walk
    places = found.place[found.are(ACQUISITIONS | DRAINS) & (found.place >= 0)]
    taking = {walk.asked.clusters[code] for code in np.unique(walk.cluster[places]).tolist()}
    yield from sorted(plan.demand.heard - taking)


def _scarce(plan: Plan) -> Iterator[tuple[str, str, dict[str, int]]]:
    """Types, the zones in which each has nothing left, and what a machine of it holds."""
    shapes, shape = plan.snapshot.shapes, plan.snapshot.shape
    left = np.zeros(len(shapes.values), dtype=np.bool_)
    left[shape[is_free(plan.snapshot) & (plan.owner < 0)]] = True
    held: dict[tuple[str, str], dict[str, int]] = {}
    open_: set[tuple[str, str]] = set()
    for code in np.unique(shape[plan.snapshot.order]).tolist():
        profile = shapes.values[code].profile
        kind = profile.instance_type, profile.zone
        held[kind] = dict(profile.resources.units)
        if left[code]:
            open_.add(kind)
    for kind in sorted(held.keys() - open_):
        yield *kind, held[kind]


def _gang(cluster: ClusterId, instance_type: str, zone: str, whole: dict[str, int]) -> Need:
    requirements = (
        Requirement(INSTANCE_TYPE_KEY, Operator.IN, (instance_type,)),
        Requirement(ZONE_KEY, Operator.IN, (zone,)),
        Requirement(RACK_KEY, Operator.SAME),
    )
    return Need(
        cluster=cluster,
        profile=NeedProfile(
            requirements,
            priority=LOWEST,
            interruption_penalty_bucket=0,
            reclamation_penalty_bucket=0,
        ),
        aggregate=scale(whole, MEMBERS),
        min_unit=whole,
        arrival_nanos=LATE_NANOS,
        group=GROUP,
    )
