"""Gangs: which domain a need that must stay together goes to."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.normalize import Row
from mainstay.engine.world import Mask, Vector, World
from mainstay.model.texts import Rows

Matrix = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Choice:
    """The domain a gang was given."""

    domain: int | None
    """Code of the domain; none when no machine is in any."""

    satisfiable: bool
    """Whether it can hold the whole gang."""


NO_CHOICE = Choice(None, satisfiable=False)


@dataclass(frozen=True, slots=True)
class Supply:
    """What a gang could be made of."""

    creditable: Rows
    own: Mask
    """Which of the creditable are committed to this very gang."""

    acquirable: Rows


def choose(world: World, row: Row, supply: Supply, wanted: Vector) -> Choice:
    """The best domain over what counts already and what could be had (see the docs, section 2)."""
    creditable, own = supply.creditable, supply.own
    rows = np.concatenate([creditable, supply.acquirable])
    if not len(rows):
        return NO_CHOICE
    domains = world.domains(row.need)
    codes, place = np.unique(domains.code[world.snapshot.shape[rows]], return_inverse=True)
    dims = np.flatnonzero(wanted > 0)
    asked = wanted[dims]
    amounts = world.alloc[world.snapshot.shape[rows]][:, dims]
    size, credited = len(codes), len(creditable)
    total = _sums(place, amounts, size)
    cred = _sums(place[:credited], amounts[:credited], size)
    owned = _sums(place[:credited][own], amounts[:credited][own], size)
    count = np.bincount(place, minlength=size)
    sat = (total >= asked).all(axis=1)

    best = np.flatnonzero(sat) if sat.any() else np.arange(size)
    best = _largest(best, np.minimum(cred, asked), asked)
    best = _largest(best, np.minimum(owned, asked), asked)
    if sat.any():
        best = _largest(best, -total, asked)
    else:
        best = _largest(best, np.minimum(total, asked), asked)
    best = best[count[best] == count[best].max()]
    first = min(best.tolist(), key=lambda at: domains.values[int(codes[at])])
    return Choice(int(codes[first]), satisfiable=bool(sat.any()))


def home(world: World, row: Row, own: Rows, wanted: Vector) -> Choice | None:
    """The one domain in which its own machines cover a gang already: none can be better."""
    if not len(own):
        return None
    shapes = world.snapshot.shape[own]
    codes = world.domains(row.need).code[shapes]
    if (codes == codes[0]).all():
        covered = (world.alloc[shapes].sum(axis=0) >= wanted).all()
        return Choice(int(codes[0]), satisfiable=True) if covered else None
    domains, place = np.unique(codes, return_inverse=True)
    covering = (_sums(place, world.alloc[shapes], len(domains)) >= wanted).all(axis=1)
    if covering.sum() != 1:
        return None
    return Choice(int(domains[covering.argmax()]), satisfiable=True)


def _sums(place: NDArray[np.intp], amounts: Matrix, size: int) -> Matrix:
    """Amounts added up by place, exactly."""
    sums = np.zeros((size, amounts.shape[1]), dtype=np.int64)
    if len(place):
        order = np.argsort(place, kind="stable")
        sorted_place = place[order]
        starts = np.flatnonzero(np.diff(sorted_place, prepend=-1))
        sums[sorted_place[starts]] = np.add.reduceat(amounts[order], starts, axis=0)
    return sums


def _largest(candidates: NDArray[np.intp], amounts: Matrix, asked: Vector) -> NDArray[np.intp]:
    """Those of the candidates whose amounts, as a share of what is asked, sum up to most.

    Floats sort out all but the close ones; those are compared as fractions, so ties are ties.
    """
    shares = (amounts[candidates] / asked).sum(axis=1)
    near: Rows = candidates[shares >= shares.max() - 1e-9 * max(1.0, abs(float(shares.max())))]
    kinds, kind = np.unique(amounts[near], axis=0, return_inverse=True)
    if len(kinds) == 1:
        return near
    exact = [
        sum((Fraction(a, d) for a, d in zip(line, asked.tolist(), strict=True)), Fraction(0))
        for line in kinds.tolist()
    ]
    most = max(exact)
    wins = np.array([value == most for value in exact])
    winners: Rows = near[wins[kind.reshape(-1)]]
    return winners
