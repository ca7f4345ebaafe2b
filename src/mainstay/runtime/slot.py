"""A place for one value: a newer one takes the place of one that nobody has fetched yet."""

import asyncio
from typing import Generic, TypeVar

ValueT = TypeVar("ValueT")


class Slot(Generic[ValueT]):
    """For what replaces what was said before: only the newest counts. One reader."""

    def __init__(self) -> None:
        self._values: list[ValueT] = []
        self._filled = asyncio.Event()

    def put(self, value: ValueT) -> bool:
        """Leave a value; whether an older one was lost by it."""
        lost = bool(self._values)
        self._values = [value]
        self._filled.set()
        return lost

    async def wait(self) -> None:
        """Until there is a value."""
        await self._filled.wait()

    def take(self) -> ValueT:
        """The newest value, which is taken away; there must be one."""
        self._filled.clear()
        return self._values.pop()
