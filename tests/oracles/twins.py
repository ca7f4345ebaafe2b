"""The real inventory and the plain one, side by side: every write goes to both and must end alike.

After every write the records are compared; a refused write must have left no trace at all. What
was written is kept in a log, so that what a snapshot says has changed can be compared to it.
"""

import dataclasses
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from mainstay.inventory.changes import Changes
from mainstay.inventory.inventory import Inventory
from mainstay.inventory.merge import Adopt, MergeReport
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.assignment import Assignment
from mainstay.model.batch import batch_of
from mainstay.model.errors import InvalidMachine, MainstayError
from mainstay.model.ids import ClusterId, MachineId, is_id
from mainstay.model.machine import Machine
from mainstay.model.state import State
from oracles.plain_inventory import Entry, PlainBatch, PlainInventory, PlainReport

T = TypeVar("T")

COLUMNS: Final = (
    "state", "cluster", "shape", "price_per_hour", "interruption_probability",
    "assignment", "rank", "idle_since", "source",
)  # fmt: skip

STATES: Final = tuple(state for state in State if state is not State.UNSPECIFIED)

NAMED: Final = 80
"""So much of an id a message shows at least."""

HELD_MAX: Final = 4


@dataclass(frozen=True)
class Written:
    """What one accepted operation wrote: the rows it must have, and may have, touched."""

    revision: int
    rows: frozenset[int]
    perhaps: frozenset[int]
    clusters: frozenset[ClusterId]
    clusters_meant: frozenset[ClusterId]
    shapes: frozenset[int]


@dataclass(frozen=True)
class Held:
    """A snapshot somebody still reads, and what it said when it was taken."""

    snapshot: Snapshot
    said: list[object]
    log_length: int


class Twins:
    """Both inventories, the log of what was written, and how often what happened."""

    def __init__(self) -> None:
        self.real = Inventory()
        self.plain = PlainInventory()
        self.log: list[Written] = []
        self.revisions = [self.real.revision]
        self.held: list[Held] = []
        self.counts: Counter[str] = Counter()
        self.edges: Counter[tuple[State, State]] = Counter()

    def add(self, machine: Machine, *, now: float, source: str = "") -> None:
        self._both(
            "add",
            machine.id,
            lambda: self.real.add(machine, now=now, source=source),
            lambda: self.plain.add(machine, now=now, source=source),
        )

    def apply(self, machine: Machine, *, now: float) -> None:
        self._both(
            "apply",
            machine.id,
            lambda: self.real.apply(machine, now=now),
            lambda: self.plain.apply(machine, now=now),
        )

    def assign(self, machine: MachineId, assignment: Assignment) -> None:
        self._both(
            "assign",
            machine,
            lambda: self.real.assign(machine, assignment),
            lambda: self.plain.assign(machine, assignment),
        )

    def clear_assignment(self, machine: MachineId) -> None:
        self._both(
            "clear_assignment",
            machine,
            lambda: self.real.clear_assignment(machine),
            lambda: self.plain.clear_assignment(machine),
        )

    def remove(self, machine: MachineId) -> None:
        self._both(
            "remove",
            machine,
            lambda: self.real.remove(machine),
            lambda: self.plain.remove(machine),
        )

    def merge(
        self,
        batch: PlainBatch,
        *,
        now: float,
        skip: Collection[MachineId] = (),
        adopt: Adopt | None = None,
    ) -> None:
        columns = batch_of(
            batch.records, source=batch.source, full=batch.full, tombstones=batch.tombstones
        )
        before, entries = self.real.snapshot(), dict(self.plain.entries)
        expected = self.plain.merge(batch, now=now, skip=skip, adopt=adopt)
        report = self.real.merge(columns, now=now, skip=skip, adopt=adopt)

        assert_same_report(self.real, report, expected)
        self.counts["merge"] += 1
        self.counts["merged"] += len(expected.added) + len(expected.changed)
        self.counts["unchanged"] += expected.unchanged
        self.counts["skipped"] += expected.skipped
        self.counts["foreign"] += expected.foreign
        self.counts["absent"] += len(expected.absent)
        self.counts.update(f"merge refused {reason}" for _, reason in expected.refused)
        self._settle(before, entries)

    def hold_snapshot(self) -> None:
        """Keep the snapshot of this moment, to be looked at again after later writes."""
        snapshot = self.real.snapshot()
        assert snapshot is self.real.snapshot()
        self.counts["snapshot"] += 1
        self.held = self.held[-HELD_MAX + 1 :]
        self.held.append(Held(snapshot, view(snapshot), len(self.log)))

    def _both(
        self,
        what: str,
        machine: MachineId,
        really: Callable[[], None],
        plainly: Callable[[], None],
    ) -> None:
        before, entries = self.real.snapshot(), dict(self.plain.entries)
        expected, error = _outcome(plainly), _outcome(really)

        assert kind_of(error) == kind_of(expected), f"{what}: {error!r}, expected {expected!r}"
        if error is not None and is_id(machine):
            assert machine[:NAMED] in error.message, f"who? {error.message}"
        self.counts[what] += 1
        self.counts["refused " + kind_of(error) if error else "accepted"] += 1
        self._settle(before, entries)

    def _settle(self, before: Snapshot, entries: dict[MachineId, Entry]) -> None:
        """Both must hold the same now; what changed nothing must show nowhere."""
        self.assert_same_records()
        touched = [
            machine
            for machine in {**entries, **self.plain.entries}
            if entries.get(machine) != self.plain.entries.get(machine)
        ]
        after = self.real.snapshot()
        if not touched:
            assert self.real.revision == self.revisions[-1], "a write that changed nothing counted"
            assert after is before, "a write that changed nothing made a new snapshot"
            return
        assert self.real.revision > self.revisions[-1], "a write that changed something was silent"
        self._count_edges(entries, touched)
        self.revisions.append(self.real.revision)
        self.log.append(_written(before, after, entries, self.plain.entries, touched))

    def _count_edges(self, entries: dict[MachineId, Entry], touched: Iterable[MachineId]) -> None:
        for machine in touched:
            old, new = entries.get(machine), self.plain.entries.get(machine)
            if old and new and old.record.state != new.record.state:
                self.edges[old.record.state, new.record.state] += 1

    def assert_same_records(self) -> None:
        real, plain = self.real, self.plain
        expect(len(real), len(plain), "how many machines")
        expect(real.ids(), plain.ids(), "ids")
        for machine, entry in plain.entries.items():
            assert machine in real, f"{machine} is not in it"
            expect(real.machine(machine), entry.record, "record")
            expect(dict(real.machine(machine).shard_metadata), {}, "kept echo")
            expect(real.idle_since(machine), entry.idle_since, f"{machine} idle since")
            expect(real.source(machine), entry.source, f"source of {machine}")

    def assert_snapshot_tells_the_same(self) -> None:
        """Everything a snapshot says, against the plain inventory."""
        snapshot = self.real.snapshot()
        records = [self.plain.entries[machine].record for machine in self.plain.ids()]

        expect(snapshot.revision, self.real.revision, "revision")
        expect_rows(view(snapshot), [_as_viewed(entry) for entry in self._entries_by_id()])
        by_state = dict(Counter(record.state for record in records))
        expect(snapshot.by_state, by_state, "by_state")
        for state in State:
            ids = [record.id for record in records if record.state == state != State.UNSPECIFIED]
            expect(snapshot.machine_ids(snapshot.rows_in(state)), ids, f"rows in {state}")
        _assert_columns_are_sound(snapshot, len(self.plain))
        _assert_codes_tell_apart(snapshot, self._entries_by_id())

    def assert_held_snapshots_still_say_what_they_said(self) -> None:
        for held in self.held:
            expect_rows(view(held.snapshot), held.said)
            self._assert_changes(held.snapshot, held.log_length, self._some_revisions())

    def assert_changes_are_those_of_the_log(self) -> None:
        snapshot = self.real.snapshot()
        nothing = snapshot.changes(snapshot.revision)
        assert nothing is not None
        expect((len(nothing.rows), len(nothing.clusters)), (0, 0), "changes since now")
        if self.log:
            assert snapshot.changes(self.revisions[-2]) is not None, "one write ago is not too old"
        self._assert_changes(snapshot, len(self.log), self._some_revisions())

    def _some_revisions(self) -> list[int]:
        """The latest, and sometimes one from long ago."""
        self.counts["looked for changes"] += 1
        long_ago = self.revisions[0 :: max(1, len(self.revisions) // 2)]
        return self.revisions[-6:] + (
            long_ago if self.counts["looked for changes"] % 20 == 0 else []
        )

    def _assert_changes(self, snapshot: Snapshot, length: int, revisions: Sequence[int]) -> None:
        for since in revisions:
            if since > snapshot.revision:
                continue
            changes = snapshot.changes(since)
            if changes is None:
                self.counts["changes forgotten"] += 1
                continue
            self.counts["changes told"] += 1
            start = bisect_right(self.log, since, key=lambda entry: entry.revision)
            _assert_told(changes, self.log[start:length])

    def _entries_by_id(self) -> list[Entry]:
        return [self.plain.entries[machine] for machine in self.plain.ids()]


def expect(real: object, plain: object, what: str) -> None:
    """Both must say the same; if not, what each said is told."""
    assert real == plain, f"{what}: {real!r}, expected {plain!r}"


def expect_rows(real: Sequence[object], plain: Sequence[object]) -> None:
    """Row by row, so that only the rows that differ are told."""
    for one, other in zip(real, plain, strict=True):
        expect(one, other, "a row of the snapshot")


def _assert_told(changes: Changes, written: Sequence[Written]) -> None:
    """Exactly the rows that were written; every cluster and shape that was there, old or new."""
    rows = [int(row) for row in changes.rows]
    must = _union(entry.rows for entry in written)
    perhaps = _union(entry.perhaps for entry in written)
    clusters = _union(entry.clusters for entry in written)
    meant = clusters | _union(entry.clusters_meant for entry in written)
    shapes = _union(entry.shapes for entry in written)
    told = {int(shape) for shape in changes.shapes}

    expect(sorted(set(rows) - perhaps), sorted(must - perhaps), "rows that changed")
    expect(must - set(rows), frozenset(), "rows that changed and are not told")
    expect(len(rows), len(set(rows)), "rows told, each once")
    assert clusters <= changes.clusters <= meant, f"{changes.clusters}, expected {clusters}"
    assert shapes <= told, f"shapes that changed: {told}, expected {shapes}"


def _outcome(write: Callable[[], None]) -> MainstayError | None:
    try:
        write()
    except MainstayError as error:
        return error
    return None


def kind_of(error: MainstayError | None) -> str:
    """The class of an error and the rule it names."""
    if error is None:
        return "accepted"
    rule = f" {error.rule}" if isinstance(error, InvalidMachine) else ""
    return type(error).__name__ + rule


def assert_same_report(inventory: Inventory, report: MergeReport, expected: PlainReport) -> None:
    """A report by rows against a report by ids; in which order it names them does not matter."""
    snapshot = inventory.snapshot()
    handed_over = set(snapshot.machine_ids(report.changed)) & set(expected.handed_over)
    if handed_over:  # whether that is a change is told by a test of its own; all or none are
        expect(handed_over, set(expected.handed_over), "handed over")
        expected.changed += handed_over
        expected.unchanged -= len(handed_over)
    for what, rows, ids in (
        ("added", report.added, expected.added),
        ("changed", report.changed, expected.changed),
        ("absent", report.absent, expected.absent),
    ):
        expect(sorted(snapshot.machine_ids(rows)), sorted(ids), what)
    expect(report.unchanged, expected.unchanged, "unchanged")
    expect(report.skipped, expected.skipped, "skipped")
    expect(report.foreign, expected.foreign, "foreign")
    refused = [(refusal.machine, refusal.reason) for refusal in report.refused]
    expect(sorted(refused), sorted(expected.refused), "refused")
    for refusal in report.refused:
        named = refusal.machine[:NAMED] in refusal.message
        assert named or not is_id(refusal.machine), f"who? {refusal.message}"


def view(snapshot: Snapshot) -> list[object]:
    """What a snapshot says of every machine, by id."""
    rows = snapshot.rows_in(*STATES)
    return [
        (
            machine,
            State(int(snapshot.state[row])),
            snapshot.cluster_of(row),
            snapshot.assignment_of(row),
            snapshot.profile_of(row),
            snapshot.allocatable_of(row),
            float(snapshot.price_per_hour[row]),
            float(snapshot.interruption_probability[row]),
            None if math.isnan(snapshot.idle_since[row]) else float(snapshot.idle_since[row]),
        )
        for machine, row in zip(snapshot.machine_ids(rows), rows, strict=True)
    ]


def _as_viewed(entry: Entry) -> object:
    record = entry.record
    return (
        record.id,
        record.state,
        record.cluster,
        record.assignment,
        record.profile,
        record.allocatable,
        record.price_per_hour,
        record.interruption_probability,
        entry.idle_since,
    )


def _assert_columns_are_sound(snapshot: Snapshot, machines: int) -> None:
    live = [row for row in range(len(snapshot.state)) if snapshot.state[row] != 0]
    by_rank = sorted(live, key=lambda row: int(snapshot.rank[row]))

    expect(len(live), machines, "rows in use")
    assert by_rank == [int(row) for row in snapshot.rows_in(*STATES)], "rank is not by id"
    expect(len({int(snapshot.rank[row]) for row in live}), len(live), "ranks")
    for name in COLUMNS:
        column = getattr(snapshot, name)
        assert not column.flags.writeable, f"{name} can be written"
        expect(len(column), len(snapshot.state), f"length of {name}")


def _assert_codes_tell_apart(snapshot: Snapshot, entries: Sequence[Entry]) -> None:
    """Equal codes mean equal values, different codes different ones."""
    rows = [int(row) for row in snapshot.rows_in(*STATES)]
    _assert_one_to_one([int(snapshot.source[row]) for row in rows], [e.source for e in entries])
    _assert_one_to_one(
        [int(snapshot.cluster[r]) for r in rows], [e.record.cluster for e in entries]
    )
    codes = [int(snapshot.assignment[row]) for row in rows]
    _assert_one_to_one(codes, [entry.record.assignment for entry in entries])
    codes = [int(snapshot.shape[row]) for row in rows]
    shapes = [(entry.record.profile, entry.record.allocatable) for entry in entries]
    _assert_one_to_one(codes, shapes)


def _assert_one_to_one(codes: Sequence[int], values: Sequence[object]) -> None:
    pairs = set(zip(codes, values, strict=True))
    assert len(pairs) == len(set(codes)) == len(set(values)), f"codes and values: {pairs}"


def _written(
    before: Snapshot,
    after: Snapshot,
    old: dict[MachineId, Entry],
    new: dict[MachineId, Entry],
    touched: Sequence[MachineId],
) -> Written:
    rows_before, rows_after = rows_by_id(before), rows_by_id(after)
    for machine in rows_before.keys() & rows_after.keys():
        assert rows_before[machine] == rows_after[machine], f"{machine} moved to another row"
    source_only = {m for m in touched if _is_source_only(old.get(m), new.get(m))}
    rows, shapes = set[int](), set[int]()
    clusters, meant = set[ClusterId](), set[ClusterId]()
    for machine in touched:
        for entries, snapshot, by_id in ((old, before, rows_before), (new, after, rows_after)):
            if machine not in entries:
                continue
            if machine not in source_only:
                rows.add(by_id[machine])
                shapes.add(int(snapshot.shape[by_id[machine]]))
                clusters |= {cluster for cluster in [entries[machine].record.cluster] if cluster}
            meant |= _clusters_meant(entries[machine].record)
    return Written(
        revision=after.revision,
        rows=frozenset(rows),
        perhaps=frozenset(rows_after[machine] for machine in source_only),
        clusters=frozenset(clusters),
        clusters_meant=frozenset(meant),
        shapes=frozenset(shapes),
    )


def _is_source_only(old: Entry | None, new: Entry | None) -> bool:
    return (
        old is not None and new is not None and dataclasses.replace(old, source=new.source) == new
    )


def _clusters_meant(record: Machine) -> set[ClusterId]:
    """Every cluster a record names: bound to, meant for, drained for."""
    drained = record.assignment.drained_for
    named = {record.cluster, record.assignment.cluster, drained.cluster if drained else None}
    return {cluster for cluster in named if cluster}


def rows_by_id(snapshot: Snapshot) -> dict[MachineId, int]:
    """Where every machine is."""
    rows = snapshot.rows_in(*STATES)
    return dict(zip(snapshot.machine_ids(rows), map(int, rows), strict=True))


def _union(sets: Iterable[frozenset[T]]) -> frozenset[T]:
    return frozenset().union(*sets)
