"""Who carries out what the executor has taken on, each order to its end."""

import asyncio
import contextlib
from collections.abc import Callable

from mainstay.model.errors import MainstayError
from mainstay.shard.actions.doings import DOINGS
from mainstay.shard.events import Event
from mainstay.shard.hands.flows import Ending, Reaction, failed, in_hand
from mainstay.shard.hands.lane import Lane, Waiting
from mainstay.shard.hands.objections import held_back, let_go, not_kept
from mainstay.shard.hands.tools import Tools
from mainstay.shard.orders import Disposed, Order
from mainstay.shard.outcomes import Disposition, Outcome


class Workers:
    """Take from a lane whatever is next, and leave exactly one record of it."""

    def __init__(
        self,
        tools: Tools,
        *,
        deadline_s: float,
        cycle: Callable[[], int],
        on_room: Callable[[], None],
    ) -> None:
        """`cycle` is the last one that was decided, `on_room` hears that what did not fit would."""
        self._tools = tools
        self._deadline_s = deadline_s
        self._cycle = cycle
        self._on_room = on_room

    async def work(self, lane: Lane, tasks: asyncio.TaskGroup) -> None:
        """Begin what waits, as workers become free, for ever."""
        while True:
            waiting = await lane.next()
            if lane.owes_room and lane.is_half_empty:
                lane.owes_room = False
                self._on_room()
            tasks.create_task(self._in_lane(lane, waiting))

    async def _in_lane(self, lane: Lane, waiting: Waiting) -> None:
        try:
            await self._carry_out(waiting)
        finally:
            lane.done(waiting)

    async def _carry_out(self, waiting: Waiting) -> None:
        tools, order = self._tools, waiting.order
        if (objection := held_back(order, tools) or not_kept(order, tools)) is not None:
            tools.ledger.give_back(order.action.machine)
            tools.journal.disposed([let_go(order, objection, cycle=self._cycle())])
            return
        ending = Ending(Outcome.CANCELLED)
        try:
            until_s = tools.clock.elapsed_s() + self._deadline_s
            ending = await DOINGS[order.action.kind].flow(order, tools, until_s=until_s)
        except Exception as error:  # noqa: BLE001 - one defect must not end the others' work
            ending = self._contained(order, error)
        finally:
            tools.ledger.give_back(order.action.machine)
            tools.journal.disposed([self._executed(waiting, ending)])

    def _executed(self, waiting: Waiting, ending: Ending) -> Disposed:
        return Disposed(
            order=waiting.order,
            disposition=Disposition.EXECUTED,
            outcome=ending.outcome,
            detail=ending.detail,
            cycle=self._cycle(),
            seconds=self._tools.clock.elapsed_s() - waiting.since_s,
        )

    def _contained(self, order: Order, error: Exception) -> Ending:
        """A defect of ours, or a move that the table does not have."""
        tools, why = self._tools, f"{type(error).__name__}: {error}"
        tools.journal.noticed(
            Event.WORKER_FAILED,
            reason=order.action.kind.value,
            machine=order.action.machine,
            why=why,
        )
        with contextlib.suppress(MainstayError):
            failed(in_hand(order), tools, why, Reaction(Outcome.TRANSITION_ERROR, hardware=False))
        return Ending(Outcome.TRANSITION_ERROR, why)
