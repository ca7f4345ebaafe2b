"""How long to wait before the next attempt, and when to stop trying."""

from dataclasses import dataclass

from mainstay.model.errors import Rejected


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Pauses that double up to a ceiling, and a number of attempts."""

    first_s: float = 1.0
    most_s: float = 60.0
    attempts_max: int = 10

    def __post_init__(self) -> None:
        if not 0 < self.first_s <= self.most_s or self.attempts_max < 1:
            raise Rejected(
                f"not a back-off: {self.first_s} s to {self.most_s} s, {self.attempts_max} attempts"
            )

    def pause_s(self, attempts: int) -> float:
        """After so many failed attempts, from 1."""
        doublings = min(attempts - 1, 60)  # a float has an end
        return float(min(self.most_s, self.first_s * 2**doublings))

    def is_over(self, attempts: int) -> bool:
        """Whether so many failed attempts are enough."""
        return attempts >= self.attempts_max
