"""Exchange: a need that is short is given a machine that another of its cluster can do without.

Credit goes by priority and takes what serves before what is on its way. So a need may be credited a
machine that served a less important one, while another that was got for itself is left over. To
buy for the one and drain the other would serve nobody: they exchange.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.cover import BOUND, Coverage, Settled, cover
from mainstay.engine.lanes import is_short
from mainstay.engine.quota import NO_QUOTA, Quota
from mainstay.engine.rows import Mask, Walk
from mainstay.engine.sorting import sorted_by
from mainstay.engine.world import NOBODY, Vector, World
from mainstay.model.ids import ClusterId
from mainstay.model.state import State
from mainstay.model.texts import Rows

REQUESTS_MAX: Final = 1_000
"""So often a machine is asked for in one cluster; whoever is short then has to acquire."""

CHAIN_MAX: Final = 64
"""So many needs at most give and take in a row."""

NOT_FOR_EXCHANGE: Final = -2


def with_exchange(world: World, coverage: Coverage, quota: Quota = NO_QUOTA) -> Coverage:
    """What phase 1 comes to when plain needs have exchanged what they were credited.

    The same coverage where none of them gains by it.
    """
    settled = exchanged(world, coverage)
    if not settled:
        return coverage
    world.start_over()
    return cover(world, coverage.walk, coverage.parked, quota, coverage.kinds, settled=settled)


def exchanged(world: World, coverage: Coverage) -> Settled:
    """What every plain need is credited in the clusters where some exchanged; else nothing."""
    walk = coverage.walk
    wanting = _wanting(coverage)
    if not wanting.any():
        return ()
    left = _clusters_with_left_overs(world)
    owner = world.owner.copy()
    changed = np.zeros(len(world.asked.clusters), dtype=np.bool_)
    for code in np.unique(walk.cluster[wanting]).tolist():
        if world.asked.clusters[code] in left:
            market = _Market(world, walk, code)
            roots = np.flatnonzero(wanting & (walk.cluster == code))
            if market.is_open_to(roots) and market.serve(roots):
                owner[market.rows] = np.where(
                    market.holder == NOT_FOR_EXCHANGE, owner[market.rows], market.holder
                )
                changed[code] = True
    return tuple(_settled(world, walk, owner, changed)) if changed.any() else ()


def _wanting(coverage: Coverage) -> Mask:
    """The plain needs that what they were credited did not cover."""
    wanting = is_short(coverage.missing)
    for _, places in coverage.acquired:
        wanting[places] = True
    wanting &= ~(coverage.walk.is_gang | coverage.walk.is_spread)
    return wanting


def _clusters_with_left_overs(world: World) -> set[ClusterId]:
    """Where something is bound, or in flight for a need, that nobody claims and no gang keeps."""
    kept = world.kept.rows
    unclaimed = kept[world.owner[kept] < 0]
    unclaimed = unclaimed[world.gang_of(unclaimed) < 0]
    codes = np.unique(world.snapshot.cluster[unclaimed]).tolist()
    found = {world.snapshot.clusters[code] for code in codes}
    for flying in (world.creating, world.draining):
        found.update(ref.cluster for ref, rows in flying.items() if (world.owner[rows] < 0).any())
    return found


def _settled(
    world: World, walk: Walk, owner: NDArray[np.int32], changed: Mask
) -> Iterator[tuple[int, Rows]]:
    """All that counts for the plain needs of these clusters; what is only protected does not."""
    state = world.snapshot.state
    counts = np.isin(state, [*BOUND, State.CREATING, State.DRAINING]) & (owner >= 0)
    rows = np.flatnonzero(counts)
    rows = rows[(changed[walk.cluster] & ~walk.is_gang)[owner[rows]]]
    rows = rows[sorted_by(owner[rows].astype(np.int64))]
    breaks = np.flatnonzero(np.diff(owner[rows])) + 1
    for part in np.split(rows, breaks) if len(rows) else []:
        place = int(owner[part[0]])
        yield place, part[world.fits(walk.row(place))[world.snapshot.shape[part]]]


class _Market:
    """The machines of one cluster that may change hands, in the order in which they are credited:
    Configured, Configuring, and what is left over of those being created and drained.
    """

    def __init__(self, world: World, walk: Walk, cluster: int) -> None:
        self._world, self._walk = world, walk
        name = world.asked.clusters[cluster]
        bound = np.concatenate([world.bound(name, state).rows for state in BOUND])
        bound = bound[(world.owner[bound] >= 0) | (world.gang_of(bound) < 0)]
        self.rows: Rows = np.concatenate([bound, *(_left_over(world, name))])
        self._shapes = world.snapshot.shape[self.rows]
        self._is_bound = np.arange(len(self.rows)) < len(bound)
        self.holder: Vector = world.owner[self.rows].astype(np.int64)
        """The place of the need that holds each, or -1."""

        fixed = np.append(walk.is_gang | walk.is_spread, np.False_)  # last, for nobody
        self.holder[fixed[self.holder]] = NOT_FOR_EXCHANGE
        self._have: dict[int, Vector] = {}
        self._moves: list[tuple[int, int]] = []
        self._is_deaf = np.zeros(len(walk) + 2, dtype=np.bool_)
        """Who was asked in vain, or is being asked; last, what is not exchanged and nobody."""

        self._is_deaf[-2:] = True
        self._requests = 0

    def is_open_to(self, roots: Rows) -> bool:
        """Whether what is left over could come to these needs at all, amounts not looked at."""
        held, spare = np.flatnonzero(self.holder >= 0), self.holder == NOBODY
        classes = np.zeros(len(self._world.alloc), dtype=np.bool_)
        classes[self._shapes[spare & self._is_bound]] = True
        is_flying = bool((spare & ~self._is_bound).any())
        is_reached = np.zeros(len(self._walk), dtype=np.bool_)
        new = roots
        while len(new):
            is_reached[new] = True
            wanted = np.zeros(len(self._world.alloc), dtype=np.bool_)
            for place in new.tolist():
                fits = self._fits(place)
                if (fits & classes).any() or (is_flying and len(self._open_to(place))):
                    return True
                wanted |= fits
            givers = np.unique(self.holder[held[wanted[self._shapes[held]]]])
            new = givers[~is_reached[givers]]
        return False

    def serve(self, roots: Rows) -> bool:
        """Let needs that are short take what others can do without; whether anything moved."""
        for root in roots.tolist():
            self._is_deaf[root] = True
            self._take_left_overs(root)
            while (at := self._next(root)) is not None:
                if self._give(at, root, 1):
                    self._is_deaf[:-2] = False
                    self._is_deaf[root] = True
        return bool(self._moves)

    def _give(self, at: int, taker: int, length: int) -> bool:
        """Hand a machine over, if the one that holds it has enough without or can be made whole."""
        before, giver = len(self._moves), int(self.holder[at])
        self._requests += 1
        self._is_deaf[giver] = True
        self._move(at, taker)
        if self._make_whole(giver, length + 1):
            self._is_deaf[giver] = False
            return True
        while len(self._moves) > before:
            self._undo()
        return False

    def _make_whole(self, place: int, length: int) -> bool:
        self._take_left_overs(place)
        while self._is_short(place):
            at = None if length >= CHAIN_MAX else self._next(place)
            if at is None:
                return False
            self._give(at, place, length)
        return True

    def _take_left_overs(self, place: int) -> None:
        for at in self._open_to(place).tolist():
            if not self._is_short(place):
                return
            if self._helps(place)[self._shapes[at]]:
                self._move(at, place)

    def _next(self, place: int) -> int | None:
        """The first machine that would help a need and whose holder may be asked for it."""
        if self._requests >= REQUESTS_MAX or not self._is_short(place):
            return None
        classes = self._fits(place) & self._helps(place)
        found = self._is_bound & classes[self._shapes] & ~self._is_deaf[self.holder]
        return int(found.argmax()) if found.any() else None

    def _open_to(self, place: int) -> Rows:
        """Where what is left over lies that could be credited to a need."""
        spare = np.flatnonzero(self.holder == NOBODY)
        spare = spare[self._fits(place)[self._shapes[spare]]]
        flying = np.concatenate(self._world.in_flight(self._walk.row(place).refs))
        return spare[self._is_bound[spare] | np.isin(self.rows[spare], flying)]

    def _fits(self, place: int) -> Mask:
        return self._world.fits(self._walk.row(place))

    def _helps(self, place: int) -> Mask:
        """Which classes add something that is missing."""
        short = self._lack(place) > 0
        added = self._world.adds(self._walk.row(place))[:, short]
        return np.asarray((added > 0).any(axis=1))

    def _is_short(self, place: int) -> bool:
        return bool((self._lack(place) > 0).any())

    def _lack(self, place: int) -> Vector:
        lack: Vector = self._walk.aggregate[place] - self._had(place)
        return lack

    def _had(self, place: int) -> Vector:
        """What a need's machines add up to; what does not fit it is only protected."""
        if place not in self._have:
            row = self._walk.row(place)
            flying = np.concatenate(self._world.in_flight(row.refs))
            flying = flying[self._world.owner[flying] == place]
            rows = np.concatenate([self.rows[self.holder == place], flying])
            shapes = self._world.snapshot.shape[rows]
            shapes = shapes[self._fits(place)[shapes]]
            self._have[place] = self._world.adds(row)[shapes].sum(axis=0)
        return self._have[place]

    def _move(self, at: int, taker: int) -> None:
        self._moves.append((at, int(self.holder[at])))
        self._hand(at, taker)

    def _undo(self) -> None:
        self._hand(*self._moves.pop())

    def _hand(self, at: int, taker: int) -> None:
        shape, giver = self._shapes[at], int(self.holder[at])
        for place, sign in ((giver, -1), (taker, 1)):
            if place >= 0:
                added = self._world.adds(self._walk.row(place))[shape]
                self._have[place] = self._had(place) + sign * added
        self.holder[at] = taker


def _left_over(world: World, cluster: ClusterId) -> Iterator[Rows]:
    """What is being created, then what is drained, for the needs of a cluster and claimed by none,
    in order of ids.
    """
    for flying in (world.creating, world.draining):
        named = [row for ref, rows in flying.items() if ref.cluster == cluster for row in rows]
        rows = np.array(named, dtype=np.intp)
        rows = rows[world.owner[rows] < 0]
        yield rows[np.argsort(world.snapshot.rank[rows])]
