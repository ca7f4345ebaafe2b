"""When a roll-up is too little to be believed at once. Pure.

A cluster whose whole demand is gone from one moment to the next is more often a broken reporter
than an empty cluster; so is one whose many rows all stay and lose one resource. Such a roll-up is
held: the demand before it stays until enough of them in a row are as suspicious, whatever each asks
for, with time between them. One that asks for enough is believed at once and ends the wait.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import Final

from mainstay.model.errors import Rejected
from mainstay.model.need import Need


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineRule:
    """How little is suspicious, and how often it must be said."""

    enabled: bool = True
    rows_min: int = 10
    """Of demand with fewer rows everything is believed."""

    keep_fraction: float = 0.1
    """Less than this share of the rows or of every amount is suspicious; of one amount, where the
    rows are the same as before and at least `rows_min` of them asked for it.
    """

    confirmations: int = 3
    """So many suspicious roll-ups in a row are believed."""

    interval_s: float = 5.0
    """One that comes sooner after the last that counted is held and does not count."""

    def __post_init__(self) -> None:
        for name in ("rows_min", "confirmations"):
            if getattr(self, name) < 1:
                raise Rejected(f"{name} must be at least 1: {getattr(self, name)}")
        if not 0 <= self.keep_fraction <= 1:
            raise Rejected(f"keep_fraction must be between 0 and 1: {self.keep_fraction}")
        if self.interval_s < 0:
            raise Rejected(f"interval_s must not be below 0: {self.interval_s:g}")


QUARANTINE: Final = QuarantineRule()


class Suspicion(StrEnum):
    """What a roll-up has lost."""

    ROWS = "rows"
    AMOUNTS = "amounts"
    """Its rows ask for next to nothing, or for next to nothing of one resource."""


@dataclass(frozen=True)
class Baseline:
    """The demand that was believed last. It does not move while others are held."""

    needs: Sequence[Need] = ()

    @cached_property
    def totals(self) -> dict[str, int]:
        """What all rows ask for together, per resource that they ask for at all."""
        found: dict[str, int] = {}
        for need in self.needs:
            for name, amount in need.aggregate.items():
                found[name] = found.get(name, 0) + amount
        return {name: total for name, total in found.items() if total}


@dataclass(frozen=True, slots=True)
class Judged:
    """What to do with a roll-up."""

    suspicion: Suspicion | None = None
    """None: believe it."""

    in_a_row: int = 0
    """How many have been held now, with this one."""


BELIEVED: Final = Judged()


def judge(
    baseline: Baseline,
    needs: Sequence[Need],
    in_a_row: int,
    rule: QuarantineRule = QUARANTINE,
    *,
    counts: bool = True,
) -> Judged:
    """Whether to believe a roll-up, when so many before it have been held in a row. One that comes
    too soon does not count: it is believed only if it is not suspicious.
    """
    found = suspicion(baseline, needs, rule)
    confirmed = in_a_row + counts
    if found is None or confirmed >= rule.confirmations:
        return BELIEVED
    return Judged(found, confirmed)


def suspicion(
    baseline: Baseline, needs: Sequence[Need], rule: QuarantineRule = QUARANTINE
) -> Suspicion | None:
    """What a roll-up has lost that it should not lose at once; exactly the fraction is enough."""
    rows_before = len(baseline.needs)
    if not rule.enabled or rows_before < rule.rows_min:
        return None
    keep = Fraction(str(rule.keep_fraction))
    if len(needs) < keep * rows_before:
        return Suspicion.ROWS
    lost = _lost(baseline, needs, keep)
    if lost and (_is_all(lost, baseline, needs) or _is_of_many(lost, baseline, needs, rule)):
        return Suspicion.AMOUNTS
    return None


def _lost(baseline: Baseline, needs: Iterable[Need], keep: Fraction) -> Collection[str]:
    """The resources of which too little is still asked for: mostly known to be none after a tenth
    of the rows.
    """
    enough = {name: ceil(keep * total) for name, total in baseline.totals.items()}
    missing = {name: amount for name, amount in enough.items() if amount}
    for need in needs:
        if not missing:
            break
        for name in [*missing]:
            missing[name] -= need.aggregate.get(name, 0)
            if missing[name] <= 0:
                del missing[name]
    return missing


def _is_all(lost: Collection[str], baseline: Baseline, needs: Iterable[Need]) -> bool:
    """Whether that is all they asked for, and they ask for nothing else instead."""
    before = baseline.totals
    if len(lost) < len(before):
        return False
    asked = (each for need in needs for each in need.aggregate.items())
    return not any(amount and name not in before for name, amount in asked)


def _is_of_many(
    lost: Iterable[str], baseline: Baseline, needs: Iterable[Need], rule: QuarantineRule
) -> bool:
    """Whether many rows asked for one of them and all of them are still there, with the others."""
    asking = (sum(need.aggregate.get(name, 0) > 0 for need in baseline.needs) for name in lost)
    if not any(rows >= rule.rows_min for rows in asking):
        return False
    return {need.ref for need in baseline.needs} == {need.ref for need in needs}
