"""Domains: what machines of a gang must share, as columns over shape classes."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.rows import Matrix
from mainstay.inventory.shapes import ShapeView


@dataclass(frozen=True, slots=True)
class Domains:
    """The domain of every shape class for some Same keys."""

    code: NDArray[np.int64]
    """Per class; -1 where an attribute is missing."""

    values: tuple[tuple[str, ...], ...]
    order: NDArray[np.intp] = field(init=False)
    """The classes that are in a domain, domain after domain."""

    def __post_init__(self) -> None:
        inside = np.flatnonzero(self.code >= 0)
        order = inside[np.argsort(self.code[inside], kind="stable")]
        object.__setattr__(self, "order", order)


def domains_by(shapes: ShapeView, keys: tuple[str, ...]) -> Domains:
    """The domain of every class for some Same keys."""
    columns = [shapes.attribute(key) for key in keys]
    packed = np.zeros(len(shapes.values), dtype=np.int64)
    for codes, values in columns:
        # Ranks, since the product over many keys would not fit 64 bits.
        packed = np.unique(packed * len(values) + codes, return_inverse=True)[1].reshape(-1)
    _, samples, place = np.unique(packed, return_index=True, return_inverse=True)
    code = np.full(len(samples), -1, dtype=np.int64)
    domains: list[tuple[str, ...]] = []
    for number, sample in enumerate(samples.tolist()):
        found = [values[int(codes[sample])] for codes, values in columns]
        domain = tuple(value for value in found if value is not None)
        if len(domain) == len(keys):
            code[number] = len(domains)
            domains.append(domain)
    return Domains(code[place.reshape(-1)], tuple(domains))


def domain_sums(
    domains: Domains, alloc: Matrix, classes: NDArray[np.int64]
) -> tuple[Matrix, NDArray[np.int64]]:
    """What so many machines of each class provide in each domain, and how many they are."""
    held = domains.order[classes[domains.order] > 0]
    codes, counts = domains.code[held], classes[held]
    sums = np.zeros((len(domains.values), alloc.shape[1]), dtype=np.int64)
    machines = np.zeros(len(domains.values), dtype=np.int64)
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    if len(starts):
        sums[codes[starts]] = np.add.reduceat(alloc[held] * counts[:, None], starts, axis=0)
        machines[codes[starts]] = np.add.reduceat(counts, starts)
    return sums, machines
