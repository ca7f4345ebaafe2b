"""Exchange: a need that is short is given a machine that another of its cluster can do without.

Credit goes by priority and takes what serves before what is on its way. So a need may be credited a
machine that served a less important one, while another that was got for itself is left over. To
buy for the one and drain the other would serve nobody: they exchange.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.cover import BOUND, Coverage, Settled, cover
from mainstay.engine.lanes import is_short
from mainstay.engine.quota import NO_QUOTA, Quota
from mainstay.engine.rows import Mask, Walk
from mainstay.engine.sorting import sorted_by
from mainstay.engine.take import take
from mainstay.engine.world import NO_ROWS, NOBODY, Vector, World
from mainstay.model.batch import Codes
from mainstay.model.ids import ClusterId
from mainstay.model.state import State
from mainstay.model.texts import Rows

REFUSALS_MAX: Final = 1_000
"""So many hand-overs may be in vain, over all clusters; whoever is short then has to acquire."""

CHAIN_MAX: Final = 64
"""So many needs at most give and take in a row."""

NOT_FOR_EXCHANGE: Final = -2
_NONE_LEFT: Final = np.iinfo(np.int64).max


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
    wanting = np.flatnonzero(_wanting(coverage))
    if not len(wanting):
        return ()
    left = _clusters_with_left_overs(world)
    names = world.asked.clusters
    codes = [code for code in np.unique(walk.cluster[wanting]).tolist() if names[code] in left]
    flying = _left_over(world) if codes else {}
    owner = world.owner.copy()
    changed = np.zeros(len(names), dtype=np.bool_)
    refusals = REFUSALS_MAX
    for number, code in enumerate(codes):
        market = _Market(world, walk, code, flying.get(names[code], NO_ROWS))
        roots = wanting[walk.cluster[wanting] == code]
        share = -(-refusals // (len(codes) - number))
        if market.is_open_to(roots) and market.serve(roots, share):
            owner[market.rows] = np.where(
                market.holder == NOT_FOR_EXCHANGE, owner[market.rows], market.holder
            )
            changed[code] = True
        refusals = max(0, refusals - market.in_vain)
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

    Those that are bound lie in lots, one for each holder and shape class.
    """

    def __init__(self, world: World, walk: Walk, cluster: int, flying: Rows) -> None:
        self._world, self._walk = world, walk
        name = world.asked.clusters[cluster]
        bound = np.concatenate([world.bound(name, state).rows for state in BOUND])
        bound = bound[(world.owner[bound] >= 0) | (world.gang_of(bound) < 0)]
        self.rows: Rows = np.concatenate([bound, flying])
        self._shapes = world.snapshot.shape[self.rows]
        self._bound = len(bound)
        self.holder: Vector = world.owner[self.rows].astype(np.int64)
        """The place of the need that holds each, or -1."""

        fixed = np.append(walk.is_gang | walk.is_spread, np.False_)  # last, for nobody
        self.holder[fixed[self.holder]] = NOT_FOR_EXCHANGE
        self._lots = _Lots(self.holder[: self._bound], self._shapes[: self._bound])
        self._flights = {row: self._bound + at for at, row in enumerate(flying.tolist())}
        self._have: dict[int, Vector] = {}
        self._moves: list[_Move] = []
        self._is_deaf = np.zeros(len(walk) + 1, dtype=np.bool_)
        """Who was asked in vain, or is being asked; last, nobody."""

        self._is_deaf[NOBODY] = True
        self._refusals_max = 0
        self.in_vain = 0
        """How many hand-overs were undone."""

    def is_open_to(self, roots: Rows) -> bool:
        """Whether what is left over could come to these needs at all, amounts not looked at."""
        holder, shape = self._lots.holder, self._lots.shape
        spare, held = np.unique(shape[holder == NOBODY]), np.flatnonzero(holder >= 0)
        is_reached = np.zeros(len(self._walk), dtype=np.bool_)
        new = roots
        while len(new):
            is_reached[new] = True
            wanted = np.zeros(len(self._world.alloc), dtype=np.bool_)
            for place in new.tolist():
                fits = self._fits(place)
                if fits[spare].any() or len(self._flying_to(place)):
                    return True
                wanted |= fits
            givers = np.unique(holder[held[wanted[shape[held]]]])
            new = givers[~is_reached[givers]]
        return False

    def serve(self, roots: Rows, refusals_max: int) -> bool:
        """Let needs that are short take what others can do without; whether anything moved."""
        self._refusals_max = refusals_max
        for root in roots.tolist():
            if self.in_vain >= refusals_max:
                break
            self._is_deaf[root] = True
            self._take_left_overs(root)
            while (lot := self._next(root)) is not None:
                if self._give(lot, root, 1):
                    self._is_deaf[:-1] = False
                    self._is_deaf[root] = True
        return bool(self._moves)

    def _give(self, lot: int, taker: int, length: int) -> bool:
        """Hand over as much of a lot as the taker can use and its holder can do without.

        From the end of the lot: so whoever asks next finds this holder first again, and not the
        taker, who would have to be made whole in turn. What the holder has not enough without it
        gets back; if that is all, nothing has happened.
        """
        before, giver = len(self._moves), int(self._lots.holder[lot])
        shape = int(self._lots.shape[lot])
        given = self._lots.of[lot][-self._most(taker, shape) :]
        self._is_deaf[giver] = True
        self._move(_Move(given, shape, giver, taker))
        self._make_whole(giver, length + 1)
        back = self._least(giver, shape)
        if back >= len(given):
            self._undo(before)
            return False
        if back:
            self._move(_Move(given[:back], shape, taker, giver))
        self._is_deaf[giver] = False
        return True

    def _make_whole(self, place: int, length: int) -> None:
        """As far as it can be."""
        self._take_left_overs(place)
        while length < CHAIN_MAX and (lot := self._next(place)) is not None:
            self._give(lot, place, length)

    def _take_left_overs(self, place: int) -> None:
        lack = np.maximum(0, self._lack(place))
        if not lack.any():
            return
        fits, of = self._fits(place), self._lots
        near = [
            of.of[lot][: self._most(place, int(of.shape[lot]))]
            for lot in of.held_by(NOBODY)
            if fits[of.shape[lot]]
        ]
        at = np.concatenate([np.sort(np.concatenate([NO_ROWS, *near])), self._flying_to(place)])
        rows = self.rows[at]
        at = at[np.isin(rows, take(self._world, self._walk.row(place), rows, lack))]
        for part in (at[at < self._bound], at[at >= self._bound]):
            for shape in np.unique(self._shapes[part]).tolist():
                self._move(_Move(part[self._shapes[part] == shape], shape, NOBODY, place))

    def _next(self, place: int) -> int | None:
        """The lot of the first machine that would help a need and whose holder may be asked."""
        short = np.flatnonzero(self._lack(place) > 0)
        if self.in_vain >= self._refusals_max or not len(short):
            return None
        lots = self._lots
        found = np.flatnonzero(~self._is_deaf[lots.holder] & self._fits(place)[lots.shape])
        adds = self._world.adds(self._walk.row(place))
        found = found[(adds[lots.shape[found]][:, short] > 0).any(axis=1)]
        found = found[lots.first[found] != _NONE_LEFT]
        return int(found[lots.first[found].argmin()]) if len(found) else None

    def _flying_to(self, place: int) -> Rows:
        """Where that lies which is in flight for a need, fits it and is left over."""
        if not self._flights:
            return NO_ROWS
        flying = np.concatenate(self._world.in_flight(self._walk.row(place).refs)).tolist()
        at = np.array([self._flights[r] for r in flying if r in self._flights], dtype=np.intp)
        found: Rows = at[(self.holder[at] == NOBODY) & self._fits(place)[self._shapes[at]]]
        return found

    def _fits(self, place: int) -> Mask:
        return self._world.fits(self._walk.row(place))

    def _most(self, place: int, shape: int) -> int:
        """How many machines of a class, one after the other, add something that is missing."""
        return max(self._amounts(place, shape, 0), default=0)

    def _least(self, place: int, shape: int) -> int:
        """How many machines of a class leave nothing missing."""
        return max(self._amounts(place, shape, len(self.rows) + 1), default=0)

    def _amounts(self, place: int, shape: int, never: int) -> list[int]:
        """How many machines of a class it takes in each dimension in which something is missing."""
        row = self._walk.row(place)
        adds = self._world.adds(row)[shape].tolist() if self._fits(place)[shape] else []
        lack = self._lack(place).tolist()
        pairs = zip(lack, adds or [0] * len(lack), strict=True)
        return [-(-want // each) if each > 0 else never for want, each in pairs if want > 0]

    def _lack(self, place: int) -> Vector:
        lack: Vector = self._walk.aggregate[place] - self._had(place)
        return lack

    def _had(self, place: int) -> Vector:
        """What a need's machines add up to; what does not fit it is only protected."""
        if place not in self._have:
            row, lots = self._walk.row(place), self._lots
            fits, adds = self._fits(place), self._world.adds(row)
            flying = np.concatenate(self._world.in_flight(row.refs))
            shapes = self._world.snapshot.shape[flying[self._world.owner[flying] == place]]
            had: Vector = adds[shapes[fits[shapes]]].sum(axis=0)
            for lot in lots.held_by(place):
                if fits[lots.shape[lot]]:
                    had = had + len(lots.of[lot]) * adds[lots.shape[lot]]
            self._have[place] = had
        return self._have[place]

    def _move(self, move: "_Move") -> None:
        self._moves.append(move)
        self._hand(move)

    def _undo(self, before: int) -> None:
        """All is as it was when so many moves had been made."""
        self.in_vain += len(self._moves) - before
        while len(self._moves) > before:
            at, shape, giver, taker = self._moves.pop()
            self._hand(_Move(at, shape, taker, giver))

    def _hand(self, move: "_Move") -> None:
        at, shape, giver, taker = move
        for place, sign in ((giver, -1), (taker, 1)):
            if place >= 0 and self._fits(place)[shape]:
                added = self._world.adds(self._walk.row(place))[shape]
                self._have[place] = self._had(place) + sign * len(at) * added
        self.holder[at] = taker
        if at[0] < self._bound:
            self._lots.hand(move)


class _Move(NamedTuple):
    """Machines of one class that change hands; where they lie, ascending."""

    at: Rows
    shape: int
    giver: int
    taker: int


class _Lots:
    """Where the machines lie that one holds, class by class."""

    def __init__(self, holder: Vector, shape: Codes) -> None:
        at = np.flatnonzero(holder != NOT_FOR_EXCHANGE)
        at = at[np.lexsort((at, shape[at], holder[at]))]
        is_new = (np.diff(holder[at]) != 0) | (np.diff(shape[at]) != 0)
        self.of: list[Rows] = np.split(at, np.flatnonzero(is_new) + 1) if len(at) else []
        """Ascending."""

        self.first: Vector = np.array([lot[0] for lot in self.of], dtype=np.int64)
        self.holder: Vector = holder[self.first]
        self.shape: Vector = shape[self.first].astype(np.int64)
        self._by_holder: dict[int, dict[int, int]] = {}
        for lot, whose in enumerate(self.holder.tolist()):
            self._by_holder.setdefault(whose, {})[int(self.shape[lot])] = lot

    def held_by(self, holder: int) -> Iterable[int]:
        """The lots of a holder."""
        return self._by_holder.get(holder, {}).values()

    def hand(self, move: _Move) -> None:
        """From one lot to another."""
        given = self._by_holder[move.giver][move.shape]
        self._put(given, np.delete(self.of[given], np.searchsorted(self.of[given], move.at)))
        taken = self._lot(move.taker, move.shape)
        lot = self.of[taken]
        self._put(taken, np.insert(lot, np.searchsorted(lot, move.at), move.at))

    def _put(self, lot: int, at: Rows) -> None:
        self.of[lot] = at
        self.first[lot] = at[0] if len(at) else _NONE_LEFT

    def _lot(self, holder: int, shape: int) -> int:
        """A holder's lot of a class; a new one if it had none."""
        mine = self._by_holder.setdefault(holder, {})
        if shape not in mine:
            mine[shape] = len(self.of)
            self.of.append(NO_ROWS)
            self.first = np.append(self.first, _NONE_LEFT)
            self.holder = np.append(self.holder, holder)
            self.shape = np.append(self.shape, shape)
        return mine[shape]


def _left_over(world: World) -> dict[ClusterId, Rows]:
    """What is being created, then what is drained, for the needs of each cluster and claimed by
    none, in order of ids.
    """
    found: dict[ClusterId, list[Rows]] = {}
    for flying in (world.creating, world.draining):
        named: dict[ClusterId, list[int]] = {}
        for ref, rows in flying.items():
            named.setdefault(ref.cluster, []).extend(rows)
        for cluster, each in named.items():
            at = np.array(each, dtype=np.intp)
            at = at[world.owner[at] < 0]
            found.setdefault(cluster, []).append(at[np.argsort(world.snapshot.rank[at])])
    return {cluster: np.concatenate(parts) for cluster, parts in found.items()}
