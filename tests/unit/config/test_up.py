"""Settings of `mainstay up`: their limits."""

import re

import pytest

from mainstay.config.up import UpConfig
from mainstay.model.errors import Rejected


@pytest.mark.parametrize("machines", [1, 1_000_000])
def test_a_fleet_within_the_limits_is_accepted(machines: int) -> None:
    assert UpConfig(machines=machines).machines == machines


@pytest.mark.parametrize("machines", [0, -1, 1_000_001])
def test_a_fleet_outside_the_limits_is_refused_with_the_rule(machines: int) -> None:
    with pytest.raises(Rejected, match=re.escape("up.machines must be between 1 and 1000000")):
        UpConfig(machines=machines)


def test_a_negative_seed_is_refused_with_the_rule() -> None:
    with pytest.raises(Rejected, match=re.escape("up.seed must not be negative")):
        UpConfig(seed=-1)
