"""Machines that have some text in what a list shows of them: by columns, however many there are."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.actions import KINDS
from mainstay.engine.doings import doings
from mainstay.engine.plan import Plan
from mainstay.model.state import State
from mainstay.model.texts import Rows

Mask = NDArray[np.bool_]


def saying(plan: Plan, rows: Rows, text: str) -> Rows:
    """Those of some machines whose id, state, cluster, type, zone, capacity type or action has the
    text in it, whatever its case.
    """
    if not text:
        return rows
    snapshot, wanted = plan.snapshot, text.casefold()
    shapes = [shape.profile for shape in snapshot.shapes.values]
    states = {int(state): str(state) for state in State}
    found = snapshot.ids.take(rows).containing(text)
    found |= _saying(wanted, (states.get(code, "") for code in range(256)))[snapshot.state[rows]]
    for shown in (
        (profile.instance_type for profile in shapes),
        (profile.zone for profile in shapes),
        (str(profile.capacity_type) for profile in shapes),
    ):
        found |= _saying(wanted, shown)[snapshot.shape[rows]]
    bound = snapshot.cluster[rows]
    found |= _saying(wanted, snapshot.clusters)[bound]
    meant = _saying(wanted, (held.cluster or "" for held in snapshot.assignments.values))
    found |= (bound == 0) & meant[snapshot.assignment[rows]]
    planned = doings(plan)
    done = np.zeros(len(snapshot.state), dtype=np.bool_)
    done[planned.row[_saying(wanted, map(str, KINDS))[planned.kind]]] = True
    return rows[found | done[rows]]


def _saying(wanted: str, shown: Iterable[str]) -> Mask:
    """Which of some texts have it in them, whatever its case."""
    return np.array([wanted in each.casefold() for each in shown], dtype=np.bool_)
