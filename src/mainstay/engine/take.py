"""The greedy step every phase shares: claim machines in order until nothing is missing."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.normalize import Row
from mainstay.engine.world import NO_ROWS, Vector, World
from mainstay.model.texts import Rows

_CHUNK: Final = 1024


def adds_by_class(world: World, row: Row) -> NDArray[np.int64]:
    """What a machine of each class adds: its alloc, or whole min units for a folded row."""
    if row.folded and any(row.need.min_unit.values()):
        return world.whole_units(row.need.min_unit)
    return world.alloc


def additions(world: World, row: Row, rows: Rows) -> NDArray[np.int64]:
    """What each of some machines adds."""
    added: NDArray[np.int64] = adds_by_class(world, row)[world.snapshot.shape[rows]]
    return added


def take(world: World, row: Row, rows: Rows, missing: Vector) -> Rows:
    """The machines to claim, in order, until nothing is missing; lowers `missing` by what they add.

    A machine that adds nothing that is still missing is passed over.
    """
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


def _take_chunk(added: NDArray[np.int64], missing: Vector) -> NDArray[np.intp]:
    wanted = np.flatnonzero(missing > 0)
    amounts = added[:, wanted]
    if not (amounts > 0).all():
        return _take_singly(added, missing)
    sums = amounts.cumsum(axis=0)
    covered: NDArray[np.bool_] = np.all(sums >= missing[wanted], axis=1)
    count = int(covered.argmax()) + 1 if covered[-1] else len(covered)
    missing[wanted] = np.maximum(0, missing[wanted] - sums[count - 1])
    return np.arange(count)


def _take_singly(added: NDArray[np.int64], missing: Vector) -> NDArray[np.intp]:
    """The same where some machine lacks a dimension: one by one."""
    taken = []
    for place in np.flatnonzero((added[:, missing > 0] > 0).any(axis=1)).tolist():
        if not ((added[place] > 0) & (missing > 0)).any():
            continue
        np.maximum(0, missing - added[place], out=missing)
        taken.append(place)
        if not (missing > 0).any():
            break
    return np.array(taken, dtype=np.intp)
