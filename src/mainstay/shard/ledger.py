"""Which machines are in our hands, and when each was last: what a list may not overrule.

A list says how things were when it was made. Of a machine that we have touched since it was asked
for, it knows nothing.
"""

from mainstay.model.ids import MachineId
from mainstay.runtime.clock import Clock


class Ledger:
    """The in-flight ledger. Lives on the event loop, like the inventory."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held: set[MachineId] = set()
        self._touched: dict[MachineId, float] = {}
        self._news: set[MachineId] = set()

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, machine: MachineId) -> bool:
        return machine in self._held

    def held(self) -> frozenset[MachineId]:
        """What is in hand now."""
        return frozenset(self._held)

    def take(self, machine: MachineId) -> bool:
        """Take a machine in hand; false when it is already."""
        if machine in self._held:
            return False
        self._held.add(machine)
        return True

    def give_back(self, machine: MachineId) -> None:
        """Let go of a machine: whatever a list says that is asked for from now on, counts."""
        self._held.discard(machine)
        self.touch(machine)

    def touch(self, machine: MachineId) -> None:
        """We wrote to this machine just now."""
        self._touched[machine] = self._clock.elapsed_s()
        self._news.add(machine)

    def touched_since(self, at_s: float) -> frozenset[MachineId]:
        """In hand now, or written to by us at or after this time."""
        later = {machine for machine, when in self._touched.items() if when >= at_s}
        return frozenset(self._held | later)

    def news(self) -> frozenset[MachineId]:
        """In hand now, or written to by us since this was last asked for, whatever is forgotten."""
        news, self._news = self._news, set()
        return frozenset(self._held | news)

    def forget_before(self, at_s: float) -> None:
        """No list that was asked for before this time is still to come."""
        self._touched = {name: when for name, when in self._touched.items() if when >= at_s}
