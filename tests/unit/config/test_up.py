"""Settings of `mainstay up` and `mainstay world`: their limits."""

from typing import Any

import pytest

from mainstay.config.up import UpConfig
from mainstay.config.world import WorldConfig
from mainstay.model.errors import Rejected


@pytest.mark.parametrize("fleet", [30, 1_000_000])
def test_a_fleet_within_the_limits_is_accepted(fleet: int) -> None:
    assert UpConfig(fleet=fleet).fleet == fleet


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"fleet": 29}, "up.fleet must be 30 to 1000000"),
        ({"fleet": 1_000_001}, "up.fleet must be 30 to 1000000"),
        ({"seed": -1}, "up.seed must not be negative"),
        ({"page": "8700"}, "up.page must be HOST:PORT"),
        ({"page": "127.0.0.1:0"}, "up.page must be HOST:PORT, the port 1 to"),
        ({"page_cert": "page.crt"}, "up.page_cert and up.page_key belong together"),
        ({"cycle_interval_s": 0.0}, "up.cycle_interval_s must be 0.1 to 3600"),
    ],
)
def test_what_cannot_be_is_refused_with_the_rule(change: dict[str, Any], why: str) -> None:
    with pytest.raises(Rejected, match=why):
        UpConfig(**change)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"machines": 9}, "world.machines must be 10 to 1000000"),
        ({"seed": -1}, "world.seed must not be negative"),
        ({"listen": "9000"}, "world.listen must be HOST:PORT"),
        ({"http": "here"}, "world.http must be HOST:PORT"),
        ({"share": 0.0}, "world.share must be above 0"),
        ({"share": 1.1}, "world.share must be above 0"),
        ({"every_s": 0.01}, "world.every_s must be between"),
        ({"day_s": 5.0}, "world.day_s must be at least two steps"),
        ({"shards": ("blue",)}, "write name=host:port"),
    ],
)
def test_a_world_that_cannot_be_is_refused_with_the_rule(change: dict[str, Any], why: str) -> None:
    with pytest.raises(Rejected, match=why):
        WorldConfig(**change)


def test_the_providers_of_a_world_are_at_ports_in_a_row() -> None:
    assert WorldConfig(listen="127.0.0.1:9000").listens == (
        "127.0.0.1:9000", "127.0.0.1:9001", "127.0.0.1:9002",
    )  # fmt: skip
    assert WorldConfig(listen="127.0.0.1:0").listens == ("127.0.0.1:0",) * 3
