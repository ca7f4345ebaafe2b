"""What was reclaimed of each cluster since the last tick."""

from collections import Counter
from collections.abc import Iterable

from mainstay.inventory.inventory import Inventory
from mainstay.model.action import ActionKind
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.state import State
from mainstay.shard.orders import Order


class SpentThisTick:
    """The cap is on what a tick may take, however often we wake between two."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._ordered: dict[MachineId, ClusterId] = {}
        """Each from its cluster."""

    def tick(self) -> None:
        """Begin anew."""
        self._ordered.clear()

    def ordered(self, orders: Iterable[Order]) -> None:
        """Take note of the reclaims among these."""
        actions = (order.action for order in orders)
        self._ordered |= {
            action.machine: action.cluster
            for action in actions
            if action.kind is ActionKind.RECLAIM and action.cluster
        }

    def spent(self) -> Counter[ClusterId]:
        """Reclaims of each cluster that were begun.

        What only waits for its turn is not spent: the next plan repeats it, or it is let go.
        """
        return Counter(
            cluster for machine, cluster in self._ordered.items() if self._has_begun(machine)
        )

    def _has_begun(self, machine: MachineId) -> bool:
        inventory = self._inventory
        return machine not in inventory or inventory.machine(machine).state is not State.CONFIGURED
