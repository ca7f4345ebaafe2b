"""Phase 1: claim machines for needs, one priority level after the other.

In each level first what serves a need already is credited, then what is missing is acquired. Plain
needs and gangs that are where they belong are run by the compiled loops where those are warm; the
numpy form here does everything, and the same.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np

from mainstay.engine.allowance import Allowance
from mainstay.engine.gangs import NO_CHOICE, Choice, Supply, ceiling, choose, domains_of, home
from mainstay.engine.kinds import Kinds
from mainstay.engine.lanes import Runner, is_short, runner_of
from mainstay.engine.plan import Ceiling
from mainstay.engine.quota import NO_QUOTA, Quota
from mainstay.engine.rows import Mask, Matrix, Row, Walk
from mainstay.engine.spread import strict_spread, take_spread
from mainstay.engine.take import additions, take
from mainstay.engine.world import NO_ROWS, Vector, World
from mainstay.model.assignment import PRIORITY_MIN
from mainstay.model.batch import Codes
from mainstay.model.state import State
from mainstay.model.texts import Rows

BOUND: Final = (State.CONFIGURED, State.CONFIGURING)
FREE: Final = (State.IDLE, State.SPECULATIVE)

Settled = tuple[tuple[int, Rows], ...]
"""Places of needs, each with the machines it is credited before anybody claims."""


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


@dataclass(slots=True)
class Hope:
    """What the gangs of one level may still hope to acquire."""

    spoken_for: Mask
    by_class: Vector
    """How many Idle and Speculative machines of each class are neither claimed, nor barred, nor
    spoken for."""

    def speak_for(self, rows: Rows, shapes: Codes) -> None:
        """These are no longer open to other gangs of the level."""
        self.spoken_for[rows] = True
        self.by_class -= np.bincount(shapes, minlength=len(self.by_class))


def _hope(world: World) -> Hope:
    """As a level begins; while it is credited, nothing free is claimed."""
    state = world.snapshot.state
    free = ((state == State.IDLE) | (state == State.SPECULATIVE)) & (world.owner < 0)
    if world.barred is not None:
        free &= ~world.barred
    by_class = np.bincount(world.snapshot.shape[free], minlength=len(world.alloc))
    return Hope(np.zeros(len(world.owner), dtype=np.bool_), by_class)


def cover(
    world: World,
    walk: Walk,
    parked: Mask,
    quota: Quota = NO_QUOTA,
    last: Kinds | None = None,
    *,
    settled: Settled = (),
) -> Coverage:
    """Claim for every need, most important first. A machine is claimed by at most one."""
    world.keep_for_gangs(walk.gang_refs.values())
    allowance = Allowance(world, quota, walk)
    runner = runner_of(world, walk, allowance, last)
    missing = walk.aggregate.copy() if runner is None else runner.missing
    coverage = Coverage(walk, parked.copy(), allowance, missing)
    coverage.kinds = None if runner is None else runner.kinds
    _settle(world, coverage, settled)
    for begin, stop in _levels(walk):
        if runner is None:
            _credit_level(world, coverage, begin, stop)
        else:
            _run_credit_level(world, coverage, runner, begin, stop)
        _acquire_level(world, coverage, runner, begin, stop)
    for place in np.flatnonzero(is_short(coverage.missing)).tolist():
        _protect(world, walk.row(place))
    return coverage


def _settle(world: World, coverage: Coverage, settled: Settled) -> None:
    for place, rows in settled:
        world.owner[rows] = place
        had = additions(world, coverage.walk.row(place), rows).sum(axis=0)
        coverage.missing[place] = np.maximum(0, coverage.missing[place] - had)


def _levels(walk: Walk) -> Iterator[tuple[int, int]]:
    """Where each priority begins and ends."""
    bounds = [0, *(np.flatnonzero(np.diff(walk.priority)) + 1).tolist(), len(walk)]
    return ((begin, stop) for begin, stop in pairwise(bounds) if begin < stop)


def _credit_level(world: World, coverage: Coverage, begin: int, stop: int) -> None:
    hope = _hope(world) if coverage.walk.is_gang[begin:stop].any() else None
    for place in range(begin, stop):
        if coverage.is_short(place):
            if hope is not None and coverage.walk.is_gang[place]:
                _credit_gang(world, coverage, place, hope)
            else:
                _credit_plain(world, coverage, place)
    complete = _complete(coverage, begin, stop)
    if not len(complete):
        return
    world.give_up({coverage.walk.gang_refs[place] for place in complete.tolist()})
    for place in range(begin, stop):
        if not coverage.walk.is_gang[place] and coverage.is_short(place):
            _credit_plain(world, coverage, place)


def _run_credit_level(
    world: World, coverage: Coverage, runner: Runner, begin: int, stop: int
) -> None:
    """The same with the compiled loops; they leave gangs that are not at home to numpy."""
    hope = None
    place = runner.credit(begin, stop)
    while place < stop:
        hope = _hope(world) if hope is None else hope
        _credit_gang(world, coverage, place, hope)
        place = runner.credit(place + 1, stop)
    for at_home in (begin + np.flatnonzero(runner.home[begin:stop] >= 0)).tolist():
        coverage.choice[at_home] = Choice(int(runner.home[at_home]), satisfiable=True)
    complete = _complete(coverage, begin, stop)
    if len(complete) and runner.release_surplus(complete):
        world.give_up({coverage.walk.gang_refs[place] for place in complete.tolist()})
        runner.credit(begin, stop, plain_only=True)


def _complete(coverage: Coverage, begin: int, stop: int) -> Rows:
    """The gangs of a level of which no row misses anything."""
    gangs = begin + np.flatnonzero(coverage.walk.is_gang[begin:stop])
    short = is_short(coverage.missing[gangs])
    if not short.any():
        return gangs
    refs = [coverage.walk.gang_refs[place] for place in gangs.tolist()]
    stuck = {ref for ref, misses in zip(refs, short.tolist(), strict=True) if misses}
    return gangs[[ref not in stuck for ref in refs]]


def _credit_plain(world: World, coverage: Coverage, place: int) -> None:
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


def _credit_gang(world: World, coverage: Coverage, place: int, hope: Hope) -> None:
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


def _acquire_level(
    world: World, coverage: Coverage, runner: Runner | None, begin: int, stop: int
) -> None:
    """In order of precedence; what is equal stays in walk order."""
    walk = coverage.walk
    short = begin + np.flatnonzero(is_short(coverage.missing[begin:stop]))
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


def _protect(world: World, row: Row) -> None:
    """An incomplete gang keeps the machines that were given to it, wherever they are; and so does
    a need that nothing can ever meet.
    """
    if not world.is_anything_assigned_to(row.need.ref):
        return
    is_beyond = not (world.fits(row) & (world.machines_by_shape > 0)).any()
    if not row.is_gang and not is_beyond:
        return
    matches = world.matches(row)
    for state in BOUND:
        bound = world.bound(row.need.cluster, state)
        rows = bound.rows if is_beyond else bound.rows[matches[bound.shapes]]
        rows = rows[world.owner[rows] < 0]
        world.owner[rows[world.is_assigned_to(rows, row.need.ref)]] = row.place
