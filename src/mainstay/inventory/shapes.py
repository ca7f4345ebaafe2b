"""Shape classes: machines that match the same needs, so that matching works on classes.

A class is a profile with its allocatable. Every class has a row in the columns here; a requirement
is answered once per distinct value of its key and then gathered: it costs classes, not machines.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from mainstay.inventory.growing import frozen, grown_capacity, resized
from mainstay.inventory.table import Table
from mainstay.model.batch import Codes, Encoder, Shape
from mainstay.model.errors import InvalidMachine
from mainstay.model.machine import MachineRule
from mainstay.model.need import Requirement
from mainstay.model.profile import Labels, Profile
from mainstay.model.resources import NO_RESOURCES, Resources

ADMITTED_MAX: Final = 4096
"""So many answers of a view are kept."""

FLEET_DIMENSIONS_MAX: Final = 256
"""Most kinds of resources that all machines of an inventory name together."""

NO_SHAPE: Final = Shape(Profile(""), NO_RESOURCES)


@dataclass(frozen=True, slots=True)
class ShapeView:
    """The classes as a snapshot sees them; `code` of a machine is its row here."""

    values: tuple[Shape, ...]
    capacity_type: NDArray[np.uint8]
    dimensions: tuple[str, ...]
    allocatable: NDArray[np.int64]
    """Effective allocatable, one column per dimension, in units."""

    _attributes: dict[str, tuple[Codes, tuple[str | None, ...]]] = field(
        default_factory=dict, compare=False, repr=False
    )
    _admitted: dict[Requirement, NDArray[np.bool_]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def attribute(self, key: str) -> tuple[Codes, tuple[str | None, ...]]:
        """The value of `key` for every class: codes, and the values they stand for."""
        if key not in self._attributes:
            encoder: Encoder[str | None] = Encoder()
            codes = encoder.codes([shape.profile.attribute(key) for shape in self.values])
            self._attributes[key] = codes, encoder.table
        return self._attributes[key]

    def matching(self, requirements: Iterable[Requirement]) -> NDArray[np.bool_]:
        """Which classes fulfil every requirement."""
        fits = np.ones(len(self.values), dtype=np.bool_)
        fits[0] = False
        for requirement in requirements:
            fits &= self._admitting(requirement)
        return fits

    def _admitting(self, requirement: Requirement) -> NDArray[np.bool_]:
        """Which classes fulfil one requirement."""
        found = self._admitted.get(requirement)
        if found is None:
            codes, values = self.attribute(requirement.key)
            admitted = np.array([requirement.admits(value) for value in values], dtype=np.bool_)
            if len(self._admitted) >= ADMITTED_MAX:
                self._admitted.clear()
            found = self._admitted[requirement] = admitted[codes]
        return found


class ShapeTable(Table[Shape]):
    """The classes an inventory knows, with their columns."""

    def __init__(self) -> None:
        super().__init__(NO_SHAPE)
        self._capacity_type = np.zeros(16, dtype=np.uint8)
        self._dimensions: dict[str, int] = {}
        self._allocatable = np.zeros((16, 4), dtype=np.int64)
        self._labels: dict[Labels, Labels] = {}
        self._resources: dict[Resources, Resources] = {}
        self._view: ShapeView | None = None
        self._view_version = -1

    def view(self) -> ShapeView:
        """The classes now; the same object until one is added."""
        if self._view is None or self._view_version != self.version:
            size = len(self)
            self._view = ShapeView(
                values=self.values(),
                capacity_type=frozen(self._capacity_type[:size]),
                dimensions=tuple(self._dimensions),
                allocatable=frozen(self._allocatable[:size, : len(self._dimensions)]),
            )
            self._view_version = self.version
        return self._view

    def shared(self, shape: Shape) -> Shape:
        """The same shape made of parts we hold already, so that equal parts are stored once."""
        profile = shape.profile
        resources = self._resources.setdefault(profile.resources, profile.resources)
        labels = self._labels.setdefault(profile.labels, profile.labels)
        allocatable = self._resources.setdefault(shape.allocatable, shape.allocatable)
        made = Profile(
            profile.instance_type, profile.zone, profile.capacity_type, resources, labels
        )
        return Shape(made, allocatable)

    def can_hold(self, shape: Shape) -> bool:
        """Whether there is room for the dimensions it names."""
        effective = shape.allocatable or shape.profile.resources
        more = sum(name not in self._dimensions for name in effective.units)
        return len(self._dimensions) + more <= FLEET_DIMENSIONS_MAX

    @override
    def nbytes(self) -> int:
        """Columns and tables; the values themselves are counted by whoever walks objects."""
        return super().nbytes() + int(self._capacity_type.nbytes + self._allocatable.nbytes)

    @override
    def _put(self, value: Shape) -> int:
        if not self.can_hold(value):
            why = f"more than {FLEET_DIMENSIONS_MAX} kinds of resources in one inventory"
            raise InvalidMachine(why, rule=MachineRule.RESOURCES)
        return super()._put(self.shared(value))

    @override
    def _filled(self, code: int, value: Shape) -> None:
        if code >= len(self._capacity_type):
            capacity = grown_capacity(len(self._capacity_type), code + 1)
            self._capacity_type = resized(self._capacity_type, capacity)
            self._allocatable = resized(self._allocatable, capacity)
        self._capacity_type[code] = value.profile.capacity_type
        effective = value.allocatable or value.profile.resources
        self._allocatable[code] = 0
        for name, units in effective.units.items():
            column = self._dimension(name)  # may make the matrix wider
            self._allocatable[code, column] = units

    def _dimension(self, name: str) -> int:
        column = self._dimensions.setdefault(name, len(self._dimensions))
        if column >= self._allocatable.shape[1]:
            wider = np.zeros((len(self._allocatable), column * 2), dtype=np.int64)
            wider[:, :column] = self._allocatable
            self._allocatable = wider
        return column
