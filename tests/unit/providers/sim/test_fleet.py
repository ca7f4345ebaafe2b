"""The simulated fleet: what the bench and `up` are made of."""

import numpy as np
import pytest

from mainstay.inventory.inventory import Inventory
from mainstay.model.errors import Rejected
from mainstay.model.state import State
from mainstay.providers.sim.fleet import FleetSpec, by_state, fleet


def test_the_same_spec_gives_the_same_fleet() -> None:
    spec = FleetSpec(machines=500, seed=3)

    assert np.array_equal(fleet(spec).digest, fleet(spec).digest)


def test_another_seed_gives_another_fleet() -> None:
    first, second = (fleet(FleetSpec(machines=500, seed=seed)) for seed in (1, 2))

    assert not np.array_equal(first.digest, second.digest)


@pytest.mark.parametrize("machines", [1, 999, 1000, 12_345])
def test_the_counts_by_state_add_up(machines: int) -> None:
    assert sum(by_state(machines).values()) == machines


def test_every_machine_of_a_fleet_can_exist() -> None:
    inventory = Inventory()

    report = inventory.merge(fleet(FleetSpec(machines=3000, seed=4)), now=0.0)

    assert report.refused == ()
    assert inventory.snapshot().by_state == dict(sorted(by_state(3000).items()))


def test_a_serving_machine_is_committed_to_a_need_of_its_cluster() -> None:
    inventory = Inventory()
    inventory.merge(fleet(FleetSpec(machines=1000, seed=4)), now=0.0)
    snapshot = inventory.snapshot()

    for row in snapshot.rows_in(State.CONFIGURED).tolist():
        assert snapshot.assignment_of(row).cluster == snapshot.cluster_of(row)


def test_a_fleet_of_nothing_is_refused() -> None:
    with pytest.raises(Rejected, match="at least one machine"):
        FleetSpec(machines=0, seed=1)
