"""A shard as its process serves it, inside of a test: real streams, real pages, real files."""

import asyncio
import dataclasses
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mainstay.config.shard import ShardConfig
from mainstay.processes.shard import Place, serve_shard
from mainstay.providers.sim.latency import INSTANT
from mainstay.providers.sim.provider import Sim, simulated
from mainstay.providers.sim.spec import SimSpec
from mainstay.runtime.clock import SystemClock
from mainstay.session.client import ClientTools, SessionClient
from mainstay.session.reconnect import ReconnectOptions
from mainstay.wire.meter import meter_handler
from mainstay.wire.provider_server import provider_handler
from mainstay.wire.shard_view_client import RemoteShard
from mainstay.wire.tls import TlsFlags, transport
from mainstay.wire.transport import Over, open_channel, serving
from talking import Hands
from whole_shard import a_provider

LOOPBACK: Final = "127.0.0.1:0"
PATIENCE_S: Final = 60.0
QUICK: Final = ReconnectOptions(shortest_s=0.05, longest_s=0.2)


def instant(*, idle: int = 4, slots: int = 0) -> SimSpec:
    """A provider whose steps take no time."""
    return dataclasses.replace(a_provider(slots=slots, idle=idle), latencies=INSTANT)


async def until(said: Callable[[], Any], *, patience_s: float = PATIENCE_S) -> Any:
    """Look until it is so. Never a measure of time, only of patience."""
    async with asyncio.timeout(patience_s):
        while True:
            answer = said()
            if asyncio.iscoroutine(answer):
                answer = await answer
            if answer:
                return answer
            await asyncio.sleep(0.02)


@dataclass(frozen=True)
class Served:
    """A shard at its addresses."""

    home: Path
    sim: Sim
    grpc: str
    http: str
    over: Over

    async def page(self, path: str) -> tuple[int, str]:
        """One of its pages: status and text."""
        return await asyncio.to_thread(_fetched, f"http://{self.http}{path}")

    async def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's series that have these labels."""
        _, text = await self.page("/metrics")
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        rows = [line for line in text.splitlines() if line.split("{")[0].split(" ")[0] == name]
        found = [row for row in rows if all(label in row for label in wanted)]
        return sum(float(row.rsplit(" ", 1)[1]) for row in found)

    @asynccontextmanager
    async def asked(self, over: Over | None = None) -> AsyncIterator[RemoteShard]:
        """Somebody who asks it."""
        async with open_channel(self.grpc, over or self.over) as channel:
            yield RemoteShard(channel, name="shard")

    @asynccontextmanager
    async def cluster(
        self, name: str = "web", hands: Hands | None = None, over: Over | None = None
    ) -> AsyncIterator[SessionClient]:
        """A cluster with a session inside the block."""
        tools = ClientTools(reconnect=QUICK, rollup_every_s=5.0)
        client = SessionClient(name, self.grpc, over or self.over, hands or Hands(), tools=tools)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(client.run())
            try:
                yield client
            finally:
                running.cancel()


def _fetched(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@asynccontextmanager
async def served(
    home: Path, spec: SimSpec | None = None, flags: TlsFlags | None = None, /, **settings: object
) -> AsyncIterator[Served]:
    """A shard over one provider, both served, until the block is left; with flags over TLS."""
    over = transport(flags or TlsFlags(insecure=True), LOOPBACK)
    async with AsyncExitStack() as stack:
        sim = await stack.enter_async_context(simulated(spec or instant(), SystemClock()))
        handlers = [provider_handler(sim.calls), meter_handler(sim.meter)]
        address = await stack.enter_async_context(serving(handlers, LOOPBACK, over))
        grpc, http = await stack.enter_async_context(_shard_at(home, address, flags, settings))
        yield Served(home, sim, grpc, http, over)


@asynccontextmanager
async def _shard_at(
    home: Path, provider: str, flags: TlsFlags | None, settings: dict[str, object]
) -> AsyncIterator[tuple[str, str]]:
    files = (
        {"insecure": True}
        if flags is None
        else {"tls_cert": flags.cert, "tls_key": flags.key, "tls_ca": flags.ca}
    )
    chosen: dict[str, Any] = {"cycle_interval_s": 0.2, **files, **settings}
    config = ShardConfig(listen=LOOPBACK, http=LOOPBACK, providers=(f"sim={provider}",), **chosen)
    task = asyncio.ensure_future(serve_shard(config, Place(home, SystemClock(), lambda _: None)))
    announced = home / "run" / f"shard-{config.shard_id}.json"
    try:
        await until(lambda: announced.exists() or task.done())
        if task.done():
            task.result()
        addresses = json.loads(announced.read_text(encoding="utf-8"))["addresses"]
        yield addresses["grpc"], addresses["http"]
    finally:
        task.cancel()
        await asyncio.wait([task])
