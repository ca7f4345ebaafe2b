"""What hand-checked scenarios are written in, and both engines as functions of a world.

`G` is a machine with eight GPUs for a dollar per hour.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from mainstay.engine.decide import decide
from mainstay.engine.plan import Ceiling, Unmet
from mainstay.engine.policy import Policy
from mainstay.engine.quota import REGION_KEY, Place, Quota
from mainstay.model.action import ActionKind
from mainstay.model.assignment import NO_ASSIGNMENT, Assignment, NeedRef
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.machine import Machine
from mainstay.model.need import (
    Need,
    NeedProfile,
    Operator,
    Requirement,
    Spread,
    WhenUnsatisfiable,
)
from mainstay.model.profile import ZONE_KEY, CapacityType, HostRef, Profile
from mainstay.model.resources import Resources
from mainstay.model.state import State
from oracles.fleets import RACK, World
from oracles.plain_engine import PlainPlan, plain_decide

GPU: Final = "nvidia.com/gpu"
G: Final = Resources({GPU: "8"})
GIB: Final = 1 << 20
X, Y, Z = "x", "y", "z"

IDLE, SPECULATIVE, CREATING = State.IDLE, State.SPECULATIVE, State.CREATING
CONFIGURING, CONFIGURED, DRAINING = State.CONFIGURING, State.CONFIGURED, State.DRAINING

SAME_ZONE: Final = (Requirement(ZONE_KEY, Operator.SAME),)
SAME_RACK: Final = (Requirement(RACK, Operator.SAME),)

B, P, PRE, R, D = (
    ActionKind.BOOTSTRAP, ActionKind.PROVISION, ActionKind.PREEMPT, ActionKind.RECLAIM,
    ActionKind.DELETE,
)  # fmt: skip

LABELS: Final = {"rack": RACK, "region": REGION_KEY}

Decide = Callable[[World], PlainPlan]


def plainly(world: World) -> PlainPlan:
    return plain_decide(world.machines, world.demand, world.memory, Policy(), world.now)


def really(world: World) -> PlainPlan:
    snapshot = world.inventory().snapshot()
    plan = decide(snapshot, world.demand, world.memory, Policy(), world.now)
    claimed = frozenset(plan.claimed_ids())
    return PlainPlan(tuple(plan.actions), claimed, plan.unsatisfied, plan.shortfalls, plan.memory)


def machine(id_: str, state: State = IDLE, **given: Any) -> Machine:
    """A G by default. `cluster` binds it; `ref` is the need it is assigned to."""
    bound = state in {CONFIGURING, CONFIGURED, DRAINING}
    labels = {key: given[name] for name, key in LABELS.items() if name in given}
    return Machine(
        id=MachineId(id_),
        state=state,
        profile=Profile(
            given.get("type", "a3"),
            given.get("zone", "zone-a"),
            given.get("capacity", CapacityType.BARE_METAL),
            given.get("has", G),
            tuple(labels.items()),
        ),
        host=None if state in {SPECULATIVE, CREATING} else HostRef("sim", id_),
        cluster=ClusterId(given.get("cluster", X)) if bound else None,
        allocatable=given.get("allocatable", Resources({})),
        price_per_hour=given.get("price", 1.0),
        interruption_probability=given.get("chance", 0.0),
        assignment=assignment(**given),
    )


def assignment(
    ref: NeedRef | None = None,
    priority: int | None = None,
    penalties: tuple[float | None, float | None] = (None, None),
    drained_for: NeedRef | None = None,
    **_: object,
) -> Assignment:
    if ref is None and priority is None and penalties == (None, None) and drained_for is None:
        return NO_ASSIGNMENT
    return Assignment(
        fingerprint=ref.fingerprint if ref else None,
        group=ref.group if ref else None,
        cluster=ref.cluster if ref else None,
        priority=priority,
        interruption_penalty_dollars=penalties[0],
        reclamation_penalty_dollars=penalties[1],
        drained_for=drained_for,
    )


def several(ids: str, state: State = IDLE, **given: Any) -> list[Machine]:
    """Machines that are alike but for their ids."""
    return [machine(id_, state, **given) for id_ in ids.split()]


def numbered(count: int, name: str, state: State = IDLE, **given: Any) -> list[Machine]:
    return [machine(f"{name}-{number:03}", state, **given) for number in range(count)]


def need(gpus: int = 8, cluster: str = X, **given: Any) -> Need:
    """`gpus` GPUs in units of eight; `wants` and `unit` say something else."""
    profile = NeedProfile(
        requirements=given.get("requires", ()),
        spread=given.get("spread", ()),
        priority=given.get("priority", 10),
        interruption_penalty_bucket=given.get("interruption", 0),
        reclamation_penalty_bucket=given.get("reclamation", 0),
    )
    return Need(
        cluster=ClusterId(cluster),
        profile=profile,
        aggregate=given.get("wants", {GPU: gpus}),
        min_unit=given.get("unit", {GPU: 8}),
        arrival_nanos=given.get("arrival", 0),
        group=given.get("group", ""),
    )


def gang(gpus: int, cluster: str = X, **given: Any) -> Need:
    return need(gpus, cluster, **{"requires": SAME_ZONE, **given})


def spread(key: str, skew: int, *, hard: bool = True) -> tuple[Spread, ...]:
    when = WhenUnsatisfiable.DO_NOT_SCHEDULE if hard else WhenUnsatisfiable.SCHEDULE_ANYWAY
    return (Spread(key, skew, when),)


def done(plan: PlainPlan) -> list[tuple[ActionKind, str]]:
    return [(action.kind, action.machine) for action in plan.actions]


def short(plan: PlainPlan) -> list[Mapping[str, int]]:
    """What each unsatisfied need misses after phase 1."""
    return [row.deficit for row in plan.unsatisfied]


def unresolved(plan: PlainPlan) -> list[Mapping[str, int]]:
    return [row.unresolved for row in plan.unsatisfied]


def zones(world: World, plan: PlainPlan) -> list[str]:
    return sorted(world.machines[action.machine][0].profile.zone for action in plan.actions)


def all_of(kind: ActionKind, ids: str) -> list[tuple[ActionKind, str]]:
    return [(kind, id_) for id_ in ids.split()]


def cpus(count: int) -> Resources:
    return Resources({"cpu": str(count)})


def small_gang(cores: int, cluster: str = X, **given: Any) -> Need:
    """A gang in one rack; a machine of that many cores holds it whole."""
    wants = {"cpu": cores * 1000}
    return need(0, cluster, **{"requires": SAME_RACK, "wants": wants, "unit": {}, **given})


def hog(cluster: str = X, cores: int = 16, **given: Any) -> Need:
    """Takes that many cores before anybody else."""
    return need(0, cluster, priority=9_000, wants={"cpu": cores * 1000}, unit={}, **given)


def stripped(gang: Need) -> NeedProfile:
    profile = gang.profile
    return NeedProfile(
        tuple(r for r in profile.requirements if r.operator is not Operator.SAME),
        profile.spread,
        profile.priority,
        profile.interruption_penalty_bucket,
        profile.reclamation_penalty_bucket,
    )


def reasons(plan: PlainPlan) -> list[Unmet]:
    return [row.reason for row in plan.unsatisfied]


def ceilings(plan: PlainPlan) -> list[Ceiling | None]:
    return [row.ceiling for row in plan.unsatisfied]


def held(slots: Mapping[Place, int] | None = None, **machines: int) -> Quota:
    return Quota({ClusterId(name): count for name, count in machines.items()}, slots or {})


def reported_by(world: World, source: str, ids: str) -> World:
    """The same world, of which another provider reports these machines."""
    moved = {MachineId(id_): world.machines[MachineId(id_)] for id_ in ids.split()}
    told = {id_: entry._replace(source=source) for id_, entry in moved.items()}
    return replace(world, machines={**world.machines, **told})


def failed(machine: Machine) -> Machine:
    return replace(machine, state=State.FAILED, last_error="disk gone")
