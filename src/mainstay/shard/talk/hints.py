"""Which hints are worth saying: those that changed, and of each kind of need one in a while.

Of every cluster it is remembered what it was told last, and forgotten with its session: who
connects again has lost what was said, and everybody else need not hear it twice.
"""

from collections.abc import Container, Sequence
from typing import Final, NamedTuple

from mainstay.engine.hints import Confidence, Hint
from mainstay.model.frames import CapacityHint, HintConfidence
from mainstay.model.ids import ClusterId, Fingerprint

HINT_INTERVAL_S: Final = 5.0

_CONFIDENCE: Final = {
    Confidence.NONE: HintConfidence.NONE,
    Confidence.MEDIUM: HintConfidence.MEDIUM,
    Confidence.HIGH: HintConfidence.HIGH,
}

_Value = tuple[int, Confidence, float]


class _Said(NamedTuple):
    value: _Value
    at_s: float


_Memory = dict[ClusterId, dict[Fingerprint, _Said]]


class HintMemory:
    """What was said to whom, and when."""

    def __init__(self, *, interval_s: float = HINT_INTERVAL_S) -> None:
        self._interval_s = interval_s
        self._said: _Memory = {}
        self._settled: Sequence[Hint] | None = None

    def forget(self, cluster: ClusterId) -> None:
        """Its session is over, or new: it knows nothing."""
        self._said.pop(cluster, None)
        self._settled = None

    def due(
        self, hints: Sequence[Hint], connected: Container[ClusterId], *, now_s: float
    ) -> list[tuple[ClusterId, CapacityHint]]:
        """What to say now of all hints there are; it counts as said.

        Costs nothing when these hints were all said before and nobody has come since.
        """
        if hints is self._settled:
            return []
        due: list[tuple[ClusterId, CapacityHint]] = []
        said = self._just_said(now_s)
        held = False
        for hint in hints:
            if hint.cluster not in connected:
                continue
            fingerprint = hint.profile.fingerprint
            value = (hint.count, hint.confidence, hint.cost_per_hour)
            before = self._said.get(hint.cluster, {}).get(fingerprint)
            if before is None or (before.value != value and self._is_long_ago(before, now_s)):
                before = _Said(value, now_s)
                due.append((hint.cluster, frame_of(hint)))
            said.setdefault(hint.cluster, {})[fingerprint] = before
            held = held or before.value != value
        self._said = said
        self._settled = None if held else hints
        return due

    def _is_long_ago(self, said: _Said, now_s: float) -> bool:
        return now_s - said.at_s >= self._interval_s

    def _just_said(self, now_s: float) -> _Memory:
        """Of a need that comes and goes, what was said is kept for as long as it counts."""
        return {
            cluster: {key: one for key, one in said.items() if not self._is_long_ago(one, now_s)}
            for cluster, said in self._said.items()
        }


def frame_of(hint: Hint) -> CapacityHint:
    """A hint as a cluster is told it."""
    return CapacityHint(
        fingerprint=hint.profile.fingerprint,
        requirements=hint.profile.requirements,
        count=hint.count,
        confidence=_CONFIDENCE[hint.confidence],
        cost_per_hour=hint.cost_per_hour,
    )
