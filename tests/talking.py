"""Sessions without a network: a demand side that notes, streams that are lists, a cluster."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from random import Random
from typing import TypeVar

from typing_extensions import override

from mainstay.model.errors import MainstayError, Rejected
from mainstay.model.frames import (
    BootstrapAsked,
    CapacityHint,
    Hello,
    NodeState,
    ReclaimTold,
    ShardFrame,
)
from mainstay.model.ids import ClusterId
from mainstay.model.machine import Machine
from mainstay.model.need import Need
from mainstay.runtime.clock import Clock
from mainstay.shard.demand import Applied, DemandBook, Verdict
from mainstay.shard.ports import Journal
from mainstay.shard.sessions import Session, SessionOptions, Sessions, SessionTools
from mainstay.wire.session_frames import rollup_frame
from noticing import NoticingJournal
from virtual_loop import LoopClock

AnswerT = TypeVar("AnswerT")

WEB = ClusterId("web")
BATCH = ClusterId("batch")
BLOB = b"#cloud-config\n"


async def at_once(work: Callable[[], AnswerT]) -> AnswerT:
    """An Aside without threads; whoever waits lets others go first, as with a thread."""
    await asyncio.sleep(0)
    return work()


class NotedBook(DemandBook):
    """Notes what each cluster asks for whenever a roll-up of it was taken in."""

    def __init__(self, clock: Clock, journal: Journal) -> None:
        super().__init__(clock, journal)
        self.applied: list[tuple[ClusterId, tuple[Need, ...]]] = []

    @override
    def take(self, verdict: Verdict) -> Applied | None:
        applied = super().take(verdict)
        if applied is not None:
            cluster = verdict.standing.cluster
            self.applied.append((cluster, self.of_cluster(cluster)))
        return applied


class Stage:
    """A shard's sessions, and what they did to everybody else."""

    def __init__(
        self,
        *machines: Machine,
        options: SessionOptions | None = None,
        clock: Clock | None = None,
        aside: object = at_once,
    ) -> None:
        self.machines = list(machines)
        self.journal = NoticingJournal()
        clock = clock or LoopClock()
        self.book = NotedBook(clock, self.journal)
        self.wakes = 0
        tools = SessionTools(
            rollups=self.book,
            journal=self.journal,
            clock=clock,
            aside=aside,  # type: ignore[arg-type]
            random=Random(7),
            machines_of=self.machines_of,
            on_demand=self.wake,
        )
        self.sessions = Sessions(tools, options)

    def machines_of(self, cluster: ClusterId) -> Iterable[Machine]:
        return [machine for machine in self.machines if machine.cluster == cluster]

    def wake(self) -> None:
        self.wakes += 1

    @asynccontextmanager
    async def line(self, cluster: str = "web") -> AsyncIterator["Line"]:
        """A cluster that is connected inside the block."""
        line = Line(self.sessions.opened(Hello(cluster)))
        async with asyncio.TaskGroup() as tasks:
            talking = tasks.create_task(line.talk())
            await settle()
            yield line
            talking.cancel()
        line.session.close()


class Line:
    """One stream: what was said on it, and how it ended."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.said: list[ShardFrame] = []
        self.reads = asyncio.Event()
        self.reads.set()
        self.why: MainstayError | None = None

    async def talk(self) -> None:
        try:
            await self.session.run(self._send)
        except MainstayError as error:
            self.why = error
        finally:
            self.session.close()

    async def _send(self, frame: ShardFrame) -> None:
        await self.reads.wait()
        self.said.append(frame)

    def stop_reading(self) -> None:
        self.reads.clear()

    def heard(self, kind: type[AnswerT]) -> list[AnswerT]:
        """What was said of one kind."""
        return [frame for frame in self.said if isinstance(frame, kind)]

    def states(self) -> list[tuple[str, str]]:
        return [(frame.machine, str(frame.state)) for frame in self.heard(NodeState)]


async def settle(turns: int = 20) -> None:
    """Let everybody do what can be done without time passing."""
    for _ in range(turns):
        await asyncio.sleep(0)


def a_rollup(*needs: Need, cluster: str = "web", nanos: int = 1) -> bytes:
    """A roll-up as it comes from a stream, unread. With `nanos` below zero it will be refused."""
    return rollup_frame(ClusterId(cluster), needs, timestamp_nanos=nanos)


class Hands:
    """What a cluster does when it is asked: it notes, and answers what it was told to."""

    def __init__(self) -> None:
        self.blob: bytes | Exception = BLOB
        self.asked: list[BootstrapAsked] = []
        self.told: list[ReclaimTold] = []
        self.states: list[NodeState] = []
        self.hints: list[CapacityHint] = []
        self.gate: Callable[[], Awaitable[object]] | None = None
        """Awaited by every handler before it does anything."""

        self.breaks: Exception | None = None
        """Raised by every handler but the one for bootstraps."""

    async def bootstrap(self, asked: BootstrapAsked) -> bytes:
        self.asked.append(asked)
        await self._pause()
        if isinstance(self.blob, Exception):
            raise self.blob
        return self.blob

    async def reclaim(self, told: ReclaimTold) -> int:
        self.told.append(told)
        await self._pause()
        return len(told.nodes)

    async def node_state(self, state: NodeState) -> None:
        self.states.append(state)
        await self._pause()

    async def hint(self, hint: CapacityHint) -> None:
        self.hints.append(hint)
        await self._pause()

    async def _pause(self) -> None:
        if self.gate is not None:
            await self.gate()
        if self.breaks is not None:
            raise self.breaks


CANNOT = Rejected("no template for arm64")
