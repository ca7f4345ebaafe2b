"""Whether the machines that a full list does not name are gone.

A few are, at once. Of many, of half of them or of all it is likelier that the list is wrong: it is
held until a full list that is asked for some time later misses the same ones. Two lists that were
asked for one right after the other are wrong for the same reason.

The only machine that a provider has is all of them. To doubt a list that was right costs one more
list; to believe a wrong one costs a serving machine, which is drained when it is back and replaced.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Final

from mainstay.model.errors import Rejected
from mainstay.model.ids import MachineId


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsenceOptions:
    """How much may be missing before a list is doubted: both, or it is believed. One that misses
    all that we know, or half of it and no fewer than two machines, is doubted however this is set.
    """

    missing_min: int = 10
    missing_fraction: float = 0.1
    """Of the machines that we know of this provider."""

    confirm_s: float = 10.0
    """From the first list that misses a machine to the one that confirms it, at least."""

    settle_s: float = 60.0
    """A provider that was away or has begun anew confirms nothing for so long."""

    def __post_init__(self) -> None:
        if self.missing_min < 1 or not 0 <= self.missing_fraction <= 1:
            raise Rejected(
                "a list is doubted from 1 or more missing machines and a share of 0 to 1 on:"
                f" {self.missing_min} machines, {self.missing_fraction:g}"
            )
        if self.confirm_s < 0 or self.settle_s < 0:
            raise Rejected(f"times of absence must not be below 0: {self}")


Held = Mapping[MachineId, float]
"""Missing, and not believed to be: when the first list was asked for that missed it."""

NOTHING_HELD: Final[Held] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Judged:
    """What comes of one full list."""

    gone: tuple[MachineId, ...]
    held: Held


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """What one full list of a provider does not name."""

    machines: Sequence[MachineId]
    known: int
    """How many machines we know of this provider that the list could have named."""

    asked_at_s: float
    back_at_s: float
    """When the provider was last back after silence, or began anew."""


def judge(missing: Missing, held: Held, options: AbsenceOptions) -> Judged:
    """What of it is gone, if full lists before have `held` so much.

    Of a list that misses too many, only what was missed for long enough is gone. Where less than
    half was missed before, the lists contradict each other, and nothing is gone on their word.
    """
    machines, asked_at_s = missing.machines, missing.asked_at_s
    if not _too_many(len(machines), missing.known, options):
        return Judged(tuple(machines), NOTHING_HELD)
    if 2 * sum(machine in held for machine in machines) < len(machines):
        return Judged((), dict.fromkeys(machines, asked_at_s))
    since = {machine: held.get(machine, asked_at_s) for machine in machines}
    gone = {
        machine: since_s
        for machine, since_s in since.items()
        if machine in held and asked_at_s >= confirms_at_s(since_s, missing.back_at_s, options)
    }
    return Judged(tuple(gone), {each: at_s for each, at_s in since.items() if each not in gone})


def confirms_at_s(since_s: float, back_at_s: float, options: AbsenceOptions) -> float:
    """From when on a list confirms what is missing since then."""
    return max(since_s + options.confirm_s, back_at_s + options.settle_s)


def _too_many(missing: int, known: int, options: AbsenceOptions) -> bool:
    """Whether one of the rules applies: at least so many, and at least such a share."""
    rules = (
        (options.missing_min, Decimal(repr(options.missing_fraction))),  # as people wrote it
        (2, Decimal("0.5")),
        (1, Decimal(1)),
    )
    return any(missing >= least and missing >= share * known for least, share in rules)
