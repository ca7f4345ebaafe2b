"""`mainstay bench placement`: how many GPUs placement leaves unused on a public trace.

Ours, best fit and the published best policy run on the same arrivals; beside them stand the
published figure and a bound that no policy can be under.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from mainstay.bench import openb
from mainstay.bench.frame import Bench
from mainstay.bench.openb import I64, Nodes, Pods
from mainstay.bench.placement_loops import BEST_FIT, FGD, OURS, Run, compiled, simulate
from mainstay.model.errors import Rejected
from mainstay.tenancy.placement.prices import F64, TOLERANCE, cheapest, knapsack
from mainstay.tenancy.placement.waste import MILLI

FIRST_SEED: Final = 42
"""Ten from here on, as in the published experiments; their generator is another."""

RATIO_MIN: Final = 1.3
"""Arrivals are made up to here at least, so that one demand is the beginning of a larger one."""

POLICIES: Final = {"ours_pct": OURS, "best_fit_pct": BEST_FIT, "fgd_pct": FGD}
DEMAND_MAX: Final = 10.0
ROUNDING: Final = 1e-6


def demands_of(text: str) -> list[float]:
    """`1.0,1.3` as numbers."""
    try:
        demands = [float(part) for part in text.split(",")]
    except ValueError:
        demands = []
    if not demands or not all(0.01 <= demand <= DEMAND_MAX for demand in demands):
        raise Rejected(f"not a list of demands: {text} (shares of all GPUs, such as 1.0,1.3)")
    return demands


class Trace(NamedTuple):
    """One workload on the trace's nodes, and the loop to run it with."""

    nodes: Nodes
    pods: Pods
    orders: list[I64]
    """The arrivals of each seed."""

    loop: Any


def run(
    bench: Bench, *, trace: Path, names: Sequence[str], demands: Sequence[float], seeds: int
) -> None:
    """Every workload at every demand; a run that beats the bound stops the bench."""
    nodes = openb.read_nodes(trace)
    if not names:
        raise Rejected(f"no lists of pods in {trace} (files named {openb.PODS}*.csv)")
    lists = {name: openb.read_pods(trace, name, nodes.bits) for name in names}
    bench.fixture["nodes"] = len(nodes.cpu_milli)
    bench.fixture["gpus"] = nodes.capacity // MILLI
    bench.fixture["pods"] = {name: len(pods.shape) for name, pods in lists.items()}
    bench.fixture["shapes"] = {name: len(pods.wants) for name, pods in lists.items()}
    ratio = max(RATIO_MIN, *demands)
    loop = compiled()
    answer: dict[str, dict[str, object]] = {}
    for name, pods in lists.items():
        orders = [openb.arrivals(pods, nodes.capacity, ratio, seed) for seed in seeds_of(seeds)]
        simulate(nodes, pods, orders[0][:1], OURS, loop)  # compiles it, before anything is timed
        answer[name] = {}
        for demand in demands:
            row = measured(bench, Trace(nodes, pods, orders, loop), demand)
            row["published_best_pct"] = openb.published_best(trace, name, demand)
            answer[name][str(demand)] = row
            bench.progress(f"placement: {name} {demand} {row}")
    bench.figures["seeds"] = seeds_of(seeds)
    bench.figures["workloads"] = answer


def seeds_of(count: int) -> list[int]:
    """The seeds of a bench."""
    return list(range(FIRST_SEED, FIRST_SEED + count))


def measured(bench: Bench, trace: Trace, demand: float) -> dict[str, object]:
    """The GPU % left by each policy at one demand, a mean over seeds; and the bound."""
    nodes, pods, _, loop = trace
    orders = [upto(order, pods, nodes.capacity, demand) for order in trace.orders]
    row: dict[str, object] = {}
    left: dict[str, list[float]] = {}
    for key, policy in POLICIES.items():
        start = bench.clock.elapsed_s()
        runs = [simulate(nodes, pods, order, policy, loop) for order in orders]
        seconds = bench.clock.elapsed_s() - start
        left[key] = [left_pct(run, nodes.capacity, demand) for run in runs]
        row[key] = mean(left[key])
        row.setdefault("seconds", round(seconds, 2))
        overdrawn = sum(not is_sound(run, nodes.capacity) for run in runs)
        bench.expect("runs_that_overdraw", expected=0, actual=overdrawn)
    bounds = [bound_pct(pods, order, nodes.capacity) for order in orders]
    row["bound_pct"] = mean(bounds)
    under = [
        f"{key} {pct} is under {bound}"
        for key, values in left.items()
        for pct, bound in zip(values, bounds, strict=True)
        if pct < bound - ROUNDING
    ]
    bench.expect("better_than_the_bound", expected=[], actual=under)
    return row


def mean(values: Sequence[float]) -> float:
    """Over the seeds, in thousandths of a point."""
    return round(math.fsum(values) / len(values), 3)


def upto(order: I64, pods: Pods, capacity: int, demand: float) -> I64:
    """The arrivals up to a demand and half a point beyond: published figures are means there."""
    arrived = np.cumsum(pods.gpu_milli[order])
    return order[arrived <= (demand + 0.005) * capacity]


def left_pct(run: Run, capacity: int, demand: float) -> float:
    """GPU % unallocated, as published: a mean over the arrivals that round to this demand."""
    there = np.round(100 * run.arrived / capacity) == round(100 * demand)
    placed = run.placed[there] if there.any() else run.placed[-1:]
    return float(100 - 100 * placed.mean() / capacity)


def is_sound(run: Run, capacity: int) -> bool:
    """Whether no node gave more than it has, and what was placed is what is missing."""
    least = min(run.cpu_milli.min(), run.memory_mib.min(), run.gpu_milli.min())
    return bool(least >= 0 and run.placed[-1] == capacity - run.gpu_milli.sum())


def bound_pct(pods: Pods, order: I64, capacity: int) -> float:
    """GPU % that any policy leaves, even one that knows all arrivals and refuses what it likes.

    A relaxation: GPUs are filled one by one with what has arrived, in parts of fillings, as if CPU,
    memory, models and nodes did not matter. The prices of that linear program prove the bound by
    themselves: whatever is placed costs no more than all GPUs and all arrivals do, at these prices.
    """
    amounts: dict[int, int] = {}
    counts = np.bincount(order, minlength=len(pods.wants))
    for want, count in zip(pods.wants, counts, strict=True):
        if want.gpus:
            amounts[want.gpu_milli] = amounts.get(want.gpu_milli, 0) + want.gpus * int(count)
    sizes = np.array(sorted(amounts), np.int64)
    arrived = np.array([amounts[int(size)] for size in sizes], float)
    gpus = capacity / MILLI
    prices = np.clip(_arrival_prices(sizes, arrived, gpus), 0.0, sizes / MILLI)
    filling, _ = knapsack(sizes, sizes / MILLI - prices, MILLI)
    most = gpus * float(filling[-1]) + float(arrived @ prices)
    return max(0.0, 100 - 100 * most / gpus)


def _arrival_prices(sizes: I64, arrived: F64, gpus: float) -> F64:
    """What one more arrival of each size would add to the most that can be placed, in GPUs."""
    rows = np.eye(len(sizes) + 1)

    def entering(duals: F64) -> tuple[F64, float] | None:
        if duals.max() > TOLERANCE:
            return rows[duals.argmax()], 0.0
        values = sizes / MILLI + duals[:-1]
        filling, pattern = knapsack(sizes, values, MILLI)
        if filling[-1] + duals[-1] <= TOLERANCE:
            return None
        return np.append(pattern, 1.0), -float(pattern @ sizes) / MILLI

    amounts = np.append(arrived, gpus) + 1e-6 * np.arange(1, len(sizes) + 2)
    return -cheapest(rows, np.zeros(len(rows)), amounts, entering)[:-1]
