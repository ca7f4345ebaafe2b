"""How billing works, for every part of it."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class BillingOptions:
    """Times in seconds."""

    window_s: int = 60
    """Active time is charged in windows of at least so much; the last one may be shorter."""

    tick_s: float = 5.0
    """Between two passes: each charges only what has a whole window to charge, or has ended."""

    pause_s: float = 0.5
    """Between two passes at least, however many events wake the biller."""

    pending_s: int = 3600
    """A balance that will be used up within this is announced."""

    overdue_s: float = 60.0
    """So long after a depletion the biller itself releases what nobody else has released."""


DEFAULT: Final = BillingOptions()
