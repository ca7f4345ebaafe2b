"""Which clusters are left alone for a while, because they could not be asked for a bootstrap.

After a pause one question shows whether a cluster is there again; until it is answered, nobody else
asks. A cluster that connects again has ended its pause. Before its first failure a cluster may have
many questions at once, since a question holds up no worker, but not any number.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from mainstay.model.ids import ClusterId
from mainstay.runtime.clock import Clock

QUESTIONS_MAX: Final = 1_000
"""So many questions may be open to one cluster: far fewer than the frames that may wait for it."""


@dataclass(frozen=True, slots=True)
class _Pause:
    until_s: float
    length_s: float


class BackOff:
    """A pause for each cluster, twice as long each time; a success ends it. Times are elapsed."""

    def __init__(
        self,
        clock: Clock,
        *,
        first_s: float = 1.0,
        longest_s: float = 60.0,
        questions_max: int = QUESTIONS_MAX,
    ) -> None:
        self._clock = clock
        self._first_s = first_s
        self._longest_s = longest_s
        self._questions_max = questions_max
        self._pauses: dict[ClusterId, _Pause] = {}
        self._asking: Counter[ClusterId] = Counter()
        self._answered: Counter[ClusterId] = Counter()

    @contextmanager
    def asking(self, cluster: ClusterId) -> Iterator[None]:
        """Inside the block a cluster is being asked."""
        with _counted(self._asking, cluster):
            yield

    @contextmanager
    def answered(self, cluster: ClusterId) -> Iterator[None]:
        """Inside the block an answer of a cluster waits to be of use: so long it counts as one of
        its questions, or there would be any number of answers that nobody has time for.
        """
        with _counted(self._answered, cluster):
            yield

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

    def connected(self, cluster: ClusterId) -> bool:
        """A cluster has connected anew: its pause is over, if it had one, which is the answer.

        How long the pause was is not forgotten: whoever only connects and never answers is left
        alone for longer each time all the same.
        """
        pause = self._pauses.get(cluster)
        if pause is None:
            return False
        self._pauses[cluster] = _Pause(self._clock.elapsed_s(), pause.length_s)
        return True

    def backed_off(self, now_s: float) -> frozenset[ClusterId]:
        """Who is left alone at this time."""
        names = self._pauses.keys() | self._asking.keys() | self._answered.keys()
        return frozenset(name for name in names if self.is_backed_off(name, now_s))

    def left_s(self, now_s: float) -> dict[ClusterId, float]:
        """Who is left alone at this time, and for how long; 0 while its first answer is awaited."""
        return {
            name: max(0.0, pause.until_s - now_s)
            for name, pause in self._pauses.items()
            if self.is_backed_off(name, now_s)
        }

    def is_backed_off(self, cluster: ClusterId, now_s: float) -> bool:
        """Whether it is left alone: in a pause, until the first answer after one, or while it has
        as many questions as it may have.
        """
        if self._asking[cluster] + self._answered[cluster] >= self._questions_max:
            return True
        pause = self._pauses.get(cluster)
        return pause is not None and (now_s < pause.until_s or cluster in self._asking)


@contextmanager
def _counted(counter: Counter[ClusterId], cluster: ClusterId) -> Iterator[None]:
    counter[cluster] += 1
    try:
        yield
    finally:
        counter[cluster] -= 1
        if not counter[cluster]:
            del counter[cluster]
