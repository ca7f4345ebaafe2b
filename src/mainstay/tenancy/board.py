"""One board a process, as new as the request that looks at it.

A request waits for a read of the database that begins after it came. Whoever comes meanwhile waits
for the same next read; so the more requests there are, the less each pays. A read brings the nodes
that have changed since the last one, in one snapshot: what is refused then could not be had.
"""

import asyncio
import datetime as dt
from typing import Final
from weakref import WeakKeyDictionary

from mainstay.tenancy import candidates
from mainstay.tenancy.database.connect import Pool, at_once
from mainstay.tenancy.placement.board import Board

KNOWN_S: Final = 300.0
"""So often a board is read from the beginning: changes are not kept for ever, and a database that
took another's place may lack some that were seen."""

KEPT_S: Final = 2 * KNOWN_S
"""So long changes are kept at least."""


class LiveBoard:
    """A board and how far it has been read."""

    def __init__(self) -> None:
        self._board: Board | None = None
        self._snapshot = ""
        self._full_at = dt.datetime.min.replace(tzinfo=dt.UTC)
        self._reading = asyncio.Lock()
        self._begun = 0
        self._ended = 0

    async def seen(self, pool: Pool) -> Board:
        """The board, by a read that began after this call. It changes at the next wait."""
        wanted = self._begun + 1
        async with self._reading:
            if self._ended < wanted or self._board is None:
                self._begun += 1
                self._board = await self._read(pool)
                self._ended = self._begun
            return self._board

    async def _read(self, pool: Pool) -> Board:
        if self._board is None:
            return await self._anew(pool)
        rows = await at_once(pool, candidates.CHANGED, {"since": self._snapshot})
        read_at: dt.datetime = rows[0]["read_at"]
        names = {row["changed"] for row in rows} - {None}
        is_fresh = 0 <= (read_at - self._full_at).total_seconds() <= KNOWN_S
        went_back = _oldest(rows[0]["snapshot"]) < _oldest(self._snapshot)
        if not is_fresh or went_back or candidates.ALL in names:
            return await self._anew(pool)
        open_now = candidates.views([row for row in rows if row["id"] is not None])
        for name in names - {node.id for node in open_now}:
            self._board.drop(name)
        for node in open_now:
            self._board.put(node)
        self._snapshot = rows[0]["snapshot"]
        return self._board

    async def _anew(self, pool: Pool) -> Board:
        """The catalogue is read last: if it changes in between, the next read begins anew."""
        rows = await at_once(pool, candidates.ALL_NODES)
        known = candidates.catalogue_of(await at_once(pool, candidates.CATALOGUE))
        board = Board(known, candidates.views([row for row in rows if row["id"] is not None]))
        self._snapshot, self._full_at = rows[0]["snapshot"], rows[0]["read_at"]
        return board


def _oldest(snapshot: str) -> int:
    """The oldest transaction that ran at a snapshot; it falls only if transactions were lost."""
    return int(snapshot.partition(":")[0])


_BOARDS: Final[WeakKeyDictionary[Pool, LiveBoard]] = WeakKeyDictionary()
"""One for each pool: it lives as long."""


async def seen(pool: Pool) -> Board:
    """What is open in the database of a pool, as new as this call."""
    return await _BOARDS.setdefault(pool, LiveBoard()).seen(pool)
