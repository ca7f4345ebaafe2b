"""The actions of a plan by machine and need, as columns: nobody has to look at them one by one."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.actions import KINDS, Actions
from mainstay.engine.lookup import named_by, rows_of
from mainstay.engine.plan import Plan
from mainstay.model.action import ActionKind
from mainstay.model.assignment import NeedRef
from mainstay.model.texts import Rows

Mask = NDArray[np.bool_]

DRAINS: Final = frozenset({ActionKind.PREEMPT, ActionKind.RECLAIM})
ACQUISITIONS: Final = frozenset({ActionKind.BOOTSTRAP, ActionKind.PROVISION})


@dataclass(frozen=True, slots=True)
class Doings:
    """Row i of every column is the action i of a plan."""

    kind: NDArray[np.uint8]
    """Its place in mainstay.engine.actions.KINDS."""

    row: Rows
    place: Rows
    """Of the need it is for, or -1."""

    def are(self, kinds: Iterable[ActionKind]) -> Mask:
        """Which of them are of some kinds."""
        found: Mask = np.isin(self.kind, [KINDS.index(kind) for kind in kinds])
        return found

    def rows(self, kinds: Iterable[ActionKind]) -> Rows:
        """The machines of all actions of some kinds."""
        return self.row[self.are(kinds)]

    def for_needs(self, needs: Mask, kinds: Iterable[ActionKind]) -> Rows:
        """The machines of the actions of some kinds that are for some needs, given by place."""
        with_nobody = np.append(needs, np.False_)
        return self.row[self.are(kinds) & with_nobody[self.place]]

    def counts(self) -> dict[ActionKind, int]:
        """How many there are of each kind; kinds without any are left out."""
        found = np.bincount(self.kind, minlength=len(KINDS)).tolist()
        return {kind: number for kind, number in zip(KINDS, found, strict=True) if number}


def doings(plan: Plan) -> Doings:
    """The columns of a plan's actions; made from the actions where a plan has no columns."""
    actions = plan.actions
    if isinstance(actions, Actions):
        return Doings(actions.kind, actions.row, actions.place)
    places: dict[NeedRef | None, int] = {None: -1}
    for place, need in enumerate(plan.needs):
        places.setdefault(need.ref, place)
    return Doings(
        np.array([KINDS.index(action.kind) for action in actions], dtype=np.uint8),
        rows_of(plan.snapshot, [action.machine for action in actions]),
        np.array([places[action.need] for action in actions], dtype=np.intp),
    )


def with_ref(plan: Plan, refs: Iterable[NeedRef]) -> Mask:
    """Which needs of a plan, by place, have one of these names."""
    return named_by(plan.walk, refs)
