"""Which clusters are left alone for a while, because they could not be asked for a bootstrap."""

from dataclasses import dataclass

from mainstay.model.ids import ClusterId
from mainstay.runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class _Pause:
    until_s: float
    length_s: float


class BackOff:
    """A pause for each cluster, twice as long each time; a success ends it. Times are elapsed."""

    def __init__(self, clock: Clock, *, first_s: float = 1.0, longest_s: float = 60.0) -> None:
        self._clock = clock
        self._first_s = first_s
        self._longest_s = longest_s
        self._pauses: dict[ClusterId, _Pause] = {}

    def failed(self, cluster: ClusterId) -> None:
        """A cluster did not give what was asked. Failures within one pause count as one."""
        now, last = self._clock.elapsed_s(), self._pauses.get(cluster)
        if last is not None and now < last.until_s:
            return
        length = min(last.length_s * 2, self._longest_s) if last else self._first_s
        self._pauses[cluster] = _Pause(now + length, length)

    def succeeded(self, cluster: ClusterId) -> None:
        """A cluster gave what was asked."""
        self._pauses.pop(cluster, None)

    def backed_off(self, now_s: float) -> frozenset[ClusterId]:
        """Who is left alone at this time."""
        return frozenset(name for name, pause in self._pauses.items() if now_s < pause.until_s)
