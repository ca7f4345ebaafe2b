"""Rows in order of their ids, repaired when a snapshot asks for it."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainstay.inventory.idindex import TextColumn
from mainstay.model.texts import Rows

_FEW: Final = 64
"""So many new rows per thousand old ones are worth placing one by one."""


class IdOrder:
    """The live rows by id. Additions and removals are gathered and worked in together."""

    def __init__(self) -> None:
        self._order: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        self._added: list[int] = []
        self._removed: set[int] = set()

    @property
    def is_stale(self) -> bool:
        """Whether something was added or removed since the last repair."""
        return bool(self._added or self._removed)

    def add(self, rows: Rows | list[int]) -> None:
        """These rows have ids now."""
        self._added.extend(int(row) for row in rows)

    def remove(self, row: int) -> None:
        """This row has no id any more."""
        self._removed.add(row)

    def repaired(self, ids: TextColumn, live: NDArray[np.bool_]) -> NDArray[np.int32]:
        """The live rows by id."""
        if not self.is_stale:
            return self._order
        # A row that was freed and used again is in both lists: out first, then in where it belongs.
        gone = np.zeros(len(live), dtype=np.bool_)
        gone[list(self._removed)] = True
        kept = self._order[~gone[self._order]]
        added = [row for row in dict.fromkeys(self._added) if live[row]]
        if len(added) > max(_FEW, len(kept) // 1000 * _FEW):
            rows = np.concatenate([kept, np.array(added, dtype=np.int32)]).astype(np.intp)
            self._order = rows[ids.view(rows).order()].astype(np.int32)
        else:
            self._order = _inserted(kept, added, ids)
        self._added, self._removed = [], set()
        return self._order


def _inserted(order: NDArray[np.int32], added: list[int], ids: TextColumn) -> NDArray[np.int32]:
    placed = sorted((ids.bytes_at(row), row) for row in added)
    at = [_position(order, text, ids) for text, _ in placed]
    return np.insert(order, at, [row for _, row in placed])


def _position(order: NDArray[np.int32], text: bytes, ids: TextColumn) -> int:
    low, high = 0, len(order)
    while low < high:
        middle = (low + high) // 2
        if ids.bytes_at(int(order[middle])) < text:
            low = middle + 1
        else:
            high = middle
    return low
