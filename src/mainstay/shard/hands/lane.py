"""The orders that wait for one provider, and the workers that carry them out."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from mainstay.model.ids import MachineId
from mainstay.shard.orders import Order
from mainstay.shard.sharing import GROUP_OF, GROUPS


@dataclass(frozen=True, slots=True)
class Waiting:
    """An order that has not begun."""

    order: Order
    since_s: float


class Lane:
    """Bounded. Acquisitions, preempts and releases take turns, each first in, first out.

    A full lane has a few seats more for whichever of them has taken up none, so that none of the
    three ever keeps the others out.
    """

    def __init__(self, length_max: int, workers: int) -> None:
        self._length_max = length_max
        self._seats_of_each = max(1, length_max // 4)
        self._waiting: tuple[deque[Waiting], ...] = tuple(deque() for _ in GROUPS)
        self._turn = 0
        self._arrived = asyncio.Event()
        self._free = asyncio.Semaphore(workers)
        self.running: dict[MachineId, Waiting] = {}
        """What was taken out and is not done."""

        self.owes_room = False
        """Whether something did not fit, and nobody was told yet that there is room again."""

    def __len__(self) -> int:
        return sum(map(len, self._waiting))

    @property
    def is_half_empty(self) -> bool:
        """Whether a new plan would find room."""
        return len(self) * 2 <= self._length_max

    def has_room_for(self, order: Order) -> bool:
        """Whether one more order like this may wait."""
        return len(self) < self._length_max or len(self._like(order)) < self._seats_of_each

    def put(self, waiting: Waiting) -> None:
        """Let an order wait; the caller has made sure that it fits."""
        self._like(waiting.order).append(waiting)
        self._arrived.set()

    async def next(self) -> Waiting:
        """The order whose turn it is, as running, as soon as there is a worker for it."""
        while True:
            while not len(self):
                self._arrived.clear()
                await self._arrived.wait()
            await self._free.acquire()
            if len(self):
                break
            self._free.release()  # what waited was let go meanwhile
        while not self._waiting[self._turn]:
            self._pass_turn()
        waiting = self._waiting[self._turn].popleft()
        self._pass_turn()
        self.running[waiting.order.action.machine] = waiting
        return waiting

    def done(self, waiting: Waiting) -> None:
        """An order has ended: its worker is free."""
        del self.running[waiting.order.action.machine]
        self._free.release()

    @asynccontextmanager
    async def off_work(self) -> AsyncIterator[None]:
        """Inside the block the worker of an order is free for others; behind it, it has one again.

        For waits that are no work of the provider's.
        """
        self._free.release()
        try:
            yield
        finally:
            await self._free.acquire()

    def leave_only(self, is_wanted: Callable[[Order], bool]) -> list[Waiting]:
        """Take out every order that is no longer wanted."""
        unwanted = [e for queue in self._waiting for e in queue if not is_wanted(e.order)]
        for queue in self._waiting:
            wanted = [each for each in queue if is_wanted(each.order)]
            queue.clear()
            queue.extend(wanted)
        return unwanted

    def _like(self, order: Order) -> deque[Waiting]:
        """Where orders of this kind wait."""
        return self._waiting[GROUP_OF[order.action.kind]]

    def _pass_turn(self) -> None:
        self._turn = (self._turn + 1) % len(GROUPS)
