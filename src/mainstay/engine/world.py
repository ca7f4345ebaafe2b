"""The snapshot as the phases use it: orders, pools, what fits, and who has claimed what."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainstay.inventory.snapshot import Snapshot
from mainstay.model.assignment import NeedRef
from mainstay.model.batch import Codes
from mainstay.model.cost import effective_costs, upper_bound
from mainstay.model.ids import ClusterId
from mainstay.model.need import Need, Requirement
from mainstay.model.resources import Units
from mainstay.model.state import State
from mainstay.model.texts import Rows

Mask = NDArray[np.bool_]
Vector = NDArray[np.int64]

FitKey = tuple[tuple[Requirement, ...], tuple[tuple[str, int], ...]]

NOBODY: Final = -1
NO_ROWS: Final = np.empty(0, dtype=np.intp)


@dataclass(slots=True)
class Ordered:
    """Machines in an order, with their shape classes.

    Those that have been claimed may be dropped, since nobody asks for them again.
    """

    rows: Rows
    shapes: Codes
    claimed: int = 0
    first_free: Vector = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    """All before this place are claimed."""

    def drop_claimed(self, more: int, owner: NDArray[np.int32]) -> None:
        """So many more of them are claimed; once that is a quarter, keep only the others."""
        self.claimed += more
        if self.claimed * 4 > len(self.rows):
            free = owner[self.rows] < 0
            self.rows, self.shapes, self.claimed = self.rows[free], self.shapes[free], 0
            self.first_free[0] = 0


@dataclass(frozen=True, slots=True)
class Domains:
    """The domain of every shape class for some Same keys."""

    code: NDArray[np.int64]
    """Per class; -1 where an attribute is missing."""

    values: tuple[tuple[str, ...], ...]


class World:
    """One cycle's view. `owner` is the only thing that changes."""

    def __init__(self, snapshot: Snapshot, needs: Sequence[Need]) -> None:
        self.snapshot = snapshot
        self.owner: NDArray[np.int32] = np.full(len(snapshot.state), NOBODY, dtype=np.int32)
        self.scratch: Rows = np.empty(len(snapshot.state), dtype=np.intp)
        """Where the compiled loop lists what it claims."""
        named = {name for need in needs for name in (*need.aggregate, *need.min_unit)}
        known = snapshot.shapes.dimensions
        self.dimensions = (*known, *sorted(named - set(known)))
        self._column = {name: place for place, name in enumerate(self.dimensions)}
        self.alloc = np.zeros((len(snapshot.shapes.values), len(self.dimensions)), dtype=np.int64)
        self.alloc[:, : len(known)] = snapshot.shapes.allocatable
        self._cluster_code = {name: code for code, name in enumerate(snapshot.clusters)}
        self._fits: dict[object, Mask] = {}
        self._fit_keys: dict[int, FitKey] = {}
        self._shared_keys: dict[FitKey, FitKey] = {}
        self._asked: list[Need] = []
        self._pools: dict[object, Ordered] = {}
        self._whole_pools: dict[tuple[State, int], Rows] = {}
        self._whole_units: dict[object, NDArray[np.int64]] = {}
        self._domains: dict[tuple[str, ...], Domains] = {}
        self._bound: dict[tuple[ClusterId, State], Ordered] = {}
        self._open_bound: dict[tuple[ClusterId, State], Ordered] = {}
        self._gangs: dict[NeedRef, int] = {}
        self._gang_of_assignment = np.full(len(snapshot.assignments.values), NOBODY, dtype=np.int32)

    def vector(self, units: Units) -> Vector:
        """Amounts as a vector over the dimensions."""
        vector = np.zeros(len(self.dimensions), dtype=np.int64)
        for name, amount in units.items():
            vector[self._column[name]] = amount
        return vector

    def units(self, vector: Vector) -> dict[str, int]:
        """A vector as amounts, without zeros."""
        amounts = zip(self.dimensions, vector.tolist(), strict=True)
        return {name: amount for name, amount in sorted(amounts) if amount > 0}

    def matches(self, need: Need) -> Mask:
        """Which shape classes fulfil the requirements of a need."""
        key = need.profile.requirements
        if key not in self._fits:
            self._fits[key] = self.snapshot.shapes.matching(key)
        return self._fits[key]

    def fits(self, need: Need) -> Mask:
        """Which shape classes fulfil the requirements and cover the min unit."""
        key = self._fit_key(need)
        if key not in self._fits:
            covers = (self.alloc >= self.vector(need.min_unit)).all(axis=1)
            self._fits[key] = self.matches(need) & covers
        return self._fits[key]

    def _fit_key(self, need: Need) -> FitKey:
        """Needs with the same key fit the same classes; worked out once per need."""
        key = self._fit_keys.get(id(need))
        if key is None:
            key = (need.profile.requirements, tuple(sorted(need.min_unit.items())))
            key = self._fit_keys[id(need)] = self._shared_keys.setdefault(key, key)
            self._asked.append(need)  # keeps its id from being used again
        return key

    def whole_units(self, unit: Units) -> NDArray[np.int64]:
        """What a machine of each class adds when only whole units count."""
        key = tuple(sorted(unit.items()))
        if key not in self._whole_units:
            vector = self.vector(unit)
            asked = vector > 0
            counts = (self.alloc[:, asked] // vector[asked]).min(axis=1)
            self._whole_units[key] = np.ascontiguousarray(counts[:, None] * vector)
        return self._whole_units[key]

    def bound(self, cluster: ClusterId, state: State) -> Ordered:
        """The machines of a cluster in Configured or Configuring, in keep order."""
        key = (cluster, state)
        if key not in self._bound:
            code = self._cluster_code.get(cluster)
            group = -1 if code is None else code * 2 + (state == State.CONFIGURING)
            rows, groups = self._kept
            start, stop = np.searchsorted(groups, [group, group + 1])
            found = rows[start:stop]
            self._bound[key] = Ordered(found, self.snapshot.shape[found])
        return self._bound[key]

    def open_bound(self, cluster: ClusterId, state: State) -> Ordered:
        """The same without the machines that are a gang's own: they are credited to it alone."""
        key = (cluster, state)
        if key not in self._open_bound:
            bound = self.bound(cluster, state)
            is_open = self.gang_of(bound.rows) < 0
            everything = bool(is_open.all())
            self._open_bound[key] = (
                bound if everything else Ordered(bound.rows[is_open], bound.shapes[is_open])
            )
        return self._open_bound[key]

    def keep_for_gangs(self, gangs: Iterable[NeedRef]) -> None:
        """From now on a machine that is assigned to one of these gangs is its own."""
        for ref in gangs:
            number = self._gangs.setdefault(ref, len(self._gangs))
            self._gang_of_assignment[self._codes_of_ref.get(ref, [])] = number

    def give_up(self, gangs: Collection[NeedRef]) -> None:
        """What these gangs have not claimed is their own no longer."""
        for ref in gangs:
            self._gang_of_assignment[self._codes_of_ref.get(ref, [])] = NOBODY
            for state in (State.CONFIGURED, State.CONFIGURING):
                self._open_bound.pop((ref.cluster, state), None)

    def bound_to(self, ref: NeedRef) -> int:
        """How many bound machines are committed to a need."""
        return int(self._bound_by_assignment[self._codes_of_ref.get(ref, [])].sum())

    @cached_property
    def _bound_by_assignment(self) -> NDArray[np.int64]:
        codes = self.snapshot.assignment[self._kept[0]]
        return np.bincount(codes, minlength=len(self.snapshot.assignments.values))

    def gang_of(self, rows: Rows) -> NDArray[np.int32]:
        """The number of the gang whose own each machine is, or -1."""
        return self._gang_of_assignment[self.snapshot.assignment[rows]]

    def is_kept_from(self, rows: Rows, gang: NeedRef) -> Mask:
        """Which of the machines are another gang's own."""
        whose = self.gang_of(rows)
        kept: Mask = (whose >= 0) & (whose != self._gangs[gang])
        return kept

    @cached_property
    def _kept(self) -> tuple[Rows, NDArray[np.int64]]:
        """All bound machines by (cluster, state) and then in keep order, and that group of each."""
        snapshot = self.snapshot
        state = snapshot.state
        rows = np.flatnonzero((state == State.CONFIGURED) | (state == State.CONFIGURING))
        group = snapshot.cluster[rows].astype(np.int64) * 2 + (state[rows] == State.CONFIGURING)
        order = sorted_by(
            group,
            snapshot.price_per_hour[rows],
            -snapshot.assignments.reclamation_penalty_dollars[snapshot.assignment[rows]],
            snapshot.rank[rows],
        )
        return rows[order], group[order]

    def kept_rows(self) -> Rows:
        """Every bound machine, by (cluster, state) and then in keep order."""
        return self._kept[0]

    def pool(self, need: Need, state: State) -> Ordered:
        """The machines that fit a need: Idle by price, or Speculative by effective cost."""
        bucket = 0 if state == State.IDLE else need.profile.interruption_penalty_bucket
        key = (self._fit_key(need), state, bucket)
        found = self._pools.get(key)
        if found is None:
            rows = self._whole_pool(need, state, bucket)
            rows = rows[self.fits(need)[self.snapshot.shape[rows]]]
            found = self._pools[key] = Ordered(rows, self.snapshot.shape[rows])
        return found

    def _whole_pool(self, need: Need, state: State, bucket: int) -> Rows:
        """All machines of a state in order; sorted once per bucket."""
        key = (state, bucket)
        if key not in self._whole_pools:
            rows = np.flatnonzero(self.snapshot.state == state)
            order = sorted_by(self.pool_cost(need, rows, state), self.snapshot.rank[rows])
            self._whole_pools[key] = rows[order]
        return self._whole_pools[key]

    def pool_cost(self, need: Need, rows: Rows, state: State) -> NDArray[np.float64]:
        """What a pool is ordered by."""
        price: NDArray[np.float64] = self.snapshot.price_per_hour[rows]
        if state == State.IDLE:
            return price
        probability = self.snapshot.interruption_probability[rows]
        penalty = upper_bound(need.profile.interruption_penalty_bucket)
        return effective_costs(price, probability, penalty)

    @cached_property
    def has_in_flight(self) -> bool:
        """Whether any machine is being created or drained for a need."""
        return bool(self._creating or self._draining)

    def in_flight(self, refs: Sequence[NeedRef]) -> tuple[Rows, Rows]:
        """The Creating machines that are made for a need, the Draining ones drained for it."""
        return self._named(self._creating, refs), self._named(self._draining, refs)

    def _named(self, found: dict[NeedRef, list[int]], refs: Sequence[NeedRef]) -> Rows:
        rows = np.array([row for ref in refs for row in found.get(ref, ())], dtype=np.intp)
        return rows[np.argsort(self.snapshot.rank[rows])]

    @cached_property
    def _creating(self) -> dict[NeedRef, list[int]]:
        found: dict[NeedRef, list[int]] = {}
        for row in np.flatnonzero(self.snapshot.state == State.CREATING).tolist():
            ref = self._refs[self.snapshot.assignment.item(row)]
            if ref is not None:
                found.setdefault(ref, []).append(row)
        return found

    @cached_property
    def _draining(self) -> dict[NeedRef, list[int]]:
        found: dict[NeedRef, list[int]] = {}
        for row in np.flatnonzero(self.snapshot.state == State.DRAINING).tolist():
            ref = self.snapshot.assignment_of(row).drained_for
            if ref is not None:
                found.setdefault(ref, []).append(row)
        return found

    @cached_property
    def _refs(self) -> tuple[NeedRef | None, ...]:
        """The need of every assignment, by code; none unless cluster and fingerprint are known."""
        return tuple(
            None
            if held.cluster is None or held.fingerprint is None
            else NeedRef(held.cluster, held.fingerprint, held.group or "")
            for held in self.snapshot.assignments.values
        )

    @cached_property
    def _codes_of_ref(self) -> dict[NeedRef, list[int]]:
        codes: dict[NeedRef, list[int]] = {}
        for code, ref in enumerate(self._refs):
            if ref is not None:
                codes.setdefault(ref, []).append(code)
        return codes

    def is_assigned_to(self, rows: Rows, ref: NeedRef) -> Mask:
        """Which of the machines are committed to a need."""
        assigned = np.zeros(len(rows), dtype=np.bool_)
        for code in self._codes_of_ref.get(ref, ()):
            assigned |= self.snapshot.assignment[rows] == code
        return assigned

    def domains(self, need: Need) -> Domains:
        """The domain of every class for the Same keys of a gang."""
        keys = need.profile.same_keys
        if keys not in self._domains:
            self._domains[keys] = self._made_domains(keys)
        return self._domains[keys]

    def _made_domains(self, keys: tuple[str, ...]) -> Domains:
        columns = [self.snapshot.shapes.attribute(key) for key in keys]
        stacked = np.stack([codes for codes, _ in columns], axis=1)
        kinds, place = np.unique(stacked, axis=0, return_inverse=True)
        code = np.full(len(kinds), -1, dtype=np.int64)
        values: list[tuple[str, ...]] = []
        for number, codes in enumerate(kinds.tolist()):
            found = [column[1][at] for column, at in zip(columns, codes, strict=True)]
            domain = tuple(value for value in found if value is not None)
            if len(domain) == len(keys):
                code[number] = len(values)
                values.append(domain)
        return Domains(code[place.reshape(-1)], tuple(values))

    @cached_property
    def any_configured(self) -> bool:
        """Whether there is any machine that could be drained."""
        return bool((self.snapshot.state == State.CONFIGURED).any())

    def rows_of_classes(self, classes: Mask) -> Rows:
        """The Configured machines of some classes."""
        rows, start = self._configured_by_class
        chosen = np.flatnonzero(classes)
        counts = start[chosen + 1] - start[chosen]
        ends = np.cumsum(counts)
        inside = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - counts, counts)
        found: Rows = rows[np.repeat(start[chosen], counts) + inside]
        return found

    @cached_property
    def _configured_by_class(self) -> tuple[Rows, NDArray[np.int64]]:
        rows = np.flatnonzero(self.snapshot.state == State.CONFIGURED)
        classes = self.snapshot.shape[rows]
        order = np.argsort(classes, kind="stable")
        start = np.searchsorted(classes[order], np.arange(len(self.snapshot.shapes.values) + 1))
        return rows[order], start


def sorted_by(*keys: NDArray[np.generic]) -> Rows:
    """Positions in order of the first key, then the next; packed into one word where they fit."""
    bits, packed = 0, np.zeros(len(keys[0]), dtype=np.uint64)
    for key in keys:
        place = _places(key)
        width = int(place.max(initial=0)).bit_length()
        bits += width
        if bits > 64:
            return np.lexsort(keys[::-1])
        packed = (packed << np.uint64(width)) | place
    return np.argsort(packed, kind="stable")


def _places(key: NDArray[np.generic]) -> NDArray[np.uint64]:
    """Numbers in the same order as the key: itself if it is a small whole number, else ranks."""
    if np.issubdtype(key.dtype, np.integer) and int(key.min(initial=0)) >= 0:
        return key.astype(np.uint64)
    ranks: NDArray[np.uint64] = np.unique(key, return_inverse=True)[1].astype(np.uint64)
    return ranks
