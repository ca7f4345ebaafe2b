"""The actions of a plan, held as columns: one becomes an object when somebody looks at it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, overload

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from mainstay.engine.rows import Walk
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.action import Action, ActionKind
from mainstay.model.ids import MachineId
from mainstay.model.texts import Rows

KINDS: Final = tuple(ActionKind)
"""A kind's number is its place here."""

NO_NEED: Final = -1


@dataclass(frozen=True, eq=False)
class Actions(Sequence[Action]):
    """Row i of every column is one action; a sequence of actions to everybody else."""

    snapshot: Snapshot = field(repr=False)
    walk: Walk = field(repr=False)
    kind: NDArray[np.uint8]
    row: Rows
    """The machine's row in the snapshot."""

    place: Rows
    """The place in walk order of the need it is for, or -1."""

    grace_s: Rows

    @override
    def __len__(self) -> int:
        return len(self.kind)

    @override
    def __iter__(self) -> Iterator[Action]:
        return (self._at(at) for at in range(len(self)))

    @overload
    def __getitem__(self, at: int) -> Action: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Action]: ...
    @override
    def __getitem__(self, at: int | slice) -> Action | Sequence[Action]:
        if isinstance(at, slice):
            return tuple(self._at(each) for each in range(*at.indices(len(self))))
        return self._at(range(len(self))[at])

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def counts(self) -> dict[ActionKind, int]:
        """How many there are of each kind."""
        found = np.bincount(self.kind, minlength=len(KINDS)).tolist()
        return dict(zip(KINDS, found, strict=True))

    def _at(self, at: int) -> Action:
        kind, row = KINDS[int(self.kind[at])], int(self.row[at])
        need = None if self.place[at] == NO_NEED else self.walk.need_at(int(self.place[at]))
        cluster = self.snapshot.cluster_of(row)
        if kind in {ActionKind.BOOTSTRAP, ActionKind.PROVISION} and need is not None:
            cluster = need.cluster
        return Action(
            kind,
            MachineId(self.snapshot.ids[row]),
            cluster,
            None if need is None else need.ref,
            int(self.grace_s[at]),
        )
