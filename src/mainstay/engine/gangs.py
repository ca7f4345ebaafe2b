"""Gangs: which domain a need that must stay together goes to."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.domains import Domains, domain_sums
from mainstay.engine.plan import Ceiling
from mainstay.engine.rows import Mask, Matrix, Row, Vector
from mainstay.engine.world import World
from mainstay.model.batch import Codes
from mainstay.model.state import State
from mainstay.model.texts import Rows


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

    acquirable: Vector
    """How many machines of each class could be had."""


def choose(world: World, row: Row, supply: Supply, wanted: Vector) -> Choice:
    """The best domain over what counts already and what could be had (see the docs, section 2)."""
    shapes = world.snapshot.shape[supply.creditable]
    classes = np.bincount(shapes, minlength=len(world.alloc)) + supply.acquirable
    if not classes.any():
        return NO_CHOICE
    domains = domains_of(world, row)
    dims = np.flatnonzero(wanted > 0)
    asked = wanted[dims]
    total, count = domain_sums(domains, world.alloc, classes)
    total = total[:, dims]
    sat = (total >= asked).all(axis=1) & (count > 0)

    best = np.flatnonzero(sat) if sat.any() else np.flatnonzero(count)
    for rows in (supply.creditable, supply.creditable[supply.own]):
        if len(rows):  # of nothing every domain has as much
            held, _ = _by_domain(world, domains, rows)
            best = _largest(best, np.minimum(held[:, dims], asked), asked)
    if sat.any():
        best = _largest(best, -total, asked)
    else:
        best = _largest(best, np.minimum(total, asked), asked)
    return Choice(_first_of_most(domains, best, count), satisfiable=bool(sat.any()))


def _first_of_most(domains: Domains, best: Rows, count: Vector) -> int:
    """Of some domains the one with most machines, and of those the smallest."""
    best = best[count[best] == count[best].max()]
    first: int = min(best.tolist(), key=domains.values.__getitem__)
    return first


def home(world: World, row: Row, own: Rows, wanted: Vector) -> Choice | None:
    """The one domain in which its own machines cover a gang already: none can be better."""
    if not len(own):
        return None
    shapes = world.snapshot.shape[own]
    codes = domains_of(world, row).code[shapes]
    if (codes == codes[0]).all():
        covered = (world.alloc[shapes].sum(axis=0) >= wanted).all()
        return Choice(int(codes[0]), satisfiable=True) if covered else None
    total, count = _by_domain(world, domains_of(world, row), own)
    covering = (total >= wanted).all(axis=1) & (count > 0)
    if covering.sum() != 1:
        return None
    return Choice(int(covering.argmax()), satisfiable=True)


def domains_of(world: World, row: Row) -> Domains:
    """The domain of every class, as a gang sees it."""
    return world.domains(row.need.profile.same_keys)


def ceiling(world: World, row: Row, wanted: Vector) -> tuple[bool, Ceiling | None]:
    """Whether some domain could ever hold a gang; and if none, the most that one could give it."""
    domains = domains_of(world, row)
    total, count = world.domain_totals(row)
    dims = np.flatnonzero(wanted > 0)
    asked = wanted[dims]
    if ((total[:, dims] >= asked).all(axis=1) & (count > 0)).any():
        return True, None
    if not count.any():
        return False, None
    best = _largest(np.flatnonzero(count), np.minimum(total[:, dims], asked), asked)
    first = _first_of_most(domains, best, count)
    return False, Ceiling(domains.values[first], world.units(total[first]))


def _by_domain(world: World, domains: Domains, rows: Rows) -> tuple[Matrix, Vector]:
    """What machines provide in each domain, added up exactly, and how many they are."""
    shapes = world.snapshot.shape[rows]
    classes = np.bincount(shapes, minlength=len(world.alloc))
    return domain_sums(domains, world.alloc, classes)


def _largest(candidates: NDArray[np.intp], amounts: Matrix, asked: Vector) -> NDArray[np.intp]:
    """Those of the candidates whose amounts, as a share of what is asked, sum up to most.

    Floats sort out all but the close ones; those are compared as fractions, so ties are ties.
    """
    shares = (amounts[candidates] / asked).sum(axis=1)
    near: Rows = candidates[shares >= shares.max() - 1e-9 * max(1.0, abs(float(shares.max())))]
    if (amounts[near] == amounts[near[0]]).all():
        return near
    kinds, kind = np.unique(amounts[near], axis=0, return_inverse=True)
    exact = [
        sum((Fraction(a, d) for a, d in zip(line, asked.tolist(), strict=True)), Fraction(0))
        for line in kinds.tolist()
    ]
    most = max(exact)
    wins = np.array([value == most for value in exact])
    winners: Rows = near[wins[kind.reshape(-1)]]
    return winners


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


def hope_of(world: World) -> Hope:
    """As a level begins; while it is credited, nothing free is claimed."""
    state = world.snapshot.state
    free = ((state == State.IDLE) | (state == State.SPECULATIVE)) & (world.owner < 0)
    if world.barred is not None:
        free &= ~world.barred
    by_class = np.bincount(world.snapshot.shape[free], minlength=len(world.alloc))
    return Hope(np.zeros(len(world.owner), dtype=np.bool_), by_class)
