"""`mainstay bench sessions`: every cluster of a shard comes back at once, as after a restart.

The shard and its provider are processes; every cluster has a connection of its own, one machine
that serves it, and demand for just that. What is timed is the way from "all dial now" to the
acknowledgement of each, and to the word about each machine that is told anew.
"""

import asyncio
import resource
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mainstay.bench.frame import Bench
from mainstay.bench.shard import ranked, until
from mainstay.model.errors import Unavailable
from mainstay.model.frames import BootstrapAsked, CapacityHint, NodeState, ReclaimTold
from mainstay.model.ids import ClusterId
from mainstay.model.need import Need, NeedProfile
from mainstay.model.state import State
from mainstay.model.views import Summary, SummaryQuery
from mainstay.runtime.children import Child, Children
from mainstay.session.client import ClientTools, SessionClient
from mainstay.wire.session_client import SessionStream, streaming
from mainstay.wire.shard_view_client import RemoteShard
from mainstay.wire.tls import Plaintext
from mainstay.wire.transport import KEEPALIVE_OPTIONS, Over, open_channel

BUDGET: Final = {"acknowledged_max_ms": 30_000.0}
PROMISED_AT: Final = 2_000
"""The budget is for so many clients or more."""

UNIT: Final = {"cpu": 2_000}
OWN_CONNECTION: Final = (*KEEPALIVE_OPTIONS, ("grpc.use_local_subchannel_pool", 1))
"""Clients of one process would share one connection, and clusters do not."""

FILES_SPARE: Final = 500

FLEET: Final = """
name = "sim"
latency_s = {{ create = 0.01, configure = 0.01, drain = 0.01, delete = 0.01 }}

[[pool]]
capacity = "Reserved"
type = "m5.large"
zone = "use1-az2"
slots = {slots}
"""
SHARD: Final = """
[shard]
shard_id = "bench"
listen = "127.0.0.1:0"
http = "127.0.0.1:0"
insecure = true
providers = ["sim={address}"]
cycle_interval_s = 1.0
"""


@dataclass(slots=True)
class Cluster:
    """One of them, in one of its sessions: its handlers, and when it was told what."""

    name: ClusterId
    now_s: Callable[[], float]
    acknowledged_s: float = 0.0
    replayed_s: float = 0.0

    async def bootstrap(self, asked: BootstrapAsked) -> bytes:
        """Any machine may join."""
        return asked.machine.encode()

    async def reclaim(self, told: ReclaimTold) -> int:
        """Nothing runs there."""
        return len(told.nodes)

    async def node_state(self, state: NodeState) -> None:
        """Its machine serves."""
        if state.state is State.CONFIGURED and not self.replayed_s:
            self.replayed_s = self.now_s()

    async def hint(self, hint: CapacityHint) -> None:
        """It has all it wants."""

    async def run(self, address: str) -> None:
        """Ask for one machine and note when the shard has acknowledged the session."""
        client = SessionClient(
            self.name, address, Plaintext(), self, tools=ClientTools(dial=_dial_alone)
        )
        unit = dict(UNIT)
        profile = NeedProfile(priority=100)
        client.set_needs([Need(cluster=self.name, profile=profile, aggregate=unit, min_unit=unit)])
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(client.run())
            await client.wait_connected()
            self.acknowledged_s = self.now_s()


def run(bench: Bench, clients: int) -> None:
    """Counts first, then times."""
    bench.budget = dict(BUDGET) if clients >= PROMISED_AT else {}
    _allow_files(clients + FILES_SPARE)
    with (
        tempfile.TemporaryDirectory(prefix="mainstay-bench-") as folder,
        Children(Path(folder)) as children,
    ):
        asyncio.run(_measure(bench, clients, children))


async def _measure(bench: Bench, clients: int, children: Children) -> None:
    shard = await _shard(children, clients)
    address = await _address(shard)
    now_s = bench.clock.elapsed_s

    async with open_channel(address, Plaintext()) as channel:
        remote = RemoteShard(channel, name="shard bench")

        async def seen(what: str, said: Callable[[Summary], bool]) -> Summary:
            async def asked() -> Summary | None:
                try:
                    summary = await remote.summary(SummaryQuery())
                except Unavailable:  # so many dial that the answer comes too late
                    return None
                return summary if said(summary) else None

            return await until(asked, shard, what)

        bench.progress(f"sessions: {clients:,} clusters get a machine each")
        async with _dialled(clients, address, now_s):
            serving = str(State.CONFIGURED)
            told = await seen(
                "all to be served",
                lambda summary: summary.machines.get(serving, 0) >= clients and not summary.unmet,
            )
            bench.expect("machines_serving", expected=clients, actual=told.machines[serving])
            bench.expect("connected", expected=clients, actual=told.connected)
        await seen("all to be gone", lambda summary: not summary.connected)

        bench.progress("sessions: all dial at once")
        began_s = now_s()
        async with _dialled(clients, address, now_s) as clusters:

            async def replayed() -> bool | None:
                return all(each.acknowledged_s and each.replayed_s for each in clusters) or None

            await until(replayed, shard, "all to be acknowledged and told of their machines")
            told = await seen("all to be connected", lambda summary: summary.connected == clients)
            bench.expect("reconnected", expected=clients, actual=told.connected)
            bench.expect("still_serving", expected=clients, actual=told.machines[serving])
        _figures(bench, "acknowledged", [each.acknowledged_s - began_s for each in clusters])
        _figures(bench, "replayed", [each.replayed_s - began_s for each in clusters])


def _figures(bench: Bench, name: str, seconds: Sequence[float]) -> None:
    samples = [round(each * 1000, 1) for each in seconds]
    bench.samples[f"{name}_ms"] = samples
    for key, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
        bench.figures[f"{name}_{key}_ms"] = ranked(samples, share)


async def _shard(children: Children, slots: int) -> Child:
    """A shard over a provider with so many slots."""
    fleet, config = children.home / "fleet.toml", children.home / "shard.toml"
    fleet.write_text(FLEET.format(slots=slots), encoding="utf-8")
    words = ["provider", "sim", "--fleet", str(fleet), "--listen", "127.0.0.1:0"]
    provider = children.command("provider", words)
    config.write_text(SHARD.format(address=await _address(provider)), encoding="utf-8")
    return children.command("shard", ["shard", "--config", str(config)])


async def _address(child: Child) -> str:
    async def told() -> str | None:
        facts = child.announced()
        return None if facts is None else str(facts["addresses"]["grpc"])

    return await until(told, child, f"the {child.name} to serve")


@asynccontextmanager
async def _dialled(
    clients: int, address: str, now_s: Callable[[], float]
) -> AsyncIterator[list[Cluster]]:
    """So many clusters, all of which dial at once, inside the block."""
    clusters = [Cluster(ClusterId(f"c-{number}"), now_s) for number in range(clients)]
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(each.run(address)) for each in clusters]
        yield clusters
        for each in running:
            each.cancel()


@asynccontextmanager
async def _dial_alone(address: str, over: Over) -> AsyncIterator[SessionStream]:
    async with (
        open_channel(address, over, options=OWN_CONNECTION) as channel,
        streaming(channel) as stream,
    ):
        yield stream


def _allow_files(count: int) -> None:
    """A connection is a file, here and in the shard, which takes our limit over."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        most = count if hard == resource.RLIM_INFINITY else min(count, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
