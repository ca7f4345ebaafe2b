"""The domain that has most of what a gang wants: that of its ceiling, hopeless or not."""

from fractions import Fraction

import numpy as np

from mainstay.engine.lookup import wanted
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.need import Need
from mainstay.model.state import State

Domain = tuple[str, ...]


def widest_domain(snapshot: Snapshot, gang: Need) -> Domain | None:
    """Among all machines that fit, in any state but Failed: most coverage, most machines, name."""
    shapes = snapshot.shapes
    fits = shapes.matching(gang.profile.requirements)
    amounts = dict(zip(shapes.dimensions, shapes.allocatable.T, strict=True))
    nothing = np.zeros(len(fits), dtype=np.int64)
    for name, amount in wanted(gang.min_unit).items():
        fits &= amounts.get(name, nothing) >= amount
    alive = (snapshot.state != State.FAILED) & (snapshot.state != State.UNSPECIFIED)
    machines = np.bincount(snapshot.shape[alive], minlength=len(fits))
    classes = np.flatnonzero(fits & (machines > 0))
    if not len(classes):
        return None
    total = wanted(gang.aggregate)
    columns = [machines[classes], *(machines * amounts.get(name, nothing) for name in total)]
    columns[1:] = [column[classes] for column in columns[1:]]
    names, place = _domains(snapshot, gang, classes)
    sums = np.zeros((len(names), len(columns)), dtype=np.int64)
    np.add.at(sums, place, np.stack(columns, axis=1))
    return min(
        zip(names, sums.tolist(), strict=True), key=lambda row: _rank(row[0], row[1], total)
    )[0]


def _domains(
    snapshot: Snapshot, gang: Need, classes: np.ndarray[tuple[int], np.dtype[np.intp]]
) -> tuple[list[Domain], list[int]]:
    """The distinct domains of some classes, and which each class has."""
    found: dict[Domain, int] = {}
    places = []
    for number in classes.tolist():
        profile = snapshot.shapes.values[number].profile
        domain = tuple(profile.attribute(key) or "" for key in gang.profile.same_keys)
        places.append(found.setdefault(domain, len(found)))
    return list(found), places


def _rank(domain: Domain, sums: list[int], total: dict[str, int]) -> tuple[Fraction, int, Domain]:
    count, *amounts = sums
    shares = zip(amounts, total.values(), strict=True)
    coverage = sum((min(Fraction(1), Fraction(have, want)) for have, want in shares), Fraction(0))
    return -coverage, -count, domain
