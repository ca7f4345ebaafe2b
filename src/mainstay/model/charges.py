"""When a host began to cost money, when its price changed and when it ended, as its provider says.

A list says what a machine costs, and not since when: a shard that looks every few seconds would be
wrong by as much. A provider that keeps a bill can tell the moments themselves.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from mainstay.model.errors import Rejected
from mainstay.model.ids import MachineId

MARKS_MAX: Final = 10_000
"""Most marks of one answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargeMark:
    """From a moment on a machine costs so much, or nothing any more."""

    machine: MachineId
    at_s: float
    """Unix seconds. Of an end not before the least time that a host is paid for."""

    price_per_hour: float | None
    """Dollars; None: its host is no longer paid for."""

    def __post_init__(self) -> None:
        price = self.price_per_hour
        if not 0.0 <= self.at_s < math.inf or (price is not None and not 0.0 <= price < math.inf):
            raise Rejected(f"not a charge: {price} dollars per hour at {self.at_s} seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Charges:
    """Marks in the order in which they were made."""

    marks: Sequence[ChargeMark] = ()
    cursor: bytes = b""
    """Where the next question goes on; never empty."""

    more: bool = False
    """Whether there are further marks behind the cursor already."""

    begins: bool = False
    """The cursor asked for is not known, or was none: marks are told from now on only."""


class Meter(Protocol):
    """A provider that tells when it charges. Raises only MainstayError."""

    async def charges(self, since: bytes) -> Charges:
        """Marks made after a cursor; with none, where to begin."""
