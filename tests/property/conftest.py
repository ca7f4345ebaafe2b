"""What the properties share."""

from collections.abc import Iterator

import pytest

from mainstay.engine import kernels


@pytest.fixture(params=["numpy", "compiled"])
def loops(request: pytest.FixtureRequest) -> Iterator[None]:
    """Both forms of the inner loops are held to the rules."""
    kernels.cool()
    if request.param == "compiled":
        assert kernels.warm()
    yield
    kernels.cool()
