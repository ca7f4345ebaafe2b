"""What needs ask of a machine, as tables over shape classes; carried from cycle to cycle.

A kind is a set of requirements with a smallest unit. Classes that fit the same kinds have one
signature: machines of one signature fit the same needs.
"""

from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.rows import Mask, Matrix, Vector, Walk
from mainstay.engine.world import World
from mainstay.inventory.shapes import ShapeView

UNIT_BITS: Final = 32


@dataclass(frozen=True, slots=True)
class Kinds:
    """For one walk over one set of shape classes."""

    walk: Walk = field(repr=False)
    shapes: ShapeView = field(repr=False)
    packed: Vector
    """Code of the requirements and of the smallest unit of each kind, in one number."""

    kind: Vector
    """Of each need."""

    fits: NDArray[np.bool_]
    """Which classes each kind fits."""

    signature: NDArray[np.int32]
    """Of each class."""

    signatures: int
    start: Vector
    """Where the signatures that a kind fits begin in `fitting`."""

    fitting: NDArray[np.int32]
    most: Matrix
    """Per signature and dimension: the most that one of its classes has."""

    domains: Matrix
    """The domain of every class, for each set of Same keys."""

    same: Vector
    """Which set of Same keys each need has."""

    def is_of(self, walk: Walk, packed: Vector) -> bool:
        """Whether these are the kinds of another walk, too: the same codes mean the same."""
        same = self.walk.dimensions == walk.dimensions and np.array_equal(self.packed, packed)
        return same and walk.asked.goes_on_from(self.walk.asked)


def kinds_of(loops: ModuleType, world: World, walk: Walk, last: Kinds | None) -> Kinds:
    """The tables of the last cycle while needs and classes are the same, else new ones."""
    shapes = world.snapshot.shapes
    if last is not None and last.walk is walk and last.shapes is shapes:
        return last
    sets = walk.requirement_set.astype(np.int64)
    packed, kind = np.unique((sets << UNIT_BITS) + walk.min_unit, return_inverse=True)
    kind = kind.reshape(-1).astype(np.int64)
    if last is not None and last.shapes is shapes and last.is_of(walk, packed):
        domains, same = _domains(world, walk)
        return replace(last, walk=walk, kind=kind, domains=domains, same=same)
    fits: Mask = np.zeros((len(packed), len(world.alloc)), dtype=np.bool_)
    for number, code in enumerate(packed.tolist()):
        fits[number] = world.fitting(*divmod(code, 1 << UNIT_BITS))
    sample = np.empty(len(world.alloc), dtype=np.int32)
    signature = loops.signatures_of(fits, sample)
    signatures = int(signature.max(initial=-1)) + 1
    chosen = fits[:, sample[:signatures]]
    most: Matrix = np.zeros((signatures, world.alloc.shape[1]), dtype=np.int64)
    np.maximum.at(most, signature, world.alloc)
    domains, same = _domains(world, walk)
    return Kinds(
        walk=walk,
        shapes=shapes,
        packed=packed,
        kind=kind,
        fits=fits,
        signature=signature,
        signatures=signatures,
        start=starts(chosen.sum(axis=1)),
        fitting=np.nonzero(chosen)[1].astype(np.int32),
        most=most,
        domains=domains,
        same=same,
    )


def _domains(world: World, walk: Walk) -> tuple[Matrix, Vector]:
    keys: dict[tuple[str, ...], int] = {}
    profiles = world.asked.profiles
    by_profile = np.zeros(len(profiles.values), dtype=np.int64)
    for code in np.unique(walk.profile[walk.is_gang]).tolist():
        same = profiles.values[code].same_keys
        by_profile[code] = keys.setdefault(same, len(keys))
    codes = [world.domains(same).code for same in keys]
    table = np.stack(codes) if codes else np.zeros((1, len(world.alloc)), dtype=np.int64)
    return np.ascontiguousarray(table), by_profile[walk.profile]


def starts(counts: NDArray[np.integer]) -> Vector:
    """Where each of some parts begins when they lie one after the other; last, where all end."""
    found = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=found[1:])
    return found
