"""Events leave by the outbox alone: the row is written in the transaction of what it tells."""

import json
from dataclasses import dataclass, field
from typing import Any, Final

from mainstay.tenancy.database.connect import Connection, tell
from mainstay.tenancy.ids import Ids
from mainstay.tenancy.states import EventType

SUBJECT_PREFIX: Final = "mainstay."
VERSION: Final = "1.0"
CHANNEL: Final = "mainstay_outbox"
"""Notified after the commit, so that a relay need not poll often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something to be told."""

    event_type: EventType
    key: str
    """Events of one key are delivered in order: the allocation's or the account's id."""

    correlation_id: str
    payload: dict[str, Any] = field(default_factory=dict)


async def append(tx: Connection, ids: Ids, event: Event) -> str:
    """Write an event in the caller's transaction; its id.

    The time is that of the write, not of the beginning of the transaction.
    """
    event_id = ids("evt")
    await tx.execute(
        """
        insert into outbox (id, key, event_type, subject, correlation_id, envelope)
        values (%(id)s, %(key)s, %(type)s, %(subject)s, %(correlation)s, jsonb_build_object(
            'event_id', %(id)s::text, 'event_type', %(type)s::text, 'version', %(version)s::text,
            'occurred_at', to_char(clock_timestamp() at time zone 'UTC',
                                   'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
            'correlation_id', %(correlation)s::text, 'payload', %(payload)s::jsonb))
        """,
        {
            "id": event_id,
            "key": event.key,
            "type": str(event.event_type),
            "subject": SUBJECT_PREFIX + event.event_type,
            "version": VERSION,
            "correlation": event.correlation_id,
            "payload": json.dumps(event.payload),
        },
    )
    tell(tx, CHANNEL)
    return event_id
