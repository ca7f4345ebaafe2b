"""Instructions of a coordinator, each carried out at most once, none of an old leader's.

A higher term is durable before anything of it is begun, and what was carried out is durable, with
its answer, before it is acknowledged. So a crash between any two lines here costs a repetition of
the acknowledgement and nothing else.
"""

import heapq
from collections.abc import Iterable, Sequence
from typing import Final

from mainstay.model.coordination import InstructAck, Instruction, Outcome, ReportAck
from mainstay.model.errors import MainstayError
from mainstay.model.ids import is_id
from mainstay.uplink.metrics import Handled
from mainstay.uplink.ports import ShardSide
from mainstay.uplink.telling import Telling, short

INSTRUCTIONS_MAX: Final = 64
"""Most that are looked at in one answer, as many as a coordinator sends; the rest comes again."""

ANSWER_MAX: Final = 10_000
"""An answer with more of them is none."""

TERM_MAX: Final = 2**62
"""A higher term is a lie: no leader could ever come after it."""

_HANDLED: Final = {
    Outcome.ACCEPTED: Handled.ACCEPTED,
    Outcome.REJECTED_STALE: Handled.STALE,
    Outcome.REJECTED_INVALID: Handled.INVALID,
    Outcome.FAILED: Handled.FAILED,
    Outcome.UNSPECIFIED: Handled.FAILED,
}


class Inbox:
    """Not safe for two at once: whoever uses it holds the uplink's lock."""

    def __init__(self, side: ShardSide, telling: Telling) -> None:
        self._side, self._telling = side, telling
        self._open: dict[str, Instruction] = {}
        self.accepted = 0
        """How many were carried out in this life."""

    def is_stale(self, answer: ReportAck) -> bool:
        """Whether an answer is an old leader's."""
        return answer.term < self._side.term

    def is_nonsense(self, answer: ReportAck) -> bool:
        """Whether no coordinator answers like this; nothing of it counts then.

        A term that leaves no room above it would lock out every later leader, and an id that is
        none would make each report that acknowledges it one that is refused.
        """
        if len(answer.instructions) > ANSWER_MAX:
            return True
        terms = [answer.term, *(each.term for each in answer.instructions)]
        ids = (each.id for each in answer.instructions)
        return not (min(terms) >= 0 and max(terms) <= TERM_MAX and all(map(is_id, ids)))

    async def take_in(self, answer: ReportAck) -> list[InstructAck]:
        """What became of the instructions of an answer, as far as anything has.

        What is no longer offered is no longer carried on with: nobody waits for it.
        """
        offered = self._offered(answer.instructions)
        if self.is_stale(answer):
            return [self._stale(each) for each in offered]
        highest = max([answer.term, *(each.term for each in offered)])
        if highest > self._side.term:
            await self._side.hear_term(highest)
        self._open = {}
        return await self._handle(offered)

    async def carry_on(self) -> list[InstructAck]:
        """What became of those that could not be carried out before."""
        waiting, self._open = list(self._open.values()), {}
        return await self._handle(waiting)

    def _offered(self, instructions: Sequence[Instruction]) -> list[Instruction]:
        if surplus := max(0, len(instructions) - INSTRUCTIONS_MAX):
            self._telling.surplus(surplus)
        chosen: dict[str, Instruction] = {}
        for each in heapq.nsmallest(INSTRUCTIONS_MAX, instructions, key=lambda one: one.sequence):
            chosen.setdefault(each.id, each)
        return list(chosen.values())

    async def _handle(self, instructions: Iterable[Instruction]) -> list[InstructAck]:
        acks: list[InstructAck] = []
        for instruction in instructions:
            ack = await self._handle_one(instruction)
            if ack is not None:
                acks.append(ack)
        return acks

    async def _handle_one(self, instruction: Instruction) -> InstructAck | None:
        if instruction.term < self._side.term:
            return self._stale(instruction)
        if before := self._side.settled(instruction.id):
            self._telling.handled(instruction, Handled.AGAIN, before)
            return before
        ack = await self._carried_out(instruction)
        if ack is None:
            self._open[instruction.id] = instruction
        elif ack.outcome is Outcome.ACCEPTED:
            self.accepted += 1
        handled = Handled.NOT_YET if ack is None else _HANDLED[ack.outcome]
        self._telling.handled(instruction, handled, ack)
        return ack

    async def _carried_out(self, instruction: Instruction) -> InstructAck | None:
        if instruction.payload is None:
            return _ack(instruction, Outcome.REJECTED_INVALID, "not a kind that is known here")
        try:
            return await self._side.carry_out(instruction)
        except MainstayError as error:
            return _ack(instruction, Outcome.FAILED, error.message)
        except Exception as defect:  # noqa: BLE001 - the boundary: it is offered again
            self._telling.defect("carry_out")
            return _ack(instruction, Outcome.FAILED, f"a defect: {type(defect).__name__}")

    def _stale(self, instruction: Instruction) -> InstructAck:
        why = f"term {instruction.term}, and {self._side.term} was heard"
        ack = _ack(instruction, Outcome.REJECTED_STALE, why)
        self._telling.handled(instruction, Handled.STALE, ack)
        return ack


def _ack(instruction: Instruction, outcome: Outcome, why: str) -> InstructAck:
    return InstructAck(instruction=instruction.id, outcome=outcome, reason=short(why))
