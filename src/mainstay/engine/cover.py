"""Phase 1: claim machines for needs, one priority level after the other.

In each level first what serves a need already is credited, then what is missing is acquired. Plain
needs and gangs that are where they belong are run by the compiled loops where those are warm; the
numpy form here does everything, and the same.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from mainstay.engine.allowance import Allowance
from mainstay.engine.gangs import (
    NO_CHOICE,
    Choice,
    Hope,
    Supply,
    ceiling,
    choose,
    domains_of,
    home,
    hope_of,
)
from mainstay.engine.kinds import Kinds
from mainstay.engine.lanes import Runner, is_short, runner_of
from mainstay.engine.plan import Ceiling
from mainstay.engine.quota import NO_QUOTA, Quota
from mainstay.engine.rows import Mask, Matrix, Row, Vector, Walk
from mainstay.engine.spread import strict_spread, take_spread
from mainstay.engine.take import take
from mainstay.engine.world import NO_ROWS, World
from mainstay.model.assignment import PRIORITY_MIN
from mainstay.model.state import State
from mainstay.model.texts import Rows

BOUND: Final = (State.CONFIGURED, State.CONFIGURING)
FREE: Final = (State.IDLE, State.SPECULATIVE)


class Settled(NamedTuple):
    """What needs are credited before anybody claims."""

    rows: Rows
    places: Rows
    """Of the need of each."""


@dataclass(slots=True)
class Coverage:
    """What phase 1 found, by place of the need in walk order."""

    walk: Walk
    parked: Mask
    allowance: Allowance
    missing: Matrix
    choice: dict[int, Choice] = field(default_factory=dict)
    """The domain of each gang that was given one."""

    hopeless: dict[int, Ceiling | None] = field(default_factory=dict)
    """The gangs that no domain could ever hold, with the most that one could give."""

    acquired: list[tuple[Rows, Rows]] = field(default_factory=list)
    """(machines, place of the need of each) in the order of acquisition."""

    spoken: dict[int, Rows] = field(default_factory=dict)
    """What each gang hoped to acquire when it was given its domain."""

    protected: list[tuple[Rows, Rows]] = field(default_factory=list)
    """(machines, place of the need of each) that do not count for it and stay all the same."""

    kinds: Kinds | None = None
    """The tables of the compiled loops, for the next cycle."""

    priorities: Vector = field(init=False)
    """The priority of each need; last, for nobody, the lowest there is."""

    def __post_init__(self) -> None:
        self.priorities = np.append(self.walk.priority, PRIORITY_MIN)

    def is_short(self, place: int) -> bool:
        """Whether a need still misses something."""
        return bool((self.missing[place] > 0).any())

    def choice_of(self, place: int) -> Choice:
        """The domain a gang was given, if any."""
        return self.choice.get(place, NO_CHOICE)


def cover(
    world: World,
    walk: Walk,
    parked: Mask,
    quota: Quota = NO_QUOTA,
    last: Kinds | None = None,
    *,
    settled: Settled | None = None,
) -> Coverage:
    """Claim for every need, most important first. A machine is claimed by at most one."""
    coverage, runner = begun(world, walk, parked, quota, last, settled=settled)
    for begin, stop in levels(walk):
        credit_level(world, coverage, runner, begin, stop)
        acquire_level(world, coverage, runner, begin, stop)
    protect(world, coverage)
    return coverage


def begun(
    world: World,
    walk: Walk,
    parked: Mask,
    quota: Quota = NO_QUOTA,
    last: Kinds | None = None,
    *,
    settled: Settled | None = None,
) -> tuple[Coverage, Runner | None]:
    """Phase 1 before anybody has claimed, and the compiled loops for it where those are warm."""
    world.keep_for_gangs(walk.gang_refs.values())
    allowance = Allowance(world, quota, walk)
    runner = runner_of(world, walk, allowance, last)
    missing = walk.aggregate.copy() if runner is None else runner.missing
    coverage = Coverage(walk, parked.copy(), allowance, missing)
    coverage.kinds = None if runner is None else runner.kinds
    if settled is not None:
        world.owner[settled.rows] = settled.places
        missing -= credited(world, walk, settled.rows, settled.places)
        np.maximum(0, missing, out=missing)
    return coverage, runner


def credited(world: World, walk: Walk, rows: Rows, places: Rows) -> Matrix:
    """What machines that fit the needs at these places add to each need."""
    had: Matrix = np.zeros_like(walk.aggregate)
    shapes = world.snapshot.shape[rows]
    units = np.where(walk.folded, walk.min_unit, -1)[places]
    for unit in np.unique(units).tolist():
        adds = world.alloc if unit < 0 else world.whole_units(unit)
        alike = units == unit
        np.add.at(had, places[alike], adds[shapes[alike]])
    return had


def levels(walk: Walk) -> Iterator[tuple[int, int]]:
    """Where each priority begins and ends."""
    bounds = [0, *(np.flatnonzero(np.diff(walk.priority)) + 1).tolist(), len(walk)]
    return ((begin, stop) for begin, stop in pairwise(bounds) if begin < stop)


def credit_level(
    world: World, coverage: Coverage, runner: Runner | None, begin: int, stop: int
) -> None:
    """What serves already, need by need."""
    credit_part(world, coverage, runner, begin, stop)
    release_surplus(world, coverage, runner, begin, stop)


def credit_part(
    world: World,
    coverage: Coverage,
    runner: Runner | None,
    begin: int,
    stop: int,
    *,
    hope: Hope | None = None,
) -> None:
    """The same for some needs of a level, and what gangs have left over stays theirs.

    The compiled loops leave gangs that are not at home to numpy.
    """
    place = begin if runner is None else runner.credit(begin, stop)
    while place < stop:
        if coverage.walk.is_gang[place]:
            hope = hope_of(world) if hope is None else hope
            if coverage.is_short(place):
                credit_gang(world, coverage, place, hope)
        elif coverage.is_short(place):
            credit_plain(world, coverage, place)
        place = place + 1 if runner is None else runner.credit(place + 1, stop)
    if runner is not None:
        for at_home in (begin + np.flatnonzero(runner.home[begin:stop] >= 0)).tolist():
            coverage.choice[at_home] = Choice(int(runner.home[at_home]), satisfiable=True)


def release_surplus(
    world: World, coverage: Coverage, runner: Runner | None, begin: int, stop: int
) -> None:
    """What complete gangs of a level have left over goes to plain needs of it."""
    complete = _complete(coverage, begin, stop)
    if not len(complete) or (runner is not None and not runner.release_surplus(complete)):
        return
    world.give_up({coverage.walk.gang_refs[place] for place in complete.tolist()})
    credit_all_plain(world, coverage, runner, begin, stop)


def credit_all_plain(
    world: World, coverage: Coverage, runner: Runner | None, begin: int, stop: int
) -> None:
    """What serves already, for the plain needs of a level."""
    if runner is not None:
        runner.credit(begin, stop, plain_only=True)
        return
    for place in range(begin, stop):
        if not coverage.walk.is_gang[place] and coverage.is_short(place):
            credit_plain(world, coverage, place)


def _complete(coverage: Coverage, begin: int, stop: int) -> Rows:
    """The gangs of a level of which no row misses anything."""
    gangs = begin + np.flatnonzero(coverage.walk.is_gang[begin:stop])
    short = is_short(coverage.missing[gangs])
    if not short.any():
        return gangs
    refs = [coverage.walk.gang_refs[place] for place in gangs.tolist()]
    stuck = {ref for ref, misses in zip(refs, short.tolist(), strict=True) if misses}
    return gangs[[ref not in stuck for ref in refs]]


def credit_plain(world: World, coverage: Coverage, place: int) -> None:
    """What serves a plain need already."""
    row, missing = coverage.walk.row(place), coverage.missing[place]
    for state in BOUND:
        bound = world.bound(row.need.cluster, state)
        rows = bound.rows[world.fits(row)[bound.shapes]]
        rows = rows[(world.owner[rows] < 0) & (world.gang_of(rows) < 0)]
        world.owner[take(world, row, rows, missing)] = place
    for rows in _in_flight(world, row):
        world.owner[take(world, row, rows, missing)] = place


def _in_flight(world: World, row: Row) -> Iterable[Rows]:
    """What is being created for a need, then what is being drained for it."""
    if not world.has_in_flight:
        return
    fits = world.fits(row)
    for flying in world.in_flight(row.refs):
        rows = flying[fits[world.snapshot.shape[flying]]]
        yield rows[world.owner[rows] < 0]


def _bound(world: World, row: Row) -> Iterable[Rows]:
    """The bound machines that could count for a gang, in keep order."""
    fits = world.fits(row)
    for state in BOUND:
        bound = world.bound(row.need.cluster, state)
        rows = bound.rows[fits[bound.shapes]]
        rows = rows[world.owner[rows] < 0]
        yield rows[~world.is_kept_from(rows, row.need.ref)]


def credit_gang(world: World, coverage: Coverage, place: int, hope: Hope) -> None:
    """The domain of a gang, and what serves it there already."""
    row, missing = coverage.walk.row(place), coverage.missing[place]
    bound = np.concatenate([NO_ROWS, *_bound(world, row)])
    creditable = np.concatenate([bound, *_in_flight(world, row)])
    own = np.ones(len(creditable), dtype=np.bool_)  # what is in flight is so for this gang
    own[: len(bound)] = world.is_own(bound, row.need.ref)
    choice = home(world, row, creditable[own], missing)
    if choice is None:
        could, most = ceiling(world, row, missing)
        if not could:
            coverage.hopeless[place] = most
            coverage.parked[place] = True
        open_to = world.fits(row) & ~coverage.parked[place]
        supply = Supply(creditable, own, np.where(open_to, hope.by_class, 0))
        choice = choose(world, row, supply, missing)
    coverage.choice[place] = choice
    if choice.domain is None:
        return
    here = _in_domain(world, row, creditable, choice.domain)
    ordered = np.concatenate([creditable[here & own], creditable[here & ~own]])
    world.owner[take(world, row, ordered, missing)] = place
    if choice.satisfiable and coverage.is_short(place):
        near = acquirable_in_domain(world, row, choice.domain)
        near = take(world, row, near[~hope.spoken_for[near]], missing.copy())
        hope.speak_for(near, world.snapshot.shape[near])
        coverage.spoken[place] = near


def _acquirable(world: World, row: Row) -> Rows:
    """What could be acquired for a need, in the order it would be."""
    pools: Rows = np.concatenate([world.pool(row, state).rows for state in FREE])
    free: Rows = pools[world.owner[pools] < 0]
    return free


def _in_domain(world: World, row: Row, rows: Rows, domain: int) -> Mask:
    found: Mask = domains_of(world, row).code[world.snapshot.shape[rows]] == domain
    return found


def acquirable_in_domain(world: World, row: Row, domain: int) -> Rows:
    """What a gang could acquire in its domain, in the order it would."""
    pools: Rows = np.concatenate([world.pool_in(row, state, domain) for state in FREE])
    free: Rows = pools[world.owner[pools] < 0]
    return free


def acquire_level(
    world: World,
    coverage: Coverage,
    runner: Runner | None,
    begin: int,
    stop: int,
    *,
    done: Mask | None = None,
) -> None:
    """In order of precedence; what is equal stays in walk order. Some may have had their turn."""
    walk = coverage.walk
    wanting = is_short(coverage.missing[begin:stop])
    short = begin + np.flatnonzero(wanting if done is None else wanting & ~done[begin:stop])
    short = short[np.argsort(-walk.precedence[short], kind="stable")]
    if runner is None:
        for place in short.tolist():
            _acquire(world, coverage, place)
        return
    # Plain needs of one bucket follow each other, and share an order of the Speculative pool.
    bucket = np.where(walk.is_gang | walk.is_spread, -1, walk.interruption)[short]
    breaks = [0, *(np.flatnonzero(np.diff(bucket)) + 1).tolist(), len(short)]
    for first, last in pairwise(breaks):
        run = short[first:last]
        if len(run) and bucket[first] >= 0:
            coverage.acquired.append(runner.acquire(run, int(bucket[first])))
        else:
            for place in run.tolist():
                _acquire(world, coverage, place)


def _acquire(world: World, coverage: Coverage, place: int) -> None:
    row, missing = coverage.walk.row(place), coverage.missing[place]
    budget = coverage.allowance.budget(place)
    spread = strict_spread(row)
    if row.is_gang:
        taken = _gang_acquisition(world, coverage, row)
    elif spread is not None:
        taken = take_spread(world, row, spread, missing, budget)
        budget.commit()
    else:
        taken = take(world, row, _acquirable(world, row), missing, budget)
        budget.commit()
    world.owner[taken] = place
    coverage.acquired.append((taken, np.full(len(taken), place)))


def _gang_acquisition(world: World, coverage: Coverage, row: Row) -> Rows:
    """All that is missing, or nothing."""
    choice = coverage.choice_of(row.place)
    if choice.domain is None or coverage.parked[row.place]:
        return NO_ROWS
    missing = coverage.missing[row.place].copy()
    budget = coverage.allowance.budget(row.place)
    near = acquirable_in_domain(world, row, choice.domain)
    taken = take(world, row, near, missing, budget)
    if (missing > 0).any():
        return NO_ROWS
    budget.commit()
    coverage.missing[row.place] = 0
    return taken


def protect(world: World, coverage: Coverage) -> None:
    """An incomplete gang keeps the machines that were given to it, wherever they are; and so does
    a need that nothing can ever meet.
    """
    walk, live = coverage.walk, world.machines_by_shape > 0
    for place in np.flatnonzero(is_short(coverage.missing)).tolist():
        fits = world.fitting(walk.requirement_set.item(place), walk.min_unit.item(place))
        is_beyond = not (fits & live).any()
        if not walk.is_gang[place] and not is_beyond:
            continue
        for rows in _protected(world, walk.row(place), is_beyond=is_beyond):
            world.owner[rows] = place
            coverage.protected.append((rows, np.full(len(rows), place)))


def _protected(world: World, row: Row, *, is_beyond: bool) -> Iterator[Rows]:
    if not world.is_anything_assigned_to(row.need.ref):
        return
    matches = world.matches(row)
    for state in BOUND:
        bound = world.bound(row.need.cluster, state)
        rows = bound.rows if is_beyond else bound.rows[matches[bound.shapes]]
        rows = rows[world.owner[rows] < 0]
        yield rows[world.is_assigned_to(rows, row.need.ref)]
