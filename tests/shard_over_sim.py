"""A shard's hands on a simulated provider: executor, overdue steps and lists, in no time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Final, TypeVar

from mainstay.inventory.inventory import Inventory
from mainstay.model.batch import MachineBatch
from mainstay.model.calls import (
    Ack,
    Capabilities,
    ConfigureRequest,
    CreateRequest,
    DeleteRequest,
    DrainRequest,
    GetRequest,
    ListRequest,
    Mutation,
)
from mainstay.model.ids import MachineId
from mainstay.model.machine import Machine
from mainstay.model.profile import CapacityType
from mainstay.providers.kit.options import Options
from mainstay.providers.kit.steps import STEPS
from mainstay.providers.sim.latency import CLOUD
from mainstay.providers.sim.offers import choose, small_catalog
from mainstay.providers.sim.provider import Sim, simulated
from mainstay.providers.sim.spec import Pool, SimSpec
from mainstay.shard.executor import Executor, ExecutorOptions
from mainstay.shard.hands.acting import Acting
from mainstay.shard.hands.backoff import BackOff
from mainstay.shard.hands.calling import Caller, FenceCounter
from mainstay.shard.hands.overdue import Overdue
from mainstay.shard.hands.tools import Tools
from mainstay.shard.hands.unanswered import Unanswered
from mainstay.shard.ledger import Ledger
from mainstay.shard.lists.feeds import Feed
from mainstay.shard.moves import Moves
from mainstay.shard.reconcile import Books, Reconciler
from shard_hands import FakeClusters, FakeFailures, FakeJournal
from virtual_loop import LoopClock

SOURCE: Final = "sim"
OFFER: Final = choose(small_catalog(), ["m5.large"])[0]

RequestT = TypeVar("RequestT", bound=Mutation)


def name(number: int, kind: str = "od") -> MachineId:
    return MachineId(f"{OFFER.instance_type}.{OFFER.zone}.{kind}.{number:05d}")


def a_cloud(*, slots: int = 4, held: int = 0, seed: int = 1) -> SimSpec:
    """On-demand slots, and reserved machines that are Idle from the start; as slow as a cloud."""
    pools = [Pool(OFFER, CapacityType.ON_DEMAND, slots), Pool(OFFER, CapacityType.RESERVED, held)]
    return SimSpec(
        pools=tuple(pool for pool in pools if pool.slots), seed=seed, name=SOURCE, latencies=CLOUD
    )


@dataclass
class SimLink:
    """A simulated provider as a link; a request can be held up on its way there."""

    sim: Sim
    travel_s: dict[str, float] = field(default_factory=dict)
    sent: list[Mutation] = field(default_factory=list)
    under_way: set[str] = field(default_factory=set)
    overlaps: list[str] = field(default_factory=list)

    @property
    def capabilities(self) -> Capabilities | None:
        return self.sim.calls.capabilities

    async def create(self, request: CreateRequest) -> Ack:
        return await self._send(self.sim.provider.create, request)

    async def configure(self, request: ConfigureRequest) -> Ack:
        return await self._send(self.sim.provider.configure, request)

    async def drain(self, request: DrainRequest) -> Ack:
        return await self._send(self.sim.provider.drain, request)

    async def delete(self, request: DeleteRequest) -> Ack:
        return await self._send(self.sim.provider.delete, request)

    async def get(self, request: GetRequest) -> Machine:
        return await self.sim.provider.get(request)

    async def listing(self, request: ListRequest) -> MachineBatch:
        return await self.sim.provider.list(request)

    async def _send(self, call: Callable[[RequestT], Awaitable[Ack]], request: RequestT) -> Ack:
        self.sent.append(request)
        if request.machine in self.under_way:
            self.overlaps.append(request.machine)
        self.under_way.add(request.machine)
        try:
            await asyncio.sleep(self.travel_s.get(request.machine, 0.0))
            return await call(request)
        finally:
            self.under_way.discard(request.machine)


@dataclass(kw_only=True)
class Working:
    """A shard at work on a simulated provider; nobody decides but the test."""

    sim: Sim
    link: SimLink
    tools: Tools
    executor: Executor
    overdue: Overdue
    reconciler: Reconciler
    clusters: FakeClusters
    journal: FakeJournal
    failures: FakeFailures
    configured: list[MachineId]

    def machine(self, machine: MachineId) -> Machine:
        return self.tools.inventory.machine(machine)

    def machines(self) -> list[Machine]:
        return [self.machine(each) for each in self.tools.inventory.ids()]

    async def look(self) -> None:
        """Once, as a cycle does."""
        await self.reconciler.look(patience_s=1.0)
        self.overdue.look(self.tools.inventory.snapshot(), self.tools.clock.elapsed_s())

    async def go_on(self, seconds: float, *, every_s: float = 10.0) -> None:
        """Look at every tick, for so long."""
        until_s = self.tools.clock.elapsed_s() + seconds
        while self.tools.clock.elapsed_s() < until_s:
            await self.look()
            await asyncio.sleep(every_s)


@asynccontextmanager
async def working(
    spec: SimSpec, *, epoch: int = 7, sim: Sim | None = None, patient: bool = False
) -> AsyncIterator[Working]:
    """A shard at work, which has seen the first list, until the block is left.

    With `sim` on a provider that is there already; a `patient` one never gives a step up.
    """
    if sim is None:
        options = Options(step_timeouts_s=dict.fromkeys(STEPS, 1e6)) if patient else None
        async with (
            simulated(spec, LoopClock(), options=options) as made,
            working(spec, epoch=epoch, sim=made) as work,
        ):
            yield work
        return
    work = _built(sim, epoch)
    async with asyncio.TaskGroup() as tasks:
        running = [
            tasks.create_task(part())
            for part in (work.executor.run, work.overdue.run, work.reconciler.run)
        ]
        await work.reconciler.wait_first(patience_s=60.0)
        await work.look()
        try:
            yield work
        finally:
            for task in running:
                task.cancel()


def _built(sim: Sim, epoch: int) -> Working:
    clock, link, inventory = LoopClock(), SimLink(sim), Inventory()
    clusters, journal, failures, acting = FakeClusters(), FakeJournal(), FakeFailures(), Acting()
    ledger = Ledger(clock)
    moves = Moves(inventory, ledger, clusters, clock)
    unanswered = Unanswered(clock, journal)
    configured: list[MachineId] = []
    caller = Caller(
        source=SOURCE,
        link=link,
        fences=FenceCounter("shard-a", epoch),
        acting=acting,
        journal=journal,
        clock=clock,
        random=Random(1),
        unanswered=unanswered,
    )
    tools = Tools(
        inventory=inventory,
        ledger=ledger,
        moves=moves,
        clusters=clusters,
        callers={SOURCE: caller},
        journal=journal,
        failures=failures,
        clock=clock,
        backoff=BackOff(clock),
        acting=acting,
        unanswered=unanswered,
        configured=lambda machine: configured.append(machine.id),
    )
    books = Books(
        inventory=inventory,
        ledger=ledger,
        moves=moves,
        journal=journal,
        failures=failures,
        clock=clock,
        configured=tools.configured,
    )
    return Working(
        sim=sim,
        link=link,
        tools=tools,
        executor=Executor(tools, [SOURCE], ExecutorOptions(workers=4)),
        overdue=Overdue(tools, [SOURCE]),
        reconciler=Reconciler(books, [Feed(SOURCE, link, clock, journal=journal)]),
        clusters=clusters,
        journal=journal,
        failures=failures,
        configured=configured,
    )
