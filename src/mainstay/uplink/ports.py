"""What the uplink needs: a shard on one side, a coordinator on the other."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mainstay.model.coordination import (
    Grant,
    InstructAck,
    Instruction,
    Missing,
    ReportAck,
    ShardReport,
    Summary,
)
from mainstay.shard.ownership.quota import Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What is too heavy to be counted on the event loop; some seconds old is good enough."""

    summary: Summary = field(default_factory=Summary)
    missing: tuple[Missing, ...] = ()
    tally: Tally = field(default_factory=Tally)
    """Of quota."""


class Coordinator(Protocol):
    """Whoever leads, wherever that is."""

    async def report(self, report: ShardReport) -> ReportAck:
        """Its answer. Whatever is raised instead, the report counts as not heard."""


class ShardSide(Protocol):
    """A shard as its uplink knows it. What it has carried out it remembers over a restart."""

    @property
    def term(self) -> int:
        """The highest term it has heard; durable."""

    async def hear_term(self, term: int) -> None:
        """Remember a higher term; durable when this returns."""

    async def measured(self) -> Measured:
        """The heavy part of a report, counted beside the loop."""

    def report(self, measured: Measured) -> ShardReport:
        """The rest, as it stands at this moment; number and acks are the uplink's."""

    def settled(self, instruction: str) -> InstructAck | None:
        """What was answered to an instruction that was carried out before, in any life."""

    def last_settled(self, count: int) -> Sequence[InstructAck]:
        """The last so many, the oldest first."""

    async def carry_out(self, instruction: Instruction) -> InstructAck | None:
        """What became of it, durable when this returns; None: not yet, to be asked again.

        The payload is never None. Any error means that nothing was done.
        """

    async def hear_grants(self, grants: Sequence[Grant]) -> None:
        """What it may hold; durable when this returns."""

    async def sweep(self) -> None:
        """Let go of what is free to go, and drop what nobody has."""

    @property
    def strays(self) -> int:
        """How many machines it has outside its domains."""
