"""Resource vectors: quantity strings are parsed once, here, into whole numbers per dimension.

Each dimension has its own unit (ADR-0004), so that the sum over a whole fleet fits 64 bits:
cpu in milli-cores, memory and storage in KiB, everything else (devices) in whole units. What does
not come out even is rounded up, for machines and for needs alike.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from typing_extensions import override

from mainstay.model.errors import Rejected
from mainstay.model.quantity import NANO, Notation, Quantity, parse_quantity

MACHINE_UNITS_MAX: Final = 2**43
"""Largest amount one machine may have: 2**19 machines of it still add up below 2**62."""

NEED_UNITS_MAX: Final = 2**53
"""Largest amount one need may ask for: exact as a float, too."""

DIMENSIONS_MAX: Final = 64
"""Most dimensions one vector may name."""

_KIB_DIMENSIONS: Final = frozenset({"memory", "ephemeral-storage", "storage"})
_KIB_PREFIX: Final = "hugepages-"
_KIB_NANOS: Final = NANO * 1024


def nanos_per_unit(dimension: str) -> int:
    """How many nano-units one unit of this dimension is."""
    if dimension == "cpu":
        return NANO // 1000
    if dimension in _KIB_DIMENSIONS or dimension.startswith(_KIB_PREFIX):
        return _KIB_NANOS
    return NANO


def to_units(dimension: str, quantity: Quantity) -> int:
    """A quantity in the units of its dimension, rounded up."""
    return -(-quantity.nanos // nanos_per_unit(dimension))


def from_units(dimension: str, units: int) -> str:
    """The quantity string for a number of units."""
    nanos = nanos_per_unit(dimension)
    notation = Notation.BINARY if nanos == _KIB_NANOS else Notation.DECIMAL
    return str(Quantity(units * nanos, notation))


class Resources:
    """A frozen vector: the strings as they were given, and their amounts in units.

    Two vectors are equal when their strings are; `units` compare amounts. A dimension that is
    not named is zero.
    """

    __slots__ = ("_hash", "_texts", "_units")

    _texts: tuple[tuple[str, str], ...]
    _units: Mapping[str, int]
    _hash: int

    def __init__(self, texts: Mapping[str, str], *, units_max: int = MACHINE_UNITS_MAX) -> None:
        """Parse every quantity; one that is wrong, negative or too large refuses the whole."""
        if len(texts) > DIMENSIONS_MAX:
            raise Rejected(f"too many resources: {len(texts)} (at most {DIMENSIONS_MAX})")
        self._texts = tuple(sorted(texts.items()))
        self._units = MappingProxyType(
            {name: _checked_units(name, text, units_max) for name, text in self._texts}
        )
        self._hash = hash(self._texts)

    @property
    def texts(self) -> tuple[tuple[str, str], ...]:
        """(dimension, quantity string) as given, sorted by dimension."""
        return self._texts

    @property
    def units(self) -> Mapping[str, int]:
        """Amount per dimension, in the dimension's own unit."""
        return self._units

    def as_dict(self) -> dict[str, str]:
        """The strings exactly as they were given."""
        return dict(self._texts)

    def __bool__(self) -> bool:
        return bool(self._texts)

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Resources) and self._texts == other._texts

    @override
    def __hash__(self) -> int:
        return self._hash

    @override
    def __repr__(self) -> str:
        return f"Resources({dict(self._texts)!r})"


def _checked_units(name: str, text: str, units_max: int) -> int:
    try:
        quantity = parse_quantity(text)
    except Rejected as error:
        raise Rejected(f"{error.message} for resource {name!r}") from error
    if quantity.nanos < 0:
        raise Rejected(f"negative quantity for resource {name!r}: {text} (must be zero or more)")
    units = to_units(name, quantity)
    if units > units_max:
        raise Rejected(f"quantity too large for resource {name!r}: {text}")
    return units


NO_RESOURCES: Final = Resources({})

Units = Mapping[str, int]
"""Amounts per dimension; a missing dimension is zero."""


def add(left: Units, right: Units) -> dict[str, int]:
    """Sum over the union of dimensions."""
    return {name: left.get(name, 0) + right.get(name, 0) for name in _union(left, right)}


def largest(left: Units, right: Units) -> dict[str, int]:
    """Larger amount per dimension, over the union of dimensions."""
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in _union(left, right)}


def subtract(left: Units, right: Units) -> dict[str, int]:
    """What is left, never below zero, over the union of dimensions."""
    return {name: max(0, left.get(name, 0) - right.get(name, 0)) for name in _union(left, right)}


def scale(vector: Units, times: int) -> dict[str, int]:
    """`times` such vectors; none for zero or fewer."""
    return {name: amount * times for name, amount in vector.items()} if times > 0 else {}


def covers(have: Units, want: Units) -> bool:
    """Whether all that is wanted is there in full; what is not wanted does not matter."""
    return all(have.get(name, 0) >= amount for name, amount in want.items() if amount > 0)


def is_zero(vector: Units) -> bool:
    """Whether nothing is in it."""
    return not any(amount > 0 for amount in vector.values())


def _union(left: Units, right: Units) -> Iterable[str]:
    return sorted(left.keys() | right.keys())
