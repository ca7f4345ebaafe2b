"""What a drain puts at risk: the greater of the two penalties of what the machine serves. Pure."""

import numpy as np
from numpy.typing import NDArray

from mainstay.inventory.snapshot import Snapshot
from mainstay.model.assignment import Assignment
from mainstay.model.texts import Rows


def at_risk(snapshot: Snapshot, rows: Rows) -> NDArray[np.float64]:
    """Dollars, for each of these rows; infinite for what is pinned."""
    held = snapshot.assignments
    greater = np.maximum(held.interruption_penalty_dollars, held.reclamation_penalty_dollars)
    found: NDArray[np.float64] = np.maximum(greater, 0.0)[snapshot.assignment[rows]]
    return found


def at_risk_of(assignment: Assignment) -> float:
    """The same of one machine."""
    penalties = assignment.interruption_penalty_dollars, assignment.reclamation_penalty_dollars
    return max(0.0, *(penalty or 0.0 for penalty in penalties))
