"""What active time costs, counted the slow way: from the specification, not from the code.

A second of an allocation costs a fraction of a minor unit; a bill is all its whole seconds, less
what does not make a whole minor unit. Times are microseconds since any moment.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

MICROS = 1_000_000


@dataclass(frozen=True, slots=True)
class Life:
    """The steps that one allocation took: state and when."""

    price_minor: int
    gpus: int
    steps: tuple[tuple[str, int], ...]


Dark = Sequence[tuple[int, int]]
"""When the node was offline, from and to."""


def active_micros(life: Life, until: int) -> int:
    """From active to the first releasing after it, as far as it is before `until`."""
    began: int | None = None
    for state, at in life.steps:
        if state == "active":
            began = at
        elif began is not None:
            return max(min(at, until) - began, 0)
    return 0 if began is None else max(until - began, 0)


def paid_micros(life: Life, until: int, dark: Dark = ()) -> int:
    """The active time in which the node was not offline."""
    began = next((at for state, at in life.steps if state == "active"), 0)
    ended = began + active_micros(life, until)
    lost = sum(max(min(stop, ended) - max(start, began), 0) for start, stop in dark)
    return ended - began - lost


def bill(life: Life, until: int, dark: Dark = ()) -> int:
    """What it costs up to then."""
    seconds = paid_micros(life, until, dark) // MICROS
    per_second = Fraction(life.price_minor * life.gpus, 3600)
    total = per_second * seconds
    return total.numerator // total.denominator


def tiles(stretches: Iterable[tuple[int, int]], start: int, end: int) -> bool:
    """Whether the stretches cover start to end, each part once."""
    reached = start
    for begin, stop in sorted(stretches):
        if begin != reached or stop <= begin:
            return False
        reached = stop
    return reached == end
