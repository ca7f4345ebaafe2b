"""What acting for a shard takes, as small fakes that keep what they were told."""

import asyncio
import dataclasses
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from builders import a_machine, a_need
from mainstay.inventory.inventory import Inventory
from mainstay.model.action import Action, ActionKind
from mainstay.model.assignment import NO_ASSIGNMENT
from mainstay.model.batch import MachineBatch, batch_of
from mainstay.model.calls import (
    Ack,
    Call,
    Capabilities,
    ConfigureRequest,
    CreateRequest,
    DeleteRequest,
    DrainRequest,
    GetRequest,
    ListRequest,
    Mutation,
)
from mainstay.model.errors import Unavailable, UnknownMachine
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.machine import Machine
from mainstay.model.need import Need, Requirement
from mainstay.model.profile import HostRef
from mainstay.model.state import State
from mainstay.providers.kit.steps import STEPS, placed
from mainstay.runtime.clock import Clock
from mainstay.shard.actions.bootstrap import NO_SESSION
from mainstay.shard.events import Event
from mainstay.shard.executor import Executor, ExecutorOptions
from mainstay.shard.hands.acting import Acting
from mainstay.shard.hands.backoff import BackOff
from mainstay.shard.hands.calling import Caller, CallOptions, FenceCounter
from mainstay.shard.hands.tools import Tools
from mainstay.shard.hands.unanswered import Unanswered
from mainstay.shard.ledger import Ledger
from mainstay.shard.moves import Moves
from mainstay.shard.orders import Disposed, Order
from mainstay.shard.outcomes import Disposition, Outcome
from mainstay.shard.ports import Link
from virtual_loop import LoopClock, run

M: Final = MachineId("m-1")
WEB: Final = ClusterId("web")

Answer = Exception | float | Callable[[Machine], Machine]
"""Raise it, be silent for so long, or answer something else."""


class NoSession(Unavailable):
    """Nobody is connected."""

    code = NO_SESSION


class FakeLink:
    """A provider with machines in a dictionary. Steps end at once unless it is `slow`."""

    def __init__(self, *machines: Machine, name: str = "metal", slow: bool = False) -> None:
        self.name = name
        self.slow = slow
        self.known = machines
        """As the shard has them; a provider knows of no commitment."""

        self.machines = {
            machine.id: dataclasses.replace(machine, assignment=NO_ASSIGNMENT)
            for machine in machines
        }
        self.calls: list[tuple[Call, Mutation]] = []
        self.gets: list[str] = []
        self.answers: dict[Call, deque[Answer]] = {call: deque() for call in Call}
        self.busy: set[str] = set()
        self.overlaps: list[str] = []

    @property
    def capabilities(self) -> Capabilities | None:
        return None

    def will(self, call: Call, *answers: Answer) -> None:
        """Answer so the next times."""
        self.answers[call].extend(answers)

    def asked(self, call: Call) -> list[Mutation]:
        return [request for kind, request in self.calls if kind is call]

    async def create(self, request: CreateRequest) -> Ack:
        return await self._step(Call.CREATE, request, host=HostRef(self.name, request.machine))

    async def configure(self, request: ConfigureRequest) -> Ack:
        bound = {"cluster": request.cluster, "shard_metadata": request.metadata}
        return await self._step(Call.CONFIGURE, request, **bound)

    async def drain(self, request: DrainRequest) -> Ack:
        return await self._step(Call.DRAIN, request)

    async def delete(self, request: DeleteRequest) -> Ack:
        return await self._step(Call.DELETE, request)

    async def get(self, request: GetRequest) -> Machine:
        self.gets.append(request.machine)
        return await self._answered(Call.GET, self._machine(request.machine))

    async def listing(self, request: ListRequest) -> MachineBatch:
        return batch_of(list(self.machines.values()), source=self.name, full=True)

    def finish(self, machine: str = M) -> None:
        """The step that goes on ends well."""
        record = self.machines[MachineId(machine)]
        step = next(step for step in STEPS.values() if step.during is record.state)
        host = record.host or HostRef(self.name, machine)
        self.machines[record.id] = placed(record, step.after, **_hosted(step.after, host))

    async def _step(self, call: Call, request: Mutation, **parts: Any) -> Ack:
        self.calls.append((call, request))
        if request.machine in self.busy:
            self.overlaps.append(request.machine)
        self.busy.add(request.machine)
        try:
            step, record = STEPS[call], self._machine(request.machine)
            state = step.during if self.slow else step.after
            host = parts.pop("host", record.host)
            told = placed(record, state, **parts, **_hosted(state, host))
            told = await self._answered(call, told)
        finally:
            self.busy.discard(request.machine)
        if told.id == request.machine:
            self.machines[record.id] = told
        return Ack(f"op-{len(self.calls)}", told)

    async def _answered(self, call: Call, machine: Machine) -> Machine:
        answer = self.answers[call].popleft() if self.answers[call] else 0.0
        if isinstance(answer, Exception):
            await asyncio.sleep(0)
            raise answer
        if isinstance(answer, float):
            await asyncio.sleep(answer)
            return machine
        return answer(machine)

    def _machine(self, name: str) -> Machine:
        if name not in self.machines:
            raise UnknownMachine(f"no machine {name}")
        return self.machines[MachineId(name)]


def _hosted(state: State, host: HostRef | None) -> dict[str, Any]:
    return {} if state in {State.SPECULATIVE, State.CREATING} else {"host": host}


@dataclass
class FakeClusters:
    """Clusters that answer as they are told; everybody is connected."""

    absent: set[ClusterId] = field(default_factory=set)
    answers: deque[Exception | float | bytes] = field(default_factory=deque)
    asked: list[tuple[ClusterId, tuple[Requirement, ...], float]] = field(default_factory=list)
    reclaims: list[tuple[MachineId, State, int, int | None]] = field(default_factory=list)
    told: list[tuple[ClusterId, Machine]] = field(default_factory=list)

    async def bootstrap(
        self,
        cluster: ClusterId,
        requirements: Sequence[Requirement],
        *,
        timeout_s: float,
        machine: str = "",
    ) -> bytes:
        self.asked.append((cluster, tuple(requirements), timeout_s))
        if cluster in self.absent:
            raise NoSession(f"cluster {cluster} is not connected")
        answer = self.answers.popleft() if self.answers else b"join"
        if isinstance(answer, float):
            if answer >= timeout_s:
                await asyncio.sleep(timeout_s)
                raise Unavailable(f"cluster {cluster} did not answer within {timeout_s:g} s")
            await asyncio.sleep(answer)
            return b"join"
        await asyncio.sleep(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def reclaim(
        self,
        machine: Machine,
        *,
        grace_s: int,
        unheard_grace_s: int,
        preemptor_priority: int | None,
    ) -> bool:
        self.reclaims.append((machine.id, machine.state, grace_s, preemptor_priority))
        return machine.cluster not in self.absent

    def tell(self, cluster: ClusterId, machine: Machine) -> None:
        self.told.append((cluster, machine))

    def states_told(self, cluster: ClusterId = WEB) -> list[State]:
        return [machine.state for name, machine in self.told if name == cluster]


@dataclass
class FakeJournal:
    """Keeps everything."""

    records: list[Disposed] = field(default_factory=list)
    events: list[tuple[Event, str, dict[str, object]]] = field(default_factory=list)

    def disposed(self, records: Iterable[Disposed]) -> None:
        self.records.extend(records)

    def noticed(self, event: Event, *, reason: str = "", **facts: object) -> None:
        self.events.append((event, reason, facts))

    def reasons(self, event: Event) -> list[str]:
        return [reason for kind, reason, _ in self.events if kind is event]

    def facts(self, event: Event) -> list[dict[str, object]]:
        return [facts for kind, _, facts in self.events if kind is event]

    def outcomes(self) -> list[Outcome | None]:
        return [each.outcome for each in self.records if each.disposition is Disposition.EXECUTED]

    def let_go(self) -> list[tuple[Disposition, str]]:
        return [
            (each.disposition, each.reason)
            for each in self.records
            if each.disposition is not Disposition.EXECUTED
        ]


@dataclass
class FakeFailures:
    """Keeps whose step failed, who was lost and who did well."""

    bad: list[MachineId] = field(default_factory=list)
    gone: list[MachineId] = field(default_factory=list)
    good: list[MachineId] = field(default_factory=list)

    def failed(self, machine: Machine, source: str) -> None:
        assert machine.state is State.FAILED
        self.bad.append(machine.id)

    def lost(self, machine: Machine, source: str) -> None:
        self.gone.append(machine.id)

    def succeeded(self, machine: Machine, source: str) -> None:
        self.good.append(machine.id)


@dataclass(kw_only=True)
class Hands:
    """Everything that an executor needs, with all that can be looked at afterwards."""

    tools: Tools
    links: dict[str, FakeLink]
    clusters: FakeClusters
    journal: FakeJournal
    failures: FakeFailures
    configured: list[MachineId]
    fences: FenceCounter

    @property
    def link(self) -> FakeLink:
        return next(iter(self.links.values()))

    def machine(self, name: str = M) -> Machine:
        return self.tools.inventory.machine(MachineId(name))

    def executor(self, **options: Any) -> Executor:
        on_room = options.pop("on_room", lambda: None)
        return Executor(
            self.tools, self.links, ExecutorOptions(**{"workers": 2} | options), on_room=on_room
        )


def hands(*links: FakeLink, call_timeout_s: float = 10.0, epoch: int = 7) -> Hands:
    """A shard that knows every machine of these providers as they are."""
    clock: Clock = LoopClock()
    inventory, clusters, journal = Inventory(), FakeClusters(), FakeJournal()
    for link in links:
        for machine in link.known:
            inventory.add(machine, now=0.0, source=link.name)
    ledger, failures, acting = Ledger(clock), FakeFailures(), Acting()
    unanswered = Unanswered(clock, journal)
    configured: list[MachineId] = []
    fences = FenceCounter("shard-a", epoch)

    def caller(link: FakeLink) -> Caller:
        return Caller(
            source=link.name,
            link=_checked(link),
            fences=fences,
            acting=acting,
            journal=journal,
            clock=clock,
            random=Random(1),
            unanswered=unanswered,
            options=CallOptions(timeout_s=call_timeout_s),
        )

    tools = Tools(
        inventory=inventory,
        ledger=ledger,
        moves=Moves(inventory, ledger, clusters, clock),
        clusters=clusters,
        callers={link.name: caller(link) for link in links},
        journal=journal,
        failures=failures,
        clock=clock,
        backoff=BackOff(clock),
        acting=acting,
        unanswered=unanswered,
        configured=lambda machine: configured.append(machine.id),
    )
    return Hands(
        tools=tools,
        links={link.name: link for link in links},
        clusters=clusters,
        journal=journal,
        failures=failures,
        configured=configured,
        fences=fences,
    )


def _checked(link: FakeLink) -> Link:
    return link


def an_order(
    kind: ActionKind, machine: str = M, *, need: Need | None = None, **parts: Any
) -> Order:
    """An action for a need of cluster `web`, through the provider `metal`, of cycle 1."""
    need = need or a_need()
    of_nobody = kind in {ActionKind.DELETE, ActionKind.RECLAIM}
    return Order(
        action=Action(
            kind,
            MachineId(machine),
            None if kind is ActionKind.DELETE else need.cluster,
            None if of_nobody else need.ref,
            parts.pop("grace_s", 0),
        ),
        need=None if of_nobody else need,
        cycle=parts.pop("cycle", 1),
        source=parts.pop("source", "metal"),
    )


def a_link(state: State, *, slow: bool = False, **parts: Any) -> FakeLink:
    """A provider with one machine."""
    return FakeLink(a_machine(state, **parts), slow=slow)


def in_time(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a scenario on the virtual loop."""
    run(scenario())


async def while_running(executor: Executor, scenario: Awaitable[None]) -> None:
    """Run a scenario beside an executor, and stop it afterwards."""
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(executor.run())
        await scenario
        running.cancel()


async def finished(executor: Executor, *, wait_s: float = 1000.0) -> None:
    """Let an executor do what it was offered."""
    await while_running(executor, asyncio.sleep(wait_s))


async def carried_out(world: Hands, *orders: Order, wait_s: float = 1000.0) -> Hands:
    """Offer these orders and wait until all is done."""
    executor = world.executor(workers=8)
    executor.offer(orders, cycle=1)
    await finished(executor, wait_s=wait_s)
    return world


def changed(**parts: Any) -> Callable[[Machine], Machine]:
    """An answer with these parts different."""
    return lambda machine: dataclasses.replace(machine, **parts)
