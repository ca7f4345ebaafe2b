"""Distinct assignments by code: a machine carries one number and is cleared by one write."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mainstay.inventory.table import Table
from mainstay.model.assignment import NO_ASSIGNMENT, Assignment


@dataclass(frozen=True, slots=True)
class AssignmentView:
    """The assignments as a snapshot sees them; the number a machine carries is a row here.

    A part that is absent reads as zero in the columns; `values` tells absent from zero.
    """

    values: tuple[Assignment, ...]
    priority: NDArray[np.int32]
    interruption_penalty_dollars: NDArray[np.float64]
    reclamation_penalty_dollars: NDArray[np.float64]


class AssignmentTable(Table[Assignment]):
    """The assignments an inventory knows."""

    def __init__(self) -> None:
        super().__init__(NO_ASSIGNMENT)
        self._view: AssignmentView | None = None
        self._view_version = -1

    def view(self) -> AssignmentView:
        """The assignments now; the same object until one is added."""
        if self._view is None or self._view_version != self.version:
            values = self.values()
            self._view = AssignmentView(
                values,
                np.array([a.priority or 0 for a in values], dtype=np.int32),
                np.array([a.interruption_penalty_dollars or 0.0 for a in values]),
                np.array([a.reclamation_penalty_dollars or 0.0 for a in values]),
            )
            self._view_version = self.version
        return self._view
