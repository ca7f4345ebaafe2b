"""What a shard process stands on: its files, its threads, and the lines to others."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from mainstay.config.shard import ShardConfig
from mainstay.model.charges import Meter
from mainstay.processes.shard_parts import Assembled, Beside
from mainstay.runtime.aside import Aside
from mainstay.runtime.clock import Clock
from mainstay.shard.datadir import DataDir
from mainstay.shard.metrics import ShardMetrics
from mainstay.shard.ports import Link
from mainstay.wire.meter import RemoteMeter
from mainstay.wire.provider_client import ClientOptions, RemoteProvider
from mainstay.wire.tls import TlsFlags, transport
from mainstay.wire.transport import open_channel

AnswerT = TypeVar("AnswerT")

THREADS: Final = 6
"""For decisions and what they wait for: questions and lists have others, and take none of these."""


@dataclass(frozen=True, slots=True)
class Made:
    """A shard and what shows how it stands."""

    shard: Assembled
    metrics: ShardMetrics


def tls_flags(config: ShardConfig) -> TlsFlags:
    """What was said of TLS, for servers and clients alike."""
    return TlsFlags(
        cert=config.tls_cert, key=config.tls_key, ca=config.tls_ca, insecure=config.insecure
    )


def tls_files(config: ShardConfig) -> dict[str, str] | None:
    """Where the certificate lies, for whoever dials this shard; None: it has none."""
    if not config.tls_cert:
        return None
    return {"cert": config.tls_cert, "key": config.tls_key, "ca": config.tls_ca}


class Reached(NamedTuple):
    """The providers, each by its name."""

    links: Mapping[str, Link]
    meters: Mapping[str, Meter]


@asynccontextmanager
async def reached(config: ShardConfig, flags: TlsFlags) -> AsyncIterator[Reached]:
    """Clients for each provider, closed at the end."""
    options = ClientOptions(
        call_timeout_s=config.call_timeout_s, list_timeout_s=config.list_timeout_s
    )
    links: dict[str, Link] = {}
    meters: dict[str, Meter] = {}
    async with AsyncExitStack() as stack:
        for name, address in config.provider_addresses.items():
            channel = open_channel(address, transport(flags, address))
            stack.push_async_callback(channel.close)
            links[name] = RemoteProvider(channel, source=name, options=options)
            meters[name] = RemoteMeter(channel, source=name)
        yield Reached(links, meters)


class Threads(NamedTuple):
    """What runs work beside the loop, each in threads that nobody else takes."""

    work: Aside
    audit: Aside
    attribution: Aside


@asynccontextmanager
async def own_threads() -> AsyncIterator[Threads]:
    """Threads for one life of a shard. At its end what they have begun is waited for: a write that
    a disk holds up must not land among the files of the next life.
    """
    async with (
        threads(THREADS, "shard") as work,
        threads(1, "audit") as audit,
        threads(1, "attribution") as attribution,
    ):
        yield Threads(work, audit, attribution)


@asynccontextmanager
async def threads(count: int, name: str) -> AsyncIterator[Aside]:
    """So many, until the block is left and they have done what they had begun."""
    pool = ThreadPoolExecutor(count, thread_name_prefix=name)

    def aside(work: Callable[[], AnswerT]) -> Awaitable[AnswerT]:
        return asyncio.get_running_loop().run_in_executor(pool, work)

    try:
        yield aside
    finally:
        await asyncio.to_thread(pool.shutdown)


class Ground(NamedTuple):
    """What a shard stands on."""

    data: DataDir
    threads: Threads
    lines: Reached


@asynccontextmanager
async def beside_uplink(
    made: Made, config: ShardConfig, clock: Clock, at: str
) -> AsyncIterator[Beside]:
    """What runs beside a shard that has a coordinator: it ends for nothing but being cancelled."""
    from mainstay.processes.shard_uplink import uplinked  # noqa: PLC0415 - only where used

    over = transport(tls_flags(config), config.coordinators[0])
    async with uplinked(
        made.shard, config, over, address=at, metrics=made.metrics, clock=clock
    ) as uplink:
        yield uplink.run
