"""What one check works with: borrowed machines, calls, a shard of its own, dice."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from mainstay.conformance import expect
from mainstay.conformance.borrowed import Borrowed, settled, watched
from mainstay.conformance.caller import Caller
from mainstay.conformance.check import Broken, Gate
from mainstay.conformance.limits import Limits
from mainstay.conformance.restarts import Restarts
from mainstay.model.calls import Capabilities, Fence
from mainstay.model.state import TRANSITIONAL, State
from mainstay.runtime.clock import Clock
from mainstay.wire.raw_calls import Line, Record, Reply

AnswerT = TypeVar("AnswerT")

CLUSTER = "conformance"
AT_REST = frozenset(State) - TRANSITIONAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The provider that is examined, as the run found it."""

    connect: Callable[[], AbstractAsyncContextManager[Line]]
    """Opens a further connection."""

    borrowed: Borrowed
    capabilities: Capabilities | None
    """What it declares; None: nothing, as any of BigFleet's."""

    closed: frozenset[Gate]
    """What it does not have."""

    limits: Limits
    restarts: Restarts
    clock: Clock
    seed: int
    stamp: str
    """In every name that is made up, so that no other run shares it."""


@dataclass(slots=True)
class Trial(Caller):
    """One check at work."""

    name: str
    subject: Subject
    line: Line
    random: Random = field(init=False)
    borrowed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        Caller.__init__(self, self.line)
        self.random = Random(f"{self.subject.seed}/{self.name}")

    @property
    def limits(self) -> Limits:
        """How patient to be."""
        return self.subject.limits

    @property
    def can_delete(self) -> bool:
        """Whether Delete is supported."""
        return Gate.DELETE not in self.subject.closed

    def fence(self, epoch: int, sequence: int, shard: str = "a") -> Fence:
        """A token of a shard that nobody else uses, in this run or another."""
        return Fence(f"conformance-{self.subject.stamp}-{self.name}-{shard}", epoch, sequence)

    @property
    def ghost(self) -> str:
        """An id that no machine has."""
        return f"conformance-ghost-{self.subject.stamp}-{self.name}"

    async def slot(self) -> str:
        """A quota slot, until the check ends."""
        return self._borrow(await self.subject.borrowed.slot())

    async def slots(self, count: int) -> list[str]:
        """So many."""
        return [await self.slot() for _ in range(count)]

    async def idle(self) -> str:
        """An idle machine."""
        return self._borrow(await self.subject.borrowed.idle())

    async def idles(self, count: int) -> list[str]:
        """So many."""
        return [await self.idle() for _ in range(count)]

    def faulty(self) -> str:
        """A quota slot whose Create fails."""
        return self._borrow(self.subject.borrowed.faulty())

    async def created(self) -> str:
        """An idle machine that was created just now."""
        machine = await self.slot()
        expect.acked(await self.create(machine))
        await self.reach(machine, State.IDLE)
        return machine

    async def configured(
        self, *, cluster: str = CLUSTER, metadata: Mapping[str, str] | None = None
    ) -> str:
        """A machine bound to a cluster."""
        machine = await self.idle()
        await self.bind(machine, cluster=cluster, metadata=metadata)
        return machine

    async def bind(
        self, machine: str, *, cluster: str = CLUSTER, metadata: Mapping[str, str] | None = None
    ) -> Reply:
        """Configure an idle machine, to the end."""
        reply = expect.acked(await self.configure(machine, cluster=cluster, metadata=metadata))
        await self.reach(machine, State.CONFIGURED)
        return reply

    async def free(self, machine: str) -> Reply:
        """Drain a machine, to the end."""
        reply = expect.acked(await self.drain(machine))
        await self.reach(machine, State.IDLE)
        return reply

    async def reach(self, machine: str, state: State) -> Sequence[Record]:
        """Wait until it is there; everything that was seen on the way."""
        trace = await watched(self, machine, self.limits, until=AT_REST)
        if trace[-1].state == State.FAILED != state:
            raise Broken(f"machine {machine} failed on its way to {state}: {trace[-1].last_error}")
        expect.state(trace[-1], state)
        return trace

    async def settle(self, machine: str) -> Record:
        """The machine at rest, wherever that is."""
        return await settled(self, machine, self.limits)

    async def still(self, machine: str, window_s: float | None = None) -> Record:
        """Watch a machine that must not move."""
        first = await self.get(machine)
        for _ in range(_looks(window_s or self.limits.still_s, self.limits.poll_s)):
            await asyncio.sleep(self.limits.poll_s)
            expect.untouched(first, await self.get(machine))
        return first

    @asynccontextmanager
    async def another(self) -> AsyncIterator[Caller]:
        """A second connection."""
        async with self.subject.connect() as line:
            yield Caller(line)

    async def restarted(self, begin: Callable[[], Awaitable[None]] | None = None) -> None:
        """Wait for the restart of the provider; `begin` is called right before it."""
        await self.subject.restarts.arrive(begin)

    def _borrow(self, machine: str) -> str:
        self.borrowed.append(machine)
        return machine


async def at_once(calls: Sequence[Awaitable[AnswerT]]) -> list[AnswerT]:
    """All of them side by side; their answers in the order of the calls."""

    async def one(call: Awaitable[AnswerT]) -> AnswerT:
        return await call

    try:
        async with asyncio.TaskGroup() as tasks:
            begun = [tasks.create_task(one(call)) for call in calls]
    except ExceptionGroup as group:
        raise group.exceptions[0] from None
    return [task.result() for task in begun]


def _looks(window_s: float, poll_s: float) -> int:
    return max(1, round(window_s / max(poll_s, 0.001)))
