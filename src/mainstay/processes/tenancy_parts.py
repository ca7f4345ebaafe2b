"""The parts of tenancy that work in the background: alone in a process, or all in one.

Several of each may run: what they do is agreed on in the database.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from random import Random
from typing import Final
from urllib.parse import urlsplit

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from mainstay.config.api import ApiConfig
from mainstay.model.errors import Rejected
from mainstay.processes.announce import announced
from mainstay.processes.pages import Answer, Pages, serving_pages
from mainstay.processes.tenancy import Around, Ground, alongside, standing
from mainstay.processes.told import until_told
from mainstay.runtime.log import logger
from mainstay.tenancy import consume, enrolment, idempotency, pruning, relay
from mainstay.tenancy.agent_faults import Faults
from mainstay.tenancy.agent_host import Host
from mainstay.tenancy.agent_sim import SimulatedAgent
from mainstay.tenancy.billing import tick
from mainstay.tenancy.billing.consumers import Billing
from mainstay.tenancy.billing.force import Releaser
from mainstay.tenancy.database.connect import transaction
from mainstay.tenancy.http.agent_client import HttpAgentApi
from mainstay.tenancy.notices import Notifier
from mainstay.tenancy.worker import run as worker
from mainstay.tenancy.worker.engine_dbos import dbos_workflows
from mainstay.tenancy.worker.port import Engine
from mainstay.tenancy.worker.tools import Tools

HOUSEKEEPING_S: Final = 10.0

Part = Callable[[Ground], Awaitable[None]]


async def relaying(ground: Ground) -> None:
    """Take events from the outbox to the bus; delete those that have long been consumed."""
    kept_s = ground.config.events_kept_days * pruning.DAY_S
    async with asyncio.TaskGroup() as tasks:
        carrying = relay.run(ground.pool, ground.bus, metrics=ground.metrics.relay)
        tasks.create_task(carrying, name="relay")
        over = pruning.keep_pruning("events", lambda: pruning.events(ground.pool, kept_s))
        tasks.create_task(over, name="prune")


async def working(ground: Ground) -> None:
    """Provision and release."""
    tools = Tools(
        pool=ground.pool,
        ids=ground.ids,
        signer=ground.signer,
        clock=ground.clock,
        bell=ground.bell,
        metrics=ground.metrics.worker,
    )
    options = worker.WorkerOptions(
        engine=_engine(ground.config.workflows),
        told=ground.metrics.consumer,
        kept_s=ground.config.work_kept_days * pruning.DAY_S,
    )
    await worker.run(ground.url, tools, ground.bus, options)


def _engine(workflows: str) -> Engine:
    if not workflows:
        return dbos_workflows
    try:
        from mainstay.tenancy.worker import engine_temporal  # noqa: PLC0415 - only where used
    except ModuleNotFoundError as error:
        raise Rejected("--workflows needs a package: pip install 'mainstay[temporal]'") from error

    where = urlsplit(workflows)
    options = engine_temporal.TemporalOptions(
        address=where.netloc, namespace=where.path.strip("/") or "default"
    )
    return engine_temporal.temporal_engine(options)


async def billing(ground: Ground) -> None:
    """Charge, warn, and end what nobody can pay for."""
    wake = asyncio.Event()
    consumers: list[consume.Consumer] = [Billing(ground.ids, wake=wake.set), Releaser(ground.ids)]
    async with asyncio.TaskGroup() as tasks:
        ticking = tick.run(ground.pool, ground.ids, wake=wake, metrics=ground.metrics.biller)
        tasks.create_task(ticking, name="tick")
        tasks.create_task(_consuming(ground, consumers), name="consume")


async def notifying(ground: Ground) -> None:
    """Write down what people are told."""
    await _consuming(ground, [Notifier()])


async def _consuming(ground: Ground, consumers: list[consume.Consumer]) -> None:
    await consume.run(ground.pool, ground.bus, consumers, metrics=ground.metrics.consumer)


async def housekeeping(ground: Ground) -> None:
    """Forget old idempotency keys and changes; close nodes whose agent has fallen silent."""
    changes = pruning.Changes()
    while True:
        while await idempotency.sweep(ground.pool):
            pass
        await changes.prune(ground.pool, ground.clock.elapsed_s())
        for row in await enrolment.mark_offline(ground.pool, silent_s=ground.config.silent_s):
            logger(node=row["id"]).warning("node_fell_silent")
        await asyncio.sleep(HOUSEKEEPING_S)


PARTS: Final[Mapping[str, Part]] = {
    "relay": relaying,
    "worker": working,
    "biller": billing,
    "notifier": notifying,
}


async def serve_part(name: str, config: ApiConfig, around: Around) -> None:
    """One part alone, until a signal."""
    async with AsyncExitStack() as stack:
        stop = await stack.enter_async_context(until_told())
        ground = await stack.enter_async_context(standing(config, around))
        await stack.enter_async_context(alongside({name: lambda: PARTS[name](ground)}))
        addresses = {}
        if config.http:
            pages = serving_pages(config.http, _pages(ground))
            addresses["http"] = await stack.enter_async_context(pages)
        await _until(stop, name, ground, addresses)


async def _until(stop: asyncio.Event, name: str, ground: Ground, addresses: dict[str, str]) -> None:
    identity = ground.ids(name).rpartition("_")[2][-8:]
    with announced(ground.around.home, name, identity, {"addresses": addresses}):
        where = f" Pages at {addresses['http']}." if addresses else ""
        ground.around.say(f"The {name} is at work.{where} Ctrl-C stops it.")
        await stop.wait()
    ground.around.say("Stopped.")


def _pages(ground: Ground) -> Pages:
    def metrics(_: str) -> Answer:
        return Answer(200, generate_latest(ground.metrics.registry).decode(), CONTENT_TYPE_LATEST)

    def ready(_: str) -> Answer:
        lost = not ground.bell.heard.is_set()
        return Answer(503, "the database is away\n") if lost else Answer(200, "ok\n")

    return {
        ("GET", "/healthz"): lambda _: Answer(200, "ok\n"),
        ("GET", "/readyz"): ready,
        ("GET", "/metrics"): metrics,
    }


class SimulatedNode:
    """A node whose agent is in this process and calls like any other; its host outlives it."""

    def __init__(self, ground: Ground, node: str, url: str, authority: bytes) -> None:
        self._ground, self._node, self._url, self._authority = ground, node, url, authority
        self._host = Host()

    async def run(self) -> None:
        """Enrol if need be, and work until something goes wrong."""
        faults = Faults(phase_s=self._ground.config.simulate_phase_s)
        api = HttpAgentApi(self._url, self._authority)
        agent = SimulatedAgent(
            api, self._node, faults, self._ground.clock, Random(), host=self._host
        )
        if not self._host.certificate:
            async with transaction(self._ground.pool) as tx:
                token = await enrolment.invite(tx, self._node)
            await agent.enrol(token)
        await agent.run()
