"""How long each part of something took."""

from mainstay.runtime.clock import Clock


class Stopwatch:
    """Started when it is made."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last_s = clock.elapsed_s()
        self.laps_s: dict[str, float] = {}

    def lap(self, name: str) -> None:
        """The time since the last one was this part's."""
        now_s = self._clock.elapsed_s()
        self.laps_s[name] = self.laps_s.get(name, 0.0) + now_s - self._last_s
        self._last_s = now_s

    @property
    def total_s(self) -> float:
        """All parts together."""
        return sum(self.laps_s.values())
