"""Waiting for something to happen in the database: one connection listens for a whole process.

Who waits takes a `Wait` first, looks second and waits third, so that nothing falls in between. A
notification can be lost, and the connection can break: so everybody looks again after a while,
soon when nobody listens, seldom when somebody does.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from enum import StrEnum
from typing import Final

import psycopg
from psycopg import sql

POLL_S: Final = 0.25
"""Between two looks when nobody listens."""

NET_S: Final = 5.0
"""Between two looks when somebody does."""

PAUSE_S: Final = 1.0
"""Before a broken connection is opened again."""


class Channel(StrEnum):
    """What is told, by pg_notify at commit; the payload says of whom."""

    QUEUED = "mainstay_task_queued"
    """The node that has a new task."""

    ENDED = "mainstay_task_ended"
    """The task that has ended."""

    NOTICED = "mainstay_noticed"
    """The project that has a new notice."""


class Bell:
    """Wakes those who wait for a channel and a payload. One that nobody rings is only a poll."""

    def __init__(self) -> None:
        self._waiting: defaultdict[tuple[str, str], set[asyncio.Event]] = defaultdict(set)
        self.heard = asyncio.Event()
        """Set while somebody listens."""

    @contextmanager
    def wait(self, channel: Channel, payload: str) -> Iterator["Wait"]:
        """From now on nothing of this is missed."""
        key, event = (str(channel), payload), asyncio.Event()
        self._waiting[key].add(event)
        try:
            yield Wait(self, event)
        finally:
            self._waiting[key].discard(event)
            if not self._waiting[key]:
                del self._waiting[key]

    def ring(self, channel: str, payload: str) -> None:
        """Wake who waits for it."""
        for event in self._waiting.get((channel, payload), ()):
            event.set()

    def ring_all(self) -> None:
        """Something may have been missed: everybody looks again."""
        for events in self._waiting.values():
            for event in events:
                event.set()


class Wait:
    """One who waits."""

    def __init__(self, bell: Bell, event: asyncio.Event) -> None:
        self._bell, self._event = bell, event

    async def rings(self, *, at_most_s: float) -> None:
        """Return when it is worth another look, or the time is up."""
        pause = min(at_most_s, NET_S if self._bell.heard.is_set() else POLL_S)
        try:
            async with asyncio.timeout(pause):
                await self._event.wait()
        except TimeoutError:
            return
        self._event.clear()


@asynccontextmanager
async def listening(url: str) -> AsyncIterator[Bell]:
    """A bell with a connection of its own, which is opened again when it breaks."""
    bell = Bell()
    async with asyncio.TaskGroup() as tasks:
        listener = tasks.create_task(_keep_listening(url, bell), name="bell")
        try:
            yield bell
        finally:
            listener.cancel()


async def _keep_listening(url: str, bell: Bell) -> None:
    while True:
        with suppress(psycopg.OperationalError):
            try:
                await _listen(url, bell)
            finally:
                bell.heard.clear()
                bell.ring_all()
        await asyncio.sleep(PAUSE_S)


async def _listen(url: str, bell: Bell) -> None:
    connection = await psycopg.AsyncConnection.connect(url, autocommit=True)
    async with connection:
        for channel in Channel:
            await connection.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
        bell.heard.set()
        bell.ring_all()
        async for notice in connection.notifies():
            bell.ring(notice.channel, notice.payload)
