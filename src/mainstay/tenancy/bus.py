"""The bus: it carries events from the relay to the consumers, and may lose every one of them.

The row of the outbox is the letter, the bus is the door bell. A consumer takes the event from the
row, in its own transaction, so a message that was lost, repeated, delayed or forged does no harm.
"""

import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from mainstay.tenancy.database.connect import Row
from mainstay.tenancy.outbox import SUBJECT_PREFIX
from mainstay.tenancy.states import EventType


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """An event as everybody sees it."""

    event_id: str
    event_type: EventType
    key: str
    """Events of one key reach a consumer in order. Not part of the message."""

    occurred_at: datetime
    version: str
    correlation_id: str
    payload: dict[str, Any]

    @property
    def subject(self) -> str:
        """What it is filed under on a bus."""
        return SUBJECT_PREFIX + self.event_type

    def encoded(self) -> bytes:
        """The message: what the AsyncAPI document describes."""
        when = self.occurred_at.astimezone(UTC).isoformat(timespec="microseconds")
        return json.dumps(
            {
                "event_id": self.event_id,
                "event_type": str(self.event_type),
                "version": self.version,
                "occurred_at": when.replace("+00:00", "Z"),
                "correlation_id": self.correlation_id,
                "payload": self.payload,
            },
            separators=(",", ":"),
        ).encode()


def envelope_of(row: Row) -> Envelope:
    """The event of a row of the outbox."""
    written = row["envelope"]
    return Envelope(
        event_id=written["event_id"],
        event_type=EventType(written["event_type"]),
        key=row["key"],
        occurred_at=datetime.fromisoformat(written["occurred_at"]),
        version=written["version"],
        correlation_id=written["correlation_id"],
        payload=written["payload"],
    )


class Delivery(Protocol):
    """One message at one consumer. Whoever takes it ends it in one of three ways.

    None of them raises: what the bus does not get to know costs a repetition.
    """

    @property
    def event_id(self) -> str:
        """Which event it is about; all that is believed of a message."""

    async def ack(self) -> None:
        """It is dealt with."""

    async def nak(self, delay_s: float) -> None:
        """Bring it again after a pause, to whoever consumes under this name."""

    async def dead(self, reason: str) -> None:
        """Never bring it again: the row of the outbox says why."""


class Bus(Protocol):
    """What relay and consumers need of a bus: nothing that it must never lose."""

    async def publish(self, envelope: Envelope, *, turn: int = 0) -> None:
        """Hand an event over; when it returns, the bus has it.

        `turn` counts intended publications: a bus may drop a second one of the same turn. Raises
        Unavailable when the bus is not there, which is no fault of the event.
        """

    def subscribe(
        self, consumer: str, subjects: frozenset[EventType]
    ) -> AsyncGenerator[Delivery, None]:
        """Messages for a consumer, without end; shared among all who use the same name.

        It outlives a lost connection and a bus that was wiped.
        """
