"""What a leader knows and does not store: who reported what and when, and who disagrees.

All of it comes back with the next report of every shard, so a new leader begins with nothing.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mainstay.coordinator.fleet import Fleet
from mainstay.coordinator.quotas import Lines
from mainstay.coordinator.records import Conflict, Stamp
from mainstay.model.coordination import InstructAck, Outcome, QuotaLine, QuotaOf, ShardReport
from mainstay.model.ids import ShardId

CONFLICTS_MAX: Final = 10_000
"""Of all shards together; those beyond are not remembered, which no alert can miss."""


class Heard(NamedTuple):
    """The last report of a shard."""

    report: ShardReport
    at_ns: int

    @property
    def stamp(self) -> Stamp:
        """Its place among the reports of its shard."""
        return Stamp(self.report.epoch, self.report.number)


class Dispute(NamedTuple):
    """A conflict that a report has shown."""

    conflict: Conflict
    claimant: ShardId
    first_seen_ns: int
    last_seen_ns: int
    times: int

    @property
    def holder(self) -> str:
        """Who has what the other claims; empty where nobody is named."""
        return next((each for each in self.conflict.shards if each != self.claimant), "")


class Attempts(NamedTuple):
    """Answers to an instruction that did not end it."""

    times: int
    outcome: Outcome
    reason: str


DisputeKey = tuple[ShardId, str, str]


@dataclass(slots=True)
class Memory:
    """Of one reign."""

    heard: dict[ShardId, Heard] = field(default_factory=dict)
    attempts: dict[str, Attempts] = field(default_factory=dict)
    disputes: dict[DisputeKey, Dispute] = field(default_factory=dict)
    lines: Lines = field(default_factory=dict)
    """How shards stand with quotas; kept by `mainstay.coordinator.reports`."""

    def hear(self, report: ShardReport, found: Iterable[Conflict], now_ns: int) -> None:
        """A report was taken in. What it no longer claims is no dispute any more, except what lasts
        until somebody owns a domain.
        """
        shard = report.shard
        self.heard[shard] = Heard(report, now_ns)
        before = {key: old for key, old in self.disputes.items() if key[0] == shard}
        for key, old in before.items():
            if old.conflict.until is None:
                del self.disputes[key]
        for conflict in found:
            key = (shard, conflict.kind.value, conflict.subject)
            if len(self.disputes) < CONFLICTS_MAX:
                known = before.get(key)
                first_ns, times = (known.first_seen_ns, known.times) if known else (now_ns, 0)
                self.disputes[key] = Dispute(conflict, shard, first_ns, now_ns, times + 1)

    def answered(self, ack: InstructAck) -> None:
        """An instruction was answered and stays all the same."""
        before = self.attempts.get(ack.instruction)
        times = 1 if before is None else before.times + 1
        self.attempts[ack.instruction] = Attempts(times, ack.outcome, ack.reason)

    def forget(self, fleet: Fleet) -> None:
        """What is about shards and instructions that are no longer there, or was settled."""
        for shard in self.heard.keys() - fleet.shards.keys():
            self.forget_shard(shard)
        pending = {each.id for told in fleet.instructions.values() for each in told.values()}
        for name in self.attempts.keys() - pending:
            del self.attempts[name]
        for key, each in [*self.disputes.items()]:
            if each.conflict.until in fleet.domains:
                del self.disputes[key]

    def forget_shard(self, shard: ShardId) -> None:
        """It was removed: what it said no longer counts."""
        self.heard.pop(shard, None)
        for known in self.lines.values():
            known.pop(shard, None)
        for key in [key for key in self.disputes if key[0] == shard]:
            del self.disputes[key]

    def disputes_of(self, shard: ShardId) -> Collection[Dispute]:
        """Those in which it has a part."""
        return [
            each
            for each in self.disputes.values()
            if shard == each.claimant or shard in each.conflict.shards
        ]

    def line(self, shard: ShardId, of: QuotaOf) -> QuotaLine | None:
        """How a shard stood with a quota when it last reported."""
        return self.lines.get(of, {}).get(shard)
