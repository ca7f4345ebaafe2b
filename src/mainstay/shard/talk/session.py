"""One stream of one cluster: what is said on it and what comes of it, until somebody ends it."""

import asyncio
from typing import Protocol

from mainstay.model.errors import MainstayError, Unavailable
from mainstay.model.frames import ClusterFrame, Hello, ShardFrame
from mainstay.model.ids import parse_cluster_id
from mainstay.runtime.beside import beside
from mainstay.runtime.slot import Slot
from mainstay.shard.talk.outbox import Outbox
from mainstay.wire.session_server import Send


class Host(Protocol):
    """Whoever keeps the sessions of all clusters."""

    def heard(self, session: "Session", frame: ClusterFrame) -> None:
        """Route one frame."""

    def ignored(self, session: "Session", why: str) -> None:
        """A frame that means nothing to us."""

    async def read_rollups(self, session: "Session") -> None:
        """Read what comes into its slot, for ever."""

    def cut(self, session: "Session", reason: str, why: str) -> None:
        """End a session whose cluster does not read."""

    def closed(self, session: "Session") -> None:
        """A stream is gone."""


class Session:
    """One stream of one cluster: what `mainstay.wire.session_server.Seat` asks for."""

    def __init__(
        self, hello: Hello, outbox: Outbox, host: Host, *, since_s: float, slow_reader_s: float
    ) -> None:
        self.cluster = parse_cluster_id(hello.cluster)
        self.hello = hello
        self.since_s = since_s
        self.outbox = outbox
        self.rollup: Slot[bytes] = Slot()
        self.rollups = 0
        """How many were taken in."""

        self._host = host
        self._slow_reader_s = slow_reader_s
        self._why: MainstayError = Unavailable("the session is over")
        self._ended = asyncio.Event()

    def heard(self, frame: ClusterFrame) -> None:
        """A frame has come."""
        self._host.heard(self, frame)

    def rolled_up(self, frame: bytes) -> None:
        """A roll-up has come: it takes the place of one that waits to be read."""
        self.rollup.put(frame)

    def ignored(self, why: str) -> None:
        """A frame has come that is none of ours."""
        self._host.ignored(self, why)

    def say(self, frame: ShardFrame) -> bool:
        """Have it said; who lets too much wait is cut off. Whether it was taken."""
        taken = self.outbox.put(frame)
        if not taken:
            self._host.cut(self, "overflow", f"{len(self.outbox)} frames wait to be read")
        return taken

    async def run(self, send: Send) -> None:
        """Speak, and read roll-ups, until somebody ends it."""
        reading = self._host.read_rollups(self)
        await beside(self._ended.wait(), self._speak(send), reading)
        raise self._why

    def end(self, why: MainstayError) -> None:
        """Let `run` end with this; the first reason counts."""
        if not self._ended.is_set():
            self._why = why
            self._ended.set()

    def close(self) -> None:
        """The stream is gone."""
        self._host.closed(self)

    async def _speak(self, send: Send) -> None:
        limit_s = self._slow_reader_s
        try:
            while True:
                frame = await self.outbox.take()
                async with asyncio.timeout(limit_s):
                    await send(frame)
        except TimeoutError:
            self._host.cut(self, "slow", f"nothing was read for {limit_s:g} s")
        except MainstayError as error:
            self.end(error)
