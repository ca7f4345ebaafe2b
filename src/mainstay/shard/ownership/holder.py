"""A shard's side of every change of hands: heard in order, done at most once, durable before told.

Each step is one write of one file, then the memory, then the answer. A crash in between leaves
either nothing done, or all of it done and remembered: the answer is then given again.
"""

from typing import Final

from mainstay.engine.barred import Barred
from mainstay.model.coordination import (
    AssignDomain,
    CrossShardDrain,
    InstructAck,
    Instruction,
    Outcome,
    UnassignDomain,
)
from mainstay.model.errors import MainstayError, Rejected, Unavailable
from mainstay.runtime.one_at_a_time import OneAtATime
from mainstay.shard.ownership.draining import PROMISE_S, Draining
from mainstay.shard.ownership.giving import Giving
from mainstay.shard.ownership.keeping import Keeping, OwnershipTools
from mainstay.shard.ownership.leaving import Leaving
from mainstay.shard.ownership.owned import Done, Owned, finished, heard
from mainstay.shard.ownership.standing import Standing
from mainstay.shard.ownership.strays import Strays, Told

UNKNOWN_KIND: Final = "an instruction of a kind that this shard does not know; update it"


class Holder:
    """Lives on the event loop. One change at a time, and none is half made."""

    def __init__(self, tools: OwnershipTools, *, promise_s: float = PROMISE_S) -> None:
        self._tools = tools
        self._keeping = Keeping(tools)
        self._standing = Standing(tools.holdings, tools.clock)
        self._leaving = Leaving(tools, self._keeping)
        self._giving = Giving(tools, self._keeping, self._standing)
        self._draining = Draining(tools, self._keeping, self._giving, promise_s=promise_s)
        self._strays = Strays(tools, self._keeping)
        self._whole = OneAtATime()

    @property
    def owned(self) -> Owned:
        """What is owned now."""
        return self._keeping.owned

    def barred(self) -> Barred:
        """What must not be acquired, because it is about to go."""
        return self._standing.barred()

    @property
    def coming(self) -> frozenset[str]:
        """Providers of machines that are ours and not counted yet: they were taken just now."""
        return self._giving.coming()

    async def carry_out(self, instruction: Instruction) -> InstructAck | None:
        """Do it, once, and say what became of it; None: not yet, ask again.

        FAILED and REJECTED_STALE are not remembered: it may be asked for again.
        """
        return await self._whole(self._carry_out(instruction))

    async def hear_term(self, term: int) -> None:
        """Remember a higher term; durable when this returns."""
        await self._whole(self._hear_term(term))

    async def sweep(self, told: Told | None = None) -> None:
        """Let go of what is free to go, drop what is gone, drain what is promised. Often.

        Of strays only those that a coordinator was `told` of are let go; None: nobody is told.
        """
        await self._whole(self._sweep(told))

    async def _carry_out(self, instruction: Instruction) -> InstructAck | None:
        name = instruction.id
        if (before := self.owned.answer_to(name)) is not None:
            return before.ack
        if instruction.term < self.owned.term:
            why = f"of term {instruction.term}, and this shard has heard {self.owned.term}"
            return InstructAck(instruction=name, outcome=Outcome.REJECTED_STALE, reason=why)
        try:
            await self._keeping.make_sure()
            await self._hear_term(instruction.term)
            done = await self._done(instruction)
        except MainstayError as error:
            return InstructAck(instruction=name, outcome=Outcome.FAILED, reason=error.message)
        return None if done is None else done.ack

    async def _done(self, instruction: Instruction) -> Done | None:
        try:
            return await self._do(instruction)
        except Unavailable:
            raise
        except Rejected as error:
            done = Done(
                instruction=instruction.id,
                outcome=Outcome.REJECTED_INVALID,
                reason=error.message,
            )
            await self._keeping.keep(finished(self.owned, done))
            return done

    async def _do(self, instruction: Instruction) -> Done | None:
        name, payload = instruction.id, instruction.payload
        if self.owned.retiring and isinstance(payload, AssignDomain | UnassignDomain):
            return None
        match payload:
            case AssignDomain():
                return await self._leaving.assign(name, payload)
            case UnassignDomain():
                return await self._leaving.unassign(name, payload)
            case CrossShardDrain():
                return await self._draining.drain(name, payload)
            case None:
                raise Rejected(UNKNOWN_KIND)
            case _:
                return await self._giving.transfer(name, payload)

    async def _hear_term(self, term: int) -> None:
        await self._keeping.keep(heard(self.owned, term))

    async def _sweep(self, told: Told | None) -> None:
        await self._keeping.make_sure()
        await self._keeping.remember()
        self._keeping.find_clusters()
        self._leaving.sweep()
        await self._leaving.retire()
        await self._strays.sweep(told)
        await self._draining.sweep()
