"""A bus of PostgreSQL's own: NOTIFY carries the id of an event to whoever listens.

It keeps nothing. Who was away finds what was published meanwhile in the outbox when it comes back,
and the relay publishes again what stays unconsumed. Every listener of a name gets every message:
the first one consumes it, for the others it is a repetition.
"""

import asyncio
import heapq
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final

from mainstay.model.errors import Rejected, Unavailable
from mainstay.tenancy.bus import Delivery, Envelope
from mainstay.tenancy.database.connect import Pool, notify, transaction
from mainstay.tenancy.listen import Listener
from mainstay.tenancy.states import EventType

CHANNEL: Final = "mainstay_bus"
TICK_S: Final = 0.2
"""How late a message may come again that was asked for while we listened."""

PAGE: Final = 1000
ID_LENGTH_MAX: Final = 200
"""A notification has room for 8000 bytes; an id that is longer than this is none of ours."""


class PostgresBus:
    """The bus that is there without anything else."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def publish(self, envelope: Envelope, *, turn: int = 0) -> None:  # noqa: ARG002
        """Notify all who listen now; `turn` means nothing here, there is nothing to repeat."""
        if len(envelope.event_id) > ID_LENGTH_MAX:
            raise Rejected(f"not the id of an event: {envelope.event_id[:40]!r}...")
        await notify(self._pool, CHANNEL, f"{envelope.event_type} {envelope.event_id}")

    async def subscribe(
        self, consumer: str, subjects: frozenset[EventType]
    ) -> AsyncGenerator[Delivery, None]:
        """What is notified, what was published while nobody listened, and what is to come again."""
        later: list[tuple[float, str]] = []
        clock = asyncio.get_running_loop().time
        async with Listener(self._pool, CHANNEL) as ear:
            while True:
                while later and later[0][0] <= clock():
                    yield _Rung(heapq.heappop(later)[1], later)
                heard = await ear.heard(TICK_S)
                if heard is None:
                    async for event_id in self._unconsumed(consumer, subjects):
                        yield _Rung(event_id, later)
                for said in heard or ():
                    kind, _, event_id = said.partition(" ")
                    if kind in subjects:
                        yield _Rung(event_id, later)

    async def _unconsumed(
        self, consumer: str, subjects: frozenset[EventType]
    ) -> AsyncGenerator[str, None]:
        seen = 0
        while True:
            try:
                async with transaction(self._pool) as tx:
                    found = await tx.execute(
                        """
                        select id, position from outbox
                        where status = 'published' and event_type = any(%(subjects)s)
                          and position > %(seen)s
                          and not exists (
                              select from consumed
                              where consumer = %(consumer)s and event_id = outbox.id)
                        order by position limit %(page)s
                        """,
                        {
                            "subjects": [*map(str, subjects)],
                            "seen": seen,
                            "consumer": consumer,
                            "page": PAGE,
                        },
                    )
                    rows = await found.fetchall()
            except Unavailable:
                return  # the relay publishes them again
            for row in rows:
                yield row["id"]
            if len(rows) < PAGE:
                return
            seen = rows[-1]["position"]


@dataclass(frozen=True, slots=True)
class _Rung:
    """A message; when it is to come again, it waits in `later`, in this process."""

    event_id: str
    later: list[tuple[float, str]]

    async def ack(self) -> None:
        """Nothing to tell: the row knows."""

    async def nak(self, delay_s: float) -> None:
        """Wait here; should this process die, the relay publishes it again."""
        due = asyncio.get_running_loop().time() + delay_s
        heapq.heappush(self.later, (due, self.event_id))

    async def dead(self, reason: str) -> None:
        """Nothing to tell: the row is the dead letter."""
