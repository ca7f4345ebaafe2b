"""What a remainder of a GPU is worth, from the shapes that are usually asked for.

Packing the usual shapes into the fewest GPUs is a linear program with a column per way to fill a
GPU. Its prices say what part of a GPU each shape costs at best; a remainder is worth as much as the
dearest shapes that still fit into it. So 0.19 GPU beside many shapes of 0.81 is worth nothing, and
0.53 beside many of 0.47 is worth half a GPU.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Entering = Callable[[F64], tuple[F64, float] | None]

ROUNDS_MAX: Final = 2_000
TOLERANCE: Final = 1e-9
NUDGE: Final = 1e-7
"""Demand is made a little uneven, so that no two ways to fill tie for ever."""


def remainder_values(sizes: Sequence[int], demand: Sequence[float], whole: int) -> F64:
    """For each remainder from 0 to `whole`, its worth as a part of an untouched GPU."""
    values = np.zeros(whole + 1)
    if sizes:
        prices = shape_prices(np.array(sizes), np.array(demand, float), whole)
        best, _ = knapsack(np.array(sizes), prices, whole)
        values = best / max(1.0, float(best[-1]))
    values[-1] = 1.0
    return values


def shape_prices(sizes: I64, demand: F64, whole: int) -> F64:
    """The price of each size in GPUs; no way to fill a GPU costs more than one."""
    each = np.eye(len(sizes))
    amounts = demand / demand.sum() * (1 + NUDGE * np.arange(1, len(sizes) + 1))

    def entering(prices: F64) -> tuple[F64, float] | None:
        best, pattern = knapsack(sizes, prices, whole)
        return (pattern, 1.0) if best[-1] > 1 + TOLERANCE else None

    prices = np.maximum(
        0.0, cheapest(each * (whole // sizes), np.ones(len(sizes)), amounts, entering)
    )
    best, _ = knapsack(sizes, prices, whole)
    return prices / max(1.0, float(best[-1]))


def cheapest(basis: F64, costs: F64, amounts: F64, entering: Entering) -> F64:
    """The prices at which no column is worth adding; the revised simplex method.

    `basis` and `costs` are columns to begin with; `entering` gives one that would lower the cost.
    After too many rounds the prices are near the best, and the caller makes them legal.
    """
    basis, costs = basis.astype(float), costs.copy()
    prices = _solved(basis.T, costs)
    for _ in range(ROUNDS_MAX):
        found = entering(prices)
        if found is None:
            break
        column, cost = found
        held, change = _solved(basis, np.column_stack([amounts, column])).T
        falls = change > TOLERANCE
        if not falls.any():
            break
        ratio = np.where(falls, held / np.where(falls, change, 1.0), np.inf)
        leaving = int(ratio.argmin())
        basis[:, leaving], costs[leaving] = column, cost
        prices = _solved(basis.T, costs)
    return prices


def _solved(matrix: F64, amounts: F64) -> F64:
    return np.asarray(np.linalg.solve(matrix, amounts), np.float64)


def knapsack(sizes: I64, prices: F64, whole: int) -> tuple[F64, F64]:
    """The dearest filling of each remainder, and how often each size is in that of a whole GPU."""
    unit = math.gcd(whole, *(int(size) for size in sizes))
    steps = sizes // unit
    best = np.zeros(whole // unit + 1)
    chosen = np.full(len(best), -1)
    for room in range(1, len(best)):
        fits = np.flatnonzero(steps <= room)
        best[room] = best[room - 1]
        if len(fits):
            worth = best[room - steps[fits]] + prices[fits]
            at = int(worth.argmax())
            if worth[at] > best[room] + TOLERANCE * TOLERANCE:
                best[room], chosen[room] = worth[at], fits[at]
    pattern = np.zeros(len(sizes))
    room = len(best) - 1
    while room > 0:
        size = chosen[room]
        if size < 0:
            room -= 1
        else:
            pattern[size] += 1
            room -= int(steps[size])
    return best[np.arange(whole + 1) // unit], pattern
