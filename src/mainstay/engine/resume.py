"""Phase 1 of a demand that is nearly one that was decided on: what cannot differ is not done again.

As long as the same is left in the pools, gangs of clusters where nothing changed choose as they
did, unless others hope for other machines; and whoever acquires before the first that differs
acquires the same. Whoever the quota stopped differs once it allows more. All else is run as ever.
The plain form is mainstay.engine.trace.claim.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.cover import (
    Coverage,
    Settled,
    acquire_level,
    begun,
    credit_all_plain,
    credit_gang,
    credit_level,
    credit_part,
    credit_plain,
    credited,
    levels,
    protect,
    release_surplus,
)
from mainstay.engine.exchange import Survey, exchanged, survey
from mainstay.engine.gangs import Hope, hope_of
from mainstay.engine.lanes import Runner
from mainstay.engine.market import NOT_FOR_EXCHANGE, Deal
from mainstay.engine.quota import NO_QUOTA, Quota
from mainstay.engine.rows import Mask, Walk
from mainstay.engine.trace import Claims, Owners, Trace
from mainstay.engine.world import NO_ROWS, NOBODY, World
from mainstay.model.texts import Rows

Places = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Likeness:
    """How a changed walk lies to the one that it was made from."""

    was: Places
    """The place that each row had; -1 for one that is not as it was."""

    changed: Mask
    """Which clusters, by their codes, have a row that is not as it was."""

    levels: frozenset[tuple[int, int]]
    """Where those levels begin and end that are the same but for changed rows."""

    quota: Quota = NO_QUOTA
    allows_more: bool = False
    """Whether it is not the quota that it was; it never allows less."""


def likeness(base: Walk, walk: Walk, origin: Places) -> Likeness:
    """`origin` is the place in the demand that each need had; -1 for one that is not as it was."""
    was = _was(base, walk, origin)
    changed = np.zeros(len(walk.asked.clusters), dtype=np.bool_)
    changed[walk.cluster[was < 0]] = True
    gone = np.ones(len(base), dtype=np.bool_)
    gone[was[was >= 0]] = False
    changed[base.cluster[gone]] = True
    stays = (was == np.arange(len(walk))) | (was < 0)
    both = {*levels(base)} & {*levels(walk)}
    same = frozenset((begin, stop) for begin, stop in both if stays[begin:stop].all())
    return Likeness(was, changed, same)


def _was(base: Walk, walk: Walk, origin: Places) -> Places:
    """Rows of one need are told by it, folded ones by all they are made of."""
    place = np.full(len(base.asked.needs) + 1, -1, dtype=np.intp)
    plain = np.flatnonzero(base.need >= 0)
    place[base.need[plain]] = plain
    folds = {base.members[-1 - int(base.need[at])].tobytes(): at for at in _folds(base)}
    was = np.where(walk.need >= 0, place[origin[walk.need]], -1)
    for at in _folds(walk):
        members = origin[walk.members[-1 - int(walk.need[at])]].astype(np.intp)
        was[at] = folds.get(members.tobytes(), -1)
    return was


def _folds(walk: Walk) -> list[int]:
    return np.flatnonzero(walk.need < 0).tolist()


def claim_again(
    world: World, walk: Walk, parked: Mask, trace: Trace, origin: Places, *, quota: Quota = NO_QUOTA
) -> Coverage:
    """As mainstay.engine.trace.claim; the quota allows at least what it did."""
    like = likeness(trace.first.walk, walk, origin)
    changed = like.changed | _beside(world, walk, parked, trace, like)
    like = replace(like, changed=changed, quota=quota, allows_more=quota != trace.quota)
    coverage = _resumed(world, walk, parked, trace.first, like)
    about = survey(world, coverage)
    found = exchanged(world, coverage, about, _known(world, walk, about, trace, like))
    if found.settled is None:
        return coverage
    world.start_over()
    return _resumed(world, walk, parked, trace.second or trace.first, like, settled=found.settled)


def _beside(world: World, walk: Walk, parked: Mask, trace: Trace, like: Likeness) -> Mask:
    """Clusters with gangs that were parked and are not, or with machines kept for others than they
    were: what a gang had is no longer its own once it has another name."""
    found = np.zeros(len(walk.asked.clusters), dtype=np.bool_)
    kept = np.flatnonzero(like.was >= 0)
    found[walk.cluster[kept[parked[kept] != trace.parked[like.was[kept]]]]] = True
    then = {*trace.first.walk.gang_refs.values()}
    rows = [world.assigned_to(ref) for ref in then ^ {*walk.gang_refs.values()}]
    _mark(world, walk, np.concatenate([NO_ROWS, *rows]), found)
    return found


def _mark(world: World, walk: Walk, rows: Rows, found: Mask) -> None:
    """Mark the clusters that have one of these machines."""
    codes = {name: code for code, name in enumerate(walk.asked.clusters)}
    for code in np.unique(world.snapshot.cluster[rows]).tolist():
        name = world.snapshot.clusters[code]
        if name in codes:
            found[codes[name]] = True


def _known(
    world: World, walk: Walk, about: Survey, trace: Trace, like: Likeness
) -> Mapping[int, Deal]:
    """The deals of the clusters in which all is as it was, in terms of this walk.

    Who wants something there is the same, for nobody is credited anything else.
    """
    base, before = trace.first, trace.exchange
    touched = like.changed | _differing(world, walk, base, (world.owner, base.owner), like)
    moved = np.setxor1d(about.spare, before.survey.spare, assume_unique=True)
    _mark(world, walk, moved, touched)
    now = np.full(len(base.walk) + 2, NOBODY, dtype=np.int64)
    kept = np.flatnonzero(like.was >= 0)
    now[like.was[kept]] = kept
    now[[NOBODY, NOT_FOR_EXCHANGE]] = NOBODY, NOT_FOR_EXCHANGE
    return {
        code: replace(deal, holder=None if deal.holder is None else now[deal.holder])
        for code, deal in before.deals.items()
        if not touched[code]
    }


def _differing(
    world: World, walk: Walk, base: Claims, owners: tuple[Owners, Owners], like: Likeness
) -> Mask:
    """In which clusters machines that can be credited are another's than they were."""
    rows, (now, then) = world.countable, owners
    was = np.append(like.was, NOBODY)[now[rows]]
    differs = rows[(was != then[rows]) | ((now[rows] >= 0) & (was < 0))]
    found = np.zeros(len(walk.asked.clusters), dtype=np.bool_)
    for cluster, owner in ((walk.cluster, now[differs]), (base.walk.cluster, then[differs])):
        found[cluster[owner[owner >= 0]]] = True
    return found


def _resumed(
    world: World,
    walk: Walk,
    parked: Mask,
    base: Claims,
    like: Likeness,
    *,
    settled: Settled | None = None,
) -> Coverage:
    """As mainstay.engine.cover.cover; nobody has claimed anything yet."""
    dirty = like.changed
    if settled is not None:
        given, then = _owners(world, settled), _owners(world, base.settled)
        dirty = dirty | _differing(world, walk, base, (given, then), like)
    coverage, runner = begun(world, walk, parked, like.quota, settled=settled)
    level = _Level(world, coverage, runner, base, like=like, parked=parked, dirty=dirty)
    is_same = True
    for begin, stop in levels(walk):
        is_same = is_same and (begin, stop) in like.levels
        if is_same:
            level.credit(begin, stop)
            level.acquire(begin, stop)
            is_same = level.leaves_the_same(stop)
        else:
            credit_level(world, coverage, runner, begin, stop)
            acquire_level(world, coverage, runner, begin, stop)
    protect(world, coverage)
    return coverage


def _owners(world: World, settled: Settled | None) -> Owners:
    owner = np.full(len(world.owner), NOBODY, dtype=np.int32)
    if settled is not None:
        owner[settled.rows] = settled.places
    return owner


@dataclass(frozen=True, slots=True)
class _Level:
    """One level after the other, as long as nothing else is left for each than there was."""

    world: World
    coverage: Coverage
    runner: Runner | None
    base: Claims
    like: Likeness
    parked: Mask
    """The gangs that were parked before anybody claimed."""

    dirty: Mask
    """The clusters, by their codes, in which anything may differ."""

    def credit(self, begin: int, stop: int) -> None:
        """Gangs of clusters where nothing differs as before; then all others."""
        world, coverage, walk = self.world, self.coverage, self.coverage.walk
        is_dirty = self.dirty[walk.cluster[begin:stop]]
        self._copy(begin + np.flatnonzero(walk.is_gang[begin:stop] & ~is_dirty))
        hope: Hope | None = None
        heard = begin
        for place in (begin + np.flatnonzero(is_dirty)).tolist():
            if not walk.is_gang[place]:
                if coverage.is_short(place):
                    credit_plain(world, coverage, place)
                continue
            hope = hope_of(world) if hope is None else hope
            self._speak(hope, heard, place)
            heard = place + 1
            if coverage.is_short(place):
                credit_gang(world, coverage, place, hope)
            if not self._hopes_for_the_same(place):
                later = np.arange(place + 1, stop)
                self._undo(later[walk.is_gang[later] & ~self.dirty[walk.cluster[later]]])
                credit_all_plain(world, coverage, self.runner, begin, place)
                credit_part(world, coverage, self.runner, place + 1, stop, hope=hope)
                break
        else:
            credit_all_plain(world, coverage, self.runner, begin, stop)
        release_surplus(world, coverage, self.runner, begin, stop)

    def _copy(self, gangs: Rows) -> None:
        """What they were given before anybody acquired."""
        world, coverage, then = self.world, self.coverage, self.base.coverage
        chosen = self._chosen(gangs)
        rows = world.countable
        rows = rows[chosen[self.base.counting[rows]]]
        places = self.base.counting[rows].astype(np.intp)
        world.owner[rows] = places
        coverage.missing[gangs] -= credited(world, coverage.walk, rows, places)[gangs]
        np.maximum(0, coverage.missing, out=coverage.missing)
        coverage.parked[gangs] = then.parked[gangs]
        coverage.choice |= {at: made for at, made in then.choice.items() if chosen[at]}
        coverage.hopeless |= {at: most for at, most in then.hopeless.items() if chosen[at]}
        coverage.spoken |= {at: near for at, near in then.spoken.items() if chosen[at]}

    def _undo(self, gangs: Rows) -> None:
        """They have not had their turn after all."""
        world, coverage = self.world, self.coverage
        rows = world.countable
        world.owner[rows[self._chosen(gangs)[world.owner[rows]]]] = NOBODY
        coverage.missing[gangs] = coverage.walk.aggregate[gangs]
        coverage.parked[gangs] = self.parked[gangs]
        for place in gangs.tolist():
            for told in (coverage.choice, coverage.hopeless, coverage.spoken):
                told.pop(place, None)

    def _chosen(self, places: Rows) -> Mask:
        """These by place; last, for nobody, none."""
        chosen = np.zeros(len(self.coverage.walk) + 1, dtype=np.bool_)
        chosen[places] = True
        return chosen

    def _speak(self, hope: Hope, begin: int, stop: int) -> None:
        """What clean gangs at these places hoped for is not open to others."""
        dirty, cluster = self.dirty, self.coverage.walk.cluster
        for place, near in self.base.coverage.spoken.items():
            if begin <= place < stop and not dirty[cluster[place]]:
                hope.speak_for(near, self.world.snapshot.shape[near])

    def _hopes_for_the_same(self, place: int) -> bool:
        now, then = (of.spoken.get(place, NO_ROWS) for of in (self.coverage, self.base.coverage))
        return np.array_equal(now, then)

    def acquire(self, begin: int, stop: int) -> None:
        """Those before the first that differs as before; then the others."""
        world, coverage, walk = self.world, self.coverage, self.coverage.walk
        done = np.zeros(len(walk), dtype=np.bool_)
        done[begin:stop] = True
        differing = self._differing(begin, stop)
        if len(differing):
            both = (-of.precedence for of in (walk, self.base.walk))
            first, place = min((int(rank[at]), at) for rank in both for at in differing)
            rank, at = -walk.precedence[begin:stop], np.arange(begin, stop)
            done[begin:stop] = (rank < first) | ((rank == first) & (at < place))
        rows, places = self.base.acquired
        same = np.append(done, np.False_)[np.minimum(places, len(walk))]
        world.owner[rows[same]] = places[same]
        coverage.allowance.charge(rows[same], places[same])
        coverage.acquired.append((rows[same], places[same]))
        had_turn = np.flatnonzero(done)
        coverage.missing[had_turn] = self.base.missing[had_turn]
        if len(had_turn) < stop - begin:
            acquire_level(world, coverage, self.runner, begin, stop, done=done)

    def _differing(self, begin: int, stop: int) -> list[int]:
        """The needs of a level that are not as they were when it was their turn to acquire."""
        world, coverage, then = self.world, self.coverage, self.base.coverage
        rows = world.countable
        was, now = self.base.counting[rows], world.owner[rows]
        owners = np.concatenate([was[was != now], now[was != now]])
        differs = self._chosen(owners[(owners >= begin) & (owners < stop)])[begin:stop]
        differs |= self.like.was[begin:stop] < 0
        if self.like.allows_more:
            differs |= then.allowance.stopped[begin:stop]
        differs |= coverage.parked[begin:stop] != then.parked[begin:stop]
        for place in (begin + np.flatnonzero(coverage.walk.is_gang[begin:stop])).tolist():
            differs[place - begin] |= coverage.choice_of(place) != then.choice_of(place)
        return (begin + np.flatnonzero(differs)).tolist()

    def leaves_the_same(self, stop: int) -> bool:
        """Whether the pools are as they were when everybody before this place had acquired, and
        what each cluster may still acquire.
        """
        free = self.world.free
        now, then = self.world.owner[free], self.base.counting[free]
        then = np.where(then < stop, then, NOBODY)
        if not np.array_equal(now >= 0, then >= 0):
            return False
        if self.like.quota == NO_QUOTA:
            return True
        used = now >= 0
        clusters = len(self.coverage.walk.asked.clusters)
        own, owned = (
            np.bincount(walk.cluster[places[used]], minlength=clusters)
            for walk, places in ((self.coverage.walk, now), (self.base.walk, then))
        )
        return np.array_equal(own, owned)
