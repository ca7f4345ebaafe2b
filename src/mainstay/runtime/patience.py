"""How long somebody waits while one thing after another is tried."""

from mainstay.runtime.clock import Clock


class Patience:
    """Asked before each try. It is over when a try as long as the longest so far would end late."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._until_s = clock.elapsed_s() + seconds
        self._asked_s: float | None = None
        self._longest_s = 0.0

    def is_over(self) -> bool:
        """Whether nothing more is to be tried."""
        now_s = self._clock.elapsed_s()
        if self._asked_s is not None:
            self._longest_s = max(self._longest_s, now_s - self._asked_s)
        self._asked_s = now_s
        return now_s + self._longest_s >= self._until_s
