"""The frozen copy that decisions read: columns, tables and ids of one revision."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mainstay.inventory.assignments import AssignmentView
from mainstay.inventory.changes import Changes, LogView
from mainstay.inventory.shapes import ShapeView
from mainstay.model.assignment import Assignment
from mainstay.model.batch import Codes
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.profile import Profile
from mainstay.model.resources import Resources
from mainstay.model.state import State
from mainstay.model.texts import Rows, Texts


@dataclass(frozen=True)
class Snapshot:
    """Row i of every column is one machine, or nothing where `state` is 0. Never written to.

    Order is by `rank`, which follows the id, never by row: rows are reused, so theirs is history.
    """

    revision: int

    state: NDArray[np.uint8]
    cluster: Codes
    shape: Codes
    price_per_hour: NDArray[np.float64]
    interruption_probability: NDArray[np.float64]
    assignment: Codes
    rank: NDArray[np.int32]
    idle_since: NDArray[np.float64]
    source: NDArray[np.uint16]

    ids: Texts
    order: NDArray[np.int32]
    """The live rows in order of their ids."""

    clusters: tuple[ClusterId, ...]
    sources: tuple[str, ...]
    shapes: ShapeView
    machines_of_shape: NDArray[np.int64]
    assignments: AssignmentView
    log: LogView
    lineage: object = field(default_factory=object, compare=False, repr=False)
    """The same for all snapshots of one inventory."""

    def __len__(self) -> int:
        return len(self.order)

    @cached_property
    def by_state(self) -> dict[State, int]:
        """How many machines are in each state; states without any are left out."""
        counts = np.bincount(self.state, minlength=len(State))
        return {state: int(counts[state]) for state in State if state and counts[state]}

    @cached_property
    def by_source(self) -> dict[str, int]:
        """How many machines each provider reports."""
        counts = np.bincount(self.source[self.state != 0], minlength=len(self.sources))
        return dict(zip(self.sources, counts.tolist(), strict=True))

    def rows_in(self, *states: State) -> Rows:
        """The rows in any of these states, in order of their ids."""
        wanted = np.zeros(256, dtype=np.bool_)
        wanted[list(states)] = True
        return self.order[wanted[self.state[self.order]]].astype(np.intp)

    @cached_property
    def idle(self) -> Rows:
        """The Idle rows, in order of their ids."""
        return self.rows_in(State.IDLE)

    def machine_ids(self, rows: Rows) -> list[MachineId]:
        """The ids of these rows."""
        return [MachineId(self.ids[int(row)]) for row in rows]

    def cluster_of(self, row: int) -> ClusterId | None:
        """The cluster a machine is bound to."""
        return self.clusters[self.cluster.item(row)] or None

    def assignment_of(self, row: int) -> Assignment:
        """What a machine is committed to."""
        return self.assignments.values[self.assignment.item(row)]

    def profile_of(self, row: int) -> Profile:
        """What a machine is."""
        return self.shapes.values[self.shape.item(row)].profile

    def allocatable_of(self, row: int) -> Resources:
        """What a machine says it provides, when that differs from what it is."""
        return self.shapes.values[self.shape.item(row)].allocatable

    def changed_from(self, earlier: "Snapshot") -> Changes | None:
        """What was written since an earlier snapshot; None when that cannot be told."""
        return self.changes(earlier.revision) if earlier.lineage is self.lineage else None

    def changes(self, since: int) -> Changes | None:
        """What was written after revision `since`; None when that is too long ago to tell."""
        entries = self.log.since(since)
        if entries is None:
            return None
        rows = np.unique(self.log.rows[entries]).astype(np.intp)
        clusters = np.union1d(self.log.cluster_before[entries], self.cluster[rows])
        shapes = np.union1d(self.log.shape_before[entries], self.shape[rows])
        return Changes(
            rows,
            frozenset(self.clusters[code] for code in clusters.tolist() if code),
            shapes[shapes > 0].astype(np.intp),
        )
