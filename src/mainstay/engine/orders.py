"""The order in which bound machines are kept, carried from cycle to cycle and repaired.

It ends at the id, so that a repaired order and one that is sorted anew are the same.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mainstay.engine import kernels
from mainstay.engine.sorting import sorted_by
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.state import State
from mainstay.model.texts import Rows

Groups = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Kept:
    """The bound machines of one snapshot."""

    snapshot: Snapshot
    rows: Rows
    """By (cluster, Configured before Configuring), then in keep order."""

    group: Groups
    """Of each of them: its cluster's code times two, one more when Configuring."""


def kept_of(snapshot: Snapshot, last: Kept | None = None) -> Kept:
    """The bound machines of a snapshot: those of the last one repaired, where that can be told."""
    if last is not None and last.snapshot is snapshot:
        return last
    repaired = None if last is None else _repaired(last, snapshot)
    if repaired is not None:
        return repaired
    rows = _in_keep_order(snapshot, snapshot.rows_in(State.CONFIGURED, State.CONFIGURING))
    return Kept(snapshot, rows, _groups(snapshot, rows))


def _groups(snapshot: Snapshot, rows: Rows) -> Groups:
    groups: Groups = snapshot.cluster[rows].astype(np.int64) * 2
    groups += snapshot.state[rows] == State.CONFIGURING
    return groups


def _in_keep_order(snapshot: Snapshot, rows: Rows) -> Rows:
    """Rows that come in order of their ids, sorted."""
    values = np.unique(-snapshot.assignments.reclamation_penalty_dollars, return_inverse=True)[1]
    return rows[
        sorted_by(
            _groups(snapshot, rows),
            snapshot.price_per_hour[rows],
            values[snapshot.assignment[rows]],
        )
    ]


def _repaired(last: Kept, snapshot: Snapshot) -> Kept | None:
    """What changed is taken out and put where it belongs now; None if that cannot be told."""
    loops = kernels.loops()
    changes = snapshot.changed_from(last.snapshot)
    if loops is None or changes is None:
        return None
    is_changed = np.zeros(len(snapshot.state), dtype=np.bool_)
    is_changed[changes.rows] = True
    by_id = changes.rows[np.argsort(snapshot.rank[changes.rows])]
    state = snapshot.state[by_id]
    bound = by_id[(state == State.CONFIGURED) | (state == State.CONFIGURING)]
    bound = _in_keep_order(snapshot, bound)
    stays = ~is_changed[last.rows]
    rows, group = loops.merged(
        last.rows[stays], last.group[stays], bound, _groups(snapshot, bound),
        snapshot.price_per_hour, snapshot.assignment,
        snapshot.assignments.reclamation_penalty_dollars, snapshot.rank,
    )  # fmt: skip
    return Kept(snapshot, rows, group)
