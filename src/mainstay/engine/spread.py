"""Spread: machines of one need lie evenly over the values of a topology key."""

from collections import Counter
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

import numpy as np

from mainstay.engine.allowance import Budget
from mainstay.engine.rows import Row, Vector
from mainstay.engine.world import NO_ROWS, Shelf, World
from mainstay.model.need import Spread, WhenUnsatisfiable
from mainstay.model.state import State
from mainstay.model.texts import Rows

_LOOKED_AT: Final = 64
"""So many machines of a shelf are looked at together."""


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

    @property
    def cost(self) -> float:
        """What the next machine costs; of a queue that is empty it does not matter."""
        return self.shelf.costs[min(self.at, len(self.shelf.costs) - 1)]


class _Spreader:
    """Counts machines per value of the topology key and takes the next where it may lie."""

    def __init__(
        self, world: World, row: Row, spread: Spread, missing: Vector, budget: Budget
    ) -> None:
        self._world, self._row = world, row
        self._budget = None if budget.is_free else budget
        self.missing: list[int] = missing.tolist()
        self._skew = max(1, spread.max_skew)
        self._added: dict[int, list[int]] = {}
        self._helps: dict[int, bool] = {}
        """By shape class; true until something more is no longer missing."""

        self._shape_of, self._owner_of = world.snapshot.shape.item, world.owner.item
        self._queues = {
            state: {
                value: _Queue(shelf)
                for value, shelf in world.shelves(row, state, spread.topology_key).items()
            }
            for state in (State.IDLE, State.SPECULATIVE)
        }
        self._counts = self._credited(spread.topology_key)
        for state, queues in self._queues.items():
            for queue in queues.values():
                self._begin(queue)
            self._queues[state] = {v: queue for v, queue in queues.items() if self._move_on(queue)}
            self._counts.update(dict.fromkeys(self._queues[state], 0))  # adds nothing to a count
        self._with_count = Counter(self._counts.values())
        self._least = min(self._counts.values(), default=0)

    def take(self, state: State) -> list[int]:
        """From one pool, until nothing is missing or nowhere is left to lie.

        Heads wait in a heap: along a shelf costs only rise, so a head that was passed is put back.
        """
        queues, taken = self._queues[state], list[int]()
        heads = [(queue.cost, value) for value, queue in queues.items()]
        heapify(heads)
        full: dict[int, list[str]] = {}
        """Values that may take no more for now, by their count."""
        while heads and any(self.missing):
            cost, value = heads[0]
            queue, count = queues[value], self._counts[value]
            if not self._move_on(queue):
                heappop(heads)
            elif queue.cost > cost:
                heapreplace(heads, (queue.cost, value))
            elif count >= self._least + self._skew:
                heappop(heads)
                full.setdefault(count, []).append(value)
            else:
                machine = queue.row
                queue.at += 1
                if self._budget is None or self._budget.take(machine):
                    taken.append(machine)
                    self._lower(machine)
                    if self._count(value):
                        for one in full.pop(self._least + self._skew - 1, ()):
                            heappush(heads, (queues[one].cost, one))
        return taken

    def _count(self, value: str) -> bool:
        """One more lies in a value; whether the least count has grown by that."""
        before = self._counts[value]
        self._counts[value] = before + 1
        self._with_count[before] -= 1
        self._with_count[before + 1] += 1
        if before > self._least or self._with_count[before]:
            return False
        self._least += 1
        return True

    def _lower(self, machine: int) -> None:
        pairs = zip(self.missing, self._adds(machine), strict=True)
        left = [want - add if want > add else 0 for want, add in pairs]
        if left.count(0) != self.missing.count(0):
            self._helps.clear()
        self.missing = left

    def _credited(self, key: str) -> Counter[str]:
        """How many machines lie in each value already."""
        codes, values = self._world.snapshot.shapes.attribute(key)
        rows = np.concatenate([*self._bound(), *self._world.in_flight(self._row.refs)])
        rows = rows[self._world.owner[rows] == self._row.place]
        lying = (values[code] for code in codes[self._world.snapshot.shape[rows]].tolist())
        return Counter(value for value in lying if value is not None)

    def _bound(self) -> list[Rows]:
        cluster = self._row.need.cluster
        states = (State.CONFIGURED, State.CONFIGURING)
        return [self._world.bound(cluster, state).rows for state in states]

    def _adds(self, machine: int) -> list[int]:
        shape = self._shape_of(machine)
        if shape not in self._added:
            self._added[shape] = self._world.adds(self._row)[shape].tolist()
        return self._added[shape]

    def _is_of_help(self, machine: int) -> bool:
        shape = self._shape_of(machine)
        known = self._helps.get(shape)
        if known is None:
            pairs = zip(self.missing, self._adds(machine), strict=True)
            known = self._helps[shape] = any(want and add for want, add in pairs)
        return known

    def _begin(self, queue: _Queue) -> None:
        """Past what is claimed; nobody claims anything while one need is served."""
        shelf = queue.shelf
        owner, left = self._world.owner, shelf.lying[shelf.first :]
        while len(left):
            claimed = owner[left[:_LOOKED_AT]] >= 0
            past = int(claimed.argmin())
            if not claimed[past]:
                shelf.first += past
                break
            shelf.first += len(claimed)
            left = left[_LOOKED_AT:]
        queue.at = shelf.first

    def _move_on(self, queue: _Queue) -> bool:
        """To the next machine that is unclaimed and helps; whether there is one."""
        rows, at = queue.shelf.rows, queue.at
        while at < len(rows):
            if self._owner_of(rows[at]) < 0 and self._is_of_help(rows[at]):
                queue.at = at
                return True
            at += 1
        queue.at = at
        return False
