"""Numbers as people read them, and back."""

import re
from collections.abc import Mapping
from typing import Final

from mainstay.model.errors import Rejected
from mainstay.model.progress import Progress
from mainstay.model.state import State

_UNITS_S: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_LASTS: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhd])")


def lasts_s(text: str) -> float:
    """Seconds of a time such as 90s, 30m, 2h or 1d."""
    match = _LASTS.fullmatch(text.strip())
    if match is None:
        raise Rejected(f"not a time: {text[:80]!r} (write it like 90s, 30m, 2h or 1d)")
    return float(match[1]) * _UNITS_S[match[2]]


def state_named(text: str) -> State:
    """A state by its name, however it is written."""
    known = {state.name: state for state in State if state}
    if text.upper() not in known:
        names = ", ".join(str(state) for state in known.values())
        raise Rejected(f"no such state: {text[:80]!r} (one of {names})")
    return known[text.upper()]


def reasons() -> tuple[str, ...]:
    """Why a need may be short, in words that need no quotes."""
    from mainstay.engine.plan import Unmet

    return tuple(each.value.replace(" ", "-") for each in Unmet)


def reason_named(text: str) -> str:
    """A reason as answers tell it; with dashes for its spaces, or as a table shows it."""
    plain = text.strip().lower().replace(" ", "-")
    if plain not in reasons():
        raise Rejected(f"no such reason: {text[:80]!r} (one of {', '.join(reasons())})")
    return plain.replace("-", " ")


def age(seconds: float) -> str:
    """How long, in one unit."""
    whole = max(0, int(seconds))
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if whole >= 2 * size:
            return f"{whole // size}{unit}"
    return f"{whole}s"


def amounts(texts: Mapping[str, str]) -> str:
    """Quantities in one cell."""
    return ",".join(f"{name}={amount}" for name, amount in texts.items())


def counts(numbers: Mapping[str, int]) -> str:
    """Machines by state, in one cell, in the order of a machine's life."""
    told = {str(state): numbers[str(state)] for state in State if str(state) in numbers}
    return ",".join(f"{name}={count}" for name, count in told.items())


def held_back(progress: Progress) -> str:
    """How many machines, and by what, in one cell."""
    return f"{progress.held_back:,} ({','.join(progress.held_by)})" if progress.held_back else ""


def dollars(amount: float) -> str:
    """Dollars, to the cent."""
    return f"{amount:,.2f}"


def of_nanos(amount: int) -> str:
    """Billionths of a dollar, as dollars to the cent, half a cent up."""
    cents = (amount + 5_000_000) // 10_000_000
    whole, rest = divmod(abs(cents), 100)
    return f"{'-' if cents < 0 else ''}{whole:,}.{rest:02}"


def percent(before: float, after: float) -> str:
    """By how much it changes."""
    return "" if not before else f" ({(after - before) / before:+.1%})"
