"""Spread: machines of one need lie evenly over the values of a topology key."""

from collections import Counter

import numpy as np

from mainstay.engine.allowance import Budget
from mainstay.engine.rows import Row
from mainstay.engine.world import NO_ROWS, Shelf, Vector, World
from mainstay.model.need import Spread, WhenUnsatisfiable
from mainstay.model.state import State
from mainstay.model.texts import Rows


def strict_spread(row: Row) -> Spread | None:
    """The first spread that must be kept, if the need has one."""
    for spread in row.need.profile.spread:
        if spread.when_unsatisfiable is WhenUnsatisfiable.DO_NOT_SCHEDULE:
            return spread
    return None


def take_spread(world: World, row: Row, spread: Spread, missing: Vector, budget: Budget) -> Rows:
    """The machines to acquire, evenly with what was credited; lowers `missing` by what they add."""
    spreader = _Spreader(world, row, spread, missing, budget)
    taken = [
        machine for state in (State.IDLE, State.SPECULATIVE) for machine in spreader.take(state)
    ]
    missing[:] = spreader.missing
    return np.array(taken, dtype=np.intp) if taken else NO_ROWS


class _Queue:
    """What one need may still take of a shelf; the next one is at `at`."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf, self.at = shelf, shelf.first

    @property
    def row(self) -> int:
        """The next machine."""
        return self.shelf.rows[self.at]


class _Spreader:
    """Counts machines per value of the topology key and takes the next where it may lie."""

    def __init__(
        self, world: World, row: Row, spread: Spread, missing: Vector, budget: Budget
    ) -> None:
        self._world, self._row, self._budget = world, row, budget
        self.missing: list[int] = missing.tolist()
        self._skew = max(1, spread.max_skew)
        self._added: dict[int, list[int]] = {}
        self._queues = {
            state: {
                value: _Queue(shelf)
                for value, shelf in world.shelves(row, state, spread.topology_key).items()
            }
            for state in (State.IDLE, State.SPECULATIVE)
        }
        self._counts = self._credited(spread.topology_key)
        for queues in self._queues.values():
            self._move_on(queues)
            self._counts.update(dict.fromkeys(queues, 0))  # adds nothing to a count

    def take(self, state: State) -> list[int]:
        """From one pool, until nothing is missing or nowhere is left to lie."""
        queues, taken = self._queues[state], []
        while any(self.missing):
            self._move_on(queues)
            ceiling = min(self._counts.values(), default=0) + self._skew
            heads = [
                (queue.shelf.costs[queue.at], value)
                for value, queue in queues.items()
                if self._counts[value] < ceiling
            ]
            if not heads:
                break
            value = min(heads)[1]
            machine = queues[value].row
            queues[value].at += 1
            if self._budget.take(machine):
                self._counts[value] += 1
                adds = self._adds(machine)
                self.missing = [
                    max(0, want - add) for want, add in zip(self.missing, adds, strict=True)
                ]
                taken.append(machine)
        return taken

    def _credited(self, key: str) -> Counter[str]:
        """How many machines lie in each value already."""
        codes, values = self._world.snapshot.shapes.attribute(key)
        rows = np.flatnonzero(self._world.owner == self._row.place)
        lying = (values[code] for code in codes[self._world.snapshot.shape[rows]].tolist())
        return Counter(value for value in lying if value is not None)

    def _adds(self, machine: int) -> list[int]:
        shape = self._world.snapshot.shape.item(machine)
        if shape not in self._added:
            self._added[shape] = self._world.adds(self._row)[shape].tolist()
        return self._added[shape]

    def _helps(self, machine: int) -> bool:
        pairs = zip(self.missing, self._adds(machine), strict=True)
        return any(want and add for want, add in pairs)

    def _move_on(self, queues: dict[str, _Queue]) -> None:
        """Each to the next machine that is unclaimed and helps; without one it is dropped."""
        owner = self._world.owner
        for value, queue in list(queues.items()):
            rows, shelf = queue.shelf.rows, queue.shelf
            while shelf.first < len(rows) and owner[rows[shelf.first]] >= 0:
                shelf.first += 1
            queue.at = max(queue.at, shelf.first)
            while queue.at < len(rows):
                if owner[rows[queue.at]] < 0 and self._helps(rows[queue.at]):
                    break
                queue.at += 1
            else:
                del queues[value]
