"""How long to wait before the next attempt: longer each time, and never all at the same moment."""

from dataclasses import dataclass
from random import Random
from typing import Final

from mainstay.model.errors import Rejected

FIRST_S: Final = 0.5
LONGEST_S: Final = 30.0
STEADY_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconnectOptions:
    """How patient a cluster is."""

    shortest_s: float = FIRST_S
    longest_s: float = LONGEST_S
    steady_s: float = STEADY_S
    """A session that lasted so long was a good one: the next pause is a short one again."""

    def __post_init__(self) -> None:
        if not 0 < self.shortest_s <= self.longest_s:
            limits = f"{self.shortest_s} to {self.longest_s}"
            raise Rejected(f"pauses must be positive and grow: {limits} s")


class Pauses:
    """Counts attempts that led to nothing."""

    def __init__(self, random: Random, options: ReconnectOptions) -> None:
        self._random = random
        self._options = options
        self._attempts = 0

    def after(self, lasted_s: float) -> float:
        """How long to wait after a session that lasted so long; 0 for one that never began."""
        options = self._options
        if lasted_s >= options.steady_s:
            self._attempts = 0
        ceiling_s = min(options.longest_s, options.shortest_s * 2.0 ** (self._attempts + 1))
        self._attempts = min(self._attempts + 1, 60)  # so that it stays a number
        return self._random.uniform(options.shortest_s, max(options.shortest_s, ceiling_s))
