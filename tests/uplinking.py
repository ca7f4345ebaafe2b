"""An uplink without a shard or a network: a side that notes, a coordinator that does as it is told.

What a side keeps is in a `Disk`, so that a second one over the same disk is the same shard after a
kill.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, TypeVar

from prometheus_client import CollectorRegistry

from mainstay.model.coordination import (
    AssignDomain,
    Domain,
    Grant,
    InstructAck,
    Instruction,
    Outcome,
    ReportAck,
    ShardReport,
)
from mainstay.model.errors import Rejected
from mainstay.model.ids import ShardId
from mainstay.runtime import log
from mainstay.uplink.metrics import UplinkMetrics
from mainstay.uplink.ports import Measured
from mainstay.uplink.telling import Telling
from mainstay.uplink.uplink import Uplink, UplinkOptions
from virtual_loop import LoopClock

AnswerT = TypeVar("AnswerT")

EAST: Final = Domain("zone", "east")


def an_instruction(
    name: str, *, term: int = 1, sequence: int = 1, known: bool = True
) -> Instruction:
    """Assigns a domain, or is of a kind that nobody knows."""
    payload = AssignDomain(domain=EAST) if known else None
    return Instruction(term=term, sequence=sequence, id=name, payload=payload)


def accepted(name: str) -> InstructAck:
    return InstructAck(instruction=name, outcome=Outcome.ACCEPTED)


@dataclass
class Disk:
    """What survives a kill."""

    term: int = 0
    done: dict[str, InstructAck] = field(default_factory=dict)


CarryOut = Callable[[Instruction], Awaitable[InstructAck | None]]


class NotingSide:
    """Carries everything out, unless told otherwise."""

    def __init__(self, disk: Disk | None = None) -> None:
        self.disk = disk or Disk()
        self.did: list[str] = []
        """Instructions that it was asked to carry out, and `term N` for each that it kept."""

        self.grants: list[tuple[Grant, ...]] = []
        self.swept_s: list[float] = []
        self.measurements = 0
        self.carries: dict[str, CarryOut] = {}
        self.fails: set[str] = set()
        """Methods that have a defect."""

        self.strays = 3

    @property
    def term(self) -> int:
        return self.disk.term

    async def hear_term(self, term: int) -> None:
        await asyncio.sleep(0.01)
        self._may_fail("hear_term")
        self.disk.term = term
        self.did.append(f"term {term}")

    async def measured(self) -> Measured:
        await asyncio.sleep(0.01)
        self.measurements += 1
        self._may_fail("measured")
        return Measured()

    def report(self, measured: Measured) -> ShardReport:
        self._may_fail("report")
        return ShardReport(
            shard=ShardId("one"), summary=measured.summary, term_seen=self.term, can_hand_over=True
        )

    def settled(self, instruction: str) -> InstructAck | None:
        return self.disk.done.get(instruction)

    def last_settled(self, count: int) -> Sequence[InstructAck]:
        return list(self.disk.done.values())[-count:]

    async def carry_out(self, instruction: Instruction) -> InstructAck | None:
        self.did.append(instruction.id)
        await asyncio.sleep(0.01)
        self._may_fail("carry_out")
        ack: InstructAck | None = accepted(instruction.id)
        if instruction.id in self.carries:
            ack = await self.carries[instruction.id](instruction)
        if ack is not None and ack.outcome is Outcome.ACCEPTED:
            self.disk.done[instruction.id] = ack
        return ack

    async def hear_grants(self, grants: Sequence[Grant]) -> None:
        if "hear_grants" in self.fails:
            raise Rejected("not a grant")
        self.grants.append(tuple(grants))

    async def sweep(self) -> None:
        self._may_fail("sweep")
        self.swept_s.append(LoopClock().elapsed_s())

    def _may_fail(self, what: str) -> None:
        if what in self.fails:
            raise RuntimeError(f"a defect in {what}")


async def never(_: object) -> ReportAck:
    """Waits until it is cancelled."""
    await asyncio.sleep(1e9)
    raise AssertionError


def always(answer: AnswerT) -> Callable[[object], Coroutine[Any, Any, AnswerT]]:
    """The same to everything."""

    async def say(_: object) -> AnswerT:
        return answer

    return say


def raising(error: BaseException) -> Callable[[object], Coroutine[Any, Any, ReportAck]]:
    """The same error to everything."""

    async def fail(_: object) -> ReportAck:
        raise error

    return fail


Answers = Callable[[ShardReport], Awaitable[ReportAck]]


class Fleet:
    """A coordinator that offers what is pending until it is acknowledged."""

    def __init__(self, *pending: Instruction, term: int = 1) -> None:
        self.term = term
        self.pending = {each.id: each for each in pending}
        self.grants: tuple[Grant, ...] = ()
        self.heard: list[tuple[float, ShardReport]] = []
        self.answers: Answers | None = None
        """Instead of the truth."""

    async def report(self, report: ShardReport) -> ReportAck:
        self.heard.append((LoopClock().elapsed_s(), report))
        if self.answers is not None:
            return await self.answers(report)
        return self.truth(report)

    def truth(self, report: ShardReport) -> ReportAck:
        for ack in report.acks:
            if ack.outcome in {Outcome.ACCEPTED, Outcome.REJECTED_INVALID}:
                self.pending.pop(ack.instruction, None)
        return ReportAck(
            term=self.term, instructions=tuple(self.pending.values()), grants=self.grants
        )

    @property
    def at_s(self) -> list[float]:
        return [round(at_s, 1) for at_s, _ in self.heard]

    def acks(self, report: int) -> dict[str, Outcome]:
        """The acks of a report, by its position."""
        return {ack.instruction: ack.outcome for ack in self.heard[report][1].acks}


@dataclass
class Linked:
    """An uplink at work."""

    side: NotingSide
    fleet: Fleet
    registry: CollectorRegistry
    task: "asyncio.Task[None]"

    def metric(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(f"mainstay_shard_uplink_{name}", labels) or 0.0


@asynccontextmanager
async def linked(
    side: NotingSide, fleet: Fleet, options: UplinkOptions | None = None
) -> AsyncIterator[Linked]:
    """An uplink that runs, until the block is left as by a kill."""
    registry = CollectorRegistry()
    telling = Telling(UplinkMetrics(registry, LoopClock()), log.logger(), LoopClock())
    uplink = Uplink(
        side, fleet, clock=LoopClock(), random=Random(7), telling=telling, options=options
    )
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(uplink.run())
        yield Linked(side, fleet, registry, task)
        assert not task.done(), "the uplink has ended by itself"
        task.cancel()
