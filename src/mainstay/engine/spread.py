"""Spread: machines of one need lie evenly over the values of a topology key."""

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.allowance import Budget
from mainstay.engine.rows import Row
from mainstay.engine.take import additions
from mainstay.engine.world import NO_ROWS, Vector, World
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
    pools = {
        state: _open(world, row, world.pool(row, state).rows, missing)
        for state in (State.IDLE, State.SPECULATIVE)
    }
    spreader = _Spreader(world, row, spread, missing, budget)
    spreader.count(np.flatnonzero(world.owner == row.place), 1)
    for pool in pools.values():
        spreader.count(pool, 0)
    taken = [row for state, pool in pools.items() for row in spreader.take(pool, state)]
    return np.array(taken, dtype=np.intp) if taken else NO_ROWS


def _open(world: World, row: Row, rows: Rows, missing: Vector) -> Rows:
    """Unclaimed, and adding something that is missing."""
    free = rows[world.owner[rows] < 0]
    helps = ((additions(world, row, free) > 0) & (missing > 0)).any(axis=1)
    return free[helps]


class _Spreader:
    """Counts machines per value of the topology key and takes the next where it may lie."""

    def __init__(
        self, world: World, row: Row, spread: Spread, missing: Vector, budget: Budget
    ) -> None:
        self._world, self._row, self._missing, self._budget = world, row, missing, budget
        self._skew = max(1, spread.max_skew)
        codes, values = world.snapshot.shapes.attribute(spread.topology_key)
        self._value_of_shape = [values[code] for code in codes.tolist()]
        self._counts: dict[str, int] = {}

    def count(self, rows: Rows, weight: int) -> None:
        """Every value these machines have is a place to lie in; each adds `weight` to its own."""
        for value in self._values(rows):
            if value is not None:
                self._counts[value] = self._counts.get(value, 0) + weight

    def take(self, pool: Rows, state: State) -> list[int]:
        """From one pool, until nothing is missing or nowhere is left to lie."""
        bucket = self._row.need.profile.interruption_penalty_bucket
        cost = self._world.pool_cost(pool, state, bucket).tolist()
        added = additions(self._world, self._row, pool)
        waiting = self._queues(pool)
        taken = []
        while (self._missing > 0).any():
            for queue in waiting.values():
                self._drop_useless(queue, added)
            ceiling = min(self._counts.values(), default=0) + self._skew
            heads = [
                (cost[queue[-1]], value)
                for value, queue in waiting.items()
                if queue and self._counts[value] < ceiling
            ]
            if not heads:
                break
            value = min(heads)[1]
            place = waiting[value].pop()
            if not self._budget.take(int(pool[place])):
                continue
            self._counts[value] += 1
            np.maximum(0, self._missing - added[place], out=self._missing)
            taken.append(int(pool[place]))
        return taken

    def _values(self, rows: Rows) -> list[str | None]:
        return [self._value_of_shape[shape] for shape in self._world.snapshot.shape[rows].tolist()]

    def _queues(self, pool: Rows) -> dict[str, list[int]]:
        """Places in the pool by value, the next one last."""
        queues: dict[str, list[int]] = {}
        for place, value in reversed(list(enumerate(self._values(pool)))):
            if value is not None:
                queues.setdefault(value, []).append(place)
        return queues

    def _drop_useless(self, queue: list[int], added: NDArray[np.int64]) -> None:
        while queue and not ((added[queue[-1]] > 0) & (self._missing > 0)).any():
            queue.pop()
