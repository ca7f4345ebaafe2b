"""The executor: a queue and a pool of workers for each provider. Nobody waits for an action.

Here orders are taken on; `mainstay.shard.hands.workers` carries them out. What does not fit is
dropped, and what waits too long is overtaken: the next cycle decides again, on what is true then.
A provider that hangs holds up only its own queue, and a cluster that hangs holds up nobody: an
order that waits for one has no worker meanwhile.
"""

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from mainstay.model.action import Action
from mainstay.model.ids import MachineId
from mainstay.shard.hands.lane import Lane, Waiting
from mainstay.shard.hands.meanwhile import Meanwhile
from mainstay.shard.hands.objections import Objection, held_back, is_repeated, let_go, no_news
from mainstay.shard.hands.tools import Tools
from mainstay.shard.hands.workers import Workers
from mainstay.shard.orders import Disposed, Order
from mainstay.shard.outcomes import Disposition


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorOptions:
    """How much at once, and for how long."""

    workers: int = 32
    """Of each provider."""

    queue: int = 0
    """How many orders may wait for each provider; 0: twice the workers."""

    deadline_s: float = 30.0
    """An order has ended no later than so long after it was begun."""

    @property
    def queue_length_max(self) -> int:
        """How many orders may wait."""
        return self.queue or 2 * self.workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """What became of an offer: every order is in one of the first four."""

    accepted: int = 0
    dropped: int = 0
    deduplicated: int = 0
    held: int = 0
    """By what came after the decision: a fence, a control, a cluster that does not answer."""

    overtaken: int = 0
    """Orders of earlier plans that had not begun and that this one does not repeat."""


class Executor:
    """Carries out orders. Lives on the event loop; `offer` may be called before `run`."""

    def __init__(
        self,
        tools: Tools,
        sources: Iterable[str],
        options: ExecutorOptions | None = None,
        *,
        on_room: Callable[[], None] = lambda: None,
    ) -> None:
        self._tools = dataclasses.replace(tools, off_work=lambda name: self._lanes[name].off_work())
        self._options = options = options or ExecutorOptions()
        self._lanes = {name: Lane(options.queue_length_max, options.workers) for name in sources}
        self._meanwhile = Meanwhile(self._lanes.values(), self._tools)
        self._on_room = on_room
        self._cycle = 0

    @property
    def depth(self) -> Mapping[str, int]:
        """How many orders wait for each provider."""
        return {name: len(lane) for name, lane in self._lanes.items()}

    @property
    def in_flight(self) -> Mapping[str, int]:
        """How many orders are being carried out through each provider."""
        return {name: len(lane.running) for name, lane in self._lanes.items()}

    @property
    def room(self) -> int:
        """How many orders through one provider are worth offering: some more than fit, so that who
        does not fit is noticed, and some may have moved on meanwhile.
        """
        return 2 * self._options.queue_length_max

    def look(self) -> None:
        """A plan is made from here on: what begins before it is offered, it has not seen."""
        self._meanwhile.look()

    def offer(self, orders: Iterable[Order], *, cycle: int) -> Offered:
        """Take on the orders of a plan, which replaces every earlier one. Never waits."""
        self._cycle = cycle
        orders = list(orders)
        plan = {order.action.machine: order.action for order in orders}
        self._meanwhile.planned(plan)
        disposed = self._overtaken(plan)
        overtaken = len(disposed)
        counts: Counter[Disposition] = Counter()
        for order in orders:
            refused = self._admit(order)
            if refused is not None:
                counts[refused.disposition] += 1
                disposed.append(refused)
        self._tools.journal.disposed(disposed)
        dropped, again = counts[Disposition.DROPPED], counts[Disposition.DEDUPLICATED]
        return Offered(
            accepted=len(orders) - counts.total(),
            dropped=dropped,
            deduplicated=again,
            held=counts.total() - dropped - again,
            overtaken=overtaken,
        )

    def also(self, orders: Iterable[Order]) -> int:
        """Take on orders that are of no plan, and that none replaces; how many. Never waits.

        Those that are in hand already are no news. The rest of what is not taken on is told.
        """
        fresh = [each for each in orders if each.action.machine not in self._tools.ledger]
        tried = [self._admit(order, is_beside=True) for order in fresh]
        refused = [why_not for why_not in tried if why_not is not None]
        self._tools.journal.disposed(refused)
        return len(fresh) - len(refused)

    async def run(self) -> None:
        """Work until cancelled; what then has not begun is let go."""
        workers = Workers(
            self._tools,
            deadline_s=self._options.deadline_s,
            cycle=lambda: self._cycle,
            on_room=self._on_room,
        )
        try:
            async with asyncio.TaskGroup() as tasks:
                for name, lane in self._lanes.items():
                    tasks.create_task(workers.work(lane, tasks), name=f"lane of {name}")
        finally:
            for lane in self._lanes.values():
                left = [*lane.running.values(), *lane.leave_only(lambda _: False)]
                self._tools.journal.disposed(self._dropped(left, "stopped"))

    def _overtaken(self, plan: Mapping[MachineId, Action]) -> list[Disposed]:
        """Let go of what waits and is not in the plan."""

        def is_wanted(waiting: Waiting) -> bool:
            action = waiting.order.action
            return waiting.is_beside or is_repeated(action, plan.get(action.machine))

        left = [each for lane in self._lanes.values() for each in lane.leave_only(is_wanted)]
        return self._dropped(left, "overtaken")

    def _dropped(self, left: Sequence[Waiting], why: str) -> list[Disposed]:
        """Orders that are not to begin any more."""
        for each in left:
            self._tools.ledger.give_back(each.order.action.machine)
        objection = Objection(Disposition.DROPPED, why)
        return [self._let_go(each.order, objection) for each in left]

    def _admit(self, order: Order, *, is_beside: bool = False) -> Disposed | None:
        """Let an order wait for its turn; why not, if not."""
        tools, lane = self._tools, self._lanes.get(order.source)
        if lane is None:
            why = Objection(Disposition.DROPPED, "no_provider", order.source)
            return self._let_go(order, why)
        objection = held_back(order, tools) or no_news(order, tools)
        if not is_beside:
            objection = objection or self._meanwhile.objection(order)
        if objection is not None:
            return self._let_go(order, objection)
        if not lane.has_room_for(order):
            lane.owes_room = True
            return self._let_go(order, Objection(Disposition.DROPPED, "queue_full"))
        tools.ledger.take(order.action.machine)
        lane.put(Waiting(order, tools.clock.elapsed_s(), is_beside))
        return None

    def _let_go(self, order: Order, why: Objection) -> Disposed:
        return let_go(order, why, cycle=self._cycle)
