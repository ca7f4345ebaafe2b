"""What needs ask of shape classes: each question is answered once, for all machines of a class.

The answers go by the codes of a demand. They stay true for every demand whose codes go on from
those of the one before (`Asked.goes_on_from`).
"""

import numpy as np

from mainstay.engine.asked import Asked
from mainstay.engine.domains import Domains, domains_by
from mainstay.engine.rows import Mask, Matrix, Row, Vector, Walk
from mainstay.inventory.shapes import ShapeView


class Classes:
    """The shape classes of a fleet, as a demand sees them."""

    def __init__(
        self,
        shapes: ShapeView,
        asked: Asked,
        walk: Walk | None = None,
        last: "Classes | None" = None,
    ) -> None:
        """What an earlier cycle knew, by its walk or its classes, is used as far as it holds."""
        self.shapes = shapes
        self.asked = asked
        self._matching: dict[int, Mask] = {}
        self._fits: dict[tuple[int, int], Mask] = {}
        self._largest: dict[int, Vector] = {}
        self._whole_units: dict[int, Matrix] = {}
        self._domains: dict[tuple[str, ...], Domains] = {}
        if last is not None and last.shapes is shapes and last.knows(asked):
            self._adopt(last)
            self._ask(asked)
            return
        known = shapes.dimensions
        self.dimensions = (*known, *sorted(asked.names - set(known)))
        self.alloc: Matrix = np.zeros((len(shapes.values), len(self.dimensions)), dtype=np.int64)
        self.alloc[:, : len(known)] = shapes.allocatable
        same = walk is not None and walk.asked is asked and walk.dimensions == self.dimensions
        self.amounts: Matrix = walk.amounts if walk and same else self._amounts(asked, 0)

    def _adopt(self, last: "Classes") -> None:
        self.dimensions, self.alloc, self.amounts = last.dimensions, last.alloc, last.amounts
        self.asked = last.asked
        for name in ("_matching", "_fits", "_largest", "_whole_units", "_domains"):
            setattr(self, name, dict(getattr(last, name)))

    def knows(self, asked: Asked) -> bool:
        """Whether all that was answered so far is true of this demand, too."""
        return asked.goes_on_from(self.asked) and asked.names <= set(self.dimensions)

    def _ask(self, asked: Asked) -> None:
        """Go on with a demand of which everything known is true."""
        new = self._amounts(asked, len(self.amounts))
        self.asked = asked
        if len(new):
            self.amounts = np.concatenate([self.amounts, new])

    def _amounts(self, asked: Asked, first: int) -> Matrix:
        """What is asked for, over the dimensions; from a code on."""
        column = {name: place for place, name in enumerate(self.dimensions)}
        wanted = asked.amounts[first:]
        found = np.zeros((len(wanted), len(self.dimensions)), dtype=np.int64)
        for code, amounts in enumerate(wanted):
            for name, amount in amounts:
                found[code, column[name]] = amount
        return found

    def units(self, vector: Vector) -> dict[str, int]:
        """A vector as amounts, without zeros."""
        amounts = zip(self.dimensions, vector.tolist(), strict=True)
        return {name: amount for name, amount in sorted(amounts) if amount > 0}

    def matching(self, requirement_set: int) -> Mask:
        """Which shape classes fulfil some requirements."""
        if requirement_set not in self._matching:
            requirements = self.asked.profiles.requirements[requirement_set]
            self._matching[requirement_set] = self.shapes.matching(requirements)
        return self._matching[requirement_set]

    def largest(self, requirement_set: int) -> Vector:
        """Per dimension, the most that a class that fulfils some requirements provides."""
        if requirement_set not in self._largest:
            found = self.alloc[self.matching(requirement_set)]
            self._largest[requirement_set] = found.max(axis=0, initial=0)
        return self._largest[requirement_set]

    def fitting(self, requirement_set: int, min_unit: int) -> Mask:
        """Which shape classes fulfil some requirements and cover a smallest unit."""
        key = (requirement_set, min_unit)
        if key not in self._fits:
            matching = self.matching(requirement_set)
            unit = self.amounts[min_unit]
            asked = np.flatnonzero(unit)
            covers = (self.alloc[:, asked] >= unit[asked]).all(axis=1)
            self._fits[key] = matching & covers
        return self._fits[key]

    def matches(self, row: Row) -> Mask:
        """Which shape classes fulfil the requirements of a need."""
        return self.matching(row.requirement_set)

    def fits(self, row: Row) -> Mask:
        """Which shape classes fulfil the requirements and cover the min unit."""
        return self.fitting(row.requirement_set, row.min_unit)

    def adds(self, row: Row) -> Matrix:
        """What a machine of each class adds: its alloc, or whole min units for a folded row."""
        return self.whole_units(row.min_unit) if row.folded else self.alloc

    def whole_units(self, min_unit: int) -> Matrix:
        """What a machine of each class adds to a folded row."""
        if min_unit not in self._whole_units:
            unit = self.amounts[min_unit]
            asked = unit > 0
            counts = (self.alloc[:, asked] // unit[asked]).min(axis=1) if asked.any() else None
            self._whole_units[min_unit] = self.alloc if counts is None else counts[:, None] * unit
        return self._whole_units[min_unit]

    def domains(self, keys: tuple[str, ...]) -> Domains:
        """The domain of every class for some Same keys."""
        if keys not in self._domains:
            self._domains[keys] = domains_by(self.shapes, keys)
        return self._domains[keys]
