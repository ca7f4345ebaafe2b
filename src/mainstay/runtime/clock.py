"""Where time comes in. Nobody else reads the clock of the machine."""

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds since the epoch, and seconds for measuring."""

    def now_s(self) -> float:
        """Wall-clock time."""

    def elapsed_s(self) -> float:
        """A time that never goes backwards."""


class SystemClock:
    """The machine's own clock."""

    def now_s(self) -> float:
        """Wall-clock time."""
        return time.time()  # noqa: TID251 - this is the Clock

    def elapsed_s(self) -> float:
        """A time that never goes backwards."""
        return time.perf_counter()


class StepClock:
    """A clock that moves only when told to."""

    def __init__(self, start_s: float = 0.0) -> None:
        self._now_s = start_s

    def now_s(self) -> float:
        """The time it was last moved to."""
        return self._now_s

    def elapsed_s(self) -> float:
        """The same time: it never goes backwards."""
        return self._now_s

    def advance(self, seconds: float) -> None:
        """Move forward."""
        if seconds < 0:
            raise ValueError(f"time does not go backwards: {seconds}")
        self._now_s += seconds
