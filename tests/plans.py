"""Plans made by hand: some machines, some needs, and just the actions that a test is about."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from builders import A_CLUSTER, a_machine, a_need, a_profile, an_assignment
from mainstay.engine.actions import KINDS, NO_NEED, Actions
from mainstay.engine.decide import decide
from mainstay.engine.plan import Demand, Memory, Plan
from mainstay.engine.policy import Policy
from mainstay.inventory.inventory import Inventory
from mainstay.model.action import ActionKind
from mainstay.model.assignment import NeedRef
from mainstay.model.ids import ClusterId, Fingerprint
from mainstay.model.machine import Machine
from mainstay.model.need import Need
from mainstay.model.state import State

STATE_BEFORE: Final[Mapping[ActionKind, State]] = {
    ActionKind.BOOTSTRAP: State.IDLE,
    ActionKind.PROVISION: State.SPECULATIVE,
    ActionKind.PREEMPT: State.CONFIGURED,
    ActionKind.RECLAIM: State.CONFIGURED,
    ActionKind.DELETE: State.IDLE,
}


class Doing(NamedTuple):
    """One action: of a machine of its own, for a need of a cluster and from a cluster."""

    kind: ActionKind
    wanted_by: str = ""
    taken_from: str = ""
    source: str = "metal"
    price_per_hour: float = 1.0


def acquire(cluster: str, *, source: str = "metal", new: bool = False) -> Doing:
    kind = ActionKind.PROVISION if new else ActionKind.BOOTSTRAP
    return Doing(kind, wanted_by=cluster, source=source)


def preempt(cluster: str, wanted_by: str, *, source: str = "metal") -> Doing:
    return Doing(ActionKind.PREEMPT, wanted_by, cluster, source)


def reclaim(cluster: str, *, wanted_by: str = "", source: str = "metal") -> Doing:
    return Doing(ActionKind.RECLAIM, wanted_by, cluster, source)


def delete(*, source: str = "metal") -> Doing:
    return Doing(ActionKind.DELETE, source=source)


def name_of(number: int) -> str:
    """The machine of an action, by its place in the plan."""
    return f"m-{number:05}"


class Drain(NamedTuple):
    """A machine that drains: like those of all actions, if it is not of another type."""

    source: str = "metal"
    is_known: bool = False
    """Whether it is known for which need."""

    instance_type: str = a_profile().instance_type


def a_plan(
    doings: Sequence[Doing],
    configured: Mapping[str, int] | None = None,
    draining: Sequence[Drain] = (),
) -> Plan:
    """A plan of these actions. `configured` says how many machines clusters have altogether."""
    inventory = Inventory()
    for number, doing in enumerate(doings):
        inventory.add(_machine(number, doing), now=0.0, source=doing.source)
    for cluster, count in (configured or {}).items():
        for number in range(count - sum(doing.taken_from == cluster for doing in doings)):
            more = a_machine(State.CONFIGURED, id=f"s-{cluster}-{number:04}", cluster=cluster)
            inventory.add(more, now=0.0, source="metal")
    for number, drain in enumerate(draining):
        inventory.add(_drained(number, drain), now=0.0, source=drain.source)
    clusters = sorted({doing.wanted_by for doing in doings} - {""})
    needs = tuple(a_need(cluster=cluster) for cluster in clusters)
    return plan_of(inventory, needs, doings)


def plan_of(inventory: Inventory, needs: Iterable[Need], doings: Sequence[Doing]) -> Plan:
    """The plan of the engine with other actions."""
    demand = Demand(tuple(needs), frozenset(ClusterId(doing.taken_from) for doing in doings))
    plan = decide(inventory.snapshot(), demand, Memory.empty(), Policy(), 0.0)
    rows = {plan.snapshot.ids[row]: row for row in plan.snapshot.order.tolist()}
    places = {need.cluster: place for place, need in enumerate(plan.needs)}
    actions = Actions(
        plan.snapshot,
        plan.walk,
        kind=np.array([KINDS.index(doing.kind) for doing in doings], dtype=np.uint8),
        row=np.array([rows[name_of(number)] for number in range(len(doings))], dtype=np.intp),
        place=np.array(
            [places.get(ClusterId(doing.wanted_by), NO_NEED) for doing in doings], dtype=np.intp
        ),
        grace_s=np.zeros(len(doings), dtype=np.intp),
    )
    return replace(plan, actions=actions)


def _drained(number: int, drain: Drain) -> Machine:
    known = NeedRef(A_CLUSTER, Fingerprint("f" * 16)) if drain.is_known else None
    return a_machine(
        State.DRAINING,
        id=f"d-{number:04}",
        profile=a_profile(instance_type=drain.instance_type),
        assignment=an_assignment(drained_for=known),
    )


def _machine(number: int, doing: Doing) -> Machine:
    state = STATE_BEFORE[doing.kind]
    if state is State.CONFIGURED:
        return a_machine(
            state,
            id=name_of(number),
            cluster=doing.taken_from,
            price_per_hour=doing.price_per_hour,
        )
    return a_machine(state, id=name_of(number), price_per_hour=doing.price_per_hour)
