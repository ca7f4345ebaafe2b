"""Kubernetes quantities ("200m", "16Gi", "1e3"), exactly.

A quantity is a whole number of nano-units and the way it was written, so that its canonical text
comes back unchanged.
"""

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final

from typing_extensions import override

from mainstay.model.errors import Rejected

NANO: Final = 10**9
TEXT_LENGTH_MAX: Final = 64
EXPONENT_MAX: Final = 30
NANOS_MAX: Final = 10**56
"""Largest amount: its canonical text is short enough to be read again."""

TEXTS_KEPT: Final = 4096
"""So many texts are remembered with what they mean: a fleet has few, and repeats them."""

_PATTERN: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?P<suffix>[eE](?P<exponent>[+-]?[0-9]{1,3})|[KMGTPE]i|[numkMGTPE]?)"
)

_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL: Final = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}


class Notation(Enum):
    """How the number was written; canonical text keeps to it."""

    DECIMAL = "decimal"
    BINARY = "binary"
    EXPONENT = "exponent"


@dataclass(frozen=True, slots=True)
class Quantity:
    """An exact amount. `str` gives the canonical Kubernetes text."""

    nanos: int
    notation: Notation = Notation.DECIMAL

    @override
    def __str__(self) -> str:
        return canonical(self)


@lru_cache(maxsize=TEXTS_KEPT)
def parse_quantity(text: str) -> Quantity:
    """Parse one quantity; anything finer than a nano-unit is rounded away from zero."""
    match = _PATTERN.fullmatch(text) if len(text) <= TEXT_LENGTH_MAX else None
    if match is None or not (match["whole"] or match["part"]):
        raise Rejected(f'not a quantity: {text[:80]!r} (write it like "500m", "16Gi" or "2")')
    digits = int(match["whole"] + (match["part"] or "") or "0")
    places = len(match["part"] or "")
    notation, two, ten = _scale(match["suffix"], match["exponent"], text)
    numerator = digits * (1 << two) * 10 ** max(0, 9 + ten - places)
    denominator = 10 ** max(0, places - 9 - ten)
    nanos = -(-numerator // denominator)
    if nanos > NANOS_MAX:
        raise Rejected(f"quantity too large: {text!r}")
    return Quantity(-nanos if match["sign"] == "-" else nanos, notation)


def _scale(suffix: str, exponent: str | None, text: str) -> tuple[Notation, int, int]:
    """The notation, the power of two and the power of ten that a suffix stands for."""
    if exponent is not None:
        ten = int(exponent)
        if abs(ten) > EXPONENT_MAX:
            raise Rejected(f"exponent out of range in quantity: {text!r} (at most {EXPONENT_MAX})")
        return Notation.EXPONENT, 0, ten
    if suffix in _BINARY:
        return Notation.BINARY, _BINARY[suffix], 0
    return Notation.DECIMAL, 0, _DECIMAL[suffix]


def canonical(quantity: Quantity) -> str:
    """A whole mantissa with the largest suffix of its notation, as Kubernetes writes it."""
    nanos = abs(quantity.nanos)
    sign = "-" if quantity.nanos < 0 else ""
    if nanos == 0:
        return "0"
    whole, rest = divmod(nanos, NANO)
    # Kubernetes writes binary only for whole numbers of at least 1024.
    if quantity.notation is Notation.BINARY and rest == 0 and whole >= 1024:
        for suffix, two in reversed(_BINARY.items()):
            if whole % (1 << two) == 0:
                return f"{sign}{whole >> two}{suffix}"
        return f"{sign}{whole}"
    for suffix, ten in reversed(_DECIMAL.items()):
        unit = 10 ** (9 + ten)
        if nanos % unit == 0:
            ending = f"e{ten}" if quantity.notation is Notation.EXPONENT and ten else suffix
            return f"{sign}{nanos // unit}{ending}"
    raise AssertionError("every whole number of nano-units has a suffix")
