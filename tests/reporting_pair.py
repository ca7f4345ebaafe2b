"""Two whole shards over one simulated provider, with real uplinks to the real coordinator."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from prometheus_client import CollectorRegistry

from coordinating import Desk
from mainstay.coordinator.records import ConflictKind
from mainstay.model.coordination import ReportAck, ShardReport
from mainstay.model.profile import ZONE_KEY
from mainstay.model.state import State
from mainstay.providers.sim.provider import Sim
from mainstay.providers.sim.spec import SimSpec
from mainstay.runtime import log
from mainstay.uplink.metrics import UplinkMetrics
from mainstay.uplink.side import LiveSide
from mainstay.uplink.telling import Telling
from mainstay.uplink.uplink import Uplink, UplinkOptions
from talking import at_once
from two_shards import OF_SIM, three_zones
from virtual_loop import LoopClock, run
from whole_shard import Cluster, Whole, running, sims

REPORTS_S: Final = 30.0
ROUND_S: Final = 3 * REPORTS_S
"""Who has a machine reports it, and whoever owns its domain hears of it."""

WATCH_S: Final = 0.25


@dataclass
class Leader:
    """The coordinator of the uplinks, and what it was at odds with."""

    desk: Desk = field(default_factory=Desk)
    told: set[ConflictKind] = field(default_factory=set)

    async def report(self, report: ShardReport) -> ReportAck:
        answer = self.desk.hear(report)
        self.told |= {conflict.kind for conflict in self.desk.conflicts}
        return answer


@dataclass
class Pair:
    """Shard a has zones a and b, shard b zone c."""

    a: Whole
    b: Whole
    of_a: Cluster
    of_b: Cluster
    leader: Leader
    sim: Sim
    is_limited: bool = False
    """Whether both together must keep to the quota."""

    doubled_s: float = 0.0
    """For how long some machine was in two inventories."""

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_S)
            self.doubled_s += WATCH_S if ids(self.a) & ids(self.b) else 0.0
            quota = self.leader.desk.fleet.quotas.get(OF_SIM)
            if quota is not None and self.is_limited:
                assert used(self.a) + used(self.b) <= quota.entitled

    async def relabel(self, machine: str, zone: str) -> None:
        """What an operator of the provider does."""
        slots = self.sim.cloud._slots
        [name] = [each for each in slots if each == machine]
        profile = dataclasses.replace(slots[name].profile, zone=zone)
        slots[name] = dataclasses.replace(slots[name], profile=profile)
        await self.sim.server.reconcile()


def used(whole: Whole) -> int:
    """Machines that are more than a slot."""
    return sum(each.state is not State.SPECULATIVE for each in whole.machines())


def ids(whole: Whole) -> set[str]:
    return set(whole.assembled.live.inventory.ids())


def calls(whole: Whole, machine: str) -> int:
    return sum(request.machine == machine for request in whole.links["sim"].sent)


def an_uplink(whole: Whole, name: str, leader: Leader) -> Uplink:
    side = LiveSide(
        live=whole.assembled.live,
        holder=whole.assembled.holder,
        quota=whole.assembled.quota,
        address=f"{name}:7780",
        providers={"sim": "there:9000"},
        clock=LoopClock(),
        aside=at_once,
    )
    telling = Telling(UplinkMetrics(CollectorRegistry(), LoopClock()), log.logger(), LoopClock())
    options = UplinkOptions(report_interval_s=REPORTS_S)
    return Uplink(
        side, leader, clock=LoopClock(), random=Random(3), telling=telling, options=options
    )


@asynccontextmanager
async def pair(folder: Path, spec: SimSpec | None = None) -> AsyncIterator[Pair]:
    leader = Leader()
    async with AsyncExitStack() as stack:
        providers = await stack.enter_async_context(sims(spec or three_zones(idle=3, slots=0)))
        tasks: list[asyncio.Task[None]] = []
        wholes: list[Whole] = []
        clusters: list[Cluster] = []
        for name, zones in (("a", ("zone-a", "zone-b")), ("b", ("zone-c",))):
            domains = tuple(f"{ZONE_KEY}={zone}" for zone in zones)
            whole = await stack.enter_async_context(
                running(folder / name, providers, shard_id=name, domains=domains)
            )
            tasks.append(whole.tasks.create_task(an_uplink(whole, name, leader).run()))
            clusters.append(await stack.enter_async_context(whole.cluster(f"of-{name}")))
            wholes.append(whole)
        (a, b), (of_a, of_b) = wholes, clusters
        both = Pair(a, b, of_a, of_b, leader, providers["sim"])
        tasks.append(wholes[0].tasks.create_task(both.watch()))
        await asyncio.sleep(40)
        assert not ids(both.a) & ids(both.b)
        yield both
        for task in tasks:
            task.cancel()


def play(
    folder: Path, scenario: Callable[[Pair], Awaitable[None]], spec: SimSpec | None = None
) -> None:
    async def story() -> None:
        async with pair(folder, spec) as both:
            await scenario(both)

    run(story())
