"""The market of one cluster: who gives what to whom when its plain needs exchange."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from mainstay.engine.cover import BOUND
from mainstay.engine.rows import Mask, Matrix, Vector, Walk
from mainstay.engine.take import take
from mainstay.engine.world import NO_ROWS, NOBODY, World
from mainstay.model.batch import Codes
from mainstay.model.texts import Rows

CHAIN_MAX: Final = 64
"""So many needs at most give and take in a row."""

NOT_FOR_EXCHANGE: Final = -2
_NONE_LEFT: Final = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Deal:
    """What came of the exchange in one cluster."""

    rows: Rows
    holder: Vector | None
    """The place of the need that holds each of them then; None where nothing moved."""

    refusals_max: int
    in_vain: int
    """How many hand-overs were allowed to be in vain, and were."""

    def is_same_with(self, refusals_max: int) -> bool:
        """Whether it would have come to the same if so many were allowed."""
        return self.refusals_max == refusals_max or self.in_vain < min(
            self.refusals_max, refusals_max
        )


class Market:
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

    def deal(self, roots: Rows, refusals_max: int) -> Deal:
        """What comes of it when these needs want something."""
        has_moved = self.is_open_to(roots) and self.serve(roots, refusals_max)
        holder = self.holder if has_moved else None
        return Deal(self.rows, holder, refusals_max, self.in_vain)

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
        if not len(at):
            return
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
        adds = self._adds(place)
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
        walk = self._walk
        return self._world.fitting(walk.requirement_set.item(place), walk.min_unit.item(place))

    def _adds(self, place: int) -> Matrix:
        walk, world = self._walk, self._world
        is_folded = walk.folded.item(place)
        return world.whole_units(walk.min_unit.item(place)) if is_folded else world.alloc

    def _most(self, place: int, shape: int) -> int:
        """How many machines of a class, one after the other, add something that is missing."""
        return max(self._amounts(place, shape, 0), default=0)

    def _least(self, place: int, shape: int) -> int:
        """How many machines of a class leave nothing missing."""
        return max(self._amounts(place, shape, len(self.rows) + 1), default=0)

    def _amounts(self, place: int, shape: int, never: int) -> list[int]:
        """How many machines of a class it takes in each dimension in which something is missing."""
        adds = self._adds(place)[shape].tolist() if self._fits(place)[shape] else []
        lack = self._lack(place).tolist()
        pairs = zip(lack, adds or [0] * len(lack), strict=True)
        return [-(-want // each) if each > 0 else never for want, each in pairs if want > 0]

    def _lack(self, place: int) -> Vector:
        lack: Vector = self._walk.aggregate[place] - self._had(place)
        return lack

    def _had(self, place: int) -> Vector:
        """What a need's machines add up to; what does not fit it is only protected."""
        if place not in self._have:
            lots, fits, adds = self._lots, self._fits(place), self._adds(place)
            shapes = self._world.snapshot.shape[self._flying_for(place)]
            had: Vector = adds[shapes[fits[shapes]]].sum(axis=0)
            for lot in lots.held_by(place):
                if fits[lots.shape[lot]]:
                    had = had + len(lots.of[lot]) * adds[lots.shape[lot]]
            self._have[place] = had
        return self._have[place]

    def _flying_for(self, place: int) -> Rows:
        """What is in flight for a need, and claimed by it."""
        world = self._world
        if not world.has_in_flight:
            return NO_ROWS
        flying = np.concatenate(world.in_flight(self._walk.row(place).refs))
        found: Rows = flying[world.owner[flying] == place]
        return found

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
                added = self._adds(place)[shape]
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
