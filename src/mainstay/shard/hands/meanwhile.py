"""What begins while a plan is made: the plan does not count it as supply, and may want as much from
other machines. That much would be one too many, and be drained again.
"""

from collections.abc import Collection, Iterator, Mapping

from mainstay.model.action import Action
from mainstay.model.assignment import NeedRef
from mainstay.model.ids import MachineId
from mainstay.shard.hands.lane import Lane
from mainstay.shard.hands.objections import Objection, is_repeated, moved_on
from mainstay.shard.hands.tools import Tools
from mainstay.shard.orders import Order
from mainstay.shard.outcomes import Disposition


class Meanwhile:
    """Knows what had not begun when a plan was."""

    def __init__(self, lanes: Collection[Lane], tools: Tools) -> None:
        self._lanes = lanes
        self._tools = tools
        self._unseen: list[Action] = []
        self._served: frozenset[NeedRef] = frozenset()

    def look(self) -> None:
        """A plan is begun, on what is true now."""
        self._unseen = [*self._not_begun()]

    def planned(self, plan: Mapping[MachineId, Action]) -> None:
        """The plan is made: for which needs has something begun that it does not have?"""
        waits = {each.order.action.machine for lane in self._lanes for each in lane.waiting()}
        begun = [action for action in self._unseen if action.machine not in waits]
        self._unseen = []
        self._served = frozenset(
            each.need
            for each in begun
            if each.need is not None and not is_repeated(each, plan.get(each.machine))
        )

    def objection(self, order: Order) -> Objection | None:
        """Whether its need may have all it wants by now: the next plan knows."""
        served = order.action.need in self._served
        return Objection(Disposition.DROPPED, "overtaken") if served else None

    def _not_begun(self) -> Iterator[Action]:
        """What waits, and what has been taken out and has not moved its machine yet."""
        for lane in self._lanes:
            yield from (each.order.action for each in lane.waiting())
            for each in lane.running.values():
                if not moved_on(each.order, self._tools):
                    yield each.order.action
