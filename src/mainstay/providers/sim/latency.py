"""How long a simulated step takes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import Final

from mainstay.model.calls import Call
from mainstay.model.errors import Rejected


@dataclass(frozen=True, slots=True)
class Latency:
    """Log-normal: most take about the median, a few take much longer."""

    median_s: float
    spread: float = 0.3
    """The standard deviation of the logarithm; at 0 every step takes the median."""

    def __post_init__(self) -> None:
        if not (0.0 <= self.median_s < math.inf and 0.0 <= self.spread < 10.0):
            raise Rejected(f"no such latency: {self.median_s} s, spread {self.spread}")

    def draw_s(self, random: Random) -> float:
        """One latency."""
        return self.median_s * math.exp(random.gauss(0.0, self.spread))


CLOUD: Final[Mapping[Call, Latency]] = MappingProxyType(
    {
        Call.CREATE: Latency(45.0, 0.4),
        Call.CONFIGURE: Latency(25.0, 0.3),
        Call.DRAIN: Latency(20.0, 0.5),
        Call.DELETE: Latency(15.0, 0.3),
    }
)
"""As clouds are."""

INSTANT: Final[Mapping[Call, Latency]] = MappingProxyType(
    {call: Latency(0.0, 0.0) for call in CLOUD}
)


def scaled(latencies: Mapping[Call, Latency], factor: float) -> Mapping[Call, Latency]:
    """The same, slower or faster."""
    return {call: Latency(each.median_s * factor, each.spread) for call, each in latencies.items()}
