"""The orders that wait for one provider."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from mainstay.shard.orders import Order


@dataclass(frozen=True, slots=True)
class Waiting:
    """An order that has not begun."""

    order: Order
    since_s: float


class Lane:
    """First in, first out, and bounded."""

    def __init__(self, length_max: int) -> None:
        self._length_max = length_max
        self._waiting: deque[Waiting] = deque()
        self._arrived = asyncio.Event()
        self.running = 0
        """How many were taken out and are not done."""

        self.owes_room = False
        """Whether something did not fit, and nobody was told yet that there is room again."""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether nothing more fits."""
        return len(self._waiting) >= self._length_max

    @property
    def is_half_empty(self) -> bool:
        """Whether a new plan would find room."""
        return len(self._waiting) * 2 <= self._length_max

    def put(self, waiting: Waiting) -> None:
        """Let an order wait; the caller has made sure that it fits."""
        self._waiting.append(waiting)
        self._arrived.set()

    async def next(self) -> Waiting:
        """The order that has waited longest, as running."""
        while not self._waiting:
            self._arrived.clear()
            await self._arrived.wait()
        self.running += 1
        return self._waiting.popleft()

    def leave_only(self, is_wanted: Callable[[Order], bool]) -> list[Waiting]:
        """Take out every order that is no longer wanted."""
        unwanted = [each for each in self._waiting if not is_wanted(each.order)]
        self._waiting = deque(each for each in self._waiting if is_wanted(each.order))
        return unwanted
