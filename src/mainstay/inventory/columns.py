"""The columns of the inventory: one row per machine, zero meaning there is nothing.

The hot ones are what a decision reads and a snapshot copies; the cold ones stay behind.
"""

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mainstay.inventory.growing import resized
from mainstay.model.batch import Codes


class Column(NamedTuple):
    """One column: its type, what an empty row holds, and what it is."""

    dtype: type[np.generic]
    empty: float
    meaning: str


HOT: Final[dict[str, Column]] = {
    "state": Column(np.uint8, 0, "number of the state; 0 is a free row"),
    "cluster": Column(np.uint32, 0, "code of the bound cluster; 0 is unbound"),
    "shape": Column(np.uint32, 0, "shape class"),
    "price_per_hour": Column(np.float64, 0, "dollars, as the provider declares"),
    "interruption_probability": Column(np.float64, 0, "per hour, as the provider declares"),
    "assignment": Column(np.uint32, 0, "code of the assignment; 0 is none"),
    "rank": Column(np.int32, -1, "place in id order"),
    "idle_since": Column(np.float64, math.nan, "when it became Idle; NaN when it is not"),
    "source": Column(np.uint16, 0, "code of the provider that reports it"),
}

COLD: Final[dict[str, Column]] = {
    "digest": Column(np.uint64, 0, "digest of the last report taken in whole; 0 is unknown"),
    "host_provider": Column(np.uint16, 0, "code of the host's provider; 0 is no host"),
}

HOT_BYTES_PER_MACHINE: Final = sum(np.dtype(column.dtype).itemsize for column in HOT.values())
CODES_16_MAX: Final = 2**16 - 1
"""Most distinct values of a column with two-byte codes."""


@dataclass(slots=True)
class Columns:
    """Row i of every column is machine i."""

    state: NDArray[np.uint8]
    cluster: Codes
    shape: Codes
    price_per_hour: NDArray[np.float64]
    interruption_probability: NDArray[np.float64]
    assignment: Codes
    rank: NDArray[np.int32]
    idle_since: NDArray[np.float64]
    source: NDArray[np.uint16]
    digest: NDArray[np.uint64]
    host_provider: NDArray[np.uint16]

    def reserve(self, rows: int) -> None:
        """Make room for rows up to `rows`."""
        for name, column in (HOT | COLD).items():
            setattr(self, name, resized(getattr(self, name), rows, column.empty))

    def nbytes(self) -> int:
        """All of them."""
        return sum(int(getattr(self, name).nbytes) for name in HOT | COLD)


def empty_columns() -> Columns:
    """No rows yet."""
    return Columns(**{n: np.empty(0, dtype=c.dtype) for n, c in (HOT | COLD).items()})
