"""One lifecycle call of one provider: fenced, timed, repeated while nobody answers.

A repeated call is safe: to a provider it is the same step. Each attempt has a number of its own,
so that one which arrives late is told from the one that replaced it.
"""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from mainstay.model.calls import (
    Ack,
    ConfigureRequest,
    CreateRequest,
    DeleteRequest,
    DrainRequest,
    Fence,
    GetRequest,
    Mutation,
)
from mainstay.model.errors import Fenced, MainstayError, Unavailable
from mainstay.model.ids import MachineId
from mainstay.model.machine import Machine
from mainstay.providers.kit.retry import Backoff, until_available
from mainstay.runtime.clock import Clock
from mainstay.shard.events import Event
from mainstay.shard.hands.acting import Acting
from mainstay.shard.hands.unanswered import Unanswered
from mainstay.shard.ports import Journal, Link

RequestT = TypeVar("RequestT", bound=Mutation)
AnswerT = TypeVar("AnswerT")


class HeldBack(MainstayError):
    """A control came between two attempts. What became of those before, the provider knows."""

    code = "held_back"
    what_to_do = "ask for the machine"


class FenceCounter:
    """The fences of one life of a shard. One counter for all machines and all providers."""

    def __init__(self, shard: str, epoch: int) -> None:
        self.shard = shard
        self.epoch = epoch
        self._sequence = 0

    def next(self) -> Fence:
        """A fence that nobody has seen yet."""
        self._sequence += 1
        return Fence(self.shard, self.epoch, self._sequence)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """How patient a call is."""

    timeout_s: float = 10.0
    """Of one attempt; the last of an action has what is left of its deadline."""

    least_s: float = 1.0
    """With less left than this a machine that can still be given back is given back."""

    telling_s: float = 10.0
    """A call that had less time than this and was not answered says nothing of its provider."""

    backoff: Backoff = dataclasses.field(
        default_factory=lambda: Backoff(first_s=0.2, longest_s=5.0)
    )
    """The pauses between attempts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """One provider as actions call it. Raises only MainstayError."""

    source: str
    link: Link
    fences: FenceCounter
    acting: Acting
    journal: Journal
    clock: Clock
    random: Random
    unanswered: Unanswered
    options: CallOptions = dataclasses.field(default_factory=CallOptions)
    may: Callable[[], bool] = lambda: True
    """Whether a control lets an attempt go out at this moment."""

    async def create(self, request: CreateRequest, *, until_s: float) -> Ack:
        """Begin to make hardware; no attempt lasts beyond `until_s`."""
        return await self._persist(self.link.create, request, until_s)

    async def configure(self, request: ConfigureRequest, *, until_s: float) -> Ack:
        """Begin to join a cluster; attempts as for `create`."""
        return await self._persist(self.link.configure, request, until_s)

    async def drain(self, request: DrainRequest, *, until_s: float) -> Ack:
        """Begin to empty a machine; attempts as for `create`."""
        return await self._persist(self.link.drain, request, until_s)

    async def delete(self, request: DeleteRequest, *, until_s: float) -> Ack:
        """Begin to give hardware back; attempts as for `create`."""
        return await self._persist(self.link.delete, request, until_s)

    async def get(self, machine: MachineId) -> Machine:
        """One machine, asked for once."""
        try:
            found = await self._timed(self.link.get(GetRequest(machine)), self.options.timeout_s)
        except Unavailable:
            raise
        except MainstayError:
            self.unanswered.answered(self.source)
            raise
        self.unanswered.answered(self.source)
        return found

    def has_time(self, until_s: float) -> bool:
        """Whether a call that begins now can be answered by then."""
        return self.clock.elapsed_s() + self.options.least_s <= until_s

    async def _persist(
        self, call: Callable[[RequestT], Awaitable[Ack]], request: RequestT, until_s: float
    ) -> Ack:
        async def attempt() -> Ack:
            if why := self.acting.why_not(self.source):
                raise Fenced(f"not sent, since we have stopped acting: {why}")
            if not self.may():
                raise HeldBack("held back between two attempts; the first may have been accepted")
            left_s = min(self.options.timeout_s, until_s - self.clock.elapsed_s())
            fenced = dataclasses.replace(request, fence=self.fences.next())
            try:
                return await self._timed(call(fenced), left_s)
            except Fenced as error:
                self._stop(request.machine, error)
                raise

        with self._watched(request, until_s):
            return await until_available(attempt, self._pauses(until_s), lambda _: None)

    @contextmanager
    def _watched(self, request: Mutation, until_s: float) -> Iterator[None]:
        """What becomes of the call in the block says how its provider stands."""
        began_s, kind = self.clock.elapsed_s(), type(request)
        try:
            with self.unanswered.calling(self.source, kind):
                yield
        except Unavailable as error:
            if until_s - began_s >= self.options.telling_s:
                self.unanswered.gave_up(self.source, request, began_s, error.message)
            raise
        except HeldBack:
            raise
        except MainstayError:
            self.unanswered.answered(self.source, kind)
            raise
        self.unanswered.answered(self.source, kind)

    def _pauses(self, until_s: float) -> Iterator[float]:
        """As long as the attempt after the pause still has time."""
        for pause_s in self.options.backoff.pauses(self.random):
            if self.clock.elapsed_s() + pause_s >= until_s:
                return
            yield pause_s

    async def _timed(self, answer: Awaitable[AnswerT], timeout_s: float) -> AnswerT:
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError as error:
            raise Unavailable(
                f"provider {self.source} did not answer within {max(0.0, timeout_s):.3g} s"
            ) from error

    def _stop(self, machine: str, error: Fenced) -> None:
        """A newer life of this shard acts. Whoever does not say which, is obeyed for itself."""
        ours, theirs = self.fences.epoch, error.epoch
        replaced = theirs is not None and theirs > ours
        if replaced:
            self.acting.stop(f"epoch {theirs} of this shard acts, we are epoch {ours}")
        else:
            self.acting.stop_provider(self.source, error.message)
        self.journal.noticed(
            Event.SHARD_FENCED,
            machine=machine,
            provider=self.source,
            epoch=ours,
            seen=theirs,
            stopped="shard" if replaced else "provider",
            why=error.message,
        )
