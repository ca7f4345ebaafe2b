"""How much of a node's free GPUs nobody will ever use, as far as one can expect.

Three things strand a GPU: a remainder that fits no usual shape, too little CPU or memory beside it,
and blocks torn apart. `Outlook` is all that is known of the future: which shapes are usual, and how
usual each is. A node is chosen by how much waste a request would add (ADR-0027).

The functions below `Outlook` are plain arithmetic over numbers and rows, so that a bench can
compile them as they stand.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

import numpy as np

from mainstay.tenancy.placement.prices import F64, remainder_values

MILLI: Final = 1000
"""A whole GPU."""

OPENED: Final = 0.95
"""What a remainder of a GPU in use is worth against the same space of an untouched one: an opened
GPU is filled first."""

STEERED: Final = 0.5
"""What a node gets is chosen, not drawn: the CPU its GPUs will need varies half as much."""

KEPT: Final = 0.05
"""What keeping a block in one piece is worth against using a GPU. The small request is there now,
the large one only may come."""

TIDY: Final = 2e-4
"""Of two nodes that are as good, the fuller one."""

BLOCKS: Final = (2, 4, 8)
"""Sizes of requests that need GPUs side by side."""


class Want(NamedTuple):
    """What one request takes from a node."""

    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_milli: int
    """Of each of its GPUs: 1000 is a whole one. Several are whole ones."""

    @property
    def gpu_amount(self) -> float:
        """In whole GPUs."""
        return self.gpus * self.gpu_milli / MILLI


class Room(NamedTuple):
    """What a node has left."""

    cpu_milli: int
    memory_mib: int
    gpu_milli: Any
    """Of each GPU: a row of numbers; 0 beyond the last."""

    gpus: int
    """How many it has, free or not."""


@dataclass(frozen=True, slots=True, eq=False)
class Outlook:
    """What is usual, in the form in which waste is computed."""

    values: F64
    """By remainder in thousandths: its worth, as a part of a whole GPU."""

    beside: F64
    """CPU for a GPU: mean and spread; then memory: mean and spread. A mean of 0 is not counted."""

    blocks: F64
    """For each size of BLOCKS, what a GPU outside of any such block loses."""

    @classmethod
    def of(cls, usual: Iterable[tuple[Want, float]]) -> Self:
        """From shapes and how often each is asked for; shapes without GPUs tell nothing."""
        shapes = [(want, often) for want, often in usual if want.gpus > 0 and often > 0]
        parts: dict[int, float] = {}
        for want, often in shapes:
            if want.gpu_milli < MILLI:
                parts[want.gpu_milli] = parts.get(want.gpu_milli, 0.0) + often * want.gpus
        sizes = sorted(parts)
        values = OPENED * remainder_values(sizes, [parts[size] for size in sizes], MILLI)
        values[MILLI] = 1.0
        total = math.fsum(often * want.gpu_amount for want, often in shapes) or 1.0
        joined = [
            math.fsum(often * want.gpu_amount for want, often in shapes if want.gpus == size)
            for size in BLOCKS
        ]
        beside = [
            *_per_gpu([(want.cpu_milli, want.gpu_amount, often) for want, often in shapes]),
            *_per_gpu([(want.memory_mib, want.gpu_amount, often) for want, often in shapes]),
        ]
        return cls(values, np.array(beside), KEPT * np.array(joined) / total)

    @property
    def columns(self) -> tuple[F64, F64, F64]:
        """As the functions below take it."""
        return self.values, self.beside, self.blocks


def _per_gpu(amounts: Iterable[tuple[int, float, float]]) -> tuple[float, float]:
    """(mean, spread) of what is needed beside one GPU; (amount, GPUs, how often) per shape."""
    rows = list(amounts)
    gpus = math.fsum(gpu * often for _, gpu, often in rows)
    if not gpus:
        return 0.0, 0.0
    mean = math.fsum(amount * often for amount, _, often in rows) / gpus
    squares = math.fsum(often * (amount - mean * gpu) ** 2 for amount, gpu, often in rows)
    return mean, STEERED * math.sqrt(squares / gpus)


def short(left: float, gpus: float, mean: float, spread: float) -> float:
    """How many of `gpus` GPUs are likely to find nothing left beside them.

    What they need in sum is taken as normal, so this is its expected excess over what is left.
    """
    if gpus <= 0.0 or mean <= 0.0:
        return 0.0
    over = mean * gpus - left
    deviation = spread * math.sqrt(gpus)
    if deviation <= 0.0:
        return max(0.0, over) / mean
    z = over / deviation
    density = math.exp(-0.5 * z * z) * 0.3989422804014327
    return deviation * (density + z * 0.5 * math.erfc(-z * 0.7071067811865476)) / mean


def torn(whole: int, gpus: int, blocks: Any) -> float:
    """What untouched GPUs lose that make up no block, where any of a node's GPUs may be joined.

    A node that is too small for a block loses nothing by having none.
    """
    loss = 0.0
    size = 2
    for weight in blocks:
        if size <= gpus:
            loss += weight * (whole % size)
        size *= 2
    return loss


def worth(gpu_milli: Any, values: Any) -> float:
    """What the free parts of a node's GPUs are worth, in whole GPUs."""
    total = 0.0
    for left in gpu_milli:
        total += values[left]
    return total


def stranded(room: Any, value: float, beside: Any) -> float:
    """What is expected to be wasted for want of CPU or memory; less what the free parts are worth.

    The amount that is free is the same wherever a request goes, and so is left out.
    """
    lacks_cpu = short(room[0], value, beside[0], beside[1])
    lacks_memory = short(room[1], value, beside[2], beside[3])
    return lacks_cpu + lacks_memory - value


def added(room: Any, want: Any, outlook: Any) -> tuple[float, int]:
    """(waste that a request adds to a node, the GPU it takes a part of, or -1).

    `want` must fit. Whole GPUs are taken from untouched ones, a part from whichever GPU adds least.
    """
    values, beside, blocks = outlook
    free = room[2]
    value = worth(free, values)
    whole = 0
    for left in free:
        if left == MILLI:
            whole += 1
    gpus = room[3]
    before = stranded(room, value, beside) + torn(whole, gpus, blocks) - TIDY * value
    rest = (room[0] - want[0], room[1] - want[1])
    count, part = want[2], want[3]
    if count != 1 or part == MILLI:
        left_over = value - count * values[part]
        return stranded(rest, left_over, beside) + torn(whole - count, gpus, blocks) - before, -1
    least, at = math.inf, -1
    for gpu in range(len(free)):
        if free[gpu] >= part:
            left_over = value - values[free[gpu]] + values[free[gpu] - part]
            untouched = whole - 1 if free[gpu] == MILLI else whole
            after = stranded(rest, left_over, beside) + torn(untouched, gpus, blocks)
            if after < least:
                least, at = after, gpu
    return least - before, at
