"""What is due for a stretch of active time. Pure arithmetic in whole minor units.

A window costs what is due at its end less what was due at its start, both counted from `active_at`
and without the time in which the node was offline.
So the windows of an allocation add up to what its whole time costs, however it was cut, and the
fraction of a minor unit that one window could not charge is charged by a later one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Final

HOUR_S: Final = 3600
SECOND: Final = timedelta(seconds=1)

DIGITS: Final[Mapping[str, int]] = MappingProxyType(
    dict.fromkeys(("CLP", "JPY", "KRW", "VND"), 0)
    | dict.fromkeys(("BHD", "JOD", "KWD", "OMR", "TND"), 3)
)
"""Decimal places of currencies that do not have two."""


@dataclass(frozen=True, slots=True)
class Rate:
    """What an allocation costs: fixed when it was asked for."""

    price_minor: int
    """Per GPU and hour."""

    gpus: int

    @property
    def hour_minor(self) -> int:
        """The whole allocation for an hour."""
        return self.price_minor * self.gpus

    def due(self, elapsed_s: int) -> int:
        """What so many seconds since `active_at` cost, all together."""
        return self.hour_minor * max(elapsed_s, 0) // HOUR_S


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of active time and what it costs."""

    start: datetime
    end: datetime
    amount_minor: int


@dataclass(frozen=True, slots=True)
class Outage:
    """When a node was offline; None: it still is."""

    began: datetime
    ended: datetime | None


def elapsed_s(active_at: datetime, at: datetime, outages: Sequence[Outage] = ()) -> int:
    """Whole seconds of active time so far, without outages. These do not overlap."""
    lost = timedelta()
    for outage in outages:
        began, ended = max(outage.began, active_at), min(outage.ended or at, at)
        lost += max(ended - began, timedelta())
    return (at - active_at - lost) // SECOND


def windows(
    rate: Rate,
    active_at: datetime,
    start: datetime,
    end: datetime,
    outages: Sequence[Outage] = (),
) -> tuple[Window, ...]:
    """What is to be charged from `start`, where the last window ended, to `end`.

    One window, or more where a month begins in between: each belongs to the bill of one month.
    Nothing when no time has passed.
    """
    cuts = [start, *_months_between(start, end), end] if start < end else []
    dues = [rate.due(elapsed_s(active_at, cut, outages)) for cut in cuts]
    return tuple(Window(cuts[i], cuts[i + 1], dues[i + 1] - dues[i]) for i in range(len(cuts) - 1))


def _months_between(start: datetime, end: datetime) -> Iterator[datetime]:
    first = month_after(start)
    while first < end:
        yield first
        first = month_after(first)


def month_after(at: datetime) -> datetime:
    """The beginning of the next month, by UTC."""
    day = at.astimezone(UTC)
    return datetime(day.year + day.month // 12, day.month % 12 + 1, 1, tzinfo=UTC)


def formatted(amount_minor: int, currency: str) -> str:
    """For people: `$1,234.56`, `-$0.05`, `9.03 EUR`."""
    digits = DIGITS.get(currency, 2)
    whole, part = divmod(abs(amount_minor), 10**digits)
    number = f"{whole:,}" + (f".{part:0{digits}}" if digits else "")
    sign = "-" if amount_minor < 0 else ""
    return f"{sign}${number}" if currency == "USD" else f"{sign}{number} {currency}"
