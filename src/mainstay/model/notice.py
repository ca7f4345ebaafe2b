"""Interruption notices: a provider says that it will take a host back.

Few machines have one at a time, so it is no column: what a list holds of them is a mapping beside
its machines. A machine that a list names without one has none any more.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from mainstay.model.errors import Rejected
from mainstay.model.ids import MachineId


@dataclass(frozen=True, slots=True)
class InterruptionNotice:
    """A host will go. Nobody has to let it: the provider takes it."""

    at_s: float = 0.0
    """When, in Unix seconds; 0 when the provider does not say."""

    reason: str = ""
    """The provider's own words, for people."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.at_s < math.inf:
            raise Rejected(f"a notice must name its time in Unix seconds, or 0: {self.at_s}")


Notices = Mapping[MachineId, InterruptionNotice]


class Noticed(Protocol):
    """What of a list says whose host will go: a batch, or a list that is read on demand."""

    @property
    def full(self) -> bool:
        """Whether what it does not name is gone."""

    @property
    def tombstones(self) -> tuple[MachineId, ...]:
        """Machines that are gone."""

    @property
    def ids(self) -> Iterable[str]:
        """Every machine that it names."""

    @property
    def notices(self) -> Notices:
        """Of the machines that it names."""


def known_notices(known: Notices, report: Noticed) -> Notices:
    """The notices that hold after a list of the same provider; costs nothing where none did."""
    if report.full or not known:
        return dict(report.notices)
    told = known.keys() & {*report.ids, *report.tombstones}
    return {**{name: known[name] for name in known if name not in told}, **report.notices}
