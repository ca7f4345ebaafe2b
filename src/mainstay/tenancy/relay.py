"""The relay: takes events from the outbox to the bus, again and again until they are consumed.

A turn is three steps and no transaction spans the middle one: claim rows for a while, publish them,
mark them. Relays that run side by side skip each other's rows. A relay that dies leaves its claims
to run out. An event is claimed only when some consumer of its type may take it, which is when that
consumer has consumed every earlier event of the key.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from mainstay.model.errors import Unavailable
from mainstay.runtime.log import logger
from mainstay.tenancy.backoff import Backoff
from mainstay.tenancy.bus import Bus, Envelope, envelope_of
from mainstay.tenancy.bus_metrics import RelayMetrics
from mainstay.tenancy.consume import told
from mainstay.tenancy.database.connect import Connection, Pool, Row, transaction
from mainstay.tenancy.listen import Listener, heed_cancel
from mainstay.tenancy.outbox import CHANNEL
from mainstay.tenancy.states import OutboxStatus
from mainstay.tenancy.subscribers import SUBSCRIBERS, Subscribers

CLAIM: Final = """
    with subscriber as (
        select * from unnest(%(names)s::text[], %(types)s::text[]) as listed (name, event_type)
    ), due as (
        select event.id
        from outbox event
        where event.status in ('pending', 'published')
          and event.not_before <= statement_timestamp()
          and (not event.event_type = any(%(types)s) or exists (
              select from subscriber
              where subscriber.event_type = event.event_type
                and not exists (
                    select from consumed
                    where consumer = subscriber.name and event_id = event.id)
                and not exists (
                    select from consumer_failures failure
                    where failure.consumer = subscriber.name and failure.event_id = event.id
                      and (failure.gave_up_at is not null
                           or failure.not_before > clock_timestamp()))
                and not exists (
                    select from outbox earlier
                    join subscriber same
                        on same.event_type = earlier.event_type and same.name = subscriber.name
                    where earlier.key = event.key and earlier.position < event.position
                      and earlier.status in ('pending', 'published', 'failed')
                      and not exists (
                          select from consumed
                          where consumer = subscriber.name and event_id = earlier.id))))
        order by event.not_before, event.position
        limit %(batch)s
        for no key update of event skip locked
    )
    update outbox set not_before = clock_timestamp() + make_interval(secs => %(claim_s)s)
    from due where outbox.id = due.id
    returning outbox.*
"""

MARK: Final = """
    with mine as (
        select outbox.id, claimed.not_before
        from outbox
        join unnest(%(ids)s::text[], %(claims)s::timestamptz[]) as claimed (id, not_before)
            on claimed.id = outbox.id
        order by outbox.position
        for no key update of outbox
    )
    update outbox
    set status = case when outbox.event_type = any(%(types)s) then 'published' else 'done' end,
        ended_at = case when not outbox.event_type = any(%(types)s) then clock_timestamp() end,
        published_at = clock_timestamp(),
        publications = publications + 1,
        attempt_count = 0,
        last_error = null,
        not_before = case when outbox.not_before = mine.not_before
            then clock_timestamp() + make_interval(secs => least(
                %(most_s)s, %(first_s)s * 2 ^ least(publications, 30)))
            else outbox.not_before end
    from mine
    where outbox.id = mine.id and status in ('pending', 'published')
"""
"""A claim that was changed meanwhile was cut short by a consumer that rings: leave it so."""

PUT_BACK: Final = """
    update outbox
    set not_before = clock_timestamp() + make_interval(secs => %(pause_s)s),
        attempt_count = attempt_count + %(counts)s,
        last_error = %(error)s,
        status = case when %(over)s then 'failed' else status end
    where id = %(id)s and status in ('pending', 'published')
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayOptions:
    """How a relay works."""

    subscribers: Subscribers = field(default_factory=lambda: SUBSCRIBERS)
    backoff: Backoff = field(default_factory=Backoff)
    batch: int = 200
    at_once_max: int = 16
    """Publications under way; each may hold a connection."""

    claim_s: float = 10.0
    """How long a claim holds: longer than a publication may take."""

    publish_s: float = 5.0
    poll_s: float = 1.0
    """How long to wait for a bell before looking anyway."""

    unconfirmed: Backoff = field(default_factory=lambda: Backoff(first_s=30.0, most_s=900.0))
    """When to publish again what some consumer has not committed; it never stops."""


DEFAULT: Final = RelayOptions()
LOOK_S: Final = 5.0
"""How often the backlog is counted."""


async def run(
    pool: Pool, bus: Bus, options: RelayOptions = DEFAULT, metrics: RelayMetrics | None = None
) -> None:
    """Relay until cancelled. Several may run side by side."""
    relay = Relay(pool, bus, options, metrics or RelayMetrics())
    clock = asyncio.get_running_loop().time
    look_at = clock()
    async with Listener(pool, CHANNEL) as bell:
        await bell.heard(0.0)
        while True:
            published = await relay.turn()
            heed_cancel()
            if clock() >= look_at:
                await relay.look()
                look_at = clock() + LOOK_S
            if published == 0:
                await bell.heard(options.poll_s)


class Relay:
    """One relay: turns of claim, publish, mark."""

    def __init__(self, pool: Pool, bus: Bus, options: RelayOptions, metrics: RelayMetrics) -> None:
        self._pool = pool
        self._bus = bus
        self._options = options
        self._metrics = metrics
        self._misses = 0
        """Turns in a row in which the bus or the database was away."""

        self._missed = False

    async def turn(self) -> int:
        """Publish what is due; how many that were."""
        self._missed = False
        try:
            claimed = await self._claim()
            published = await self._published(claimed)
            await self._mark(published)
        except Unavailable as error:
            self._misses += 1
            logger().warning("relay_found_no_database", error=error.message)
            await asyncio.sleep(self._options.backoff.pause_s(self._misses))
            return 0
        self._misses = self._misses + 1 if self._missed else 0
        return len(published)

    async def look(self) -> None:
        """Count what is on its way."""
        with suppress(Unavailable):
            async with transaction(self._pool) as tx:
                self._metrics.backlog(*await backlog(tx))

    async def _claim(self) -> list[Row]:
        table = [
            (name, str(kind))
            for kind, names in self._options.subscribers.items()
            for name in sorted(names)
        ]
        async with transaction(self._pool) as tx:
            found = await tx.execute(
                CLAIM,
                {
                    "names": [name for name, _ in table],
                    "types": [kind for _, kind in table],
                    "batch": self._options.batch,
                    "claim_s": self._options.claim_s,
                },
            )
            rows = await found.fetchall()
        return sorted(rows, key=lambda row: int(row["position"]))

    async def _published(self, rows: list[Row]) -> list[Row]:
        """Those that the bus took; the others are put back."""
        room = asyncio.Semaphore(self._options.at_once_max)
        taken: list[Row] = []

        async def one(row: Row) -> None:
            async with room:
                if await self._publish(row):
                    taken.append(row)

        async with asyncio.TaskGroup() as tasks:
            for row in rows:
                tasks.create_task(one(row))
        return taken

    async def _publish(self, row: Row) -> bool:
        envelope = envelope_of(row)
        turn = int(row["publications"])
        try:
            async with asyncio.timeout(self._options.publish_s):
                await self._bus.publish(envelope, turn=turn)
        except (Unavailable, TimeoutError) as error:
            self._missed = True
            await self._put_back(envelope, error, attempts=None)
            return False
        except Exception as error:  # noqa: BLE001 - whatever a bus has against one event
            await self._put_back(envelope, error, attempts=int(row["attempt_count"]) + 1)
            return False
        self._metrics.published(envelope.event_type, again=turn > 0)
        return True

    async def _put_back(
        self, envelope: Envelope, error: Exception, *, attempts: int | None
    ) -> None:
        """For later. A bus that is away costs no attempt: an outage must fail no event."""
        backoff = self._options.backoff
        over = attempts is not None and backoff.is_over(attempts)
        self._metrics.failed(envelope.event_type)
        logger().warning("publication_failed", event_id=envelope.event_id, error=told(error))
        values = {
            "id": envelope.event_id,
            "pause_s": backoff.pause_s(attempts or self._misses + 1),
            "counts": 0 if attempts is None else 1,
            "error": told(error),
            "over": over,
        }
        with suppress(Unavailable):  # then its claim runs out
            async with transaction(self._pool) as tx:
                await tx.execute(PUT_BACK, values)

    async def _mark(self, rows: list[Row]) -> None:
        if not rows:
            return
        async with transaction(self._pool) as tx:
            await tx.execute(
                MARK,
                {
                    "ids": [row["id"] for row in rows],
                    "claims": [row["not_before"] for row in rows],
                    "types": [str(kind) for kind, names in self._options.subscribers.items()
                              if names],
                    "first_s": self._options.unconfirmed.first_s,
                    "most_s": self._options.unconfirmed.most_s,
                },
            )  # fmt: skip


async def backlog(tx: Connection) -> tuple[dict[OutboxStatus, int], float]:
    """How many events have not ended, by status, and the age of the oldest in seconds."""
    found = await tx.execute(
        """
        select status, count(*) as rows,
               extract(epoch from clock_timestamp() - min(created_at)) as age_s
        from outbox where status in ('pending', 'published', 'failed') group by status
        """
    )
    rows = dict.fromkeys((OutboxStatus.PENDING, OutboxStatus.PUBLISHED, OutboxStatus.FAILED), 0)
    oldest_s = 0.0
    for row in await found.fetchall():
        rows[OutboxStatus(row["status"])] = int(row["rows"])
        oldest_s = max(oldest_s, float(row["age_s"]))
    return rows, oldest_s
