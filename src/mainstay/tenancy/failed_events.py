"""Failed events: seen, requeued or discarded by people, each with a row of the audit.

An event fails when the bus has refused it too often, or when a consumer has. It stays, and so does
every later event of its key for that consumer, until somebody says what becomes of it.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from mainstay.model.errors import Rejected
from mainstay.tenancy import audit, settle_events
from mainstay.tenancy.audit import Attempt
from mainstay.tenancy.database.connect import Connection, Pool, transaction
from mainstay.tenancy.states import EventType, OutboxStatus
from mainstay.tenancy.subscribers import SUBSCRIBERS, Subscribers

PAGE_MAX: Final = 500


class EventNotFound(Rejected):
    """The outbox has no such event."""

    code = "outbox_event_not_found"
    what_to_do = "check the id in the list of failed events"


class EventNotFailed(Rejected):
    """Nothing is wrong with it, so there is nothing to decide."""

    code = "outbox_event_not_failed"
    what_to_do = "leave it: it is on its way, or has ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """Who decides, for the audit."""

    name: str
    role: str
    correlation_id: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GaveUp:
    """A consumer that could not."""

    consumer: str
    attempts: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedEvent:
    """An event that waits for somebody's decision."""

    event_id: str
    event_type: EventType
    key: str
    position: int
    """The cursor of the list."""

    status: OutboxStatus
    """Published: other consumers are still to come."""

    attempts: int
    """Of publishing it."""

    error: str
    gave_up: tuple[GaveUp, ...]
    created_at: datetime
    held: int
    """Later events of its key that have not ended."""


FAILED: Final = """
    select event.id, event.event_type, event.key, event.position, event.status,
           event.attempt_count, coalesce(event.last_error, '') as error, event.created_at,
           (select count(*) from outbox later
            where later.key = event.key and later.position > event.position
              and later.status in ('pending', 'published', 'failed')) as held,
           (select coalesce(jsonb_agg(jsonb_build_object(
                'consumer', consumer, 'attempts', attempt_count, 'error', last_error)
                order by consumer), '[]')
            from consumer_failures where event_id = event.id and gave_up_at is not null) as gave_up
    from outbox event
    where event.status in ('pending', 'published', 'failed') and event.position > %(after)s
      and (event.status = 'failed' or exists (
          select from consumer_failures where event_id = event.id and gave_up_at is not null))
    order by event.position
    limit %(limit)s
"""


async def failed(pool: Pool, *, after: int = 0, limit: int = 100) -> list[FailedEvent]:
    """A page of failed events, oldest first; `after` is the position of the last one seen."""
    if not 0 < limit <= PAGE_MAX:
        raise Rejected(f"not a length of a page: {limit} (1 to {PAGE_MAX})")
    async with transaction(pool) as tx:
        found = await tx.execute(FAILED, {"after": after, "limit": limit})
        rows = await found.fetchall()
    return [
        FailedEvent(
            event_id=row["id"],
            event_type=EventType(row["event_type"]),
            key=row["key"],
            position=row["position"],
            status=OutboxStatus(row["status"]),
            attempts=row["attempt_count"],
            error=row["error"],
            gave_up=tuple(GaveUp(**one) for one in row["gave_up"]),
            created_at=row["created_at"],
            held=row["held"],
        )
        for row in rows
    ]


async def requeue(
    pool: Pool, event_id: str, operator: Operator, subscribers: Subscribers = SUBSCRIBERS
) -> None:
    """Begin anew with an event: all attempts are forgotten, what was consumed stays consumed."""
    async with _decided(pool, "outbox.requeue", event_id, operator) as tx:
        kind = await _failed_type(tx, event_id)
        await tx.execute("delete from consumer_failures where event_id = %s", [event_id])
        await tx.execute(
            """
            update outbox
            set status = 'pending', attempt_count = 0, last_error = null,
                not_before = clock_timestamp()
            where id = %s
            """,
            [event_id],
        )
        await settle_events.settle(tx, event_id, subscribers[kind])
        settle_events.ring(tx)


async def discard(pool: Pool, event_id: str, operator: Operator) -> None:
    """Give an event up for good: who has not consumed it never will, and later ones go on."""
    async with _decided(pool, "outbox.discard", event_id, operator) as tx:
        await _failed_type(tx, event_id)
        await tx.execute(
            """
            update outbox set status = 'discarded', ended_at = clock_timestamp() where id = %s
            """,
            [event_id],
        )
        await tx.execute(
            """
            update outbox set not_before = clock_timestamp()
            where id in (
                select later.id from outbox event
                join outbox later on later.key = event.key and later.position > event.position
                where event.id = %s and later.status = 'published'
                order by later.position for no key update of later)
            """,
            [event_id],
        )
        settle_events.ring(tx)


async def _failed_type(tx: Connection, event_id: str) -> EventType:
    """Its type, with the row locked; raises unless somebody is to decide about it."""
    found = await tx.execute(
        """
        select event_type, status, exists (
            select from consumer_failures where event_id = %(id)s and gave_up_at is not null
        ) as gave_up
        from outbox where id = %(id)s for no key update
        """,
        {"id": event_id},
    )
    row = await found.fetchone()
    if row is None:
        raise EventNotFound(f"no event {event_id}")
    status = OutboxStatus(row["status"])
    ended = status in {OutboxStatus.DONE, OutboxStatus.DISCARDED}
    if ended or (status is not OutboxStatus.FAILED and not row["gave_up"]):
        raise EventNotFailed(f"event {event_id} has not failed: it is {status}")
    return EventType(row["event_type"])


@asynccontextmanager
async def _decided(
    pool: Pool, action: str, event_id: str, operator: Operator
) -> AsyncIterator[Connection]:
    """The transaction of a decision, with its row of the audit; a refusal gets one, too."""
    attempt = Attempt(
        by=operator.name,
        role=operator.role,
        action=action,
        target=event_id,
        target_type="outbox_event",
        correlation_id=operator.correlation_id,
        metadata={"reason": operator.reason},
    )
    try:
        async with transaction(pool) as tx:
            yield tx
            await audit.record(tx, attempt, done=True)
    except Rejected as error:
        await audit.refused(pool, attempt, error)
        raise
