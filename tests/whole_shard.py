"""A whole shard in no time: the parts of the process around simulated providers and clusters."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from typing_extensions import override

from mainstay.config.shard import ShardConfig
from mainstay.model.batch import MachineBatch
from mainstay.model.calls import Ack, GetRequest, ListRequest
from mainstay.model.frames import (
    BootstrapAnswer,
    BootstrapAsked,
    Hello,
    NodeState,
    ReclaimTold,
    ShardFrame,
)
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.machine import Machine
from mainstay.model.need import Need, NeedProfile
from mainstay.model.profile import CapacityType
from mainstay.model.state import State
from mainstay.processes.shard_parts import Assembled, Surroundings, assembled, policy_of
from mainstay.providers.sim.provider import Sim, simulated
from mainstay.providers.sim.spec import Pool, SimSpec
from mainstay.runtime import log
from mainstay.runtime.aside import Aside
from mainstay.runtime.clock import Clock
from mainstay.shard.datadir import DataDir
from mainstay.shard.events import Event
from mainstay.shard.journal import ShardJournal
from mainstay.shard.metrics import ShardMetrics
from mainstay.shard.orders import Disposed
from mainstay.shard.thought import Cycled
from shard_over_sim import OFFER, RequestT, SimLink
from talking import Line, a_rollup, at_once
from virtual_loop import LoopClock

WEB: Final = ClusterId("web")
UNIT_MILLI: Final = 2_000
"""What one machine of the simulated providers has."""


def a_provider(
    *, slots: int = 8, idle: int = 0, name: str = "sim", seed: int = 1, zone: str = OFFER.zone
) -> SimSpec:
    """On-demand slots, and reserved machines that are there from the start."""
    offer = dataclasses.replace(OFFER, zone=zone)
    pools = (Pool(offer, CapacityType.ON_DEMAND, slots), Pool(offer, CapacityType.RESERVED, idle))
    return SimSpec(pools=tuple(pool for pool in pools if pool.slots), seed=seed, name=name)


def needs(machines: int, *, cluster: ClusterId = WEB, priority: int = 100) -> list[Need]:
    """Demand that so many machines meet."""
    if not machines:
        return []
    return [
        Need(
            cluster=cluster,
            profile=NeedProfile(priority=priority),
            aggregate={"cpu": machines * UNIT_MILLI},
            min_unit={"cpu": UNIT_MILLI},
        )
    ]


class AnsweringLine(Line):
    """A stream whose cluster answers when it is asked for a bootstrap."""

    answers = True

    @override
    async def _send(self, frame: ShardFrame) -> None:
        await super()._send(frame)
        if isinstance(frame, BootstrapAsked) and self.answers:
            self.session.heard(BootstrapAnswer(frame.request, b"join"))


class HangingLink(SimLink):
    """A provider that at some time does not answer any more."""

    hangs = False

    @override
    async def listing(self, request: ListRequest) -> MachineBatch:
        await self._hang()
        return await super().listing(request)

    @override
    async def get(self, request: GetRequest) -> Machine:
        await self._hang()
        return await super().get(request)

    @override
    async def _send(self, call: Callable[[RequestT], Awaitable[Ack]], request: RequestT) -> Ack:
        await self._hang()
        return await super()._send(call, request)

    async def _hang(self) -> None:
        if self.hangs:
            await asyncio.sleep(1e9)


@dataclass
class Cluster:
    """A connected cluster."""

    name: ClusterId
    line: AnsweringLine

    def ask_for(self, machines: int, *, priority: int = 100) -> None:
        self.roll_up(needs(machines, cluster=self.name, priority=priority))

    def roll_up(self, rows: Sequence[Need]) -> None:
        self.line.session.rolled_up(a_rollup(*rows, cluster=self.name))

    @property
    def reclaims(self) -> list[ReclaimTold]:
        return self.line.heard(ReclaimTold)

    def states(self) -> dict[str, State]:
        """The last word about each machine."""
        return {frame.machine: frame.state for frame in self.line.heard(NodeState)}


class SettableClock(LoopClock):
    """A wall clock that people set, over a time that passes all the same."""

    set_by_s = 0.0

    @override
    def now_s(self) -> float:
        return super().now_s() + self.set_by_s


class Journal(ShardJournal):
    """The real one, which also remembers."""

    def __init__(self, metrics: ShardMetrics, config: ShardConfig) -> None:
        super().__init__(metrics, None, log.logger(), LoopClock(), policy_of(config))
        self.events: list[tuple[Event, str]] = []

    @override
    def noticed(self, event: Event, *, reason: str = "", **facts: object) -> None:
        super().noticed(event, reason=reason, **facts)
        self.events.append((event, reason))

    def of(self, event: Event) -> list[str]:
        return [reason for noticed, reason in self.events if noticed is event]

    def records(self) -> list[Disposed]:
        return [told.disposed for told in self.recent()]


@dataclass
class Whole:
    """A shard that runs, its providers and what it did."""

    assembled: Assembled
    links: dict[str, HangingLink]
    journal: Journal
    metrics: ShardMetrics
    cycles: list[tuple[float, Cycled]]
    tasks: asyncio.TaskGroup
    data: DataDir

    def machines(self, *states: State) -> list[Machine]:
        inventory = self.assembled.live.inventory
        found = [inventory.machine(name) for name in inventory.ids()]
        return [machine for machine in found if not states or machine.state in states]

    def machine(self, name: str) -> Machine:
        return self.assembled.live.inventory.machine(MachineId(name))

    def sent(self) -> int:
        """How many mutating calls went out."""
        return sum(len(link.sent) for link in self.links.values())

    def metric(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, labels) or 0.0

    @asynccontextmanager
    async def cluster(self, name: str = WEB) -> AsyncIterator[Cluster]:
        """A cluster that is connected inside the block."""
        line = AnsweringLine(self.assembled.sessions.opened(Hello(name)))
        talking = self.tasks.create_task(line.talk())
        try:
            yield Cluster(ClusterId(name), line)
        finally:
            talking.cancel()
            line.session.close()


@asynccontextmanager
async def sims(*specs: SimSpec) -> AsyncIterator[dict[str, Sim]]:
    """Providers that outlive a shard."""
    async with AsyncExitStack() as stack:
        yield {
            spec.name: await stack.enter_async_context(simulated(spec, LoopClock()))
            for spec in specs
        }


@asynccontextmanager
async def running(
    folder: Path,
    providers: dict[str, Sim],
    clock: Clock | None = None,
    aside: Aside = at_once,
    /,
    **settings: object,
) -> AsyncIterator[Whole]:
    """A shard at work, until the block is left as by a kill: nothing is said to anybody."""
    chosen: dict[str, object] = {"decision_audit_every": 1, **settings}
    config = ShardConfig(**chosen)  # type: ignore[arg-type]
    metrics = ShardMetrics()
    journal = Journal(metrics, config)
    links = {name: HangingLink(sim) for name, sim in providers.items()}
    cycles: list[tuple[float, Cycled]] = []
    with DataDir(folder) as data:
        made = assembled(
            config,
            Surroundings(
                links=links,
                meters={name: sim.meter for name, sim in providers.items()},
                data=data,
                journal=journal,
                metrics=metrics,
                clock=clock or LoopClock(),
                random=Random(5),
                aside=aside,
                seen=lambda cycled: cycles.append((LoopClock().elapsed_s(), cycled)),
            ),
        )
        with contextlib.suppress(asyncio.CancelledError):
            async with asyncio.TaskGroup() as tasks:
                task = tasks.create_task(made.shard.run())
                yield Whole(made, links, journal, metrics, cycles, tasks, data)
                task.cancel()
