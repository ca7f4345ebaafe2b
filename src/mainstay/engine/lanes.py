"""What the compiled loops walk: machines by lanes, gangs with their own machines.

A lane holds the machines of one signature (mainstay.engine.kinds) in order, so that a need walks
nothing that does not fit.
"""

from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainstay.engine import kernels
from mainstay.engine.allowance import Allowance
from mainstay.engine.kinds import Kinds, kinds_of, starts
from mainstay.engine.rows import Mask, Matrix, Vector, Walk
from mainstay.engine.world import NO_ROWS, NOBODY, Laid, Tray, World
from mainstay.model.batch import Codes
from mainstay.model.state import State
from mainstay.model.texts import Rows

LANES_MAX: Final = 2**24
"""Beyond so many lanes the numpy form is used."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """Machines in order, lane after lane."""

    start: Vector
    rows: Rows
    shapes: Codes
    places: Vector
    """Where each machine stands in the order over all lanes."""

    first: Vector
    """Per lane: before this place all are claimed."""

    gang: NDArray[np.int32]
    """The number of the gang whose own it is, or -1."""

    def parts(self) -> tuple[object, ...]:
        """As the loops take them."""
        return self.start, self.rows, self.shapes, self.places, self.first, self.gang


def runner_of(
    world: World, walk: Walk, allowance: Allowance, last: Kinds | None
) -> "Runner | None":
    """The compiled form of credit and acquisition; none while the loops are cold."""
    loops = kernels.loops()
    if loops is None:
        return None
    kinds = kinds_of(loops, world, walk, last)
    lanes = 2 * len(world.snapshot.clusters) * kinds.signatures
    return Runner(loops, world, kinds, allowance) if lanes <= LANES_MAX else None


class Runner:
    """Runs credit and acquisition over many needs at once."""

    def __init__(self, loops: ModuleType, world: World, kinds: Kinds, allowance: Allowance) -> None:
        self._loops, self._world, self._allowance = loops, world, allowance
        self.kinds, walk = kinds, kinds.walk
        self._walk = walk
        self._scratch = (
            np.empty(kinds.signatures + 1, dtype=np.int64),
            np.empty(kinds.signatures + 1, dtype=np.int64),
            np.empty(len(world.owner), dtype=np.int64),
        )
        """Heads and ends of the lanes a need walks; the machines it takes."""

        self._units: Matrix = np.where(walk.folded[:, None], world.amounts[walk.min_unit], 0)
        codes = np.array(
            [world.cluster_code(name) for name in world.asked.clusters], dtype=np.int64
        )
        self._group = np.where(codes >= 0, codes * 2, -1)[walk.cluster]
        self._cluster = walk.cluster.astype(np.int64)
        self._released = np.zeros(world.gang_count + 1, dtype=np.bool_)
        self.home: Vector = np.full(len(walk), NOBODY, dtype=np.int64)
        """The domain of every gang whose own machines covered it."""

        self._gangs = walk.gangs
        self._pools: dict[tuple[State, int], Lanes] = {}

    def credit(self, begin: int, stop: int, *, plain_only: bool = False) -> int:
        """Credit needs from `begin`; the place of the first gang it leaves to numpy, or `stop`."""
        world, kinds = self._world, self.kinds
        place: int = self._loops.credit(
            begin, stop, self._walk.is_gang, self.missing, self._group, kinds.kind, self._units,
            kinds.fits, kinds.start, kinds.fitting, kinds.most, world.alloc, world.snapshot.shape,
            world.owner, *self._bound.parts(), self._released, self._number, *self._own,
            *self._flights, kinds.domains, kinds.same, self.home, kinds.signatures,
            *self._scratch, np.array([plain_only]), *self._quota(),
        )  # fmt: skip
        return place

    def acquire(self, places: Rows, bucket: int) -> tuple[Rows, Rows]:
        """Acquire for plain needs of one bucket: the machines, and the need of each."""
        world, kinds = self._world, self.kinds
        counts = np.zeros(len(places), dtype=np.int64)
        count = self._loops.acquire(
            places, self.missing, kinds.kind, self._units, kinds.start, kinds.fitting,
            kinds.most, world.alloc, world.owner, *self._pool(State.IDLE, bucket).parts(),
            *self._pool(State.SPECULATIVE, bucket).parts(), self._released,
            *self._scratch, counts, self._cluster, *self._quota(),
        )  # fmt: skip
        return self._scratch[2][:count].copy(), np.repeat(places, np.diff(counts, prepend=0))

    def release_surplus(self, complete: Rows) -> int:
        """What these complete gangs have left over is open from now on; how many have anything."""
        gangs = np.unique(self._number[complete])
        found: int = self._loops.with_surplus(
            gangs, *self._kept_for, self._world.owner, self._released
        )
        return found

    @cached_property
    def missing(self) -> Matrix:
        """What every need still misses; the loops lower it."""
        return self._walk.aggregate.copy()

    def _quota(self) -> tuple[object, ...]:
        allowance = self._allowance
        return allowance.left, allowance.slot, allowance.slot_left, allowance.stopped

    @cached_property
    def _bound(self) -> Lanes:
        kept = self._world.kept
        groups = 2 * len(self._world.snapshot.clusters)
        return self._lanes((State.CONFIGURED, 0), kept.rows, kept.group, groups)

    def _pool(self, state: State, bucket: int) -> Lanes:
        key = (state, 0 if state == State.IDLE else bucket)
        if key not in self._pools:
            rows = self._world.whole_pool(state, bucket)
            self._pools[key] = self._lanes(key, rows, np.zeros(len(rows), dtype=np.int64), 1)
        return self._pools[key]

    def _lanes(self, key: Tray, rows: Rows, group: Vector, groups: int) -> Lanes:
        """These machines by lanes, with nothing claimed; laid out anew only if they differ."""
        world, signature = self._world, self.kinds.signature
        gang_of = world.gang_of_assignment
        laid = world.laid.get(key)
        if laid is None or not laid.holds(rows, signature, gang_of):
            parts = self._loops.lanes_of(
                rows, group, groups, world.snapshot.shape, signature, self.kinds.signatures,
                world.snapshot.assignment, gang_of,
            )  # fmt: skip
            laid = world.laid[key] = Laid(rows, signature, gang_of.copy(), *parts)
        return Lanes(
            start=laid.start,
            rows=laid.by_lane,
            shapes=laid.shapes,
            places=laid.places,
            first=laid.start[:-1].copy(),
            gang=laid.gang,
        )

    @cached_property
    def _number(self) -> Vector:
        """The gang number of each need, or -1."""
        number = np.full(len(self._walk), -1, dtype=np.int64)
        for place, ref in self._walk.gang_refs.items():
            number[place] = self._world.gang_number(ref)
        return number

    @cached_property
    def _kept_for(self) -> tuple[Vector, Rows]:
        """Where the bound machines kept for each gang begin; those, Configured ones first."""
        kept = self._world.kept.rows
        gang = self._world.gang_of(kept)
        held = np.flatnonzero(gang >= 0)
        order = held[np.argsort(gang[held], kind="stable")]
        return starts(np.bincount(gang[held], minlength=self._world.gang_count)), kept[order]

    @cached_property
    def _own(self) -> tuple[Vector, Rows]:
        """The same without machines of another cluster: those do not count for the gang."""
        start, rows = self._kept_for
        group = np.full(self._world.gang_count, -1, dtype=np.int64)
        group[self._number[self._gangs]] = self._group[self._gangs]
        gang = np.repeat(np.arange(self._world.gang_count), np.diff(start))
        here = group[gang] == self._world.snapshot.cluster[rows].astype(np.int64) * 2
        return starts(np.bincount(gang[here], minlength=len(group))), rows[here]

    @cached_property
    def _flights(self) -> tuple[Vector, Rows]:
        """Where the machines in flight for each need begin; and those."""
        world, size = self._world, len(self._walk)
        if not world.has_in_flight:
            return np.zeros(size + 1, dtype=np.int64), NO_ROWS
        prints = {ref.fingerprint for ref in (*world.creating, *world.draining)}
        counts = np.zeros(size, dtype=np.int64)
        found = []
        for place in self._walk.named_by(prints).tolist():
            rows = np.concatenate(world.in_flight(self._walk.row(place).refs))
            counts[place] = len(rows)
            found.append(rows)
        return starts(counts), np.concatenate([NO_ROWS, *found])


def is_short(missing: Matrix) -> Mask:
    """Which needs still miss something."""
    return np.asarray((missing > 0).any(axis=1))
