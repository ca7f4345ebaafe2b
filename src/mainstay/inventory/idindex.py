"""Ids by row and rows by id: texts in an arena, found through an open hash table of row numbers.

About 20 bytes a machine and its id's own bytes, where a dict of strings takes 180; and half a
million ids are looked up at once without making a Python object.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainstay.inventory.growing import grown_capacity, resized
from mainstay.model.texts import PAD, U8, U64, Rows, Texts, hash_of, ragged

_EMPTY: Final = -1
_DELETED: Final = -2
_LOW_BITS: Final = 2**32 - 1
_COMPACT_MIN: Final = 1 << 20


class TextColumn:
    """One text per row. Text is only ever appended, so that frozen views stay true."""

    def __init__(self) -> None:
        self.offset: NDArray[np.uint32] = np.zeros(16, dtype=np.uint32)
        self.length: NDArray[np.uint16] = np.zeros(16, dtype=np.uint16)
        self._arena: U8 = np.zeros(256 + PAD, dtype=np.uint8)
        self._used = 0
        self._garbage = 0

    def reserve(self, rows: int) -> None:
        """Make room for rows up to `rows`."""
        if rows > len(self.offset):
            self.offset = resized(self.offset, rows)
            self.length = resized(self.length, rows)

    def bytes_at(self, row: int) -> bytes:
        """The text of one row."""
        start = self.offset.item(row)
        return self._arena[start : start + self.length.item(row)].tobytes()

    def put(self, row: int, text: bytes) -> None:
        """Give one row another text."""
        self._garbage += self.length.item(row)
        self._append(np.frombuffer(text, dtype=np.uint8))
        self.offset[row] = self._used - len(text)
        self.length[row] = len(text)

    def put_many(self, rows: Rows, texts: Texts) -> None:
        """Give many rows other texts."""
        self._garbage += int(self.length[rows].sum())
        wide = texts.length.astype(np.int64)
        ends = np.cumsum(wide)
        self._append(ragged(texts.arena, texts.offset, texts.length))
        self.offset[rows] = self._used - int(wide.sum()) + ends - wide
        self.length[rows] = texts.length

    def view(self, rows: Rows) -> Texts:
        """The texts of some rows; valid until the next write."""
        return Texts(self._arena, self.offset[rows], self.length[rows])

    def frozen(self, rows: int) -> Texts:
        """The texts of the first `rows` rows, untouched by later writes."""
        return Texts(self._arena, self.offset[:rows].copy(), self.length[:rows].copy())

    def nbytes(self) -> int:
        """All of it."""
        return int(self.offset.nbytes + self.length.nbytes + self._arena.nbytes)

    def _append(self, text: U8) -> None:
        if self._garbage > _COMPACT_MIN and self._garbage > self._used // 2:
            self._compact()
        needed = self._used + len(text) + PAD
        if needed > _LOW_BITS:
            raise MemoryError("texts of one column exceed 4 GiB")
        if needed > len(self._arena):
            self._arena = resized(self._arena, grown_capacity(len(self._arena), needed))
        self._arena[self._used : self._used + len(text)] = text
        self._used += len(text)

    def _compact(self) -> None:
        """Write the live texts into a new arena; views keep the old one."""
        live = ragged(self._arena, self.offset, self.length)
        ends = np.cumsum(self.length.astype(np.int64))
        self.offset = (ends - self.length).astype(np.uint32)
        self._arena = resized(live, len(live) + PAD)
        self._used, self._garbage = len(live), 0


class IdIndex:
    """The id of each row and the row of each id."""

    def __init__(self) -> None:
        self.ids = TextColumn()
        self._hash: NDArray[np.uint32] = np.zeros(16, dtype=np.uint32)
        self._slots: NDArray[np.int32] = np.full(32, _EMPTY, dtype=np.int32)
        self._taken = 0
        """Slots that are not empty: rows and what deletions left."""

    def reserve(self, rows: int) -> None:
        """Make room for rows up to `rows`."""
        self.ids.reserve(rows)
        if rows > len(self._hash):
            self._hash = resized(self._hash, rows)

    def row_of(self, identity: str) -> int:
        """The row of an id, or -1."""
        try:
            text = identity.encode()
        except UnicodeEncodeError:
            return -1
        low = hash_of(text) & _LOW_BITS
        mask = len(self._slots) - 1
        slot = low & mask
        while (row := self._slots.item(slot)) != _EMPTY:
            if row >= 0 and self._hash.item(row) == low and self.ids.bytes_at(row) == text:
                return row
            slot = (slot + 1) & mask
        return -1

    def find(self, texts: Texts, hashes: U64) -> Rows:
        """The rows of many ids, -1 where there is none."""
        low = hashes.astype(np.uint32)
        mask = len(self._slots) - 1
        slot = low.astype(np.int64) & mask
        found = np.full(len(texts), -1, dtype=np.intp)
        searching = np.arange(len(texts))
        while len(searching):
            rows = self._slots[slot[searching]].astype(np.intp)
            hit = (rows >= 0) & (self._hash[rows] == low[searching])
            where = np.flatnonzero(hit)
            same = self.ids.view(rows[where]).equals(texts.take(searching[where]))
            found[searching[where[same]]] = rows[where[same]]
            go_on = rows != _EMPTY
            go_on[where[same]] = False
            searching = searching[go_on]
            slot[searching] = (slot[searching] + 1) & mask
        return found

    def insert(self, row: int, identity: str) -> None:
        """Remember a new id; the caller has made sure that it is new."""
        text = identity.encode()
        self.ids.put(row, text)
        self._hash[row] = hash_of(text) & _LOW_BITS
        self._make_room(1)
        self._place(np.array([row], dtype=np.intp))

    def insert_many(self, rows: Rows, texts: Texts, hashes: U64) -> None:
        """Remember many new, distinct ids."""
        self.ids.put_many(rows, texts)
        self._hash[rows] = hashes.astype(np.uint32)
        self._make_room(len(rows))
        self._place(rows)

    def delete(self, row: int) -> None:
        """Forget the id of a row."""
        mask = len(self._slots) - 1
        slot = self._hash.item(row) & mask
        while self._slots.item(slot) != row:
            slot = (slot + 1) & mask
        self._slots[slot] = _DELETED
        self.ids.put(row, b"")

    def nbytes(self) -> int:
        """All of it."""
        return self.ids.nbytes() + int(self._hash.nbytes + self._slots.nbytes)

    def _make_room(self, more: int) -> None:
        """Keep a third of the slots empty; making anew also drops what deletions left."""
        if (self._taken + more) * 3 <= len(self._slots) * 2:
            return
        rows = self._slots[self._slots >= 0].astype(np.intp)
        size = 32
        while (len(rows) + more) * 3 > size * 2:
            size *= 2
        self._slots = np.full(size, _EMPTY, dtype=np.int32)
        self._taken = 0
        self._place(rows)

    def _place(self, rows: Rows) -> None:
        mask = len(self._slots) - 1
        slot = self._hash[rows].astype(np.int64) & mask
        self._taken += len(rows)
        while len(rows):
            free = self._slots[slot] == _EMPTY
            self._slots[slot[free]] = rows[free]
            placed = self._slots[slot] == rows  # of several that wanted one slot, one got it
            rows, slot = rows[~placed], (slot[~placed] + 1) & mask
