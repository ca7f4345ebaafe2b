"""What is over is kept for a while and then deleted, a little at a time, by whoever it belongs to.

The relay prunes events, the worker finished work, the API keys of requests and notes of changes.
Nothing that is not done is ever deleted, however old it is. Several processes may prune: rows that
another one has are left to it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from mainstay.runtime.log import logger
from mainstay.tenancy import board
from mainstay.tenancy.database.connect import Pool, at_once, transaction

DAY_S: Final = 86_400.0
BATCH: Final = 500
"""Rows of one short transaction: nobody waits long for what it has locked."""

PAUSE_S: Final = 60.0
"""Between two looks, when there is nothing more to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long what is over is kept."""

    events_s: float = 30 * DAY_S
    """Events that every consumer has committed, or that were discarded; what people were told of
    them goes along."""

    work_s: float = 30 * DAY_S
    """Finished work: no shorter than events, since its id is what keeps an event from beginning it
    a second time."""


_EVENTS: Final = """
    with over as (
        select id from outbox
        where status in ('done', 'discarded')
          and ended_at < clock_timestamp() - make_interval(secs => %(kept_s)s)
        order by ended_at limit %(batch)s for update skip locked
    ), notices_gone as (
        delete from notices using over where notices.event_id = over.id
    ), consumed_gone as (
        delete from consumed using over where consumed.event_id = over.id
    ), failures_gone as (
        delete from consumer_failures using over where consumer_failures.event_id = over.id
    )
    delete from outbox using over where outbox.id = over.id
"""
"""What points at an event goes in the same statement: the keys are checked at its end."""


async def events(pool: Pool, kept_s: float, batch: int = BATCH) -> int:
    """Delete some events that have been over for so long; how many there were."""
    async with transaction(pool) as tx:
        return (await tx.execute(_EVENTS, {"kept_s": kept_s, "batch": batch})).rowcount


class Changes:
    """Notes of changed nodes, deleted when every board has read them, or is too old to go on.

    What a snapshot shows, every later read of a board knows. So a snapshot is remembered, and what
    it shows is deleted when the boards that have not read since then begin anew anyway.
    """

    def __init__(self) -> None:
        self._snapshot = ""
        self._taken_s = 0.0

    async def prune(self, pool: Pool, now_s: float) -> int:
        """Delete what may go; how many there were."""
        gone = 0
        if self._snapshot and now_s - self._taken_s < board.KEPT_S:
            return gone
        if self._snapshot:
            async with transaction(pool) as tx:
                gone = (await tx.execute(_CHANGES, {"known": self._snapshot})).rowcount
        (row,) = await at_once(pool, "select pg_current_snapshot()::text as taken")
        self._snapshot, self._taken_s = row["taken"], now_s
        return gone


_CHANGES: Final = """
    delete from node_changes where at < pg_snapshot_xmin(%(known)s::pg_snapshot)
"""


async def keep_pruning(
    what: str, prune: Callable[[], Awaitable[int]], *, pause_s: float = PAUSE_S
) -> None:
    """Batch after batch while there is something to delete, then a look now and then."""
    while True:
        gone = await prune()
        if gone:
            logger().info("pruned", what=what, rows=gone)
        else:
            await asyncio.sleep(pause_s)
