"""Work by key: one call at a time for each, and what is overtaken while it waits is never done."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

ValueT = TypeVar("ValueT")


class Newest(Generic[ValueT]):
    """Hands on values; of those that wait under one key only the newest, in order of waiting."""

    def __init__(
        self,
        handle: Callable[[ValueT], Awaitable[None]],
        tasks: asyncio.TaskGroup,
        *,
        workers_max: int,
    ) -> None:
        """`handle` must not raise."""
        self._handle = handle
        self._tasks = tasks
        self._workers_max = workers_max
        self._workers = 0
        self._waiting: dict[str, ValueT] = {}
        self._busy: set[str] = set()

    def put(self, key: str, value: ValueT) -> None:
        """Have it handed on as soon as a worker is free; never waits."""
        self._waiting[key] = value
        if key not in self._busy and self._workers < self._workers_max:
            self._workers += 1
            self._tasks.create_task(self._work())

    async def _work(self) -> None:
        while (key := self._next()) is not None:
            value = self._waiting.pop(key)
            self._busy.add(key)
            try:
                await self._handle(value)
            finally:
                self._busy.discard(key)
        self._workers -= 1

    def _next(self) -> str | None:
        """The one that waits longest, unless a value of its key is in somebody's hands."""
        return next((key for key in self._waiting if key not in self._busy), None)
