"""Machines that two providers report. The first one keeps them; the second one is not believed."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainstay.inventory.inventory import Inventory
from mainstay.inventory.merge import Report
from mainstay.model.batch import MachineBatch
from mainstay.model.ids import MachineId
from mainstay.model.texts import U64

FEW: Final = 4096
"""So many machines are looked up one by one; of more, all hashes at once."""

FILTER_BITS: Final = 22
"""Of half a million machines, less than two in a hundred are then looked up for nothing."""


def claimed_elsewhere(
    inventory: Inventory, report: MachineBatch | Report, source: str
) -> frozenset[MachineId]:
    """The machines that this report names, or calls gone, and that another provider has."""
    suspects = [*report.tombstones, *_suspects(inventory, report, source)]
    return frozenset(
        name for name in suspects if name in inventory and inventory.source(name) != source
    )


def _suspects(inventory: Inventory, report: MachineBatch | Report, source: str) -> list[MachineId]:
    """Every named machine that may be another's."""
    if len(report.ids) <= FEW:
        return [MachineId(name) for name in report.ids]
    snapshot = inventory.snapshot()
    ours = snapshot.sources.index(source) if source in snapshot.sources else -1
    others = np.flatnonzero((snapshot.state != 0) & (snapshot.source != ours))
    if not len(others):
        return []
    may_be = _may_be_among(report.ids.hashes(), snapshot.ids.take(others).hashes())
    return [MachineId(report.ids[position]) for position in np.flatnonzero(may_be).tolist()]


def _may_be_among(hashes: U64, others: U64) -> NDArray[np.bool_]:
    """Where a hash may be one of the others: never wrong about a no, and cheaper than sorting."""
    may_be = np.ones(len(hashes), dtype=np.bool_)
    for shift in (0, 32):
        marked = np.zeros(1 << FILTER_BITS, dtype=np.bool_)
        marked[_bits(others, shift)] = True
        may_be &= marked[_bits(hashes, shift)]
    return may_be


def _bits(hashes: U64, shift: int) -> NDArray[np.intp]:
    return ((hashes >> np.uint64(shift)) & np.uint64((1 << FILTER_BITS) - 1)).astype(np.intp)
