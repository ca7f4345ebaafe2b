"""Changes that must not be left half made."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

AnswerT = TypeVar("AnswerT")


class OneAtATime:
    """Runs work to its end and nothing beside it, in order, whatever becomes of who waits."""

    def __init__(self) -> None:
        self._one = asyncio.Lock()
        self._running: set[asyncio.Task[Any]] = set()

    async def __call__(self, work: Coroutine[Any, Any, AnswerT]) -> AnswerT:
        """What the work returns or raises, when it is done."""
        task = asyncio.ensure_future(self._alone(work))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def _alone(self, work: Coroutine[Any, Any, AnswerT]) -> AnswerT:
        async with self._one:
            return await work
