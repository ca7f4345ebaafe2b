"""Reports to the coordinator, as long as the shard lives, and nothing that the shard waits for.

A report is a statement about one moment: what the shard owns, and the acknowledgement of everything
it carried out that was not confirmed yet. The two are read together, while nothing is being carried
out. Else a machine that was just given away could be missing from the one and not yet stand in the
other, and the coordinator would give it to somebody else.
"""

import asyncio
import contextlib
import dataclasses
import math
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Final

from mainstay.model.coordination import InstructAck, Outcome, ReportAck, ShardReport
from mainstay.model.errors import Fenced, MainstayError, Rejected
from mainstay.runtime.clock import Clock
from mainstay.uplink.instructions import INSTRUCTIONS_MAX, Inbox
from mainstay.uplink.metrics import Heard
from mainstay.uplink.ports import Coordinator, Measured, ShardSide
from mainstay.uplink.telling import Telling

DOUBLINGS_MAX: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class UplinkOptions:
    """How often, and how patient."""

    report_interval_s: float = 30.0
    soon_s: float = 0.5
    """How soon after instructions were handled, so that their answers do not wait."""

    call_timeout_s: float = 12.0
    """The last resort: whoever makes the call should have given up before."""

    retry_first_s: float = 0.5
    retry_max_s: float = 15.0
    measure_every_s: float = 5.0
    """How old the heavy part of a report may be."""

    upkeep_s: float = 1.0
    """How often to look whether something can be let go or carried on with."""

    after_defect_s: float = 5.0


class Uplink:
    """One for a shard. Whatever goes wrong in it is told, and it goes on."""

    def __init__(
        self,
        side: ShardSide,
        coordinator: Coordinator,
        *,
        clock: Clock,
        random: Random,
        telling: Telling,
        options: UplinkOptions | None = None,
    ) -> None:
        self._side, self._coordinator = side, coordinator
        self._clock, self._random, self._telling = clock, random, telling
        self._options = options or UplinkOptions()
        self._inbox = Inbox(side, telling)
        self._holding = asyncio.Lock()
        self._number = 0
        self._measured, self._measured_s = Measured(), -math.inf
        self._failures = self._idle_rounds = self._accepted = 0
        self._ack_waits = asyncio.Event()
        # A crash may have come between what was carried out and its acknowledgement.
        self._acks = {ack.instruction: ack for ack in side.last_settled(INSTRUCTIONS_MAX)}

    async def run(self) -> None:
        """Until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._for_ever("report", self._report))
            tasks.create_task(self._for_ever("upkeep", self._upkeep))

    async def _for_ever(self, what: str, turn: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await turn()
            except asyncio.CancelledError:
                if _is_to_end():
                    raise
                await self._recover(what)  # a call was cancelled, not we
            except MainstayError as error:
                self._telling.trouble(what, error)
                await asyncio.sleep(self._options.after_defect_s)
            except Exception:  # noqa: BLE001 - the boundary: the shard goes on, and so do we
                await self._recover(what)

    async def _recover(self, what: str) -> None:
        """Inside an `except`."""
        self._telling.defect(what)
        await asyncio.sleep(self._options.after_defect_s)

    async def _upkeep(self) -> None:
        await asyncio.sleep(self._options.upkeep_s)
        async with self._holding:
            await self._side.sweep()
            self._queue(await self._inbox.carry_on())
            self._stand()

    async def _report(self) -> None:
        """One report, and the pause after it."""
        began_s = self._clock.elapsed_s()
        await self._measure()
        async with self._holding:
            report = self._next_report()
        answer = await self._answer(report)
        if answer is None:
            await asyncio.sleep(self._retry_s())
            return
        self._failures = 0
        async with self._holding:
            await self._hear(report, answer)
            self._stand()
        await self._pause(self._clock.elapsed_s() - began_s)

    async def _measure(self) -> None:
        """Unless it was done just now. A shard that cannot be counted is reported all the same."""
        if self._clock.elapsed_s() - self._measured_s < self._options.measure_every_s:
            return
        self._measured_s = self._clock.elapsed_s()
        try:
            self._measured = await self._side.measured()
        except Exception:  # noqa: BLE001 - the boundary: acks and ownership matter more
            self._telling.defect("measure")

    def _next_report(self) -> ShardReport:
        """As everything stands now, with a number that no attempt had before."""
        self._number += 1
        self._ack_waits.clear()
        acks = tuple(self._acks.values())
        return dataclasses.replace(
            self._side.report(self._measured), number=self._number, acks=acks
        )

    async def _answer(self, report: ShardReport) -> ReportAck | None:
        """None: as far as we know the report was not heard. Its acks stay where they are."""
        try:
            async with asyncio.timeout(self._options.call_timeout_s):
                answer = await self._coordinator.report(report)
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and _is_to_end():
                raise
            if isinstance(error, Rejected):
                self._forget_refusals(report.acks)
            self._unheard(heard_as(error), str(error) or type(error).__name__)
            return None
        if not answer.acknowledged or self._inbox.is_nonsense(answer):
            self._unheard(Heard.NONSENSE, "not an answer to a report")
            return None
        return answer

    def _unheard(self, heard: Heard, why: str) -> None:
        self._failures += 1
        self._telling.reported(heard, why)

    async def _hear(self, report: ShardReport, answer: ReportAck) -> None:
        """Take an answer in. Of an old leader only that it is one."""
        stale = self._inbox.is_stale(answer)
        self._telling.reported(Heard.STALE if stale else Heard.ANSWERED)
        self._forget_refusals(report.acks)
        if not stale:
            self._forget(report.acks)
            self._telling.remarked(answer.remarks)
        acks = await self._inbox.take_in(answer)
        self._queue(acks)
        if not stale:
            await self._side.hear_grants(answer.grants)

    def _queue(self, acks: Iterable[InstructAck]) -> None:
        for ack in acks:
            self._acks[ack.instruction] = ack
            self._ack_waits.set()

    def _forget(self, acks: Iterable[InstructAck]) -> None:
        """They were heard. One that was given again meanwhile waits for its own turn."""
        for ack in acks:
            if self._acks.get(ack.instruction) is ack:
                del self._acks[ack.instruction]

    def _forget_refusals(self, acks: Iterable[InstructAck]) -> None:
        """Nothing depends on their being heard: what was not done is offered again."""
        self._forget(ack for ack in acks if ack.outcome is not Outcome.ACCEPTED)

    async def _pause(self, took_s: float) -> None:
        """Until the next report is due, or, when an ack waits, soon.

        Rounds that bring nothing forward come at longer and longer distances: what fails, or what
        an old leader says, is said again at each report.
        """
        options = self._options
        rest_s = max(options.soon_s, options.report_interval_s - took_s)
        if self._inbox.accepted > self._accepted or not self._ack_waits.is_set():
            self._accepted, self._idle_rounds = self._inbox.accepted, 0
        soon_s = min(rest_s, options.soon_s * 2.0 ** min(self._idle_rounds, DOUBLINGS_MAX))
        self._idle_rounds += 1
        await asyncio.sleep(soon_s)
        if not self._ack_waits.is_set():
            await _until(self._ack_waits, rest_s - soon_s)

    def _retry_s(self) -> float:
        """Longer each time, and no two shards at the same moment."""
        options = self._options
        ceiling_s = options.retry_first_s * 2.0 ** min(self._failures, DOUBLINGS_MAX)
        return self._random.uniform(options.retry_first_s, min(options.retry_max_s, ceiling_s))

    def _stand(self) -> None:
        self._telling.stands(term=self._side.term, acks=len(self._acks), strays=self._side.strays)


def heard_as(error: BaseException) -> Heard:
    """What became of a report that ended in this."""
    match error:
        case Fenced():
            return Heard.FENCED
        case Rejected():
            return Heard.REFUSED
        case MainstayError() | TimeoutError() | asyncio.CancelledError():
            return Heard.UNHEARD
        case _:
            return Heard.NONSENSE


async def _until(event: asyncio.Event, at_most_s: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(at_most_s):
            await event.wait()


def _is_to_end() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
