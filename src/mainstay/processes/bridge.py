"""`mainstay bridge`: tenancy's session with a shard, alone in a process or as a part of the API."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from mainstay.bridge.blob import key_in
from mainstay.bridge.bridge import Bridge, BridgeOptions
from mainstay.bridge.doing import Acts, Tools
from mainstay.bridge.hearing import Hearing
from mainstay.bridge.machines import Machines, RealMachines, simulated
from mainstay.bridge.metrics import BridgeMetrics
from mainstay.bridge.steps import Patience
from mainstay.bridge.sweep import sweep
from mainstay.config.api import ApiConfig
from mainstay.config.bridge import BridgeConfig
from mainstay.model.errors import Rejected
from mainstay.processes.announce import announced
from mainstay.processes.pages import Answer, Pages, serving_pages
from mainstay.processes.tenancy import Around, Ground, alongside, standing
from mainstay.processes.told import until_told
from mainstay.session.client import ClientTools, SessionClient
from mainstay.session.reconnect import ReconnectOptions
from mainstay.tenancy import enrolment
from mainstay.tenancy.agent_faults import Faults
from mainstay.tenancy.database.connect import transaction
from mainstay.tenancy.pruning import DAY_S, keep_pruning
from mainstay.wire.tls import TlsFlags, transport
from mainstay.wire.transport import Over

RECONNECT: Final = ReconnectOptions(longest_s=5.0)
"""Tenants wait: it comes back soon."""

DISKS: Final = "machines"


@dataclass(frozen=True, slots=True)
class Standing:
    """A bridge that can run."""

    bridge: Bridge
    client: SessionClient
    sweep: Callable[[], Awaitable[int]]

    async def run(self) -> None:
        """Session and loop, until one of them fails."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.client.run(), name="session")
            tasks.create_task(self.bridge.run(self.client), name="look")

    def parts(self) -> dict[str, Callable[[], Awaitable[object]]]:
        """What runs beside others: that nothing is swept ends no session."""
        return {"bridge": self.run, "sweep": lambda: keep_pruning("lives", self.sweep)}


@asynccontextmanager
async def bridging(
    config: BridgeConfig, ground: Ground, agents_url: str, acts: Acts | None = None
) -> AsyncIterator[Standing]:
    """Everything but the running. What is missing is said before anything is begun."""
    over = over_of(config)
    clock = ground.clock
    tools = Tools(
        cluster=config.cluster_id,
        pool=ground.pool,
        ids=ground.ids,
        key=key_in(ground.folder),
        agents_url=agents_url,
        authority=ground.authority().pem.decode(),
        join_s=config.join_s,
        cleanup_s=config.cleanup_s,
    )
    options = BridgeOptions(
        every_s=config.every_s,
        patience=Patience(
            join_s=config.join_s, settle_s=config.settle_s, gone_after_s=config.gone_after_s
        ),
        head_room=config.head_room_of,
        acts=acts or Acts(),
    )
    hearing = Hearing(clock, lambda: (0, False))
    async with _machines(config, ground) as machines:
        bridge = Bridge(tools, hearing, options, BridgeMetrics(ground.metrics.registry), machines)
        client = SessionClient(
            config.cluster_id,
            config.shard,
            over,
            bridge,
            tools=ClientTools(clock=clock, reconnect=RECONNECT),
        )
        hearing.session = lambda: (client.facts().sessions, client.facts().connected)
        kept_s = config.lives_kept_days * DAY_S
        yield Standing(bridge, client, lambda: sweep(ground.pool, config.cluster_id, kept_s))


def over_of(config: BridgeConfig) -> Over:
    """How the shard is spoken to."""
    if not config.shard:
        raise Rejected("no shard: give --shard HOST:PORT")
    flags = TlsFlags(
        cert=config.tls_cert, key=config.tls_key, ca=config.tls_ca, insecure=config.insecure
    )
    return transport(flags, config.shard)


@asynccontextmanager
async def _machines(config: BridgeConfig, ground: Ground) -> AsyncIterator[Machines]:
    if not config.simulate:
        yield RealMachines()
        return

    async def invite(node: str) -> str:
        async with transaction(ground.pool) as tx:
            return await enrolment.invite(tx, node)

    faults = Faults(phase_s=config.simulate_phase_s)
    async with simulated(ground.folder / DISKS, ground.clock, faults, invite) as machines:
        yield machines


async def serve_bridge(
    config: BridgeConfig, tenancy: ApiConfig, around: Around, acts: Acts | None = None
) -> None:
    """Until a signal."""
    over_of(config)
    agents_url = config.agents_url or _announced_agents(around.home)
    async with AsyncExitStack() as stack:
        stop = await stack.enter_async_context(until_told())
        ground = await stack.enter_async_context(standing(tenancy, around))
        made = await stack.enter_async_context(bridging(config, ground, agents_url, acts))
        await stack.enter_async_context(alongside(made.parts()))
        addresses = {}
        if config.http:
            pages = serving_pages(config.http, _pages(ground, made))
            addresses["http"] = await stack.enter_async_context(pages)
        facts = {"addresses": addresses, "cluster": config.cluster_id, "shard": config.shard}
        stack.enter_context(announced(around.home, "bridge", config.cluster_id, facts))
        around.say(f"Tenancy is cluster {config.cluster_id} of {config.shard}. Ctrl-C stops it.")
        await stop.wait()
    around.say("Stopped.")


def _announced_agents(home: Path) -> str:
    """Where an API on this machine listens to agents."""
    for path in sorted((home / "run").glob("api-*.json")):
        try:
            said = json.loads(path.read_text(encoding="utf-8"))
            return str(said["addresses"]["agents"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
    raise Rejected("where do machines enrol? Give --agents https://HOST:PORT, or start the API")


def _pages(ground: Ground, made: Standing) -> Pages:
    def ready(_: str) -> Answer:
        if not ground.bell.heard.is_set():
            return Answer(503, "the database is away\n")
        facts = made.client.facts()
        return Answer(200, "ok\n") if facts.connected else Answer(503, f"no shard: {facts.why}\n")

    def metrics(_: str) -> Answer:
        return Answer(200, generate_latest(ground.metrics.registry).decode(), CONTENT_TYPE_LATEST)

    return {
        ("GET", "/healthz"): lambda _: Answer(200, "ok\n"),
        ("GET", "/readyz"): ready,
        ("GET", "/metrics"): metrics,
    }
