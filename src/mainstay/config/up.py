"""Settings of `mainstay up`."""

from dataclasses import dataclass

from mainstay.config.require import require


@dataclass(frozen=True, slots=True, kw_only=True)
class UpConfig:
    """Read once at start by mainstay.config.load; never looked up again."""

    machines: int = 10_000
    """How many machines the simulated fleet has."""

    seed: int = 1
    """The seed of the simulated fleet; the same seed gives the same fleet and the same walk."""

    def __post_init__(self) -> None:
        require(1 <= self.machines <= 1_000_000, "up.machines must be between 1 and 1000000")
        require(self.seed >= 0, "up.seed must not be negative")
