"""Clusters as people ask about them: connected, heard, served with what, for how much."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypedDict

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.lookup import told_at
from mainstay.engine.plan import Plan
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.ids import ClusterId
from mainstay.model.progress import NO_MACHINES
from mainstay.model.state import State
from mainstay.model.views import ClusterRow
from mainstay.shard.answers.holds import UNRESTRAINED, Restraints
from mainstay.shard.answers.progress import Advance
from mainstay.shard.facts import SessionFacts

NOBODY: Final = -1


@dataclass(frozen=True, slots=True)
class Holdings:
    """What each cluster holds, counted in one pass over the columns."""

    machines: Mapping[ClusterId, Mapping[str, int]]
    spend_per_hour: Mapping[ClusterId, float]


def holdings(snapshot: Snapshot) -> Holdings:
    """Machines bound to a cluster or being created for it, and what they cost."""
    held_by = snapshot.assignments.values
    meant = {each.cluster for each in held_by if each.cluster}
    names = sorted({*snapshot.clusters[1:], *meant})
    code_of = {name: code for code, name in enumerate(names)}
    bound = np.array([code_of.get(name, NOBODY) for name in snapshot.clusters], dtype=np.int64)
    intended = np.array(
        [NOBODY if each.cluster is None else code_of[each.cluster] for each in held_by],
        dtype=np.int64,
    )
    creating = snapshot.state == State.CREATING
    code = np.where(creating, intended[snapshot.assignment], bound[snapshot.cluster])
    rows = np.flatnonzero((code != NOBODY) & (snapshot.state != State.UNSPECIFIED))
    cells = code[rows] * len(State) + snapshot.state[rows]
    size = len(names) * len(State)
    counts = np.bincount(cells, minlength=size).reshape(-1, len(State))
    dollars = np.bincount(code[rows], snapshot.price_per_hour[rows], minlength=len(names))
    return Holdings(
        {name: _by_state(counts[code]) for code, name in enumerate(names) if counts[code].any()},
        {name: float(dollars[code]) for code, name in enumerate(names)},
    )


def _by_state(counts: NDArray[np.int64]) -> dict[str, int]:
    return {str(state): int(counts[state]) for state in State if counts[state]}


class _Connection(TypedDict):
    """The part of a row that needs no plan."""

    cluster: str
    connected: bool
    since_s: float
    protocol_version: str
    waiting_frames: int
    held_rollups: int


def cluster_rows(
    plan: Plan | None,
    sessions: Sequence[SessionFacts],
    held_rollups: Mapping[ClusterId, int],
    restraints: Restraints = UNRESTRAINED,
) -> tuple[ClusterRow, ...]:
    """Every cluster that is connected or has machines or needs here, by name."""
    connected = {session.cluster: session for session in sessions}
    if plan is None:
        rows = (_row(name, connected.get(name), held_rollups) for name in sorted(connected))
        return tuple(ClusterRow(**row) for row in rows)
    held = holdings(plan.snapshot)
    told = told_at(plan)
    needs = Counter(need.cluster for need in plan.needs)
    unmet = Counter(plan.needs[place].cluster for place in told)
    quota = plan.demand.quota.machines
    advance = Advance(plan, restraints).by_cluster()
    names = {*connected, *held_rollups, *held.machines, *needs, *plan.demand.heard}
    return tuple(
        ClusterRow(
            **_row(name, connected.get(name), held_rollups),
            heard=name in plan.demand.heard,
            needs=needs[name],
            unmet=unmet[name],
            machines=held.machines.get(name, {}),
            spend_per_hour=held.spend_per_hour.get(name, 0.0),
            quota=quota.get(name, 0),
            limited=name in quota,
            progress=advance.get(name, NO_MACHINES),
        )
        for name in sorted(names)
    )


def clusters_of(plan: Plan) -> set[ClusterId]:
    """Those that have told their demand, or have machines or needs."""
    snapshot = plan.snapshot
    meant = {each.cluster for each in snapshot.assignments.values if each.cluster}
    return {*plan.demand.heard, *snapshot.clusters[1:], *meant, *plan.walk.asked.clusters}


def _row(
    name: ClusterId, session: SessionFacts | None, held_rollups: Mapping[ClusterId, int]
) -> _Connection:
    return {
        "cluster": name,
        "connected": session is not None,
        "since_s": 0.0 if session is None else session.since_s,
        "protocol_version": "" if session is None else session.protocol_version,
        "waiting_frames": 0 if session is None else session.waiting_frames,
        "held_rollups": held_rollups.get(name, 0),
    }
