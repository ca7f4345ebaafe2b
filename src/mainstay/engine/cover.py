"""Phase 1: claim machines for needs, one priority level after the other.

In each level first what serves a need already is credited, then what is missing is acquired.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

import numpy as np

from mainstay.engine import kernels
from mainstay.engine.gangs import NO_CHOICE, Choice, Supply, choose, home
from mainstay.engine.normalize import Row
from mainstay.engine.spread import strict_spread, take_spread
from mainstay.engine.take import adds_by_class, take
from mainstay.engine.world import NO_ROWS, Mask, Ordered, Vector, World
from mainstay.model.assignment import PRIORITY_MIN, NeedRef
from mainstay.model.state import State
from mainstay.model.texts import Rows

_CHUNK: Final = 2048
"""So many machines are looked at before asking whether they suffice."""

BOUND: Final = (State.CONFIGURED, State.CONFIGURING)
FREE: Final = (State.IDLE, State.SPECULATIVE)


@dataclass(slots=True)
class Coverage:
    """What phase 1 found, by place of the need in walk order."""

    rows: list[Row]
    parked: list[bool]
    missing: list[Vector]
    choice: list[Choice] = field(default_factory=list)
    acquired: list[tuple[int, Rows]] = field(default_factory=list)
    """(place of the need, machines) in the order of acquisition."""

    own_claimed: Counter[NeedRef] = field(default_factory=Counter)
    """How many bound machines of its own each gang has claimed."""

    priorities: Vector = field(init=False)
    """The priority of each need; last, for nobody, the lowest there is."""

    def __post_init__(self) -> None:
        listed = [row.need.profile.priority for row in self.rows]
        self.priorities = np.array([*listed, PRIORITY_MIN], dtype=np.int64)

    def is_short(self, place: int) -> bool:
        """Whether a need still misses something."""
        return bool((self.missing[place] > 0).any())


def cover(world: World, rows: list[Row], parked: list[bool]) -> Coverage:
    """Claim for every need, most important first. A machine is claimed by at most one."""
    world.keep_for_gangs(row.need.ref for row in rows if row.is_gang)
    missing = [world.vector(row.need.aggregate) for row in rows]
    coverage = Coverage(rows, parked, missing, [NO_CHOICE] * len(rows))
    for _, level in groupby(range(len(rows)), key=lambda at: rows[at].need.profile.priority):
        places = list(level)
        _credit_level(world, coverage, places)
        for place in sorted(places, key=lambda at: _precedence(rows[at])):
            if coverage.is_short(place):
                _acquire(world, coverage, place)
    for place, row in enumerate(rows):
        if row.is_gang and coverage.is_short(place):
            _protect(world, row, place)
    return coverage


def _precedence(row: Row) -> tuple[int, int]:
    """Within a priority; what is equal stays in walk order."""
    profile = row.need.profile
    return -profile.interruption_penalty_bucket, -profile.reclamation_penalty_bucket


def _credit_level(world: World, coverage: Coverage, places: list[int]) -> None:
    spoken_for = np.zeros(len(world.owner), dtype=np.bool_)
    for place in places:
        if not coverage.is_short(place):
            continue
        if coverage.rows[place].is_gang:
            _credit_gang(world, coverage, place, spoken_for)
        else:
            _credit_plain(world, coverage, place)
    _credit_surplus(world, coverage, places)


def _credit_surplus(world: World, coverage: Coverage, places: list[int]) -> None:
    """What gangs that miss nothing have left over counts for plain needs that still do."""
    gangs = [place for place in places if coverage.rows[place].is_gang]
    short = {coverage.rows[place].need.ref for place in gangs if coverage.is_short(place)}
    complete = {coverage.rows[place].need.ref for place in gangs} - short
    surplus = [ref for ref in complete if world.bound_to(ref) > coverage.own_claimed[ref]]
    if not surplus:
        return
    world.give_up(surplus)
    for place in places:
        if not coverage.rows[place].is_gang and coverage.is_short(place):
            _credit_plain(world, coverage, place)


def _credit_plain(world: World, coverage: Coverage, place: int) -> None:
    row, missing = coverage.rows[place], coverage.missing[place]
    for state in BOUND:
        _claim_from(world, row, world.open_bound(row.need.cluster, state), missing, place)
    for rows in _in_flight(world, row):
        world.owner[take(world, row, rows, missing)] = place


def _claim_from(world: World, row: Row, ordered: Ordered, missing: Vector, place: int) -> Rows:
    """Claim what fits, in order, until nothing is missing; by the compiled loop if it is warm."""
    if not len(ordered.rows) or not (missing > 0).any():
        return NO_ROWS
    claim = kernels.compiled()
    if claim is None:
        taken = _claim_in_chunks(world, row, ordered, missing, place)
    else:
        count = claim(
            ordered.rows, ordered.shapes, ordered.first_free, world.fits(row.need),
            adds_by_class(world, row), world.owner, missing, world.scratch, place,
        )  # fmt: skip
        taken = world.scratch[:count].copy()
    ordered.drop_claimed(len(taken), world.owner)
    return taken


def _claim_in_chunks(world: World, row: Row, ordered: Ordered, missing: Vector, place: int) -> Rows:
    fits = world.fits(row.need)
    taken = [NO_ROWS]
    for start in range(0, len(ordered.rows), _CHUNK):
        part = slice(start, start + _CHUNK)
        rows = ordered.rows[part][fits[ordered.shapes[part]]]
        taken.append(take(world, row, rows[world.owner[rows] < 0], missing))
        world.owner[taken[-1]] = place
        if not (missing > 0).any():
            break
    return np.concatenate(taken)


def _in_flight(world: World, row: Row) -> Iterable[Rows]:
    """What is being created for a need, then what is being drained for it."""
    if not world.has_in_flight:
        return
    fits = world.fits(row.need)
    for flying in world.in_flight(row.refs):
        rows = flying[fits[world.snapshot.shape[flying]]]
        yield rows[world.owner[rows] < 0]


def _bound(world: World, row: Row) -> Iterable[Rows]:
    """The bound machines that could count for a gang, in keep order."""
    fits = world.fits(row.need)
    for state in BOUND:
        bound = world.bound(row.need.cluster, state)
        rows = bound.rows[fits[bound.shapes]]
        rows = rows[world.owner[rows] < 0]
        yield rows[~world.is_kept_from(rows, row.need.ref)]


def _credit_gang(world: World, coverage: Coverage, place: int, spoken_for: Mask) -> None:
    row, missing = coverage.rows[place], coverage.missing[place]
    bound = np.concatenate([NO_ROWS, *_bound(world, row)])
    creditable = np.concatenate([bound, *_in_flight(world, row)])
    own = np.ones(len(creditable), dtype=np.bool_)  # what is in flight is so for this gang
    own[: len(bound)] = world.is_assigned_to(bound, row.need.ref)
    acquirable = NO_ROWS
    choice = home(world, row, creditable[own], missing)
    if choice is None:
        if not coverage.parked[place]:
            acquirable = _acquirable(world, row)
            acquirable = acquirable[~spoken_for[acquirable]]
        choice = choose(world, row, Supply(creditable, own, acquirable), missing)
    coverage.choice[place] = choice
    if choice.domain is None:
        return
    here = _in_domain(world, row, creditable, choice.domain)
    ordered = np.concatenate([creditable[here & own], creditable[here & ~own]])
    world.owner[take(world, row, ordered, missing)] = place
    claimed = world.owner[bound[own[: len(bound)]]] == place
    coverage.own_claimed[row.need.ref] += int(claimed.sum())
    if choice.satisfiable and coverage.is_short(place):
        near = acquirable[_in_domain(world, row, acquirable, choice.domain)]
        spoken_for[take(world, row, near, missing.copy())] = True


def _acquirable(world: World, row: Row) -> Rows:
    """What could be acquired for a need, in the order it would be."""
    pools: Rows = np.concatenate([world.pool(row.need, state).rows for state in FREE])
    free: Rows = pools[world.owner[pools] < 0]
    return free


def _in_domain(world: World, row: Row, rows: Rows, domain: int) -> Mask:
    found: Mask = world.domains(row.need).code[world.snapshot.shape[rows]] == domain
    return found


def acquirable_in_domain(world: World, row: Row, domain: int) -> Rows:
    """What a gang could acquire in its domain, in the order it would."""
    rows = _acquirable(world, row)
    return rows[_in_domain(world, row, rows, domain)]


def _acquire(world: World, coverage: Coverage, place: int) -> None:
    row, missing = coverage.rows[place], coverage.missing[place]
    spread = strict_spread(row)
    if row.is_gang:
        taken = _gang_acquisition(world, coverage, place)
    elif spread is not None:
        credited = np.flatnonzero(world.owner == place)
        taken = take_spread(world, row, spread, credited, missing)
    else:
        taken = _plain_acquisition(world, row, missing, place)
    if len(taken):
        world.owner[taken] = place
        coverage.acquired.append((place, taken))


def _plain_acquisition(world: World, row: Row, missing: Vector, place: int) -> Rows:
    """Idle before Speculative, each in order, until nothing is missing."""
    pools = (world.pool(row.need, state) for state in FREE)
    return np.concatenate([_claim_from(world, row, pool, missing, place) for pool in pools])


def _gang_acquisition(world: World, coverage: Coverage, place: int) -> Rows:
    """All that is missing, or nothing."""
    row, choice = coverage.rows[place], coverage.choice[place]
    if choice.domain is None or coverage.parked[place]:
        return NO_ROWS
    missing = coverage.missing[place].copy()
    taken = take(world, row, acquirable_in_domain(world, row, choice.domain), missing)
    if (missing > 0).any():
        return NO_ROWS
    coverage.missing[place][:] = 0
    return taken


def _protect(world: World, row: Row, place: int) -> None:
    """An incomplete gang keeps the machines that were given to it, wherever they are."""
    matches = world.matches(row.need)
    for state in BOUND:
        bound = world.bound(row.need.cluster, state)
        rows = bound.rows[matches[bound.shapes]]
        rows = rows[world.owner[rows] < 0]
        world.owner[rows[world.is_assigned_to(rows, row.need.ref)]] = place
