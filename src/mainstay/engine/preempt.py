"""Phase 2: take from nobody first, then from the less important."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.cover import Coverage, acquirable_in_domain
from mainstay.engine.normalize import Row
from mainstay.engine.take import take
from mainstay.engine.world import Mask, World, sorted_by
from mainstay.model.ids import ClusterId
from mainstay.model.texts import Rows

DRAIN_ESTIMATE_S: Final = 30.0
PENALTY_FLOOR_DOLLARS: Final = 0.01
TERM_WEIGHT: Final = 0.1
"""Weight of drain time and of either penalty in a score; priority weighs 1."""

GRACES_S: Final = ((900_000, 10), (500_000, 30), (100_000, 120))
"""(gap above which, grace): the wider the gap, the less time a victim gets."""

LONGEST_GRACE_S: Final = 600


@dataclass(slots=True)
class Takings:
    """Machines taken from where they are, with the place of the need they are taken for."""

    victims: list[tuple[int, int]] = field(default_factory=list)
    """(row, place), in the order they were chosen."""

    excess: dict[int, int] = field(default_factory=dict)
    """Row to place: a reclaim like any other, but meant for somebody."""


def preempt(world: World, coverage: Coverage, heard: frozenset[ClusterId]) -> Takings:
    """For every need that is short, in walk order. Lowers what the coverage says is missing."""
    takings = Takings()
    if not world.any_configured:
        return takings
    taken = np.zeros(len(world.owner), dtype=np.bool_)
    heard_codes = np.array([name in heard for name in world.snapshot.clusters])
    for place, row in enumerate(coverage.rows):
        if not coverage.is_short(place) or coverage.parked[place]:
            continue
        if row.is_gang and coverage.choice[place].domain is None:
            continue
        _preempt_for(world, coverage, place, heard=heard_codes, taken=taken, takings=takings)
    return takings


def _preempt_for(
    world: World, coverage: Coverage, place: int, *, heard: Mask, taken: Mask, takings: Takings
) -> None:
    row, missing = coverage.rows[place], coverage.missing[place].copy()
    domain = coverage.choice[place].domain if row.is_gang else None
    candidates = _candidates(world, row, domain, taken)
    is_excess = (world.owner[candidates] < 0) & heard[world.snapshot.cluster[candidates]]
    set_aside = np.empty(0, dtype=np.intp)
    if domain is not None:
        set_aside = take(world, row, acquirable_in_domain(world, row, domain), missing)
    excess = take(world, row, _by_price(world, candidates[is_excess]), missing)
    rivals = _by_score(world, coverage, row, candidates[~is_excess])
    victims = take(world, row, rivals, missing)
    if domain is not None and (missing > 0).any():
        return
    world.owner[set_aside] = place
    taken[excess] = True
    taken[victims] = True
    takings.excess.update(dict.fromkeys(excess.tolist(), place))
    takings.victims += [(victim, place) for victim in victims.tolist()]
    coverage.missing[place][:] = missing


def _candidates(world: World, row: Row, domain: int | None, taken: Mask) -> Rows:
    """Configured machines that fit, in the domain if there is one, and are not taken yet."""
    classes = world.fits(row.need)
    if domain is not None:
        classes = classes & (world.domains(row.need).code == domain)
    rows = world.rows_of_classes(classes)
    return rows[~taken[rows]]


def _by_price(world: World, rows: Rows) -> Rows:
    return rows[sorted_by(world.snapshot.price_per_hour[rows], world.snapshot.rank[rows])]


def _by_score(world: World, coverage: Coverage, row: Row, rows: Rows) -> Rows:
    """Those of strictly lower priority, the best victim first."""
    priority = row.need.profile.priority
    standing = victim_priority(world, coverage, rows)
    lower = standing < priority
    rows, gap = rows[lower], priority - standing[lower]
    views = world.snapshot.assignments
    codes = world.snapshot.assignment[rows]
    interruption = np.maximum(PENALTY_FLOOR_DOLLARS, views.interruption_penalty_dollars[codes])
    reclamation = np.maximum(PENALTY_FLOOR_DOLLARS, views.reclamation_penalty_dollars[codes])
    # The two penalties are added first: so the sum is the same when they are swapped.
    penalties = TERM_WEIGHT / interruption + TERM_WEIGHT / reclamation
    score = gap.astype(np.float64) + TERM_WEIGHT / DRAIN_ESTIMATE_S + penalties
    return rows[sorted_by(-score, world.snapshot.rank[rows])]


def victim_priority(world: World, coverage: Coverage, rows: Rows) -> NDArray[np.int64]:
    """How important a machine is: as it was assigned, or as who claims it now, if that is more."""
    assigned = world.snapshot.assignments.priority[world.snapshot.assignment[rows]]
    claiming = coverage.priorities[world.owner[rows]]
    return np.maximum(assigned.astype(np.int64), claiming)


def grace_s(gap: int) -> int:
    """How long a victim's workloads have to leave."""
    return next((grace for above, grace in GRACES_S if gap > above), LONGEST_GRACE_S)
