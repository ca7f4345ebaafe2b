"""What must not be acquired now, however well it would fit: an input of a decision, like quota."""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mainstay.inventory.snapshot import Snapshot
from mainstay.model.ids import MachineId
from mainstay.model.profile import CapacityType
from mainstay.model.state import State
from mainstay.model.texts import hash_of


class Offer(NamedTuple):
    """What a provider sells: quota slots of one kind in one zone."""

    source: str
    instance_type: str
    zone: str
    capacity_type: CapacityType


@dataclass(frozen=True, slots=True)
class Barred:
    """Idle and Speculative machines that any of these names are not acquired. Serving ones serve
    on, whatever is on its way counts as before, and what idles too long is given back.
    """

    sources: frozenset[str] = frozenset()
    """Providers that do not answer."""

    values: frozenset[tuple[str, str]] = frozenset()
    """(key, value) of an attribute, as requirements see it: a rack, a zone, an instance type."""

    machines: frozenset[MachineId] = frozenset()
    """Single machines, such as those whose host will be taken back."""

    offers: frozenset[Offer] = frozenset()
    """What is sold out: only Speculative machines are meant, for what is there is there."""

    def __bool__(self) -> bool:
        """Whether anything is named."""
        return bool(self.sources or self.values or self.machines or self.offers)


NOTHING_BARRED: Final = Barred()


def barred_rows(snapshot: Snapshot, barred: Barred) -> NDArray[np.bool_] | None:
    """Which rows must not be acquired; None when there is none."""
    if not barred:
        return None
    free = (snapshot.state == State.IDLE) | (snapshot.state == State.SPECULATIVE)
    rows = np.flatnonzero(free)
    named = np.zeros(len(free), dtype=np.bool_)
    named[rows] = _of_source(snapshot, barred)[snapshot.source[rows]]
    named[rows] |= _of_class(snapshot, barred)[snapshot.shape[rows]]
    if barred.offers:
        slots = rows[snapshot.state[rows] == State.SPECULATIVE]
        named[slots] |= _sold_out(snapshot, barred)[snapshot.source[slots], snapshot.shape[slots]]
    if barred.machines:
        names = [name.encode(errors="surrogatepass") for name in barred.machines]
        hashes = np.array([hash_of(name) for name in names], dtype=np.uint64)
        suspects = rows[np.isin(snapshot.ids.take(rows).hashes(), hashes)]
        for row in suspects.tolist():
            named[row] |= snapshot.ids[row] in barred.machines
    return named if named.any() else None


def _of_source(snapshot: Snapshot, barred: Barred) -> NDArray[np.bool_]:
    return np.array([name in barred.sources for name in snapshot.sources], dtype=np.bool_)


def _sold_out(snapshot: Snapshot, barred: Barred) -> NDArray[np.bool_]:
    """By source and class."""
    profiles = [shape.profile for shape in snapshot.shapes.values]
    return np.array(
        [
            [
                Offer(source, each.instance_type, each.zone, each.capacity_type) in barred.offers
                for each in profiles
            ]
            for source in snapshot.sources
        ],
        dtype=np.bool_,
    )


def _of_class(snapshot: Snapshot, barred: Barred) -> NDArray[np.bool_]:
    named = np.zeros(len(snapshot.shapes.values), dtype=np.bool_)
    for key in sorted({key for key, _ in barred.values}):
        codes, values = snapshot.shapes.attribute(key)
        named |= np.array([(key, value) in barred.values for value in values])[codes]
    return named
