"""A cluster's session with its shard: it says what is needed, and does what it is asked.

`run` keeps one stream up, for ever. Nothing of what a cluster needs is decided here: rows come in
by `set_needs`, and before the first call nothing is said, because silence is not zero demand.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from random import Random, SystemRandom
from typing import Final, NoReturn, Protocol

from mainstay.model.errors import MainstayError, Rejected
from mainstay.model.frames import Acknowledged, BootstrapAnswer, Hello, ReclaimAck
from mainstay.model.ids import ClusterId, parse_cluster_id
from mainstay.model.need import Need
from mainstay.model.rollup import LIMITS
from mainstay.runtime.aside import Aside
from mainstay.runtime.beside import beside
from mainstay.runtime.clock import Clock, SystemClock
from mainstay.runtime.log import logger
from mainstay.runtime.slot import Slot
from mainstay.session.handlers import Handlers
from mainstay.session.reconnect import Pauses, ReconnectOptions
from mainstay.session.work import Work
from mainstay.wire.session_client import dial
from mainstay.wire.session_frames import (
    cluster_frame_to_wire,
    rollup_frame,
    shard_frame_from_wire,
)
from mainstay.wire.transport import Over

ROLLUP_EVERY_S: Final = 10.0
ANSWERS_MAX: Final = 4_096
"""So many answers wait to be said, four times what a shard asks at once; then the oldest go."""


class Stream(Protocol):
    """A stream to a shard. Raises only MainstayError."""

    async def write(self, data: bytes) -> None:
        """Send a frame."""

    async def read(self) -> bytes | None:
        """The next frame; None when the shard has hung up."""


Dial = Callable[[str, Over], AbstractAsyncContextManager[Stream]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTools:
    """What a client is given from outside; the defaults are those of a real process."""

    dial: Dial = dial
    clock: Clock = field(default_factory=SystemClock)
    random: Random = field(default_factory=SystemRandom)
    aside: Aside = asyncio.to_thread
    reconnect: ReconnectOptions = field(default_factory=ReconnectOptions)
    rollup_every_s: float = ROLLUP_EVERY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFacts:
    """How a client stands."""

    connected: bool = False
    """The shard has acknowledged this stream."""

    why: str = ""
    """Why the last stream ended, or could not begin."""

    shard_epoch: int = 0
    sessions: int = 0
    """How many streams were acknowledged."""

    rollups_sent: int = 0
    rollups_acknowledged: int = 0
    """A shard does not acknowledge what it refuses."""

    frames_ignored: int = 0
    answers_lost: int = 0
    """More waited to be said than are kept."""


@dataclass(slots=True)
class _Counts:
    shard_epoch: int = 0
    sessions: int = 0
    rollups_sent: int = 0
    rollups_acknowledged: int = 0
    frames_ignored: int = 0
    answers_lost: int = 0


class SessionClient:
    """One cluster's end. Everything happens on the event loop that runs `run`."""

    def __init__(
        self,
        cluster: str,
        address: str,
        over: Over,
        handlers: Handlers,
        *,
        tools: ClientTools | None = None,
    ) -> None:
        """`address` is the shard's `host:port`; a text that is no cluster id is refused."""
        self.cluster: ClusterId = parse_cluster_id(cluster)
        self._address = address
        self._over = over
        self._handlers = handlers
        self._tools = tools or ClientTools()
        self._needs: Slot[tuple[tuple[Need, ...], int]] = Slot()
        self._rollup: bytes | None = None
        self._rollup_is_due = False
        self._answers: deque[BootstrapAnswer | ReclaimAck] = deque()
        self._to_say = asyncio.Event()
        self._connected = asyncio.Event()
        self._connected_s = 0.0
        self._counts = _Counts()
        self._why = ""

    def set_needs(self, rows: Sequence[Need]) -> None:
        """All that the cluster needs from now on, in the place of whatever was set before.

        It is said at once, and then again and again. Of what is set in quick succession, or while
        there is no stream, only the last is said. Never waits; a row that is not this cluster's
        refuses all of them.
        """
        if len(rows) > LIMITS.rows:
            raise Rejected(f"too many rows: {len(rows)} (at most {LIMITS.rows}): add equal ones up")
        for position, row in enumerate(rows):
            if row.cluster != self.cluster:
                whose = f"row {position} is of cluster {row.cluster}"
                raise Rejected(f"{whose}: this is the session of {self.cluster}")
        self._needs.put((tuple(rows), int(self._tools.clock.now_s() * 1e9)))

    def facts(self) -> ClientFacts:
        """How it stands."""
        counts = self._counts
        return ClientFacts(
            connected=self._connected.is_set(),
            why=self._why,
            shard_epoch=counts.shard_epoch,
            sessions=counts.sessions,
            rollups_sent=counts.rollups_sent,
            rollups_acknowledged=counts.rollups_acknowledged,
            frames_ignored=counts.frames_ignored,
            answers_lost=counts.answers_lost,
        )

    async def wait_connected(self) -> None:
        """Until the shard has acknowledged us."""
        await self._connected.wait()

    async def run(self) -> NoReturn:
        """Keep a session up until cancelled, whatever happens to shard and network.

        What a handler has begun goes on when its stream is lost; cancelling this ends it too.
        """
        pauses = Pauses(self._tools.random, self._tools.reconnect)
        async with asyncio.TaskGroup() as tasks:
            work = Work(self._handlers, self._answer, tasks)
            tasks.create_task(self._write_rollups())
            while True:
                lasted_s = await self._session(work)
                await asyncio.sleep(pauses.after(lasted_s))

    async def _session(self, work: Work) -> float:
        """One stream, to its end; how long it was a session."""
        try:
            async with self._tools.dial(self._address, self._over) as stream:
                await beside(self._listen(stream, work), self._speak(stream))
            self._why = "the shard has hung up"
        except MainstayError as error:
            self._why = error.message
        lasted = self._connected.is_set()
        self._connected.clear()
        return self._tools.clock.elapsed_s() - self._connected_s if lasted else 0.0

    async def _speak(self, stream: Stream) -> None:
        """Hello; then answers as they come, and the newest roll-up at once and again and again."""
        await stream.write(cluster_frame_to_wire(Hello(self.cluster)))
        every_s, again_s = self._tools.rollup_every_s, self._now_s()
        while True:
            self._to_say.clear()
            await self._say_answers(stream)
            if self._rollup is not None and (self._rollup_is_due or self._now_s() >= again_s):
                self._rollup_is_due = False
                await stream.write(self._rollup)
                self._counts.rollups_sent += 1
                again_s = self._now_s() + every_s
            await self._wait_for_words(again_s)

    async def _say_answers(self, stream: Stream) -> None:
        while self._answers:
            answer = self._answers.popleft()
            try:
                await stream.write(cluster_frame_to_wire(answer))
            except BaseException:
                self._answers.appendleft(answer)  # for the next stream
                raise

    async def _wait_for_words(self, until_s: float) -> None:
        """Until there is something to say; with a roll-up, until it is time to say it again."""
        if self._rollup is None:
            await self._to_say.wait()
            return
        try:
            async with asyncio.timeout(max(0.0, until_s - self._now_s())):
                await self._to_say.wait()
        except TimeoutError:
            pass

    async def _listen(self, stream: Stream, work: Work) -> None:
        while (data := await stream.read()) is not None:
            match shard_frame_from_wire(data):
                case None:
                    self._counts.frames_ignored += 1
                case Acknowledged() as ack:
                    self._acknowledged(ack)
                case frame:
                    work.hear(frame)

    def _acknowledged(self, ack: Acknowledged) -> None:
        if ack.echo == "rollup":
            self._counts.rollups_acknowledged += 1
        elif not self._connected.is_set():
            self._counts.sessions += 1
            self._counts.shard_epoch = ack.shard_epoch
            self._connected_s = self._now_s()
            self._connected.set()

    async def _write_rollups(self) -> None:
        """Turn what was set into bytes, beside the loop; only ever the newest."""
        while True:
            await self._needs.wait()
            rows, nanos = self._needs.take()
            write = partial(rollup_frame, self.cluster, rows, timestamp_nanos=nanos)
            self._rollup = await self._tools.aside(write)
            self._rollup_is_due = True
            self._to_say.set()

    def _answer(self, frame: BootstrapAnswer | ReclaimAck) -> None:
        self._answers.append(frame)
        if len(self._answers) > ANSWERS_MAX:
            self._answers.popleft()
            self._lose_answer()
        self._to_say.set()

    def _lose_answer(self) -> None:
        """Told once; how many have gone is in the facts."""
        self._counts.answers_lost += 1
        if self._counts.answers_lost == 1:
            logger().warning("answers_lost", cluster=self.cluster, waiting=ANSWERS_MAX)

    def _now_s(self) -> float:
        return self._tools.clock.elapsed_s()
