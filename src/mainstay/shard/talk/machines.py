"""The machines of one cluster, for whoever tells it how they stand."""

from collections.abc import Iterator

import numpy as np

from mainstay.inventory.inventory import Inventory
from mainstay.model.ids import ClusterId
from mainstay.model.machine import Machine
from mainstay.model.state import State


def machines_of(inventory: Inventory, cluster: ClusterId) -> Iterator[Machine]:
    """One by one, as they stand when each is asked for."""
    snapshot = inventory.snapshot()
    if cluster not in snapshot.clusters:
        return
    rows = np.flatnonzero(snapshot.cluster == snapshot.clusters.index(cluster))
    for row in rows[snapshot.state[rows] != State.UNSPECIFIED]:
        name = snapshot.machine_ids(np.array([row]))[0]
        if name in inventory:
            record = inventory.machine(name)
            if record.cluster == cluster:
                yield record
