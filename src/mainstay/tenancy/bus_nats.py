"""NATS JetStream as the bus: one stream, a durable consumer per name, a stream of dead letters.

Needs the package `nats-py`. JetStream is transport, never the truth: a server that forgets its
streams gets them again, and the relay publishes again what was not consumed.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, RetentionPolicy, StorageType, StreamConfig

from mainstay.model.errors import Rejected, Unavailable
from mainstay.runtime.log import logger
from mainstay.tenancy.bus import Delivery, Envelope
from mainstay.tenancy.listen import heed_cancel
from mainstay.tenancy.outbox import SUBJECT_PREFIX
from mainstay.tenancy.states import EventType

DEAD_PREFIX: Final = "dead."
MESSAGE_ID: Final = "Nats-Msg-Id"
EVENT_ID: Final = "Mainstay-Event-Id"
_AWAY: Final = (NatsError, OSError, TimeoutError)
_DAY_S: Final = 86_400.0
RECONNECT_S: Final = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class NatsOptions:
    """How the streams are made."""

    servers: Sequence[str]
    stream: str = "MAINSTAY"
    replicas: int = 1
    keep_s: float = 7 * _DAY_S
    bytes_max: int = 64 * 1024 * 1024
    duplicates_s: float = 120.0
    """Second publications of one turn are dropped for so long."""

    ack_wait_s: float = 30.0
    """A message that nobody has ended comes again after this."""

    timeout_s: float = 2.0
    fetch_s: float = 2.0
    """How long to wait for messages before checking that the stream is still there."""

    batch: int = 16

    @property
    def dead_stream(self) -> str:
        """Where dead letters are kept."""
        return f"{self.stream}_DEAD"


@asynccontextmanager
async def nats_bus(options: NatsOptions) -> AsyncIterator["NatsBus"]:
    """A bus on these servers, closed when the block is left; Unavailable if none answers."""

    async def lost(error: Exception) -> None:
        logger().warning("nats_failed", error=type(error).__name__)

    try:
        async with asyncio.timeout(2 * options.timeout_s):
            client = await nats.connect(
                servers=list(options.servers),
                max_reconnect_attempts=-1,
                reconnect_time_wait=RECONNECT_S,
                connect_timeout=options.timeout_s,
                error_cb=lost,
            )
    except _AWAY as error:
        raise Unavailable("no NATS server answers: check its address and that it runs") from error
    bus = NatsBus(client, options)
    try:
        await bus.prepare()
        yield bus
    finally:
        with suppress(*_AWAY):
            await client.close()


class NatsBus:
    """Made by `nats_bus`."""

    def __init__(self, client: Client, options: NatsOptions) -> None:
        self._options = options
        self._js: JetStreamContext = client.jetstream(timeout=options.timeout_s)

    async def prepare(self) -> None:
        """Make the streams where they are missing."""
        options = self._options
        for name, subjects in (
            (options.stream, f"{SUBJECT_PREFIX}>"),
            (options.dead_stream, f"{DEAD_PREFIX}{SUBJECT_PREFIX}>"),
        ):
            config = StreamConfig(
                name=name,
                subjects=[subjects],
                retention=RetentionPolicy.LIMITS,
                storage=StorageType.FILE,
                max_age=options.keep_s,
                max_bytes=options.bytes_max,
                num_replicas=options.replicas,
                duplicate_window=options.duplicates_s,
            )
            try:
                await self._js.add_stream(config)
            except nats.js.errors.BadRequestError:
                await self._js.update_stream(config)
            except _AWAY as error:
                raise Unavailable("NATS does not make streams now") from error

    async def publish(self, envelope: Envelope, *, turn: int = 0) -> None:
        """Hand it to the stream, which drops a second message of the same turn."""
        body = envelope.encoded()
        try:
            await self._js.publish(
                envelope.subject,
                body,
                timeout=self._options.timeout_s,
                stream=self._options.stream,
                headers={
                    MESSAGE_ID: f"{envelope.event_id}.{turn}",
                    EVENT_ID: envelope.event_id,
                },
            )
        except nats.errors.MaxPayloadError as error:
            raise Rejected(
                f"event {envelope.event_id} has {len(body)} bytes, more than NATS takes"
            ) from error
        except nats.js.errors.NoStreamResponseError as error:
            await self.prepare()
            raise Unavailable("NATS had lost its stream: it was made anew") from error
        except _AWAY as error:
            raise Unavailable(f"NATS did not take it: {type(error).__name__}") from error

    async def subscribe(
        self, consumer: str, subjects: frozenset[EventType]
    ) -> AsyncGenerator[Delivery, None]:
        """Messages of the durable consumer of this name, which is made again if it is lost."""
        while True:
            heed_cancel()
            try:
                pull = await self._durable(consumer, subjects)
                while True:
                    for message in await self._fetched(pull, consumer):
                        yield _Message(message, consumer, self._js)
            except (*_AWAY, Unavailable) as error:
                logger(consumer=consumer).warning("nats_subscription_lost", error=repr(error))
                await asyncio.sleep(RECONNECT_S)

    async def _durable(
        self, consumer: str, subjects: frozenset[EventType]
    ) -> JetStreamContext.PullSubscription:
        await self.prepare()
        await self._js.add_consumer(
            self._options.stream,
            ConsumerConfig(
                durable_name=consumer,
                ack_policy=AckPolicy.EXPLICIT,
                ack_wait=self._options.ack_wait_s,
                max_deliver=-1,
                filter_subjects=sorted(SUBJECT_PREFIX + kind for kind in subjects),
            ),
        )
        return await self._js.pull_subscribe_bind(durable=consumer, stream=self._options.stream)

    async def _fetched(self, pull: JetStreamContext.PullSubscription, consumer: str) -> list[Msg]:
        heed_cancel()
        try:
            return await pull.fetch(self._options.batch, timeout=self._options.fetch_s)
        except nats.errors.TimeoutError:
            await self._js.consumer_info(self._options.stream, consumer)  # raises if it is gone
            return []


@dataclass(frozen=True, slots=True)
class _Message:
    message: Msg
    consumer: str
    js: JetStreamContext

    @property
    def event_id(self) -> str:
        """As the header says; a message without one belongs to no event."""
        return (self.message.headers or {}).get(EVENT_ID, "")

    async def ack(self) -> None:
        """It need not be brought again."""
        with suppress(*_AWAY):
            await self.message.ack()

    async def nak(self, delay_s: float) -> None:
        """The server brings it again."""
        with suppress(*_AWAY):
            await self.message.nak(delay=delay_s)

    async def dead(self, reason: str) -> None:
        """A copy goes to the stream of dead letters, for those who look there."""
        message = self.message
        with suppress(*_AWAY):
            await self.js.publish(
                f"{DEAD_PREFIX}{message.subject}",
                message.data,
                headers={
                    MESSAGE_ID: f"{(message.headers or {}).get(MESSAGE_ID, '')}.{self.consumer}",
                    EVENT_ID: self.event_id,
                    "Mainstay-Consumer": self.consumer,
                    "Mainstay-Reason": reason.encode("ascii", "replace").decode(),
                },
            )
        with suppress(*_AWAY):
            await message.term()
