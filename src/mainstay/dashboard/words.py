"""Numbers, times and amounts as people read them."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from mainstay.dashboard.html import Html, h

SHORT: Final = 8
"""So many characters of a fingerprint are shown."""

SKEW_S: Final = 3.0

_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def number(value: float) -> str:
    """A whole number with separators."""
    return f"{value:,.0f}"


def dollars(value: float) -> str:
    """To the cent."""
    return f"${value:,.2f}"


def lasting(seconds: float) -> str:
    """A length of time in its largest whole unit."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds / size:,.0f} {unit}"
    return "0 s"


def clock_time(at_s: float) -> str:
    """The time of day, in UTC."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%H:%M:%S")


def moment(at_s: float, now_s: float) -> Html | str:
    """How long ago, with the exact time for who wants it."""
    if not at_s:
        return "never"
    exact = datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    # What was told while the page was made is a little ahead of it.
    ahead_s = at_s - now_s
    told = f"in {lasting(ahead_s)}" if ahead_s > SKEW_S else f"{lasting(-ahead_s)} ago"
    return h("time", told, datetime=exact.replace(" UTC", "Z").replace(" ", "T"), title=exact)


def day_and_time(text: str | None) -> str:
    """A moment of the API of tenants."""
    if not text:
        return ""
    try:
        return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return text


def exact_moment(at_s: float) -> Html | str:
    """Day and time, in UTC; nothing where nobody says when."""
    if not at_s:
        return ""
    told = datetime.fromtimestamp(at_s, UTC)
    return h("time", told.strftime("%Y-%m-%d %H:%M:%S"), datetime=f"{told:%Y-%m-%dT%H:%M:%SZ}")


def amounts(told: Mapping[str, str]) -> str:
    """Amounts in one line."""
    return ", ".join(f"{name} {amount}" for name, amount in told.items())


def short(fingerprint: str) -> str:
    """Enough of it to know it again."""
    return fingerprint[:SHORT]


def of_old(count: int) -> str:
    """Behind a sum: how much of it was told by those that are silent now."""
    return f", of which {number(count)} are old" if count else ""


def plural(count: int, one: str, many: str = "") -> str:
    """A number and its noun."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
