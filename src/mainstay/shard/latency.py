"""How long demand waits for a machine that serves it, and how long each step to one takes."""

from collections import deque
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mainstay.inventory.snapshot import Snapshot
from mainstay.model.ids import ClusterId, Fingerprint
from mainstay.model.state import State
from mainstay.model.texts import Rows
from mainstay.runtime.clock import Clock


class Latency:
    """When each kind of need of each cluster was first seen, until a machine came for it.

    Each sighting gives one sample. Without that, a need that is served and goes on being asked for
    would give every later machine the age of the need. The next roll-up that still asks for it is
    a new sighting.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[ClusterId, dict[Fingerprint, float]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._seen.values()))

    def asked_for(self, cluster: ClusterId, fingerprints: AbstractSet[Fingerprint]) -> None:
        """A believed roll-up of a cluster asks for these; what it no longer does is forgotten."""
        seen = self._seen.setdefault(cluster, {})
        for gone in seen.keys() - fingerprints:
            del seen[gone]
        seen.update(dict.fromkeys(fingerprints - seen.keys(), self._clock.elapsed_s()))

    def configured(self, cluster: ClusterId, fingerprint: Fingerprint) -> float | None:
        """A machine serves this need: the seconds it took; None when nobody waits for a sample."""
        since = self._seen.get(cluster, {}).pop(fingerprint, None)
        return None if since is None else self._clock.elapsed_s() - since


class Step(StrEnum):
    """What a provider does with a machine, and what is measured of it."""

    CREATE = "create"
    CONFIGURE = "configure"
    DRAIN = "drain"
    DELETE = "delete"


class Kind(NamedTuple):
    """Machines that take as long as one another: of one provider, of one type."""

    source: str
    instance_type: str


DURING: Final[Mapping[State, Step]] = {
    State.CREATING: Step.CREATE,
    State.CONFIGURING: Step.CONFIGURE,
    State.DRAINING: Step.DRAIN,
    State.DELETING: Step.DELETE,
}
"""In which state a machine is while its provider is at it."""

_AFTER: Final[Mapping[State, tuple[State, ...]]] = {
    State.CREATING: (State.IDLE, State.CONFIGURING),
    State.CONFIGURING: (State.CONFIGURED,),
    State.DRAINING: (State.IDLE, State.CONFIGURING),
    State.DELETING: (State.SPECULATIVE,),
}
"""How such a step ends well, also when the next one has begun since."""

_ON_THE_WAY: Final = np.zeros(256, dtype=np.bool_)
_ON_THE_WAY[list(DURING)] = True

SAMPLES_MAX: Final = 64
"""So many of the last samples of a step of a kind are kept."""

ENDED_MAX: Final = 500
"""Of more that end in one cycle only some are looked at."""

KINDS_MAX: Final = 2_000
"""Beyond so many kinds and steps new ones are not measured."""

Samples = Mapping[tuple[Kind, Step], tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class Measured:
    """How long steps took, and since when machines are on their way, frozen."""

    samples: Samples = field(default_factory=dict)
    """Seconds of each step that was seen from its beginning to its end."""

    rows: Rows = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    """Of the last snapshot: those on their way, in order."""

    since_s: NDArray[np.float64] = field(default_factory=lambda: np.empty(0, dtype=np.float64))
    """When each of them was first seen so."""

    at_s: float = 0.0
    """Now, on the same clock."""

    def ages_s(self, rows: Rows) -> NDArray[np.float64]:
        """How long some machines have been seen on their way; 0 for one that was not."""
        if not len(self.rows):
            return np.zeros(len(rows))
        at = np.searchsorted(self.rows, rows).clip(max=len(self.rows) - 1)
        known = self.rows[at] == rows
        return np.where(known, np.maximum(self.at_s - self.since_s[at], 0.0), 0.0)


class StepTimes:
    """Measures steps by the snapshots that cycles see: right to within a cycle.

    A step that begins and ends between two cycles is not seen. What a machine is and who reports
    it say how long it takes; nothing else is told apart.
    """

    def __init__(self) -> None:
        self._samples: dict[tuple[Kind, Step], deque[float]] = {}
        self._last: Snapshot | None = None
        self._rows: Rows = np.empty(0, dtype=np.intp)
        self._since_s: NDArray[np.float64] = np.empty(0, dtype=np.float64)

    def follow(self, snapshot: Snapshot, at_s: float) -> None:
        """Take in the machines of a cycle; those on their way are all that is looked at."""
        if snapshot is self._last:
            return
        rows: Rows = np.flatnonzero(_ON_THE_WAY[snapshot.state])
        since_s = np.full(len(rows), at_s)
        last = self._last
        if last is not None and len(self._rows):
            old, began_s = self._same_machines(last, snapshot)
            was, is_now = last.state[old], snapshot.state[old]
            stays = was == is_now
            since_s[np.searchsorted(rows, old[stays])] = began_s[stays]
            for state, after in _AFTER.items():
                ended = (was == state) & np.isin(is_now, after)
                self._record(snapshot, DURING[state], old[ended], at_s - began_s[ended])
        self._last, self._rows, self._since_s = snapshot, rows, since_s

    def measured(self, at_s: float) -> Measured:
        """How things stand."""
        samples = {key: tuple(held) for key, held in self._samples.items()}
        return Measured(samples, self._rows, self._since_s, at_s)

    def _same_machines(
        self, last: Snapshot, snapshot: Snapshot
    ) -> tuple[Rows, NDArray[np.float64]]:
        """Those that were on their way and are still there; rows are reused."""
        here = self._rows < len(snapshot.state)
        rows, since_s = self._rows[here], self._since_s[here]
        same = last.ids.take(rows).equals(snapshot.ids.take(rows))
        return rows[same], since_s[same]

    def _record(
        self, snapshot: Snapshot, step: Step, rows: Rows, seconds: NDArray[np.float64]
    ) -> None:
        few = slice(None, None, max(1, len(rows) // ENDED_MAX))
        for row, took_s in zip(rows[few].tolist(), seconds[few].tolist(), strict=True):
            key = (kind_of(snapshot, row), step)
            if key in self._samples or len(self._samples) < KINDS_MAX:
                self._samples.setdefault(key, deque(maxlen=SAMPLES_MAX)).append(took_s)


def kind_of(snapshot: Snapshot, row: int) -> Kind:
    """What a machine is, as far as time goes."""
    source = snapshot.sources[snapshot.source.item(row)]
    return Kind(source, snapshot.profile_of(row).instance_type)


def with_done(samples: Samples, done: Iterable[tuple[Kind, Step, float]]) -> Samples:
    """The same samples, and steps that were measured otherwise."""
    more: dict[tuple[Kind, Step], list[float]] = {}
    for kind, step, took_s in done:
        more.setdefault((kind, step), []).append(took_s)
    return {**samples, **{key: (*samples.get(key, ()), *held) for key, held in more.items()}}
