"""Questions that cost much: a few at a time, and each within a deadline."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from mainstay.model.errors import Unavailable
from mainstay.runtime.aside import Aside

AnswerT = TypeVar("AnswerT")


class InTime:
    """Runs `at_once_max` of them at a time; the others wait."""

    def __init__(self, aside: Aside, *, deadline_s: float, at_once_max: int) -> None:
        self._aside, self._deadline_s = aside, deadline_s
        self._slots = asyncio.Semaphore(at_once_max)

    async def __call__(self, work: Callable[[], AnswerT]) -> AnswerT:
        """What the work returns; Unavailable after the deadline."""
        try:
            async with asyncio.timeout(self._deadline_s):
                await self._slots.acquire()
                working = asyncio.ensure_future(self._aside(work))
                working.add_done_callback(self._done)
                return await asyncio.shield(working)
        except TimeoutError as error:
            why = f"no answer within {self._deadline_s:g} s: the shard is busy"
            raise Unavailable(why) from error

    def _done(self, working: "asyncio.Future[AnswerT]") -> None:
        """A thread cannot be called off: it has its slot until it ends, whoever still waits."""
        self._slots.release()
        if not working.cancelled():
            working.exception()  # told to whoever waits, if anybody does
