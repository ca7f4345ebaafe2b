"""What every process of tenancy stands on: the database, the keys, the bus. Chosen here only."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from prometheus_client import CollectorRegistry

from mainstay.config.api import ApiConfig
from mainstay.model.errors import MainstayError, Rejected
from mainstay.processes.database import database
from mainstay.runtime.clock import Clock
from mainstay.runtime.log import logger
from mainstay.tenancy import signing
from mainstay.tenancy.authority import Authority
from mainstay.tenancy.bell import Bell, listening
from mainstay.tenancy.billing.metrics import BillerMetrics
from mainstay.tenancy.bus import Bus
from mainstay.tenancy.bus_metrics import ConsumerMetrics, RelayMetrics
from mainstay.tenancy.bus_postgres import PostgresBus
from mainstay.tenancy.credentials import folder_of
from mainstay.tenancy.database.connect import Pool, pool_at, transaction
from mainstay.tenancy.database.migrate import migrate
from mainstay.tenancy.ids import Ids, ids_from
from mainstay.tenancy.signing import Signer
from mainstay.tenancy.worker.metrics import WorkerMetrics

PAUSE_S: Final = 1.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Around:
    """What a process is given from outside."""

    home: Path
    clock: Clock
    say: Say
    """Prints a line for people."""


class Metrics:
    """What this process counts, in one registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.relay = RelayMetrics(self.registry)
        self.consumer = ConsumerMetrics(self.registry)
        self.worker = WorkerMetrics(self.registry)
        self.biller = BillerMetrics(self.registry)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a process of tenancy is made of."""

    config: ApiConfig
    around: Around
    url: str
    """Of the database, with its password: never print it."""

    pool: Pool
    bell: Bell
    bus: Bus
    ids: Ids
    signer: Signer
    metrics: Metrics = field(default_factory=Metrics)

    @property
    def clock(self) -> Clock:
        """Whose time it is."""
        return self.around.clock

    @property
    def folder(self) -> Path:
        """Where keys are."""
        return folder_of(self.around.home)

    def authority(self) -> Authority:
        """Who signs certificates of nodes."""
        return Authority(self.folder / "authority", self.clock)


@asynccontextmanager
async def standing(config: ApiConfig, around: Around) -> AsyncIterator[Ground]:
    """Everything opened, the schema up to date, a signing key active; closed at the end."""
    ids = ids_from(around.clock, Random(secrets.randbits(128)))
    signer = Signer(folder_of(around.home) / "signing")
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(database(config.database, around.home))
        await asyncio.to_thread(migrate, url)
        pool = await stack.enter_async_context(pool_at(url, size_max=config.connections_max))
        async with transaction(pool) as tx:
            await signing.ensure_active(tx, ids, signer)
        bell = await stack.enter_async_context(listening(url))
        bus = await stack.enter_async_context(_bus(config, pool))
        yield Ground(
            config=config,
            around=around,
            url=url,
            pool=pool,
            bell=bell,
            bus=bus,
            ids=ids,
            signer=signer,
        )


@asynccontextmanager
async def _bus(config: ApiConfig, pool: Pool) -> AsyncIterator[Bus]:
    if not config.bus:
        yield PostgresBus(pool)
        return
    try:
        from mainstay.tenancy.bus_nats import (  # noqa: PLC0415 - only where used
            NatsOptions,
            nats_bus,
        )
    except ModuleNotFoundError as error:
        raise Rejected("--bus needs a package: pip install 'mainstay[nats]'") from error

    async with nats_bus(NatsOptions(servers=config.bus.split(","))) as bus:
        yield bus


async def kept(name: str, run: Callable[[], Awaitable[object]]) -> None:
    """Run it again whenever it fails: one part that stumbles does not take the others along."""
    while True:
        try:
            await run()
        except MainstayError as error:
            logger(part=name).warning("part_stumbled", error=error.message)
        except Exception as error:  # noqa: BLE001 - the boundary: a bug costs a pause
            logger(part=name).error("part_failed", exc_info=error)
        await asyncio.sleep(PAUSE_S)


@asynccontextmanager
async def alongside(parts: dict[str, Callable[[], Awaitable[object]]]) -> AsyncIterator[None]:
    """Parts that run while the block does."""
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(kept(name, run), name=name) for name, run in parts.items()]
        try:
            yield
        finally:
            for task in running:
                task.cancel()
