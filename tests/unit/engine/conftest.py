"""Scenarios are held to by both engines."""

import pytest

from oracles.scenes import Decide, plainly, really


@pytest.fixture(params=[plainly, really], ids=["plain", "real"])
def decide_like(request: pytest.FixtureRequest) -> Decide:
    """Either engine, as a function of a world."""
    found: Decide = request.param
    return found
