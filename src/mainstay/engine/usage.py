"""How much of the quota is used, now and once a plan is carried out."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.doings import DRAINS, doings
from mainstay.engine.plan import Plan
from mainstay.engine.quota import REGION_KEY, Place
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.ids import ClusterId
from mainstay.model.state import State


@dataclass(frozen=True, slots=True)
class Use:
    """Of one number of the quota."""

    now: int
    planned: int
    """With what the plan acquires, sets aside and drains for a need."""

    held: int | None
    """None when it is not limited."""

    @property
    def room(self) -> int | None:
        """How many more there may be after the plan; None for any number."""
        return None if self.held is None else max(0, self.held - self.planned)


def cluster_use(plan: Plan, cluster: ClusterId) -> Use:
    """Of the machines a cluster may hold."""
    snapshot = plan.snapshot
    is_own = np.array([name == cluster for name in snapshot.clusters], dtype=np.bool_)
    own = is_own[snapshot.cluster]
    bound = np.isin(snapshot.state, (State.CONFIGURED, State.CONFIGURING))
    used = _on_the_way(snapshot, cluster) + int(np.count_nonzero(bound & own))
    of_cluster = np.array([need.cluster == cluster for need in plan.needs], dtype=np.bool_)
    drained = doings(plan).for_needs(of_cluster, DRAINS)
    taken = is_free(snapshot) & np.append(of_cluster, np.False_)[plan.owner]
    planned = used + int(np.count_nonzero(~own[drained])) + int(np.count_nonzero(taken))
    return Use(used, planned, plan.demand.quota.machines.get(cluster))


def _on_the_way(snapshot: Snapshot, cluster: ClusterId) -> int:
    """Machines that are being created or drained for a cluster."""
    values = snapshot.assignments.values
    meant = np.array([held.cluster == cluster for held in values], dtype=np.bool_)
    awaited = np.array(
        [held.drained_for is not None and held.drained_for.cluster == cluster for held in values],
        dtype=np.bool_,
    )
    creating = (snapshot.state == State.CREATING) & meant[snapshot.assignment]
    draining = (snapshot.state == State.DRAINING) & awaited[snapshot.assignment]
    return int(np.count_nonzero(creating | draining))


def machines_by_state(snapshot: Snapshot, cluster: ClusterId) -> dict[State, int]:
    """The machines bound to a cluster, and those that are being created for it."""
    state = snapshot.state
    rows = np.zeros(len(state), dtype=np.bool_)
    if cluster in snapshot.clusters[1:]:
        rows = (snapshot.cluster == snapshot.clusters.index(cluster)) & (state != State.CREATING)
    meant = np.array([held.cluster == cluster for held in snapshot.assignments.values])
    rows |= (state == State.CREATING) & meant[snapshot.assignment]
    counts = np.bincount(state[rows], minlength=len(State))
    return {s: int(counts[s]) for s in State if s and counts[s]}


def place_use(plan: Plan, place: Place) -> Use:
    """Of the machines a provider may have in a region."""
    snapshot = plan.snapshot
    here = in_place(snapshot, place)
    slots = snapshot.state == State.SPECULATIVE
    used = int(np.count_nonzero(here & ~slots))
    planned = used + int(np.count_nonzero(here & slots & (plan.owner >= 0)))
    return Use(used, planned, plan.demand.quota.slots.get(place))


def in_place(snapshot: Snapshot, place: Place) -> NDArray[np.bool_]:
    """Which rows a provider reports in a region."""
    provider, region = place
    codes, values = snapshot.shapes.attribute(REGION_KEY)
    of_class = np.array([(value or "") == region for value in values], dtype=np.bool_)[codes]
    of_source = np.array([source == provider for source in snapshot.sources], dtype=np.bool_)
    live = snapshot.state != State.UNSPECIFIED
    found: NDArray[np.bool_] = live & of_source[snapshot.source] & of_class[snapshot.shape]
    return found


def is_free(snapshot: Snapshot) -> NDArray[np.bool_]:
    """Which rows are Idle or Speculative."""
    free: NDArray[np.bool_] = (snapshot.state == State.IDLE) | (snapshot.state == State.SPECULATIVE)
    return free
