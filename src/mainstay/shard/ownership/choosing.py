"""Which machines a shard can do without: its own plan first, then the asker's need. Pure and slow.

What the plan claims is never given. Among the rest the engine chooses as it would for a need of our
own, so that a machine in another zone or of another type goes to whom it serves best.
"""

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.actions import KINDS, Actions
from mainstay.engine.barred import barred_rows
from mainstay.engine.decide import decide
from mainstay.engine.lookup import row_of
from mainstay.engine.plan import Demand, Memory, Plan
from mainstay.engine.policy import Policy
from mainstay.engine.quota import NO_QUOTA, Quota
from mainstay.engine.rows import Mask
from mainstay.engine.trial import in_order, memory_before
from mainstay.engine.whatif import without
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.action import ActionKind
from mainstay.model.assignment import PRIORITY_MIN
from mainstay.model.coordination import Wanted
from mainstay.model.cost import bucket_for
from mainstay.model.errors import Rejected, UnknownMachine
from mainstay.model.ids import ID_LENGTH_MAX, ClusterId, MachineId, is_id
from mainstay.model.need import Need, NeedProfile
from mainstay.model.state import State
from mainstay.model.texts import Rows

PSEUDO: Final = "transfer."
"""A need of another shard is that of a cluster whose name begins so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What is decided on."""

    snapshot: Snapshot
    demand: Demand
    memory: Memory
    policy: Policy
    now_s: float
    excluded: frozenset[MachineId]
    """In hand, promised or about to go: not to be given."""

    def own_plan(self) -> Plan:
        """What we want ourselves."""
        return decide(self.snapshot, self.demand, self.memory, self.policy, self.now_s)


def ground(
    plan: Plan, snapshot: Snapshot, demand: Demand, excluded: frozenset[MachineId]
) -> Ground:
    """The ground of a plan that was made, as it is now."""
    return Ground(
        snapshot=snapshot,
        demand=demand,
        memory=memory_before(plan),
        policy=plan.policy,
        now_s=plan.since,
        excluded=excluded,
    )


def cluster_of(instruction: str) -> ClusterId:
    """In whose name a need of another shard is asked."""
    name = f"{PSEUDO}{instruction}"[:ID_LENGTH_MAX]
    return ClusterId(name if is_id(name) else PSEUDO)


def need_of(instruction: str, wanted: Wanted, priority: int = PRIORITY_MIN) -> Need:
    """What another shard asks for, as a need; Rejected when it cannot be one."""
    profile = NeedProfile(
        requirements=wanted.requirements,
        priority=priority,
        interruption_penalty_bucket=wanted.interruption_penalty_bucket,
    )
    if profile.same_keys:
        raise Rejected(f"machines that must agree on {profile.same_keys[0]} never cross shards")
    if wanted.machines_max < 1:
        raise Rejected(f"nothing is wanted: machines_max is {wanted.machines_max}")
    return Need(
        cluster=cluster_of(instruction),
        profile=profile,
        aggregate=wanted.deficit,
        min_unit=wanted.min_unit,
    )


def spare(on: Ground, need: Need, wanted: Wanted, state: State) -> list[MachineId]:
    """Machines in this state (Idle or Speculative) that nobody here wants, for this need."""
    snapshot, plan = on.snapshot, on.own_plan()
    spared = _spared(on, plan, state) & _reported_by(snapshot, wanted.providers)
    others = np.flatnonzero((snapshot.state != State.UNSPECIFIED) & ~spared)
    if not spared.any():
        return []
    only = without(snapshot, others)
    asked = Demand((need,), frozenset())
    chosen = decide(only, asked, Memory.empty(), on.policy, on.now_s)
    rows = _rows(chosen, (ActionKind.BOOTSTRAP, ActionKind.PROVISION), need)
    return snapshot.machine_ids(rows[: wanted.machines_max])


def unclaimed(on: Ground, machines: Collection[MachineId], state: State) -> list[MachineId]:
    """Those of some machines that are in this state and that nobody here wants."""
    spared = _spared(on, on.own_plan(), state)
    found = []
    for name in machines:
        try:
            row = row_of(on.snapshot, name)
        except UnknownMachine:
            continue
        if spared[row]:
            found.append(name)
    return found


@dataclass(frozen=True, slots=True)
class Chosen:
    """A machine that serves what matters less, and how long its workloads have to leave."""

    machine: MachineId
    grace_s: int


def victims(on: Ground, need: Need, wanted: Wanted) -> list[Chosen]:
    """Machines that a need of another shard takes from ours, or finds Idle and unclaimed.

    Only what is bound by a lower interruption penalty, too, is taken from whom it serves.
    """
    snapshot, own = on.snapshot, on.own_plan()
    idle = _spared(on, own, State.IDLE)
    weaker = _weaker(on, own, need.profile.interruption_penalty_bucket)
    seen = _reported_by(snapshot, wanted.providers)
    demand = dataclasses.replace(
        on.demand,
        needs=in_order([*on.demand.needs, need]),
        quota=Quota(on.demand.quota.machines, NO_QUOTA.slots),
    )
    plan = decide(snapshot, demand, on.memory, on.policy, on.now_s)
    actions = _columns(plan)
    allowed = {
        ActionKind.BOOTSTRAP: idle,
        ActionKind.PREEMPT: weaker,
        ActionKind.RECLAIM: seen,
    }
    found: list[Chosen] = []
    for at in _places(plan, tuple(allowed), need).tolist():
        row, kind = int(actions.row[at]), KINDS[int(actions.kind[at])]
        name = MachineId(snapshot.ids[row])
        if allowed[kind][row] and seen[row] and name not in on.excluded:
            found.append(Chosen(name, int(actions.grace_s[at])))
    return found[: wanted.machines_max]


def _spared(on: Ground, plan: Plan, state: State) -> Mask:
    """Which rows are in a state, claimed by nobody here, and not barred or excluded."""
    snapshot = on.snapshot
    spared: Mask = (snapshot.state == state) & (plan.owner < 0)
    barred = barred_rows(
        snapshot,
        dataclasses.replace(on.demand.barred, machines=on.demand.barred.machines | on.excluded),
    )
    return spared if barred is None else spared & ~barred


def _reported_by(snapshot: Snapshot, providers: Collection[str]) -> Mask:
    named = np.array([source in providers for source in snapshot.sources], dtype=np.bool_)
    found: Mask = named[snapshot.source]
    return found


def _weaker(on: Ground, plan: Plan, bucket: int) -> Mask:
    """Which rows serve a need, or are bound, at a lower interruption penalty than this."""
    snapshot = on.snapshot
    bound = [
        bucket_for(held.interruption_penalty_dollars or 0.0) for held in snapshot.assignments.values
    ]
    buckets: NDArray[np.int64] = np.array(bound, dtype=np.int64)[snapshot.assignment]
    asked = [need.profile.interruption_penalty_bucket for need in plan.needs]
    of_need = np.array([*asked, 0], dtype=np.int64)[plan.owner]
    weaker: Mask = np.maximum(buckets, of_need) < bucket
    return weaker


def _columns(plan: Plan) -> Actions:
    if not isinstance(plan.actions, Actions):
        raise TypeError(f"actions of a plan must be columns: {type(plan.actions).__name__}")
    return plan.actions


def _places(plan: Plan, kinds: tuple[ActionKind, ...], need: Need) -> Rows:
    """Where the actions of some kinds for a need stand in the plan."""
    actions = _columns(plan)
    mine = np.array([each.ref == need.ref for each in plan.needs] + [False], dtype=np.bool_)
    wanted = np.isin(actions.kind, [KINDS.index(kind) for kind in kinds])
    return np.flatnonzero(wanted & mine[actions.place])


def _rows(plan: Plan, kinds: tuple[ActionKind, ...], need: Need) -> Rows:
    rows: Rows = _columns(plan).row[_places(plan, kinds, need)]
    return rows
