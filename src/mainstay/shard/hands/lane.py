"""The orders that wait for one provider, and the workers that carry them out."""

import asyncio
import itertools
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from mainstay.model.errors import Unavailable
from mainstay.model.ids import MachineId
from mainstay.shard.orders import Order
from mainstay.shard.sharing import GROUP_OF, GROUPS

BACK: Final = len(GROUPS)
"""The turn of those that were off work and need a worker again."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """An order that has not begun."""

    order: Order
    since_s: float
    is_beside: bool = False
    """It is of no plan, and no plan replaces it."""


class Lane:
    """Bounded. Acquisitions, preempts and releases take turns, each first in, first out; and so do
    orders that were off work and have more to do.

    A full lane has a few seats more for whichever of them has taken up none, so that none of the
    three ever keeps the others out.
    """

    def __init__(self, length_max: int, workers: int) -> None:
        self._length_max = length_max
        self._seats_of_each = max(1, length_max // 4)
        self._waiting: tuple[deque[Waiting], ...] = tuple(deque() for _ in GROUPS)
        self._turn = 0
        self._free = workers
        self._back: deque[asyncio.Future[None]] = deque()
        self._is_next = asyncio.Event()
        """There is a worker, and it is the turn of one that waits."""

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

    def waiting(self) -> Iterator[Waiting]:
        """All that have not begun."""
        return itertools.chain(*self._waiting)

    def put(self, waiting: Waiting) -> None:
        """Let an order wait; the caller has made sure that it fits."""
        self._like(waiting.order).append(waiting)
        self._deal()

    async def next(self) -> Waiting:
        """The order whose turn it is, as running, as soon as there is a worker for it."""
        self._deal()
        while not self._is_next.is_set():
            await self._is_next.wait()
            self._deal()  # what waited may have been let go meanwhile
        self._free -= 1
        waiting = self._waiting[self._turn].popleft()
        self._pass_turn()
        self.running[waiting.order.action.machine] = waiting
        self._deal()
        return waiting

    def done(self, waiting: Waiting) -> None:
        """An order has ended: its worker is free."""
        del self.running[waiting.order.action.machine]
        self._free += 1
        self._deal()

    @contextmanager
    def off_work(self) -> Iterator[Callable[[float], Awaitable[None]]]:
        """Inside the block the worker of an order is free for others, for waits that are no work of
        the provider's. What it yields waits for a worker again, but not longer than it is told.

        Whoever leaves the block without one has no more work to do: it ends without delay.
        """
        self._free += 1
        self._deal()
        has_worker = False

        async def again(within_s: float) -> None:
            nonlocal has_worker
            turn = asyncio.get_running_loop().create_future()
            self._back.append(turn)
            self._deal()
            try:
                async with asyncio.timeout(within_s):
                    await turn
            except TimeoutError as error:
                raise Unavailable("no worker was free again before its deadline") from error
            finally:
                has_worker = turn.done() and not turn.cancelled()
                if turn in self._back:
                    self._back.remove(turn)

        try:
            yield again
        finally:
            if not has_worker:
                self._free -= 1  # it is counted as free once more when the order is done

    def leave_only(self, is_wanted: Callable[[Waiting], bool]) -> list[Waiting]:
        """Take out every order that is no longer wanted."""
        unwanted = [e for queue in self._waiting for e in queue if not is_wanted(e)]
        for queue in self._waiting:
            wanted = [each for each in queue if is_wanted(each)]
            queue.clear()
            queue.extend(wanted)
        return unwanted

    def _like(self, order: Order) -> deque[Waiting]:
        """Where orders of this kind wait."""
        return self._waiting[GROUP_OF[order.action.kind]]

    def _deal(self) -> None:
        """Give free workers to those who are back, up to the turn of one that waits."""
        self._is_next.clear()
        while self._free > 0 and (self._back or len(self)):
            while not (self._back if self._turn == BACK else self._waiting[self._turn]):
                self._pass_turn()
            if self._turn != BACK:
                self._is_next.set()
                return
            turn = self._back.popleft()
            if not turn.done():  # who was cancelled wants none
                self._free -= 1
                turn.set_result(None)
                self._pass_turn()

    def _pass_turn(self) -> None:
        self._turn = (self._turn + 1) % (len(GROUPS) + 1)
