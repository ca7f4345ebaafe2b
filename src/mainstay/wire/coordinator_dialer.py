"""Which of several coordinators to ask: the one that leads, wherever that is by now."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import grpc

from mainstay.model.coordination import ReportAck, ShardReport
from mainstay.model.errors import MainstayError, NotLeading, Rejected, Unavailable
from mainstay.wire.coordinator_client import TIMEOUT_S, RemoteCoordinator
from mainstay.wire.coordinator_codec import ANSWER_BYTES_MAX
from mainstay.wire.tls import MutualTls, is_loopback
from mainstay.wire.transport import Over, open_channel

AnswerT = TypeVar("AnswerT")
Question = Callable[[RemoteCoordinator], Awaitable[AnswerT]]

LIST_BYTES_MAX: Final = 256 << 20
"""For tools that read whole lists: an answer may be this large."""

_RECONNECT: Final = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)
"""One that comes back is found by the next call, not by one after five seconds."""

_SHOWN_MAX: Final = 200


@dataclass(slots=True)
class _Line:
    """A channel to one coordinator; closed only when no call is on it."""

    channel: grpc.aio.Channel
    remote: RemoteCoordinator
    generation: int
    users: int = 0


@dataclass(slots=True)
class _Round:
    """One question on its way around."""

    waiting: deque[str]
    ends_s: float
    tried: list[str] = field(default_factory=list)
    errors: list[MainstayError] = field(default_factory=list)
    may_follow: bool = True


class CoordinatorDialer:
    """Asks the leader. Raises only MainstayError, and within `timeout_s`.

    Addresses are tried in turn, the one that led last first; where one that does not lead names the
    leader, that one is tried next, once per question. All that is asked must bear to be asked
    twice: one that does not answer may have done it.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        over: Over,
        *,
        timeout_s: float = TIMEOUT_S,
        answer_bytes_max: int = ANSWER_BYTES_MAX,
    ) -> None:
        if not addresses:
            raise Rejected("no coordinator to ask: give the address of one")
        self._given = tuple(dict.fromkeys(addresses))
        self._order = deque(self._given)
        self._over, self._timeout_s = over, timeout_s
        self._options = (("grpc.max_receive_message_length", answer_bytes_max), *_RECONNECT)
        self._lines: dict[str, _Line] = {}
        self._leader = ""

    @property
    def leader(self) -> str:
        """The address that answered last; empty when none did."""
        return self._leader

    async def report(self, report: ShardReport) -> ReportAck:
        """A heartbeat, to whoever leads."""
        return await self.ask(lambda coordinator: coordinator.report(report))

    async def ask(self, question: Question[AnswerT]) -> AnswerT:
        """What the leader answers."""
        now_s = asyncio.get_running_loop().time()
        first = [self._leader] if self._leader else []
        others = (each for each in self._order if each != self._leader)
        asked = _Round(deque([*first, *others]), now_s + self._timeout_s)
        try:
            while asked.waiting:
                address = asked.waiting.popleft()
                try:
                    answer = await self._try(address, question, asked)
                except Unavailable as error:
                    self._failed(address, error, asked)
                else:
                    self._leader = address
                    return answer
        finally:
            await self._let_go()
        raise _nobody(asked)

    async def close(self) -> None:
        """Hang up, on whatever is still being asked too."""
        lines, self._lines = list(self._lines.values()), {}
        for line in lines:
            await line.channel.close()

    async def _try(self, address: str, question: Question[AnswerT], asked: _Round) -> AnswerT:
        """One coordinator, for a fair part of the time that is left."""
        asked.tried.append(address)
        line = self._line(address)
        left_s = max(0.0, asked.ends_s - asyncio.get_running_loop().time())
        patience_s = left_s / (len(asked.waiting) + 1)
        line.users += 1
        try:
            async with asyncio.timeout(patience_s):
                return await question(line.remote)
        except TimeoutError as error:
            raise Unavailable(f"{address} does not answer within {patience_s:.1f} s") from error
        finally:
            line.users -= 1

    def _failed(self, address: str, error: Unavailable, asked: _Round) -> None:
        asked.errors.append(error)
        if address == self._leader:
            self._leader = ""
        if address in self._order:
            # The next question begins with another one.
            self._order.remove(address)
            self._order.append(address)
        if not isinstance(error, NotLeading) or not asked.may_follow:
            return
        if error.leader not in {"", *asked.tried} and self._may_dial(error.leader):
            asked.may_follow = False
            if error.leader in asked.waiting:
                asked.waiting.remove(error.leader)
            asked.waiting.appendleft(error.leader)

    def _may_dial(self, address: str) -> bool:
        """Nobody sends us over the network in plaintext."""
        return isinstance(self._over, MutualTls) or is_loopback(address)

    def _line(self, address: str) -> _Line:
        generation = self._over.generation if isinstance(self._over, MutualTls) else 0
        line = self._lines.get(address)
        if line is None or (line.generation != generation and not line.users):
            channel = open_channel(address, self._over, options=self._options)
            remote = RemoteCoordinator(channel, name=address, timeout_s=self._timeout_s)
            if line is not None:
                self._retired(address)
            line = self._lines[address] = _Line(channel, remote, generation)
        return line

    def _retired(self, address: str) -> None:
        """Put a line aside; `_let_go` closes it."""
        self._lines[f"{address} of before"] = self._lines.pop(address)

    async def _let_go(self) -> None:
        """Close what nobody asks through any more: old lines, and addresses that we were told."""
        wanted = {*self._given, self._leader}
        for address, line in list(self._lines.items()):
            if address not in wanted and not line.users:
                del self._lines[address]
                await line.channel.close()


def _nobody(asked: _Round) -> Unavailable:
    """One line about all that were asked."""
    said = "; ".join(dict.fromkeys(error.message[:_SHOWN_MAX] for error in asked.errors))
    if all(isinstance(error, NotLeading) for error in asked.errors):
        return NotLeading(f"no coordinator leads: {said}")
    return Unavailable(f"no coordinator that leads answers: {said}")
