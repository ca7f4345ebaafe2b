"""Shards as a coordinator sees them, for benches: reports of the size of large ones, no machines.

A simulated shard keeps to the protocol: its reports are in order, it does what it is told once, and
it repeats an acknowledgement until a report that carried it was answered.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mainstay.model.coordination import (
    AssignDomain,
    Domain,
    FreeRow,
    InstructAck,
    Instruction,
    Missing,
    Outcome,
    ProviderLine,
    ReportAck,
    ServingRow,
    ShardReport,
    Summary,
    UnassignDomain,
)
from mainstay.model.ids import ClusterId, ShardId
from mainstay.model.need import Operator, Requirement

KEY: Final = "topology.kubernetes.io/rack"

_TYPES: Final = 20
_ZONES: Final = 3
_PRIORITIES: Final = (0, 100, 500, 1000)
_CLUSTERS: Final = 10
_MISSING: Final = 20


@dataclass(frozen=True, slots=True)
class Heavy:
    """What every simulated shard reports beside its domains: a large shard on a bad day."""

    summary: Summary
    missing: tuple[Missing, ...]


def heavy(machines: int) -> Heavy:
    """A shard of so many machines, of twenty types in three zones."""
    kinds = [(f"type-{t}.8xlarge", f"zone-{z}") for t in range(_TYPES) for z in range(_ZONES)]
    share = machines // len(kinds)
    summary = Summary(
        total_machines=machines,
        free_machines=machines // 10,
        by_instance_type={f"type-{t}.8xlarge": machines // _TYPES for t in range(_TYPES)},
        by_zone={f"zone-{z}": machines // _ZONES for z in range(_ZONES)},
        free=tuple(FreeRow("cloud", kind, zone, share // 10, share // 20) for kind, zone in kinds),
        serving=tuple(
            ServingRow("cloud", kind, zone, priority, 4, share // len(_PRIORITIES))
            for kind, zone in kinds
            for priority in _PRIORITIES
        ),
    )
    return Heavy(summary, tuple(_missing(number) for number in range(_MISSING)))


def _missing(number: int) -> Missing:
    kind = Requirement("node.kubernetes.io/instance-type", Operator.IN, (f"type-{number}.8xlarge",))
    return Missing(
        requirements=(kind,),
        deficit={"cpu": 32_000 * (number + 1), "memory": 128 << 30},
        priority=100 * number,
        age_cycles=1,
        min_unit={"cpu": 32_000, "memory": 128 << 30},
        topology=True,
        fingerprint=f"{number:064x}",
    )


class SimulatedShard:
    """One shard of a simulated fleet."""

    def __init__(self, name: str, body: Heavy, domains: Sequence[Domain] = ()) -> None:
        self.name = ShardId(name)
        self.domains: set[Domain] = set(domains)
        self.term = 0
        self.terms_fell = 0
        """How often an answer had a lower term than one before it: never, if all is well."""

        self.answered = 0
        self._body = body
        self._number = 0
        self._done: dict[str, InstructAck] = {}
        self._owed: dict[str, InstructAck] = {}

    def report(self, at_s: float) -> ShardReport:
        """The next one; every attempt has a number of its own."""
        self._number += 1
        return ShardReport(
            shard=self.name,
            number=self._number,
            at_ns=int(at_s * 1e9),
            epoch=1,
            summary=self._body.summary,
            missing=self._body.missing,
            acks=tuple(self._owed.values()),
            address=f"{self.name}.example:7780",
            can_hand_over=True,
            term_seen=self.term,
            clusters=tuple(ClusterId(f"{self.name}-cluster-{c}") for c in range(_CLUSTERS)),
            domains=tuple(sorted(self.domains)),
            providers=(ProviderLine("cloud", "cloud.example:9000"),),
        )

    def hear(self, sent: ShardReport, ack: ReportAck) -> None:
        """Take the answer to `sent` in, and do what it says."""
        self.answered += 1
        self.terms_fell += ack.term < self.term
        self.term = max(self.term, ack.term)
        for each in sent.acks:
            self._owed.pop(each.instruction, None)
        for instruction in ack.instructions:
            known = self._done.get(instruction.id)
            self._owed[instruction.id] = known or self._obey(instruction)

    def _obey(self, instruction: Instruction) -> InstructAck:
        outcome = Outcome.ACCEPTED
        match instruction.payload:
            case _ if instruction.term < self.term:
                outcome = Outcome.REJECTED_STALE
            case AssignDomain(domain=domain):
                self.domains.add(domain)
            case UnassignDomain(domain=domain):
                self.domains.discard(domain)
            case _:
                outcome = Outcome.REJECTED_INVALID
        ack = InstructAck(instruction=instruction.id, outcome=outcome)
        if outcome is Outcome.ACCEPTED:
            self._done[instruction.id] = ack
        return ack
