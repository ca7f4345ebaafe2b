"""Spread: machines of one need lie evenly over the values of a topology key."""

import numpy as np

from mainstay.engine.normalize import Row
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


def take_spread(world: World, row: Row, spread: Spread, credited: Rows, missing: Vector) -> Rows:
    """The machines to acquire, evenly; lowers `missing` by what they add."""
    pools = {
        State.IDLE: _open(world, world.idle_pool(row.need)),
        State.SPECULATIVE: _open(world, world.speculative_pool(row.need)),
    }
    values = _values(world, spread.topology_key)
    counts: dict[str, int] = {}
    for rows, weight in ((credited, 1), *((pool, 0) for pool in pools.values())):
        for value in (values[shape] for shape in world.snapshot.shape[rows].tolist()):
            if value is not None:
                counts[value] = counts.get(value, 0) + weight
    taken: list[int] = []
    for state, pool in pools.items():
        cost = world.pool_cost(row.need, pool, state).tolist()
        taken += _take_pool(world, row, pool, cost, values, counts, spread, missing)
    return np.array(taken, dtype=np.intp) if taken else NO_ROWS


def _open(world: World, rows: Rows) -> Rows:
    return rows[world.owner[rows] < 0]


def _values(world: World, key: str) -> list[str | None]:
    codes, values = world.snapshot.shapes.attribute(key)
    return [values[code] for code in codes.tolist()]


def _take_pool(  # noqa: PLR0917 - one step of one loop, nowhere else called
    world: World,
    row: Row,
    pool: Rows,
    cost: list[float],
    values: list[str | None],
    counts: dict[str, int],
    spread: Spread,
    missing: Vector,
) -> list[int]:
    queues: dict[str, list[int]] = {}
    for place, shape in enumerate(world.snapshot.shape[pool].tolist()):
        value = values[shape]
        if value is not None:
            queues.setdefault(value, []).append(place)
    added = additions(world, row, pool)
    taken = []
    for queue in queues.values():
        queue.reverse()
    while (missing > 0).any():
        for queue in queues.values():
            while queue and not ((added[queue[-1]] > 0) & (missing > 0)).any():
                queue.pop()
        ceiling = min(counts.values(), default=0) + max(1, spread.max_skew)
        heads = [(cost[q[-1]], v) for v, q in queues.items() if q and counts[v] < ceiling]
        if not heads:
            break
        _, value = min(heads)
        place = queues[value].pop()
        counts[value] += 1
        np.maximum(0, missing - added[place], out=missing)
        taken.append(int(pool[place]))
    return taken
