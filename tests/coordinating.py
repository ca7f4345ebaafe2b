"""A coordinator without a network: a store in memory, and a leader that writes to it at once."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from mainstay.coordinator import reports
from mainstay.coordinator.fleet import Fleet
from mainstay.coordinator.quotas import Lines
from mainstay.coordinator.rebalance import Proposal
from mainstay.coordinator.records import Conflict, Stamp
from mainstay.coordinator.store import CHANGE_BYTES_MAX, OPERATIONS_MAX, Change, Entry
from mainstay.coordinator.tiers import Tier
from mainstay.model.coordination import (
    Domain,
    Handed,
    InstructAck,
    Outcome,
    ProviderLine,
    ReportAck,
    ShardReport,
    Stray,
    Wanted,
)
from mainstay.model.ids import MachineId, ShardId

A: Final = ShardId("a")
B: Final = ShardId("b")
C: Final = ShardId("c")
EAST: Final = Domain("zone", "east")
WEST: Final = Domain("zone", "west")
NOW: Final = 1_700_000_000_000_000_000
METAL: Final = "metal"
PROVIDERS: Final = (ProviderLine(METAL, "metal:1"),)


class Kept:
    """What a store keeps, and what it refuses."""

    def __init__(self, values: Mapping[str, bytes] | None = None) -> None:
        self.entries = {key: Entry(value, 1) for key, value in (values or {}).items()}
        self.revision = 1
        self.changes: list[Change] = []

    @property
    def values(self) -> dict[str, bytes]:
        return {key: entry.value for key, entry in self.entries.items()}

    def commit(self, change: Change) -> int:
        operations = len(change.puts) + len(change.deletes) + len(change.expects)
        assert operations <= OPERATIONS_MAX, f"{operations} operations"
        size = sum(len(key) + len(value) for key, value in change.puts.items())
        assert size <= CHANGE_BYTES_MAX
        assert {*change.puts} | {*change.deletes} <= {*change.expects}
        for key, revision in change.expects.items():
            standing = self.entries.get(key)
            assert (standing.revision if standing else 0) == revision, key
        self.revision += 1
        for key in change.deletes:
            del self.entries[key]
        for key, value in change.puts.items():
            self.entries[key] = Entry(value, self.revision)
        self.changes.append(change)
        return self.revision


class Desk:
    """A leader: the fleet, what it remembers, and what it was told was wrong."""

    def __init__(self, kept: Kept | None = None, *, term: int = 1) -> None:
        self.kept = kept if kept is not None else Kept()
        self.fleet = Fleet.from_entries(self.kept.entries)
        self.lines: Lines = {}
        self.seen: dict[ShardId, Stamp] = {}
        self.term = term
        self.conflicts: list[Conflict] = []
        self.numbers: dict[ShardId, int] = {}

    def do(self, changes: Change | Iterable[Change]) -> int:
        """Make them one by one; how many there were."""
        count = 0
        for change in [changes] if isinstance(changes, Change) else changes:
            if change.puts or change.deletes:
                self.fleet.apply(change, self.kept.commit(change))
                count += 1
        return count

    def successor(self) -> "Desk":
        """Another leader, which knows only what is kept."""
        after = Desk(self.kept, term=self.term + 1)
        after.numbers = self.numbers
        return after

    def hear(self, report: ShardReport, *, certified: bool = True) -> ReportAck:
        """Take a report in, as it is."""
        reports.check(self.fleet, report, self.seen.get(report.shard))
        self.conflicts = []
        self.do(
            reports.taken_in(
                self.fleet, report, certified=certified, now_ns=NOW,
                conflicts=self.conflicts, lines=self.lines,
            )
        )  # fmt: skip
        self.seen[report.shard] = Stamp(report.epoch, report.number)
        return reports.answer(
            self.fleet, report, term=self.term, lines=self.lines, conflicts=self.conflicts
        )

    def report(self, shard: ShardId, *, certified: bool = True, **parts: Any) -> ReportAck:
        """The next report of a shard that says nothing but this, and has done what it says."""
        number = self.numbers[shard] = self.numbers.get(shard, 0) + 1
        gave = [one for ack in parts.get("acks", ()) for one in ack.given]
        away = tuple(one for one in gave if one.domain in parts.get("domains", ()))
        given: dict[str, Any] = {"number": number, "epoch": 1, "can_hand_over": True, "away": away}
        if not parts.get("takes_all"):
            given["providers"] = PROVIDERS
        return self.hear(ShardReport(shard=shard, **given | parts), certified=certified)


def a_proposal(**parts: Any) -> Proposal:
    """A tier 1 move from `a` to `b`."""
    given: dict[str, Any] = {
        "donor": A,
        "recipient": B,
        "tier": Tier.IDLE,
        "wanted": Wanted(machines_max=5, deficit={"cpu": 8000}, providers=(METAL,), priority=7),
        "why": "b is short",
        "fingerprint": "f",
        "instance_types": ("m5",),
        **parts,
    }
    return Proposal(**given)


def handed(machine: str, domain: Domain | None = EAST) -> Handed:
    return Handed(MachineId(machine), METAL, domain)


def a_stray(machine: str, domain: Domain | None = EAST, *, leaving: bool = False) -> Stray:
    return Stray(MachineId(machine), METAL, domain, leaving=leaving)


def accepted(instruction: str, *given: Handed) -> InstructAck:
    return InstructAck(instruction=instruction, outcome=Outcome.ACCEPTED, given=given)


def invalid(instruction: str) -> InstructAck:
    return InstructAck(instruction=instruction, outcome=Outcome.REJECTED_INVALID, reason="no")
