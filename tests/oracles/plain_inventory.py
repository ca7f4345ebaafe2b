"""The inventory as plainly as it can be said: a dictionary of records, and a loop for every merge.

Written from the specification alone, with the edges and the grid spelled out once more, so that it
shares no mistake with the columns it is compared to.
"""

import dataclasses
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from mainstay.model.assignment import NO_ASSIGNMENT, Assignment
from mainstay.model.batch import Shape
from mainstay.model.errors import (
    DuplicateMachine,
    IllegalTransition,
    InvalidMachine,
    UnknownMachine,
)
from mainstay.model.ids import MachineId
from mainstay.model.machine import Machine
from mainstay.model.metadata import decode
from mainstay.model.state import State

S = State

EDGES: Final = frozenset({
    (S.SPECULATIVE, S.CREATING),
    (S.CREATING, S.IDLE),
    (S.CREATING, S.FAILED),
    (S.IDLE, S.CONFIGURING),
    (S.IDLE, S.DELETING),
    (S.CONFIGURING, S.CONFIGURED),
    (S.CONFIGURING, S.FAILED),
    (S.CONFIGURING, S.IDLE),
    (S.CONFIGURED, S.DRAINING),
    (S.DRAINING, S.IDLE),
    (S.DRAINING, S.FAILED),
    (S.DELETING, S.SPECULATIVE),
    (S.DELETING, S.FAILED),
})  # fmt: skip

# Must a machine have it (True), must it not (False), or does it not matter (None)?
HOST: Final[dict[State, bool | None]] = {
    S.SPECULATIVE: False,
    S.CREATING: False,
    S.IDLE: True,
    S.CONFIGURING: True,
    S.CONFIGURED: True,
    S.DRAINING: True,
    S.DELETING: True,
    S.FAILED: None,
}
CLUSTER: Final[dict[State, bool | None]] = {
    S.SPECULATIVE: False,
    S.CREATING: False,
    S.IDLE: False,
    S.CONFIGURING: None,
    S.CONFIGURED: True,
    S.DRAINING: True,
    S.DELETING: False,
    S.FAILED: None,
}

_NEED: Final = ("fingerprint", "group", "cluster")
_TERMS: Final = ("priority", "interruption_penalty_dollars", "reclamation_penalty_dollars")
ALL_PARTS: Final = (*_NEED, *_TERMS, "drained_for")

PARTS: Final[dict[State, tuple[str, ...]]] = {
    S.UNSPECIFIED: (),
    S.SPECULATIVE: (),
    S.CREATING: _NEED,
    S.IDLE: (),
    S.CONFIGURING: _NEED + _TERMS,
    S.CONFIGURED: _NEED + _TERMS,
    S.DRAINING: ALL_PARTS,
    S.DELETING: (),
    S.FAILED: ALL_PARTS,
}


HOST_REF_BYTES: Final = 1024


def first_broken_rule(machine: Machine) -> str | None:
    """The first rule, in the order in which they are named, that a machine breaks."""
    return next(_broken_rules(machine), None)


def _broken_rules(machine: Machine) -> Iterator[str]:
    state, assignment = machine.state, machine.assignment
    if not _is_id(machine.id):
        yield "id"
    if state not in HOST:
        yield "state"
        return
    yield from _broken_places(machine)
    if any(getattr(assignment, p) is not None for p in ALL_PARTS if p not in PARTS[state]):
        yield "assignment"
    if state == S.FAILED and machine.last_error == "":
        yield "diagnosis"
    yield from _broken_numbers(machine)


def _broken_places(machine: Machine) -> Iterator[str]:
    state = machine.state
    if HOST[state] is not None and HOST[state] != (machine.host is not None):
        yield "host"
    if machine.host is not None and not 1 <= _bytes(machine.host.ref) <= HOST_REF_BYTES:
        yield "host"
    if CLUSTER[state] is not None and CLUSTER[state] != bool(machine.cluster):
        yield "cluster"
    if machine.cluster and not _is_id(machine.cluster):
        yield "cluster"


def _broken_numbers(machine: Machine) -> Iterator[str]:
    price, probability = machine.price_per_hour, machine.interruption_probability
    if math.isnan(price) or math.isinf(price) or price < 0:
        yield "price"
    if math.isnan(probability) or probability < 0 or probability > 1:
        yield "interruption_probability"
    priority = machine.assignment.priority
    if priority is not None and not -(2**31) <= priority < 2**31:
        yield "assignment"
    penalties = (
        machine.assignment.interruption_penalty_dollars,
        machine.assignment.reclamation_penalty_dollars,
    )
    if any(penalty is not None and math.isnan(penalty) for penalty in penalties):
        yield "penalty"


def _bytes(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))


def _is_id(text: str) -> bool:
    return 1 <= len(text) <= 253 and all("!" <= letter <= "~" for letter in text)


def first_known(*assignments: Assignment) -> Assignment:
    """Part by part, what the first assignment that knows the part says."""
    parts = {}
    for name in ALL_PARTS:
        values = [getattr(assignment, name) for assignment in assignments]
        parts[name] = next((value for value in values if value is not None), None)
    return Assignment(**parts)


def as_state_allows(assignment: Assignment, state: State) -> Assignment:
    """Only the parts a machine in this state may carry."""
    return Assignment(**{name: getattr(assignment, name) for name in PARTS[state]})


@dataclass(frozen=True)
class Entry:
    """One machine, since when it is idle, and who reported it."""

    record: Machine
    idle_since: float | None
    source: str


@dataclass(frozen=True)
class PlainBatch:
    """What a provider reported: all of its machines, or some and the ids of those that went."""

    records: Sequence[Machine]
    source: str = ""
    full: bool = True
    tombstones: Sequence[MachineId] = ()


@dataclass
class PlainReport:
    """What became of every record, by machine id."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    unchanged: int = 0
    skipped: int = 0
    foreign: int = 0
    refused: list[tuple[str, str]] = field(default_factory=list)
    """(machine id, reason)"""

    handed_over: list[str] = field(default_factory=list)
    """Those among the unchanged that another source had reported before."""


class PlainInventory:
    """The same writes and the same refusals as the real one; slow, and obviously right."""

    def __init__(self) -> None:
        self.entries: dict[MachineId, Entry] = {}

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, machine: object) -> bool:
        return machine in self.entries

    def ids(self) -> list[MachineId]:
        return sorted(self.entries)

    def machine(self, machine: MachineId) -> Machine:
        return self._entry(machine).record

    def idle_since(self, machine: MachineId) -> float | None:
        return self._entry(machine).idle_since

    def source(self, machine: MachineId) -> str:
        return self._entry(machine).source

    def add(self, machine: Machine, *, now: float, source: str = "") -> None:
        _refuse_invalid(machine)
        if machine.id in self.entries:
            raise DuplicateMachine(f"machine {machine.id} is already there")
        idle_since = now if machine.state == S.IDLE else None
        self.entries[machine.id] = Entry(_without_echo(machine), idle_since, source)

    def apply(self, machine: Machine, *, now: float) -> None:
        known = self._entry(machine.id)
        _refuse_invalid(machine)
        old, new = known.record.state, machine.state
        if old != new and (old, new) not in EDGES:
            raise IllegalTransition(f"machine {machine.id} cannot go {old} -> {new}")
        if new != S.IDLE:
            idle_since = None
        elif old == S.IDLE:
            idle_since = known.idle_since
        else:
            idle_since = now
        self.entries[machine.id] = Entry(_without_echo(machine), idle_since, known.source)

    def assign(self, machine: MachineId, assignment: Assignment) -> None:
        known = self._entry(machine)
        both = first_known(assignment, known.record.assignment)
        record = dataclasses.replace(known.record, assignment=both)
        _refuse_invalid(record)
        self.entries[machine] = dataclasses.replace(known, record=record)

    def clear_assignment(self, machine: MachineId) -> None:
        known = self._entry(machine)
        record = dataclasses.replace(known.record, assignment=NO_ASSIGNMENT)
        self.entries[machine] = dataclasses.replace(known, record=record)

    def remove(self, machine: MachineId) -> None:
        self._entry(machine)
        del self.entries[machine]

    def merge(
        self,
        batch: PlainBatch,
        *,
        now: float,
        skip: Collection[MachineId] = (),
        adopt: Callable[[Shape], bool] | None = None,
    ) -> PlainReport:
        """Take the records one by one; a bad one is refused and the rest still count."""
        report = PlainReport()
        seen: set[MachineId] = set()
        for record in batch.records:
            if record.id in seen:
                report.refused.append((record.id, "duplicate_machine"))
            elif record.id in skip:
                report.skipped += 1
            elif adopt and record.id not in self and not adopt(shape_of(record)):
                report.foreign += 1
            else:
                self._merge_one(record, batch.source, now, report)
            seen.add(record.id)
        report.absent = [id_ for id_ in self._gone(batch, seen) if id_ not in skip]
        return report

    def _merge_one(self, record: Machine, source: str, now: float, report: PlainReport) -> None:
        known = self.entries.get(record.id)
        ours = known.record.assignment if known else NO_ASSIGNMENT
        told = decode(record.shard_metadata).assignment
        carried = as_state_allows(first_known(ours, told), record.state)
        merged = dataclasses.replace(_without_echo(record), assignment=carried)
        try:
            if known is None:
                self.add(merged, now=now, source=source)
                report.added.append(record.id)
            elif merged == known.record:
                report.unchanged += 1
                report.handed_over += [record.id] if known.source != source else []
            else:
                self.apply(merged, now=now)
                report.changed.append(record.id)
        except InvalidMachine as error:
            report.refused.append((record.id, error.rule))
        except IllegalTransition:
            report.refused.append((record.id, "illegal_transition"))
        else:
            self.entries[record.id] = dataclasses.replace(self.entries[record.id], source=source)

    def _gone(self, batch: PlainBatch, seen: set[MachineId]) -> list[MachineId]:
        if batch.full:
            ours = (id_ for id_ in self.ids() if self.entries[id_].source == batch.source)
            return [id_ for id_ in ours if id_ not in seen]
        return sorted({id_ for id_ in batch.tombstones if id_ in self.entries})

    def _entry(self, machine: MachineId) -> Entry:
        if machine not in self.entries:
            raise UnknownMachine(f"no machine {machine}")
        return self.entries[machine]


def shape_of(machine: Machine) -> Shape:
    return Shape(machine.profile, machine.allocatable)


def _refuse_invalid(machine: Machine) -> None:
    if (rule := first_broken_rule(machine)) is not None:
        raise InvalidMachine(f"machine {machine.id} breaks the rule {rule}", rule=rule)


def _without_echo(machine: Machine) -> Machine:
    return dataclasses.replace(machine, shard_metadata={})
