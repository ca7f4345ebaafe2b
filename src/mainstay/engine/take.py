"""The greedy step every phase shares: claim machines in order until nothing is missing."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.allowance import Budget
from mainstay.engine.rows import Matrix, Row, Vector
from mainstay.engine.world import NO_ROWS, World
from mainstay.model.texts import Rows

_CHUNK: Final = 1024


def additions(world: World, row: Row, rows: Rows) -> Matrix:
    """What each of some machines adds."""
    added: Matrix = world.adds(row)[world.snapshot.shape[rows]]
    return added


def take(world: World, row: Row, rows: Rows, missing: Vector, budget: Budget | None = None) -> Rows:
    """The machines to claim, in order, until nothing is missing; lowers `missing` by what they add.

    A machine that adds nothing that is still missing, or that the budget has no room for, is passed
    over.
    """
    if budget is not None and not budget.is_free:
        return rows[_take_singly(additions(world, row, rows), missing, rows, budget)]
    taken = []
    start = 0
    while start < len(rows) and (missing > 0).any():
        stop = start + _guess(additions(world, row, rows[start : start + 1])[0], missing)
        chunk = rows[start:stop]
        taken.append(chunk[_take_chunk(additions(world, row, chunk), missing)])
        start = stop
    return np.concatenate(taken) if taken else NO_ROWS


def _guess(first: Vector, missing: Vector) -> int:
    """How many machines it will take if all are like the first; only so many are looked at."""
    pairs = zip(missing.tolist(), first.tolist(), strict=True)
    needed = max(-(-want // adds) if adds > 0 else _CHUNK for want, adds in pairs if want > 0)
    return min(_CHUNK, max(needed, 1))


def _take_chunk(added: Matrix, missing: Vector) -> NDArray[np.intp]:
    wanted = np.flatnonzero(missing > 0)
    amounts = added[:, wanted]
    if not (amounts > 0).all():
        return _take_singly(added, missing)
    sums = amounts.cumsum(axis=0)
    covered: NDArray[np.bool_] = np.all(sums >= missing[wanted], axis=1)
    count = int(covered.argmax()) + 1 if covered[-1] else len(covered)
    missing[wanted] = np.maximum(0, missing[wanted] - sums[count - 1])
    return np.arange(count)


def _take_singly(
    added: Matrix, missing: Vector, rows: Rows = NO_ROWS, budget: Budget | None = None
) -> NDArray[np.intp]:
    """The same one by one: where some machine lacks a dimension, or the budget is limited."""
    taken: list[int] = []
    places = np.flatnonzero((added[:, missing > 0] > 0).any(axis=1))
    left = iter(places.tolist())
    while (place := next(left, None)) is not None:
        if not ((added[place] > 0) & (missing > 0)).any():
            continue
        if budget is not None and not budget.take(int(rows[place])):
            # What is forbidden now stays so: it need not be asked for machine by machine.
            places = places[places > place]
            places = places[budget.still_open(rows[places])]
            left = iter(places.tolist())
            continue
        np.maximum(0, missing - added[place], out=missing)
        taken.append(place)
        if not (missing > 0).any():
            break
    return np.array(taken, dtype=np.intp)
