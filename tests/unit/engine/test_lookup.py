"""Rows of a snapshot by the ids of their machines."""

import numpy as np
import pytest

from builders import a_machine
from mainstay.engine.lookup import row_of, rows_of
from mainstay.inventory.inventory import Inventory
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.errors import UnknownMachine
from mainstay.model.ids import MachineId

MANY = 1_500


def stocked(count: int) -> Snapshot:
    inventory = Inventory()
    for number in range(count):
        inventory.add(a_machine(id=f"m-{number}"), now=0.0)
    for number in range(0, count, 7):
        inventory.remove(MachineId(f"m-{number}"))
    return inventory.snapshot()


def test_many_are_found_as_one_by_one() -> None:
    snapshot = stocked(MANY)
    ids = snapshot.machine_ids(snapshot.order.astype(np.intp))[::-1]

    assert len(ids) > 1_000
    assert rows_of(snapshot, ids).tolist() == [row_of(snapshot, machine) for machine in ids]
    assert snapshot.machine_ids(rows_of(snapshot, ids)) == ids


@pytest.mark.parametrize("count", [0, 10, MANY])
def test_one_that_is_gone_is_named(count: int) -> None:
    snapshot = stocked(count)
    ids = snapshot.machine_ids(snapshot.order.astype(np.intp))

    with pytest.raises(UnknownMachine, match="no machine m-0 in the snapshot"):
        rows_of(snapshot, [*ids, *([MachineId("m-0")] * 1_001)])
