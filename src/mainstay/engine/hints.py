"""What else could be had: for each kind of need of each cluster, from counts per shape class."""

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.asked import Asked
from mainstay.engine.barred import NOTHING_BARRED, Barred, barred_rows
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.ids import ClusterId
from mainstay.model.need import NeedProfile
from mainstay.model.state import State
from mainstay.model.texts import Rows


class Confidence(Enum):
    """How sure a cluster may be of getting more."""

    NONE = "none"
    MEDIUM = "medium"
    """Only quota slots match."""

    HIGH = "high"
    """Idle machines match."""


@dataclass(frozen=True, slots=True)
class Hint:
    """For one cluster and one kind of need."""

    cluster: ClusterId
    profile: NeedProfile
    count: int
    confidence: Confidence
    cost_per_hour: float
    """The lowest price among what the confidence rests on; 0 when there is none."""


def hints(snapshot: Snapshot, asked: Asked, barred: Barred = NOTHING_BARRED) -> tuple[Hint, ...]:
    """One hint per (cluster, fingerprint), in order of first sight. No walk over machines.

    What is barred cannot be had now and is not counted.
    """
    kept_back = barred_rows(snapshot, barred)
    open_ = snapshot.state if kept_back is None else np.where(kept_back, 0, snapshot.state)
    free = {state: _by_class(snapshot, open_ == state) for state in (State.IDLE, State.SPECULATIVE)}
    profiles, first = asked.profiles, _first_of_each_kind(asked)
    of_kind = asked.profile[first]
    sets = profiles.requirement_set[of_kind]
    answers = {
        code: _answer(snapshot.shapes.matching(profiles.requirements[code]), free)
        for code in np.unique(sets).tolist()
    }
    kinds = zip(asked.cluster[first].tolist(), of_kind.tolist(), sets.tolist(), strict=True)
    return tuple(
        Hint(asked.clusters[cluster], profiles.values[profile], *answers[code])
        for cluster, profile, code in kinds
    )


def _first_of_each_kind(asked: Asked) -> Rows:
    """Where each cluster first asks for each kind of need."""
    kinds = asked.cluster.astype(np.int64) * len(asked.profiles.values) + asked.profile
    first: Rows = np.unique(kinds, return_index=True)[1]
    return np.sort(first)


def _by_class(
    snapshot: Snapshot, chosen: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """How many of some machines each class has, and the lowest price among them."""
    rows = np.flatnonzero(chosen)
    size = len(snapshot.shapes.values)
    counts = np.bincount(snapshot.shape[rows], minlength=size)
    lowest = np.full(size, np.inf)
    np.minimum.at(lowest, snapshot.shape[rows], snapshot.price_per_hour[rows])
    return counts, lowest


def _answer(
    matching: NDArray[np.bool_],
    free: dict[State, tuple[NDArray[np.int64], NDArray[np.float64]]],
) -> tuple[int, Confidence, float]:
    idle, slots = (int(free[state][0][matching].sum()) for state in free)
    if not idle and not slots:
        return 0, Confidence.NONE, 0.0
    confidence = Confidence.HIGH if idle else Confidence.MEDIUM
    prices = free[State.IDLE if idle else State.SPECULATIVE][1]
    return idle + slots, confidence, float(prices[matching].min())
