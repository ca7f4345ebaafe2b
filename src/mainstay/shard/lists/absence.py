"""Whether the machines that a full list does not name are gone.

A few are, at once. Of many at once it is likelier that the list is wrong: it is held until the next
full list misses the same ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mainstay.model.errors import Rejected
from mainstay.model.ids import MachineId


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsenceOptions:
    """How much may be missing before a list is doubted: both, or it is believed."""

    missing_min: int = 10
    missing_percent: int = 10
    """Of the machines that we know of this provider."""

    def __post_init__(self) -> None:
        if self.missing_min < 1 or not 0 <= self.missing_percent <= 100:
            raise Rejected(
                "a list is doubted from 1 or more missing machines and 0 to 100 percent on:"
                f" {self.missing_min} machines, {self.missing_percent} percent"
            )


@dataclass(frozen=True, slots=True)
class Judged:
    """What comes of one full list."""

    gone: tuple[MachineId, ...]
    held: frozenset[MachineId]
    """Missing, and not believed to be: the next full list decides."""


NOTHING_HELD: Final[frozenset[MachineId]] = frozenset()


def judge(
    missing: Sequence[MachineId],
    held: frozenset[MachineId],
    *,
    machines: int,
    options: AbsenceOptions,
) -> Judged:
    """What of `missing` is gone, if the full list before held `held`.

    Of a list that misses too many, only what the list before missed too is gone. Where that is less
    than half, the two lists contradict each other, and nothing is gone on their word.
    """
    if not _too_many(len(missing), machines, options):
        return Judged(tuple(missing), NOTHING_HELD)
    both = tuple(machine for machine in missing if machine in held)
    if 2 * len(both) < len(missing):
        return Judged((), frozenset(missing))
    return Judged(both, frozenset(missing).difference(both))


def _too_many(missing: int, machines: int, options: AbsenceOptions) -> bool:
    share = missing * 100 >= options.missing_percent * machines
    return missing >= options.missing_min and share
