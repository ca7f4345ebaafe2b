"""The public GPU trace `openb` (Alibaba, 2023), read as the FGD paper's experiments read it.

Nodes are those with GPUs. A workload is a list of pods; for one seed its pods arrive once each in
random order, then further ones drawn from the list, until their GPUs add up to a share of what the
nodes have. A list that is longer than that loses pods at random. The trace is no part of the
repository.
"""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mainstay.model.errors import Rejected
from mainstay.tenancy.placement.waste import MILLI, Want

I64 = NDArray[np.int64]

NODES: Final = "openb_node_list_gpu_node.csv"
PODS: Final = "openb_pod_list_"
SUMMARY: Final = "fgd_summary.csv"
SUMMARY_PLACES: Final = (".", "../derived")
"""Where the published results are looked for, from the trace on."""

PUBLISHED_AT: Final = {
    1.0: "alloc_pct_at_100_demand_mean", 1.3: "alloc_pct_at_130_demand_mean",
}  # fmt: skip
ANY_MODEL: Final = -1
"""All bits: a pod that does not mind which GPU it gets."""


class Nodes(NamedTuple):
    """The fleet as columns, all of it free."""

    cpu_milli: I64
    memory_mib: I64
    gpu_milli: I64
    """A row per node, a column per GPU; 0 where a node has no such GPU."""

    model: I64
    """A bit per model of GPU."""

    bits: Mapping[str, int]

    @property
    def capacity(self) -> int:
        """All GPUs, in thousandths."""
        return int(self.gpu_milli.sum())


class Pods(NamedTuple):
    """A list of pods as shapes and, per pod, the number of its shape."""

    wants: tuple[Want, ...]
    allowed: I64
    """Per shape, the bits of the models it may run on."""

    shape: I64

    @property
    def gpu_milli(self) -> I64:
        """Per shape, what it takes of all its GPUs."""
        return np.array([want.gpus * want.gpu_milli for want in self.wants], np.int64)


def read_nodes(directory: Path) -> Nodes:
    """The nodes with GPUs."""
    rows = list(_rows(directory / NODES, "sn"))
    gpus = [_number(row, "gpu") for row in rows]
    bits = {name: 1 << at for at, name in enumerate(sorted({row["model"] for row in rows}))}
    free = np.zeros((len(rows), max(gpus)), np.int64)
    for at, count in enumerate(gpus):
        free[at, :count] = MILLI
    return Nodes(
        np.array([_number(row, "cpu_milli") for row in rows]),
        np.array([_number(row, "memory_mib") for row in rows]),
        free,
        np.array([bits[row["model"]] for row in rows]),
        bits,
    )


def workloads(directory: Path) -> list[str]:
    """The names of all lists of pods."""
    return sorted(path.stem.removeprefix(PODS) for path in directory.glob(f"{PODS}*.csv"))


def read_pods(directory: Path, workload: str, bits: Mapping[str, int]) -> Pods:
    """One list of pods; an unknown name is refused with those that there are."""
    path = directory / f"{PODS}{workload}.csv"
    if not path.is_file():
        there = ", ".join(workloads(directory)) or "none"
        raise Rejected(f"no such workload: {workload} (in {directory}: {there})")
    numbers: dict[tuple[Want, int], int] = {}
    shape = [
        numbers.setdefault((_want(row), _models(row.get("gpu_spec") or "", bits)), len(numbers))
        for row in _rows(path, "name")
    ]
    wants = tuple(want for want, _ in numbers)
    return Pods(wants, np.array([mask for _, mask in numbers]), np.array(shape))


def arrivals(pods: Pods, capacity: int, ratio: float, seed: int) -> I64:
    """The shapes that arrive, in order, until they add up to `ratio` times the capacity."""
    random = np.random.Generator(np.random.PCG64(seed))
    order = random.permutation(pods.shape).tolist()
    amounts, target = pods.gpu_milli, ratio * capacity
    total = int(amounts[pods.shape].sum())
    if not total:
        raise Rejected("a workload without GPUs has no demand to fill")
    while total > target:
        total -= int(amounts[order.pop(int(random.integers(len(order))))])
    while True:
        shape = int(pods.shape[random.integers(len(pods.shape))])
        if total + pods.wants[shape].gpu_milli > target:  # of one GPU: as in the experiments
            return np.array(order, np.int64)
        total += int(amounts[shape])
        order.append(shape)


def published_best(directory: Path, workload: str, demand: float) -> float | None:
    """The least GPU % left by any published policy; None where nothing is published."""
    column = PUBLISHED_AT.get(demand)
    places = [directory / place / SUMMARY for place in SUMMARY_PLACES]
    path = next((place for place in places if place.is_file()), None)
    if path is None or column is None:
        return None
    rows = [row for row in _rows(path, "workload") if row["workload"] == f"{PODS}{workload}"]
    return round(min(100 - float(row[column]) for row in rows), 2) if rows else None


def _rows(path: Path, first: str) -> Iterator[dict[str, str]]:
    if not path.is_file():
        raise Rejected(f"no such file: {path} (--trace names the folder of the openb trace)")
    with path.open(encoding="utf-8", newline="") as lines:
        reader = csv.DictReader(lines)
        if not reader.fieldnames or reader.fieldnames[0] != first:
            raise Rejected(f"not a list of the openb trace: {path} (its first column is {first})")
        empty = True
        for row in reader:
            empty = False
            yield row
    if empty:
        raise Rejected(f"no rows: {path}")


def _number(row: Mapping[str, str], column: str) -> int:
    text = row.get(column)
    if text is None or not text.isdecimal():
        name = next(iter(row.values()))
        raise Rejected(f"{column} of {name} is no number: {text!r} (a whole number from 0 up)")
    return int(text)


def _want(row: Mapping[str, str]) -> Want:
    gpus = _number(row, "num_gpu")
    part = min(_number(row, "gpu_milli"), MILLI) if gpus else 0
    if gpus > 1 and part < MILLI:
        raise Rejected(f"{row['name']} wants parts of several GPUs: {gpus} x {part} (whole ones)")
    return Want(_number(row, "cpu_milli"), _number(row, "memory_mib"), gpus, part)


def _models(text: str, bits: Mapping[str, int]) -> int:
    """`V100M16|V100M32` as bits; a model that no node has matches none."""
    names = [name for name in text.split("|") if name]
    mask = 0
    for name in names:
        mask |= bits.get(name, 0)
    return mask if names else ANY_MODEL
