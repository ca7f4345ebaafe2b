"""The snapshot as the phases use it: orders, pools, what fits, and who has claimed what."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.asked import Asked
from mainstay.engine.barred import NOTHING_BARRED, Barred, barred_rows
from mainstay.engine.classes import Classes
from mainstay.engine.domains import domain_sums
from mainstay.engine.orders import Kept, kept_of
from mainstay.engine.rows import Mask, Matrix, Row, Vector, Walk
from mainstay.engine.sorting import sorted_by
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.assignment import Assignment, NeedRef
from mainstay.model.batch import Codes
from mainstay.model.cost import effective_costs, upper_bound
from mainstay.model.ids import ClusterId
from mainstay.model.state import State
from mainstay.model.texts import Rows

Codes32 = NDArray[np.int32]
Tray = tuple[State, int]
"""A state, and the penalty bucket that its machines are in order for."""

NOBODY: Final = -1
NO_ROWS: Final = np.empty(0, dtype=np.intp)


@dataclass(frozen=True, slots=True)
class Ordered:
    """Machines in an order, with their shape classes."""

    rows: Rows
    shapes: Codes


class Laid(NamedTuple):
    """Machines by lanes (mainstay.engine.lanes), and what they were laid out by."""

    rows: Rows
    signature: Codes32
    gang_of_assignment: Codes32

    start: Vector
    by_lane: Rows
    shapes: Codes
    places: Vector
    gang: Codes32

    def holds(self, rows: Rows, signature: Codes32, gang_of_assignment: Codes32) -> bool:
        """Whether the same would come of it again."""
        return (
            self.rows is rows
            and np.array_equal(self.signature, signature)
            and np.array_equal(self.gang_of_assignment, gang_of_assignment)
        )


@dataclass(slots=True)
class Shelf:
    """The machines of a pool that have one value of an attribute, in order."""

    lying: Rows
    rows: list[int]
    """The same, for who goes from one to the next."""

    costs: list[float]
    """What the pool is ordered by."""

    first: int = 0
    """Before this place all are claimed."""


class World(Classes):
    """One cycle's view. `owner` is the only thing that changes, and who keeps what for a gang."""

    def __init__(
        self,
        snapshot: Snapshot,
        asked: Asked,
        *,
        kept: Kept | None = None,
        walk: Walk | None = None,
        barred: Barred = NOTHING_BARRED,
        last: "World | None" = None,
    ) -> None:
        """`kept`, `walk` and `last` are of earlier cycles, to be used again as far as they hold."""
        super().__init__(snapshot.shapes, asked, walk, last)
        self.snapshot = snapshot
        self.barred = barred_rows(snapshot, barred)
        self._barred = barred
        self.kept = kept_of(snapshot, kept)
        self.owner: NDArray[np.int32] = np.full(len(snapshot.state), NOBODY, dtype=np.int32)
        self._cluster_code = {name: code for code, name in enumerate(snapshot.clusters)}
        self._pools: dict[tuple[int, int, State, int], Ordered] = {}
        self._pools_by_domain: dict[tuple[int, int, State, int], tuple[Rows, Vector]] = {}
        self._shelves: dict[tuple[int, int, State, int, str], dict[str, Shelf]] = {}
        self._whole_pools: dict[Tray, Rows] = {}
        self._domain_totals: dict[tuple[int, int], tuple[Matrix, Vector]] = {}
        self.laid: dict[Tray, Laid] = {}
        self._gangs: dict[NeedRef, int] = {}
        self.gang_of_assignment = np.full(len(snapshot.assignments.values), NOBODY, dtype=np.int32)

    def is_of(self, snapshot: Snapshot, asked: Asked, barred: Barred) -> bool:
        """Whether a decision on these may begin here."""
        return self.snapshot is snapshot and self._barred == barred and self.knows(asked)

    def begin(self, asked: Asked) -> None:
        """Nobody has claimed anything, and this is asked; its codes go on from the last ones."""
        self._ask(asked)
        self.start_over()

    def start_over(self) -> None:
        """Nobody has claimed anything, and nothing is kept for a gang yet."""
        self.owner.fill(NOBODY)
        self._gangs.clear()
        self.gang_of_assignment.fill(NOBODY)
        for shelves in self._shelves.values():
            for shelf in shelves.values():
                shelf.first = 0

    def cluster_code(self, cluster: ClusterId) -> int:
        """The snapshot's code of a cluster; -1 for one that has no machine."""
        return self._cluster_code.get(cluster, -1)

    @cached_property
    def is_free_shape(self) -> Mask:
        """Which classes have an Idle or a Speculative machine."""
        state = self.snapshot.state
        free = (state == State.IDLE) | (state == State.SPECULATIVE)
        return np.bincount(self.snapshot.shape[free], minlength=len(self.alloc)) > 0

    @cached_property
    def machines_by_shape(self) -> Vector:
        """How many machines of each class there are, Failed ones left out."""
        failed = self.snapshot.shape[self.snapshot.state == State.FAILED]
        gone = np.bincount(failed, minlength=len(self.alloc))
        counts: Vector = self.snapshot.machines_of_shape - gone
        return counts

    def bound(self, cluster: ClusterId, state: State) -> Ordered:
        """The machines of a cluster in Configured or Configuring, in keep order."""
        group = self.cluster_code(cluster) * 2 + (state == State.CONFIGURING)
        start, stop = np.searchsorted(self.kept.group, [group, group + 1])
        rows = self.kept.rows[start:stop]
        return Ordered(rows, self.snapshot.shape[rows])

    def keep_for_gangs(self, gangs: Iterable[NeedRef]) -> None:
        """From now on a machine that is assigned to one of these gangs is its own."""
        for ref in gangs:
            self._gangs.setdefault(ref, len(self._gangs))
        prints = {ref.fingerprint for ref in self._gangs}
        for code, held in enumerate(self.snapshot.assignments.values):
            if held.fingerprint in prints:
                named = _ref_of(held)
                if named is not None:
                    self.gang_of_assignment[code] = self._gangs.get(named, NOBODY)

    def gang_number(self, gang: NeedRef) -> int:
        """The number of a gang that machines are kept for."""
        return self._gangs[gang]

    @property
    def gang_count(self) -> int:
        """How many gangs machines are kept for."""
        return len(self._gangs)

    def give_up(self, gangs: Collection[NeedRef]) -> None:
        """What these gangs have not claimed is their own no longer."""
        numbers = [self._gangs[ref] for ref in gangs]
        self.gang_of_assignment[np.isin(self.gang_of_assignment, numbers)] = NOBODY

    def gang_of(self, rows: Rows) -> NDArray[np.int32]:
        """The number of the gang whose own each machine is, or -1."""
        return self.gang_of_assignment[self.snapshot.assignment[rows]]

    def is_kept_from(self, rows: Rows, gang: NeedRef) -> Mask:
        """Which of the machines are another gang's own."""
        whose = self.gang_of(rows)
        kept: Mask = (whose >= 0) & (whose != self._gangs[gang])
        return kept

    def pool(self, row: Row, state: State) -> Ordered:
        """The machines that fit a need: Idle by price, or Speculative by effective cost."""
        bucket = row.need.profile.interruption_penalty_bucket
        key = (row.requirement_set, row.min_unit, state, bucket)
        if key not in self._pools:
            rows = self.whole_pool(state, bucket)
            rows = rows[self.fits(row)[self.snapshot.shape[rows]]]
            self._pools[key] = Ordered(rows, self.snapshot.shape[rows])
        return self._pools[key]

    def pool_in(self, row: Row, state: State, domain: int) -> Rows:
        """Those of the pool of a gang that lie in a domain."""
        bucket = row.need.profile.interruption_penalty_bucket
        key = (row.requirement_set, row.min_unit, state, bucket)
        if key not in self._pools_by_domain:
            rows = self.whole_pool(state, bucket)
            rows = rows[self.fits(row)[self.snapshot.shape[rows]]]
            domains = self.domains(row.need.profile.same_keys)
            codes = domains.code[self.snapshot.shape[rows]]
            order = sorted_by(codes)
            start = np.searchsorted(codes[order], np.arange(len(domains.values) + 1))
            self._pools_by_domain[key] = rows[order], start
        rows, start = self._pools_by_domain[key]
        return rows[start[domain] : start[domain + 1]]

    def shelves(self, row: Row, state: State, key: str) -> dict[str, Shelf]:
        """The pool of a need by the values of an attribute; machines without it are left out."""
        bucket = row.need.profile.interruption_penalty_bucket
        kept = (row.requirement_set, row.min_unit, state, bucket, key)
        if kept not in self._shelves:
            pool = self.pool(row, state)
            codes, values = self.snapshot.shapes.attribute(key)
            value_of = codes[pool.shapes]
            costs = self.pool_cost(pool.rows, state, bucket)
            order = np.argsort(value_of, kind="stable")
            breaks = np.flatnonzero(np.diff(value_of[order])) + 1
            found: dict[str, Shelf] = {}
            for part in np.split(order, breaks) if len(order) else []:
                value = values[int(value_of[part[0]])]
                if value is not None:
                    lying = pool.rows[part]
                    found[value] = Shelf(lying, lying.tolist(), costs[part].tolist())
            self._shelves[kept] = found
        return self._shelves[kept]

    def whole_pool(self, state: State, bucket: int) -> Rows:
        """All machines of a state that are not barred, in order; sorted once per bucket."""
        key = (state, 0 if state == State.IDLE else bucket)
        if key not in self._whole_pools:
            rows = self.snapshot.rows_in(state)
            rows = rows if self.barred is None else rows[~self.barred[rows]]
            self._whole_pools[key] = rows[sorted_by(self.pool_cost(rows, state, bucket))]
        return self._whole_pools[key]

    def pool_cost(self, rows: Rows, state: State, bucket: int) -> NDArray[np.float64]:
        """What a pool is ordered by."""
        price: NDArray[np.float64] = self.snapshot.price_per_hour[rows]
        if state == State.IDLE:
            return price
        probability = self.snapshot.interruption_probability[rows]
        return effective_costs(price, probability, upper_bound(bucket))

    @cached_property
    def has_in_flight(self) -> bool:
        """Whether any machine is being created or drained for a need."""
        return bool(self.creating or self.draining)

    def in_flight(self, refs: Sequence[NeedRef]) -> tuple[Rows, Rows]:
        """The Creating machines that are made for a need, the Draining ones drained for it."""
        return self._named(self.creating, refs), self._named(self.draining, refs)

    def _named(self, found: dict[NeedRef, list[int]], refs: Sequence[NeedRef]) -> Rows:
        rows = np.array([row for ref in refs for row in found.get(ref, ())], dtype=np.intp)
        return rows[np.argsort(self.snapshot.rank[rows])]

    @cached_property
    def creating(self) -> dict[NeedRef, list[int]]:
        """The Creating machines by the need they are made for."""
        found: dict[NeedRef, list[int]] = {}
        for row in np.flatnonzero(self.snapshot.state == State.CREATING).tolist():
            ref = _ref_of(self.snapshot.assignment_of(row))
            if ref is not None:
                found.setdefault(ref, []).append(row)
        return found

    @cached_property
    def draining(self) -> dict[NeedRef, list[int]]:
        """The Draining machines by the need they are drained for."""
        found: dict[NeedRef, list[int]] = {}
        for row in np.flatnonzero(self.snapshot.state == State.DRAINING).tolist():
            ref = self.snapshot.assignment_of(row).drained_for
            if ref is not None:
                found.setdefault(ref, []).append(row)
        return found

    def is_own(self, rows: Rows, gang: NeedRef) -> Mask:
        """Which of the machines are committed to a gang that has not given them up."""
        own: Mask = self.gang_of(rows) == self._gangs[gang]
        return own

    def is_anything_assigned_to(self, ref: NeedRef) -> bool:
        """Whether any machine is committed to a need."""
        return ref in self._codes_of_ref

    def is_assigned_to(self, rows: Rows, ref: NeedRef) -> Mask:
        """Which of the machines are committed to a need."""
        return np.isin(self.snapshot.assignment[rows], self._codes_of_ref.get(ref, []))

    def assigned_to(self, ref: NeedRef) -> Rows:
        """The bound machines that are committed to a need."""
        found: Rows = self.kept.rows[self.is_assigned_to(self.kept.rows, ref)]
        return found

    @cached_property
    def _codes_of_ref(self) -> dict[NeedRef, list[int]]:
        codes: dict[NeedRef, list[int]] = {}
        for code, held in enumerate(self.snapshot.assignments.values):
            ref = _ref_of(held)
            if ref is not None:
                codes.setdefault(ref, []).append(code)
        return codes

    def domain_totals(self, row: Row) -> tuple[Matrix, Vector]:
        """What all machines that fit a gang provide in each domain, and how many they are."""
        keys = row.need.profile.same_keys
        key = (row.requirement_set, row.min_unit)
        if key not in self._domain_totals:
            classes = np.where(self.fits(row), self.machines_by_shape, 0)
            self._domain_totals[key] = domain_sums(self.domains(keys), self.alloc, classes)
        return self._domain_totals[key]

    @cached_property
    def free(self) -> Rows:
        """The Idle and the Speculative machines."""
        state = self.snapshot.state
        return np.flatnonzero((state == State.IDLE) | (state == State.SPECULATIVE))

    @cached_property
    def countable(self) -> Rows:
        """The machines that can be credited: bound or in flight."""
        wanted = np.zeros(256, dtype=np.bool_)
        wanted[[State.CONFIGURED, State.CONFIGURING, State.CREATING, State.DRAINING]] = True
        return np.flatnonzero(wanted[self.snapshot.state])

    @cached_property
    def any_configured(self) -> bool:
        """Whether there is any machine that could be drained."""
        return bool((self.snapshot.state == State.CONFIGURED).any())

    def rows_of_classes(self, classes: Mask) -> Rows:
        """The Configured machines of some classes."""
        rows, start = self.configured_by_class
        chosen = np.flatnonzero(classes)
        counts = start[chosen + 1] - start[chosen]
        ends = np.cumsum(counts)
        inside = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - counts, counts)
        found: Rows = rows[np.repeat(start[chosen], counts) + inside]
        return found

    @cached_property
    def configured_by_class(self) -> tuple[Rows, NDArray[np.int64]]:
        """All Configured machines class after class; where each class begins."""
        rows = np.flatnonzero(self.snapshot.state == State.CONFIGURED)
        classes = self.snapshot.shape[rows]
        order = sorted_by(classes)
        start = np.searchsorted(classes[order], np.arange(len(self.snapshot.shapes.values) + 1))
        return rows[order], start


def _ref_of(held: Assignment) -> NeedRef | None:
    """The need of an assignment; none unless cluster and fingerprint are known."""
    if held.cluster is None or held.fingerprint is None:
        return None
    return NeedRef(held.cluster, held.fingerprint, held.group or "")
