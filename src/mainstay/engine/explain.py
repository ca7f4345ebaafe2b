"""Why a need, a machine or a cluster stands as it does: pure functions over a plan.

What is told of a need is a certificate (docs/explanation/reasons.md). The funnel costs a few passes
over the columns of the snapshot; relaxations take up to mainstay.engine.relax.DECISIONS_MAX further
decisions, which share what they can, and may be left out.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.barred import barred_rows
from mainstay.engine.certificate import Filter, How, NeedCertificate, Step
from mainstay.engine.doings import ACQUISITIONS, DRAINS, Doings, doings, with_ref
from mainstay.engine.funnel import Reach, count, holders, nearest
from mainstay.engine.lookup import Topic, group_of, row_of, topic_of
from mainstay.engine.plan import Plan, Unmet
from mainstay.engine.relax import Enough, Tried, relaxations
from mainstay.engine.usage import Use, cluster_use, is_free, machines_by_state
from mainstay.model.action import Action, ActionKind
from mainstay.model.assignment import NeedRef
from mainstay.model.errors import Rejected
from mainstay.model.ids import ClusterId, MachineId, is_id
from mainstay.model.resources import Units, covers
from mainstay.model.state import State
from mainstay.model.texts import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """A certificate, and the rows of the machines on which it depends when that changes."""

    certificate: NeedCertificate
    serving: Mapping[How, Rows]
    """Who counts for the need, by how."""

    coming: Rows
    """On their way to be Idle, for nobody: only their state keeps them from the need."""

    coming_is_enough: bool
    """Whether these would cover what is missing."""

    barred: Rows
    """Only that they are barred keeps these from it."""

    tried: int = 0
    """Changes."""

    left_out: int = 0
    """Ways to change it that were not tried to their end."""


def explain_need(plan: Plan, which: int | NeedRef, *, relax: bool = True) -> NeedCertificate:
    """Why a need is not served, or by what it is; named by its place in the plan or by its ref."""
    return examine_need(plan, which, relax=relax).certificate


def examine_need(
    plan: Plan, which: int | NeedRef, *, relax: bool = True, enough: Enough | None = None
) -> Examined:
    """The same with the machines behind it; once it is enough, no more changes are tried."""
    about = topic_of(plan, which)
    reach = Reach(about) if about.missing else None
    serving, tried = _serving(about), Tried(())
    if relax and reach is not None:
        tried = relaxations(reach) if enough is None else relaxations(reach, enough)
    certificate = _certificate(about, reach, serving, tried)
    if reach is None:
        none: Rows = np.empty(0, dtype=np.intp)
        return Examined(
            certificate=certificate,
            serving=serving,
            coming=none,
            coming_is_enough=False,
            barred=none,
        )
    coming = _kept_away_by(reach, Filter.STATE) & np.isin(reach.state, _TO_IDLE)
    return Examined(
        certificate=certificate,
        serving=serving,
        coming=reach.rows[coming],
        coming_is_enough=covers(reach.capacity(coming), about.missing),
        barred=reach.rows[_kept_away_by(reach, Filter.BARRED)],
        tried=tried.tried,
        left_out=tried.left_out,
    )


_TO_IDLE: Final = (State.CREATING, State.DRAINING)


def _kept_away_by(reach: Reach, filter_: Filter) -> NDArray[np.bool_]:
    """The machines that fail this filter and no other."""
    sieve = reach.first(filter_)
    if sieve is None:
        return np.zeros(len(reach.rows), dtype=np.bool_)
    return reach.only(sieve) & ~sieve.passes


def _certificate(
    about: Topic, reach: Reach | None, serving: Mapping[How, Rows], tried: Tried
) -> NeedCertificate:
    missing, snapshot = about.missing, about.plan.snapshot
    steps = () if reach is None else count(reach)
    return NeedCertificate(
        place=about.place,
        need=about.need,
        gangs=tuple(gang.ref for gang in about.gangs),
        verdict=None if about.told is None else about.told.reason,
        serving={how: group_of(snapshot, rows) for how, rows in serving.items()},
        missing=missing,
        domain=_domain(about) if reach is None else reach.domain,
        funnel=steps,
        blocking=_blocking(steps, missing),
        emptied=next((place for place, step in enumerate(steps) if not step.left), None),
        holders=() if reach is None else holders(reach),
        nearest=None if reach is None else nearest(reach),
        relaxations=tried.relaxations,
    )


def _domain(about: Topic) -> tuple[str, ...] | None:
    return None if about.told is None else about.told.domain


def _blocking(steps: tuple[Step, ...], missing: Units) -> int | None:
    short = (place for place, step in enumerate(steps) if not covers(step.capacity, missing))
    return next(short, None)


_BY_STATE: Mapping[How, State] = {
    How.CONFIGURED: State.CONFIGURED,
    How.CONFIGURING: State.CONFIGURING,
    How.CREATING: State.CREATING,
    How.DRAINING: State.DRAINING,
}


def _serving(about: Topic) -> dict[How, Rows]:
    """Who counts for a need, by how; ways in which nobody does are left out."""
    plan, snapshot = about.plan, about.plan.snapshot
    claimed: Rows = np.flatnonzero(plan.owner == about.place)
    actions, named = doings(plan), with_ref(plan, [about.need.ref])
    lost = np.intersect1d(claimed, actions.rows([ActionKind.PREEMPT]))
    staying = np.setdiff1d(claimed, lost)
    state = snapshot.state[staying]
    found = {how: staying[state == of] for how, of in _BY_STATE.items()} | {How.LOST: lost}
    if about.told is not None and about.need.profile.same_keys:
        # A gang that is short has acquired nothing: what it claims of the pools is set aside.
        found[How.ASIDE] = staying[is_free(snapshot)[staying]]
    else:
        found[How.BOOTSTRAP] = staying[state == State.IDLE]
        found[How.PROVISION] = staying[state == State.SPECULATIVE]
    for how, kind in ((How.RECLAIM, ActionKind.RECLAIM), (How.PREEMPT, ActionKind.PREEMPT)):
        found[how] = actions.for_needs(named, [kind])
    return {how: found[how] for how in How if len(found.get(how, ()))}


class Standing(Enum):
    """Why a machine is, or is not, touched by a plan."""

    SERVES = "serves"
    """A need claims it where it is."""

    ACQUIRED = "acquired"
    ASIDE = "set aside"
    """A gang that waits for drains has put it by."""

    PREEMPTED = "preempted"
    EXCESS = "excess"
    """Nobody claims it, and its cluster has spoken: it is reclaimed."""

    SILENT = "silent"
    """Nobody claims it, but its cluster has not been heard from: it is left alone."""

    HELD = "held"
    """Idle and not old enough to be deleted."""

    KEPT = "kept"
    """Idle, of a type that is never deleted."""

    DELETED = "deleted"
    BARRED = "barred"
    """Idle or a slot, and not to be acquired now."""

    SLOT = "slot"
    """A quota slot that nobody asks for."""

    IN_FLIGHT = "in flight"
    """A provider is at work on it, for nobody who asks now."""

    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Neighbours:
    """A Configured machine among those of its cluster, in keep order."""

    place: int
    of: int
    better: MachineId | None
    """The one that is kept rather."""

    worse: MachineId | None
    """The one that is shed sooner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineReport:
    """Where a machine stands in a plan."""

    machine: MachineId
    state: State
    cluster: ClusterId | None
    instance_type: str
    zone: str
    price_per_hour: float
    standing: Standing
    claimed_by: NeedRef | None
    priority: int | None
    """What a need must be above to preempt it; None unless it is Configured."""

    action: Action | None
    hold_until: float | None
    """When an Idle machine may be deleted; None when never, or when it is claimed."""

    neighbours: Neighbours | None


def explain_machine(plan: Plan, machine: MachineId) -> MachineReport:
    """What a machine is, who claims it, and what the plan does with it."""
    snapshot = plan.snapshot
    row = row_of(snapshot, machine)
    owner = plan.owner.item(row)
    state = State(snapshot.state.item(row))
    profile = snapshot.profile_of(row)
    acted = np.flatnonzero(doings(plan).row == row)
    action = plan.actions[int(acted[0])] if len(acted) else None
    configured = state is State.CONFIGURED
    return MachineReport(
        machine=machine,
        state=state,
        cluster=snapshot.cluster_of(row),
        instance_type=profile.instance_type,
        zone=profile.zone,
        price_per_hour=snapshot.price_per_hour.item(row),
        standing=_standing(plan, row, action),
        claimed_by=None if owner < 0 else plan.walk.need_at(owner).ref,
        priority=_priority(plan, row) if configured else None,
        action=action,
        hold_until=_hold_until(plan, row) if state is State.IDLE and owner < 0 else None,
        neighbours=_neighbours(plan, row) if configured else None,
    )


_BY_ACTION: Mapping[ActionKind, Standing] = {
    ActionKind.BOOTSTRAP: Standing.ACQUIRED,
    ActionKind.PROVISION: Standing.ACQUIRED,
    ActionKind.PREEMPT: Standing.PREEMPTED,
    ActionKind.RECLAIM: Standing.EXCESS,
    ActionKind.DELETE: Standing.DELETED,
}


def _standing(plan: Plan, row: int, action: Action | None) -> Standing:
    if action is not None:
        return _BY_ACTION[action.kind]
    state = plan.snapshot.state.item(row)
    free = state in {State.IDLE, State.SPECULATIVE}
    if plan.owner.item(row) >= 0:
        return Standing.ASIDE if free else Standing.SERVES
    barred = barred_rows(plan.snapshot, plan.demand.barred) if free else None
    if barred is not None and barred[row]:
        return Standing.BARRED
    if state == State.IDLE:
        return Standing.KEPT if _hold_until(plan, row) is None else Standing.HELD
    others = {
        State.SPECULATIVE: Standing.SLOT,
        State.CONFIGURED: Standing.SILENT,
        State.FAILED: Standing.FAILED,
    }
    return others.get(State(state), Standing.IN_FLIGHT)


def _priority(plan: Plan, row: int) -> int:
    owner = plan.owner.item(row)
    assigned = plan.snapshot.assignment_of(row).priority or 0
    return assigned if owner < 0 else max(assigned, plan.walk.need_at(owner).profile.priority)


def _hold_until(plan: Plan, row: int) -> float | None:
    since = plan.snapshot.idle_since.item(row)
    hold = plan.policy.hold_s(plan.snapshot.profile_of(row).capacity_type)
    return None if not hold or math.isnan(since) else since + hold


def _neighbours(plan: Plan, row: int) -> Neighbours:
    snapshot = plan.snapshot
    same = snapshot.cluster == snapshot.cluster[row]
    rows = np.flatnonzero(same & (snapshot.state == State.CONFIGURED))
    penalty: NDArray[np.float64] = snapshot.assignments.reclamation_penalty_dollars
    keys = (
        snapshot.rank[rows],
        -penalty[snapshot.assignment[rows]],
        snapshot.price_per_hour[rows],
    )
    kept = rows[np.lexsort(keys)]
    place = int(np.flatnonzero(kept == row)[0])
    ids = [*snapshot.machine_ids(kept[max(0, place - 1) : place + 2])]
    return Neighbours(
        place=place,
        of=len(kept),
        better=ids[0] if place else None,
        worse=ids[-1] if place + 1 < len(kept) else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReport:
    """Where a cluster stands in a plan."""

    cluster: ClusterId
    heard: bool
    needs: Mapping[Unmet | None, int]
    """How many of its rows by verdict; None counts the satisfied ones."""

    machines: Mapping[State, int]
    """Bound to it or being created for it."""

    actions: Mapping[ActionKind, int]
    """For it, or on its machines."""

    quota: Use


def explain_cluster(plan: Plan, cluster: ClusterId) -> ClusterReport:
    """What a cluster asks, holds and may hold."""
    known = {*plan.snapshot.clusters[1:], *plan.demand.heard, *plan.walk.asked.clusters}
    if cluster not in known:
        shown = cluster if is_id(cluster) else repr(cluster[:80])
        lists = "`mainstay get clusters` lists those that have machines or needs"
        raise Rejected(f"no cluster {shown} in the plan: {lists}")
    short = Counter(each.reason for each in plan.unsatisfied if each.need.cluster == cluster)
    satisfied = int(np.count_nonzero(of_cluster(plan, cluster))) - short.total()
    verdicts: dict[Unmet | None, int] = dict(short.items())
    if satisfied:
        verdicts[None] = satisfied
    return ClusterReport(
        cluster=cluster,
        heard=cluster in plan.demand.heard,
        needs=verdicts,
        machines=machines_by_state(plan.snapshot, cluster),
        actions=_actions_of(plan, cluster),
        quota=cluster_use(plan, cluster),
    )


def of_cluster(plan: Plan, cluster: ClusterId) -> NDArray[np.bool_]:
    """Which needs of a plan, by place, are of a cluster."""
    walk = plan.walk
    named = np.array([name == cluster for name in walk.asked.clusters], dtype=np.bool_)
    found: NDArray[np.bool_] = named[walk.cluster]
    return found


def _actions_of(plan: Plan, cluster: ClusterId) -> dict[ActionKind, int]:
    """What is acquired for a cluster, and what is drained there."""
    found, snapshot = doings(plan), plan.snapshot
    asking = np.append(of_cluster(plan, cluster), np.False_)
    is_own = np.array([name == cluster for name in snapshot.clusters], dtype=np.bool_)
    chosen = found.are(ACQUISITIONS) & asking[found.place]
    chosen |= found.are(DRAINS) & is_own[snapshot.cluster[found.row]]
    return Doings(found.kind[chosen], found.row[chosen], found.place[chosen]).counts()
