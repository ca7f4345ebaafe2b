"""Consumers: the effect of an event and the note that it was consumed are one transaction.

So a second delivery does nothing, a crash before the commit leaves nothing, and a crash after it
costs one useless delivery. Events of one key reach a consumer in the order they were written: one
that comes before its turn is let go, and rung for again when its turn has come.
"""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from mainstay.model.errors import MainstayError, Rejected, Unavailable
from mainstay.runtime.log import logger
from mainstay.tenancy import settle_events
from mainstay.tenancy.backoff import Backoff
from mainstay.tenancy.bus import Bus, Delivery, Envelope, envelope_of
from mainstay.tenancy.bus_metrics import ConsumerMetrics
from mainstay.tenancy.database.connect import Connection, Pool, Row, transaction
from mainstay.tenancy.listen import heed_cancel
from mainstay.tenancy.states import EventType
from mainstay.tenancy.subscribers import SUBSCRIBERS, Subscribers, subjects_of

ERROR_LENGTH_MAX: Final = 500


class Consumer(Protocol):
    """What is done about events."""

    @property
    def name(self) -> str:
        """Under which it is in `mainstay.tenancy.subscribers.SUBSCRIBERS`."""

    @property
    def subjects(self) -> frozenset[EventType]:
        """What it is told of: the same as in the table."""

    async def handle(self, tx: Connection, event: Envelope) -> None:
        """Do it, in this transaction and without waiting for anything but the database.

        What it raises undoes the transaction; the event comes again after a pause.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeOptions:
    """How a process consumes."""

    subscribers: Subscribers = field(default_factory=lambda: SUBSCRIBERS)
    backoff: Backoff = field(default_factory=Backoff)
    at_once_max: int = 8
    """Events of one consumer in work in this process; each holds a connection."""


class Outcome(StrEnum):
    """How a delivery ended."""

    DONE = "done"
    """It was consumed."""

    REPEATED = "repeated"
    """It was consumed before."""

    EARLY = "early"
    """An earlier event of its key is not consumed yet."""

    PAUSED = "paused"
    """The pause after a failure is not over."""

    STRANGE = "strange"
    """No such event, or one that was discarded or given up."""

    FAILED = "failed"
    """The consumer raised; it is delivered again after a pause."""

    GAVE_UP = "gave_up"
    """It has failed too often: it waits for a person."""

    UNAVAILABLE = "unavailable"
    """The database was away: nothing is known, nothing was counted."""


class _Undone(Exception):
    """Leave the transaction without a trace; with `again_s`, come again after that."""

    def __init__(self, outcome: Outcome, again_s: float | None = None) -> None:
        super().__init__(outcome)
        self.outcome = outcome
        self.again_s = again_s


DEFAULT: Final = ConsumeOptions()


async def run(
    pool: Pool,
    bus: Bus,
    consumers: Sequence[Consumer],
    options: ConsumeOptions = DEFAULT,
    metrics: ConsumerMetrics | None = None,
) -> None:
    """Consume until cancelled. Several processes may run the same consumers."""
    metrics = metrics or ConsumerMetrics()
    for consumer in consumers:
        check(consumer, options.subscribers)
    async with asyncio.TaskGroup() as tasks:
        for consumer in consumers:
            tasks.create_task(_consume(pool, bus, consumer, options, metrics), name=consumer.name)


def check(consumer: Consumer, subscribers: Subscribers) -> None:
    """Refuse a consumer that the table does not know, or knows otherwise."""
    listed = subjects_of(consumer.name, subscribers)
    if consumer.subjects != listed:
        differing = ", ".join(sorted(consumer.subjects ^ listed))
        raise Rejected(
            f"consumer {consumer.name} and the table of subscribers differ in: {differing}"
        )


async def _consume(
    pool: Pool, bus: Bus, consumer: Consumer, options: ConsumeOptions, metrics: ConsumerMetrics
) -> None:
    room = asyncio.Semaphore(options.at_once_max)

    async def one(delivery: Delivery) -> None:
        try:
            outcome = await take(pool, consumer, delivery, options, metrics)
        finally:
            room.release()
        metrics.delivered(consumer.name, outcome)

    async with (
        asyncio.TaskGroup() as tasks,
        aclosing(bus.subscribe(consumer.name, consumer.subjects)) as deliveries,
    ):
        await room.acquire()
        async for delivery in deliveries:
            heed_cancel()
            tasks.create_task(one(delivery))
            await room.acquire()


async def take(
    pool: Pool,
    consumer: Consumer,
    delivery: Delivery,
    options: ConsumeOptions,
    metrics: ConsumerMetrics,
) -> Outcome:
    """Deal with one delivery to its end."""
    event_id = delivery.event_id
    try:
        await _handled(pool, consumer, event_id, options, metrics)
    except _Undone as undone:
        if undone.again_s is None:
            await delivery.ack()
        else:
            await delivery.nak(undone.again_s)
        return undone.outcome
    except Exception as error:  # noqa: BLE001 - the boundary: a bug of a consumer costs one event
        return await _failed(pool, consumer, delivery, options, error)
    await delivery.ack()
    return Outcome.DONE


async def _handled(
    pool: Pool,
    consumer: Consumer,
    event_id: str,
    options: ConsumeOptions,
    metrics: ConsumerMetrics,
) -> None:
    async with transaction(pool) as tx:
        row = await _begun(tx, consumer, event_id)
        event = envelope_of(row)
        await consumer.handle(tx, event)
        await settle_events.settle(tx, event_id, options.subscribers[event.event_type])
        await settle_events.wake_next(tx, event_id, consumer.name, consumer.subjects)
    metrics.consumed(consumer.name, float(row["age_s"]))


async def _begun(tx: Connection, consumer: Consumer, event_id: str) -> Row:
    """Note it as consumed and give its row, if it is this consumer's turn.

    The note comes first: of two at the same event the second waits here, and finds it taken.
    """
    found = await tx.execute(
        """
        with noted as (
            insert into consumed (consumer, event_id)
            select %(consumer)s, id from outbox where id = %(id)s and status <> 'discarded'
            on conflict do nothing
            returning event_id
        )
        select event.*, exists (select from noted) as noted,
               extract(epoch from clock_timestamp() - event.created_at) as age_s,
               failure.gave_up_at,
               extract(epoch from failure.not_before - clock_timestamp()) as pause_s,
               exists (
                   select from outbox earlier
                   where earlier.key = event.key and earlier.position < event.position
                     and earlier.status in ('pending', 'published', 'failed')
                     and earlier.event_type = any(%(subjects)s)
                     and not exists (
                         select from consumed
                         where consumer = %(consumer)s and event_id = earlier.id)
               ) as early
        from outbox event
        left join consumer_failures failure
            on failure.consumer = %(consumer)s and failure.event_id = event.id
        where event.id = %(id)s
        """,
        {"id": event_id, "consumer": consumer.name, "subjects": [*map(str, consumer.subjects)]},
    )
    row = await found.fetchone()
    if row is None or row["status"] == "discarded" or row["event_type"] not in consumer.subjects:
        raise _Undone(Outcome.STRANGE)
    if not row["noted"]:
        raise _Undone(Outcome.REPEATED)
    if row["gave_up_at"] is not None:
        raise _Undone(Outcome.STRANGE)
    if row["early"]:
        raise _Undone(Outcome.EARLY)
    if row["pause_s"] is not None and row["pause_s"] > 0:
        raise _Undone(Outcome.PAUSED, again_s=float(row["pause_s"]))
    return row


async def _failed(
    pool: Pool, consumer: Consumer, delivery: Delivery, options: ConsumeOptions, error: Exception
) -> Outcome:
    """Count it, and bring it again or give it up. Nothing is counted while the database is away."""
    log = logger(consumer=consumer.name, event_id=delivery.event_id)
    try:
        attempts = await _counted(pool, consumer, delivery.event_id, options, error)
    except Unavailable:
        log.warning("consumer_found_no_database", error=type(error).__name__)
        await delivery.nak(options.backoff.first_s)
        return Outcome.UNAVAILABLE
    if attempts is None:
        await delivery.ack()
        return Outcome.REPEATED
    if options.backoff.is_over(attempts):
        log.error("event_given_up", attempts=attempts, error=told(error), exc_info=error)
        await delivery.dead(told(error))
        return Outcome.GAVE_UP
    log.warning("event_failed", attempts=attempts, error=told(error))
    await delivery.nak(options.backoff.pause_s(attempts))
    return Outcome.FAILED


async def _counted(
    pool: Pool, consumer: Consumer, event_id: str, options: ConsumeOptions, error: Exception
) -> int | None:
    """Attempts so far; None: it was committed after all, only the answer was lost."""
    async with transaction(pool) as tx:
        counted = await tx.execute(
            """
            insert into consumer_failures (consumer, event_id, attempt_count, last_error)
            select %(consumer)s, id, 1, %(error)s from outbox
            where id = %(id)s and not exists (
                select from consumed where consumer = %(consumer)s and event_id = %(id)s)
            on conflict (consumer, event_id) do update
            set attempt_count = consumer_failures.attempt_count + 1,
                last_error = excluded.last_error
            returning attempt_count
            """,
            {"consumer": consumer.name, "id": event_id, "error": told(error)},
        )
        row = await counted.fetchone()
        if row is None:
            return None
        attempts = int(row["attempt_count"])
        over = options.backoff.is_over(attempts)
        await tx.execute(
            """
            update consumer_failures
            set not_before = clock_timestamp() + make_interval(secs => %(pause)s),
                gave_up_at = case when %(over)s then clock_timestamp() end
            where consumer = %(consumer)s and event_id = %(id)s
            """,
            {
                "pause": options.backoff.pause_s(attempts),
                "over": over,
                "consumer": consumer.name,
                "id": event_id,
            },
        )
        if over:
            await _settle_by_type(tx, event_id, options.subscribers)
    return attempts


async def _settle_by_type(tx: Connection, event_id: str, subscribers: Subscribers) -> None:
    found = await tx.execute("select event_type from outbox where id = %s", [event_id])
    row = await found.fetchone()
    if row is not None:
        await settle_events.settle(tx, event_id, subscribers[EventType(row["event_type"])])


def told(error: Exception) -> str:
    """An error in one line, for people who read failed events."""
    text = error.message if isinstance(error, MainstayError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:ERROR_LENGTH_MAX]
