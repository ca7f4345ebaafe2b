"""What a list told about a machine in our own hands, and what must be asked for again.

An incremental list names a change once. If we had to pass over it, the provider owes us that
machine: until a later list names it, or until it is asked for by itself.
"""

from collections.abc import Collection, Iterable

from mainstay.model.ids import MachineId
from mainstay.shard.ports import InFlight


class Owed:
    """The machines that one provider owes us."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._machines: set[MachineId] = set()

    def __len__(self) -> int:
        return len(self._machines)

    def __contains__(self, machine: MachineId) -> bool:
        return machine in self._machines

    @property
    def too_many(self) -> bool:
        """Whether one full list is cheaper than to ask for each."""
        return len(self._machines) > self._most

    def after_full(self, passed_over: Iterable[MachineId]) -> None:
        """A list named everything; these we could not believe."""
        self._machines = set(passed_over)

    def after_delta(self, named: Collection[MachineId], passed_over: Iterable[MachineId]) -> None:
        """A list named these, and some of them we could not believe."""
        self._machines.difference_update(named)
        self._machines.update(passed_over)

    def add(self, machine: MachineId) -> None:
        """It must be asked for."""
        self._machines.add(machine)

    def settle(self, machine: MachineId) -> None:
        """It was answered."""
        self._machines.discard(machine)

    def due(self, in_hand: InFlight) -> list[MachineId]:
        """What can be asked for now: all but those that are still in our hands."""
        return [machine for machine in sorted(self._machines) if machine not in in_hand]
