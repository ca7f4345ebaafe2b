"""Phase 2: take from nobody first, then from the less important."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.allowance import Budget
from mainstay.engine.cover import Coverage, acquirable_in_domain
from mainstay.engine.gangs import domains_of
from mainstay.engine.lanes import is_short
from mainstay.engine.rows import Mask, Row, Vector
from mainstay.engine.sorting import sorted_by
from mainstay.engine.take import take
from mainstay.engine.world import NO_ROWS, NOBODY, World
from mainstay.model.assignment import PRIORITY_MAX, PRIORITY_MIN
from mainstay.model.ids import ClusterId
from mainstay.model.texts import Rows

DRAIN_ESTIMATE_S: Final = 30.0
PENALTY_FLOOR_DOLLARS: Final = 0.01
TERM_WEIGHT: Final = 0.1
"""Weight of drain time and of either penalty in a score; priority weighs 1."""

GRACES_S: Final = ((900_000, 10), (500_000, 30), (100_000, 120))
"""(gap above which, grace): the wider the gap, the less time a victim gets."""

LONGEST_GRACE_S: Final = 600

LISTS_MAX: Final = 256
"""So many sorted lists of candidates are kept for needs that ask the same."""


class Taken:
    """Machines in the order they were chosen, each with the place of the need it is taken for."""

    def __init__(self) -> None:
        self._parts: list[Rows] = [NO_ROWS]
        self._takers: list[int] = [NOBODY]

    def add(self, rows: Rows, place: int) -> None:
        """Some more, all for one need."""
        if len(rows):
            self._parts.append(rows)
            self._takers.append(place)

    @property
    def rows(self) -> Rows:
        """The machines."""
        return np.concatenate(self._parts)

    @property
    def places(self) -> Rows:
        """For each of them."""
        return np.repeat(np.array(self._takers, dtype=np.intp), [*map(len, self._parts)])


@dataclass(frozen=True, slots=True)
class Takings:
    """Machines taken from where they are."""

    victims: Taken = field(default_factory=Taken)
    excess: Taken = field(default_factory=Taken)
    """Reclaims like any other, but meant for somebody."""


def preempt(world: World, coverage: Coverage, heard: frozenset[ClusterId]) -> Takings:
    """For every need that is short, in walk order. Lowers what the coverage says is missing."""
    takings = Takings()
    short = np.flatnonzero(is_short(coverage.missing) & ~coverage.parked)
    if not world.any_configured or not len(short):
        return takings
    stock = _Stock(world, coverage, heard)
    for place in short.tolist():
        if coverage.walk.is_gang[place] and coverage.choice_of(place).domain is None:
            continue
        _preempt_for(world, coverage, coverage.walk.row(place), stock, takings)
    return takings


def _preempt_for(
    world: World, coverage: Coverage, row: Row, stock: "_Stock", takings: Takings
) -> None:
    missing = coverage.missing[row.place].copy()
    budget = coverage.allowance.budget(row.place)
    domain = coverage.choice_of(row.place).domain if row.is_gang else None
    if (budget.is_free or domain is None) and not stock.has_any(row, domain):
        return
    set_aside = NO_ROWS
    if domain is not None:
        set_aside = take(world, row, acquirable_in_domain(world, row, domain), missing, budget)
    excess = take(world, row, stock.excess(row, domain), missing, budget)
    victims: Rows = np.concatenate(
        [NO_ROWS, *_victims(world, row, stock.victims(row, domain), missing, budget)]
    )
    if domain is not None and (missing > 0).any():
        return
    budget.commit()
    world.owner[set_aside] = row.place
    stock.taken[excess] = True
    stock.taken[victims] = True
    takings.excess.add(excess, row.place)
    takings.victims.add(victims, row.place)
    coverage.missing[row.place] = missing


def _victims(
    world: World, row: Row, parts: Iterable[Rows], missing: Vector, budget: Budget
) -> Iterator[Rows]:
    for rows in parts:
        yield take(world, row, rows, missing, budget)
        if not (missing > 0).any():
            return


@dataclass(frozen=True, slots=True)
class _Herds:
    """Machines that may be victims, by what a score looks at; within a herd by id."""

    rows: Rows
    start: NDArray[np.intp]
    standing: NDArray[np.int64]
    penalties: NDArray[np.float64]


class _Stock:
    """The Configured machines as phase 2 sees them: excess, and what stands in whose service."""

    def __init__(self, world: World, coverage: Coverage, heard: frozenset[ClusterId]) -> None:
        self._world = world
        self.taken: Mask = np.zeros(len(world.owner), dtype=np.bool_)
        rows, start = world.configured_by_class
        is_heard = np.array([name in heard for name in world.snapshot.clusters])
        excess = (world.owner[rows] < 0) & is_heard[world.snapshot.cluster[rows]]
        self._is_excess: Mask = np.zeros(len(world.owner), dtype=np.bool_)
        self._is_excess[rows] = excess
        self._standing = np.zeros(len(world.owner), dtype=np.int64)
        self._standing[rows] = victim_priority(world, coverage, rows)
        held = np.flatnonzero(np.diff(start))
        weakest = np.where(excess, PRIORITY_MIN - 1, self._standing[rows])
        self._weakest = np.full(len(world.alloc), PRIORITY_MAX + 1, dtype=np.int64)
        self._weakest[held] = np.minimum.reduceat(weakest, start[held])
        self._listed: dict[tuple[object, ...], Rows] = {}
        self._herds: dict[tuple[object, ...], _Herds] = {}

    def has_any(self, row: Row, domain: int | None) -> bool:
        """Whether there was anything to take when the phase began."""
        weakest = self._weakest[self._classes(row, domain)].min(initial=PRIORITY_MAX + 1)
        return bool(weakest < row.need.profile.priority)

    def excess(self, row: Row, domain: int | None) -> Rows:
        """What nobody claims, the cheapest first."""
        key = (row.requirement_set, row.min_unit, row.need.profile.same_keys, domain)
        if key not in self._listed:
            rows = self._candidates(row, domain)
            self._keep(key, _by_price(self._world, rows[self._is_excess[rows]]))
        rows = self._listed[key]
        return rows[~self.taken[rows]]

    def victims(self, row: Row, domain: int | None) -> Iterator[Rows]:
        """What serves somebody of strictly lower priority, part by part, the best first.

        Machines of one standing and the same penalties are scored once.
        """
        key = (row.requirement_set, row.min_unit, row.need.profile.same_keys, domain)
        if key not in self._herds:
            if len(self._herds) >= LISTS_MAX:
                self._herds.clear()
            rows = self._candidates(row, domain)
            self._herds[key] = self._herds_of(rows[~self._is_excess[rows]])
        herds = self._herds[key]
        priority = row.need.profile.priority
        lesser = np.flatnonzero(herds.standing < priority)
        scores = score(priority - herds.standing[lesser], herds.penalties[lesser])
        order = np.argsort(-scores, kind="stable")
        breaks = np.flatnonzero(np.diff(scores[order])) + 1
        for alike in np.split(lesser[order], breaks) if len(order) else []:
            parts = [herds.rows[herds.start[herd] : herds.start[herd + 1]] for herd in alike]
            rows = parts[0]
            if len(parts) > 1:
                rows = np.concatenate(parts)
                rows = rows[np.argsort(self._world.snapshot.rank[rows])]
            yield rows[~self.taken[rows]]

    def _herds_of(self, rows: Rows) -> "_Herds":
        snapshot = self._world.snapshot
        penalties, of_assignment = np.unique(_penalties(self._world), return_inverse=True)
        standings, standing = np.unique(self._standing[rows], return_inverse=True)
        packed = standing * len(penalties) + of_assignment[snapshot.assignment[rows]]
        herds, herd = np.unique(packed, return_inverse=True)
        order = sorted_by(herd, snapshot.rank[rows])
        start = np.searchsorted(herd[order], np.arange(len(herds) + 1))
        which = np.divmod(herds, len(penalties))
        return _Herds(rows[order], start, standings[which[0]], penalties[which[1]])

    def _classes(self, row: Row, domain: int | None) -> Mask:
        classes = self._world.fits(row)
        if domain is None:
            return classes
        here: Mask = classes & (domains_of(self._world, row).code == domain)
        return here

    def _candidates(self, row: Row, domain: int | None) -> Rows:
        return self._world.rows_of_classes(self._classes(row, domain))

    def _keep(self, key: tuple[object, ...], rows: Rows) -> None:
        if len(self._listed) >= LISTS_MAX:
            self._listed.clear()
        self._listed[key] = rows


def _by_price(world: World, rows: Rows) -> Rows:
    return rows[sorted_by(world.snapshot.price_per_hour[rows], world.snapshot.rank[rows])]


def _penalties(world: World) -> NDArray[np.float64]:
    """What the penalties of each assignment add to a score."""
    views = world.snapshot.assignments
    interruption = np.maximum(PENALTY_FLOOR_DOLLARS, views.interruption_penalty_dollars)
    reclamation = np.maximum(PENALTY_FLOOR_DOLLARS, views.reclamation_penalty_dollars)
    # The two penalties are added first: so the sum is the same when they are swapped.
    return TERM_WEIGHT / interruption + TERM_WEIGHT / reclamation


def score(gap: NDArray[np.int64], penalties: NDArray[np.float64]) -> NDArray[np.float64]:
    """How good a victim is: the larger the better."""
    return gap.astype(np.float64) + TERM_WEIGHT / DRAIN_ESTIMATE_S + penalties


def victim_priority(world: World, coverage: Coverage, rows: Rows) -> NDArray[np.int64]:
    """How important a machine is: as it was assigned, or as who claims it now, if that is more."""
    assigned = world.snapshot.assignments.priority[world.snapshot.assignment[rows]]
    claiming = coverage.priorities[world.owner[rows]]
    return np.maximum(assigned.astype(np.int64), claiming)


def graces_s(world: World, coverage: Coverage, victims: Rows, places: Rows) -> Rows:
    """How long the workloads of each victim have to leave for the need it is taken for."""
    gaps = coverage.priorities[places] - victim_priority(world, coverage, victims)
    return np.array([grace_s(gap) for gap in gaps.tolist()], dtype=np.intp)


def grace_s(gap: int) -> int:
    """How long a victim's workloads have to leave."""
    return next((grace for above, grace in GRACES_S if gap > above), LONGEST_GRACE_S)
