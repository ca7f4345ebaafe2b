"""What was written since a revision: by row, by cluster, by shape class."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainstay.inventory.growing import grown_capacity, resized
from mainstay.model.batch import Codes
from mainstay.model.ids import ClusterId
from mainstay.model.texts import Rows

LOG_SHARE: Final = 4
"""The log holds at most one entry per this many rows; beyond that everything counts as changed."""

LOG_MIN: Final = 4096


@dataclass(frozen=True, slots=True)
class Changes:
    """Everything touched: for a machine that moved, where it was and where it is."""

    rows: Rows
    clusters: frozenset[ClusterId]
    shapes: Rows


@dataclass(frozen=True, slots=True)
class LogView:
    """The log as one snapshot sees it; entry i was written at revision `base + i + 1`."""

    base: int
    rows: NDArray[np.int32]
    cluster_before: Codes
    shape_before: Codes

    def since(self, revision: int) -> slice | None:
        """The entries after `revision`, or None when they are no longer known."""
        if not self.base <= revision <= self.base + len(self.rows):
            return None
        return slice(revision - self.base, None)


class ChangeLog:
    """Appended to by every accepted write. The number of entries ever written is the revision."""

    def __init__(self) -> None:
        self._base = 0
        self._size = 0
        self._rows: NDArray[np.int32] = np.zeros(64, dtype=np.int32)
        self._cluster: Codes = np.zeros(64, dtype=np.uint32)
        self._shape: Codes = np.zeros(64, dtype=np.uint32)

    @property
    def revision(self) -> int:
        """How many changes there have been."""
        return self._base + self._size

    def append(self, row: int, cluster_before: int, shape_before: int, *, rows_total: int) -> None:
        """One changed row, with where it was."""
        self._make_room(1, rows_total)
        at = self._size
        self._rows[at], self._cluster[at], self._shape[at] = row, cluster_before, shape_before
        self._size += 1

    def extend(self, rows: Rows, cluster: Codes, shape: Codes, *, rows_total: int) -> None:
        """Many changed rows; more than the log may hold empty it."""
        if len(rows) > _entries_max(rows_total):
            self._base += self._size + len(rows)
            self._restart(0)
            return
        self._make_room(len(rows), rows_total)
        at = slice(self._size, self._size + len(rows))
        self._rows[at], self._cluster[at], self._shape[at] = rows, cluster, shape
        self._size += len(rows)

    def forget(self) -> None:
        """Nothing before now can be told any more: a code in the log has got another meaning."""
        self._base += self._size
        self._restart(0)

    def view(self) -> LogView:
        """The log now. Entries are never overwritten, so no copy is needed."""
        size = self._size
        return LogView(self._base, self._rows[:size], self._cluster[:size], self._shape[:size])

    def nbytes(self) -> int:
        """All of it."""
        return int(self._rows.nbytes + self._cluster.nbytes + self._shape.nbytes)

    def _make_room(self, more: int, rows_total: int) -> None:
        if self._size + more > _entries_max(rows_total):
            dropped = self._size // 2 if more <= self._size // 2 else self._size
            self._base += dropped
            self._restart(self._size - dropped)
        if self._size + more > len(self._rows):
            capacity = grown_capacity(len(self._rows), self._size + more)
            self._rows = resized(self._rows, capacity)
            self._cluster = resized(self._cluster, capacity)
            self._shape = resized(self._shape, capacity)

    def _restart(self, keep: int) -> None:
        """Keep the last `keep` entries, in new arrays: views hold the old ones."""
        size, capacity = self._size, max(64, keep * 2)
        for name in ("_rows", "_cluster", "_shape"):
            old = getattr(self, name)
            setattr(self, name, resized(old[size - keep : size], capacity))
        self._size = keep


def _entries_max(rows_total: int) -> int:
    return max(LOG_MIN, rows_total // LOG_SHARE)
