"""How often one caller may call: a bucket each, refilled steadily."""

from collections import OrderedDict
from math import ceil
from typing import Final

from mainstay.model.errors import Unavailable
from mainstay.runtime.clock import Clock

CALLERS_MAX: Final = 10_000
"""Buckets kept; the one unused for longest goes first, and comes back full."""


class TooMany(Unavailable):
    """This caller calls too often."""

    code = "rate_limit_exceeded"
    what_to_do = "wait as long as Retry-After says"

    def __init__(self, message: str, *, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class RateLimit:
    """Per caller and process: `per_s` calls each second, `burst` at once."""

    def __init__(self, clock: Clock, *, per_s: float, burst: int) -> None:
        self._clock, self._per_s, self._burst = clock, per_s, burst
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, caller: str) -> None:
        """Count one call, or raise TooMany."""
        now_s = self._clock.elapsed_s()
        left, at_s = self._buckets.pop(caller, (float(self._burst), now_s))
        left = min(left + (now_s - at_s) * self._per_s, float(self._burst))
        refused = left < 1.0
        self._buckets[caller] = (left if refused else left - 1.0, now_s)
        if len(self._buckets) > CALLERS_MAX:
            self._buckets.popitem(last=False)
        if refused:
            wait_s = ceil((1.0 - left) / self._per_s)
            raise TooMany(
                f"more than {self._per_s:g} calls a second by {caller}", retry_after_s=wait_s
            )
