"""How long demand waits: from the roll-up in which it first appears to a machine that serves it."""

from collections.abc import Iterable

from mainstay.model.ids import ClusterId, Fingerprint
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

    def asked_for(self, cluster: ClusterId, fingerprints: Iterable[Fingerprint]) -> None:
        """A believed roll-up of a cluster asks for these; what it no longer does is forgotten."""
        now = self._clock.elapsed_s()
        before = self._seen.get(cluster, {})
        self._seen[cluster] = {each: before.get(each, now) for each in fingerprints}

    def configured(self, cluster: ClusterId, fingerprint: Fingerprint) -> float | None:
        """A machine serves this need: the seconds it took; None when nobody waits for a sample."""
        since = self._seen.get(cluster, {}).pop(fingerprint, None)
        return None if since is None else self._clock.elapsed_s() - since
