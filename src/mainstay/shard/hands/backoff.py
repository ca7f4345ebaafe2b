"""Which clusters are left alone for a while, because they could not be asked for a bootstrap.

After a pause one question shows whether a cluster is there again; until it is answered, nobody else
asks. So a cluster that hangs holds up one worker, and not all of them.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
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
        self._asking: Counter[ClusterId] = Counter()

    @contextmanager
    def asking(self, cluster: ClusterId) -> Iterator[None]:
        """Inside the block a cluster is being asked."""
        self._asking[cluster] += 1
        try:
            yield
        finally:
            self._asking[cluster] -= 1
            if not self._asking[cluster]:
                del self._asking[cluster]

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
        return frozenset(name for name in self._pauses if self.is_backed_off(name, now_s))

    def is_backed_off(self, cluster: ClusterId, now_s: float) -> bool:
        """Whether it is left alone: in a pause, or until the first answer after one."""
        pause = self._pauses.get(cluster)
        return pause is not None and (now_s < pause.until_s or cluster in self._asking)
