"""A fleet that is fifty times the usual one comes up, too; only in `make soak`."""

import pytest

from outside import soak_factor
from ups import PATIENCE_S, an_up, home_below


@pytest.mark.skipif(soak_factor() == 1, reason="100,000 machines: in `make soak`")
def test_a_fleet_of_a_hundred_thousand_comes_to_its_first_node() -> None:
    with home_below(0o755) as home, an_up(home, "--once", fleet=100_000) as up:
        assert up.process.wait(4 * PATIENCE_S) == 0, up.said
        assert up.first_node_s() > 0
