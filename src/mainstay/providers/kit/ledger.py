"""The machines of one provider: every change is checked, numbered and submitted to the store."""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

from mainstay.model.calls import Call, Listing, ListRequest
from mainstay.model.errors import Rejected, UnknownMachine
from mainstay.model.ids import MachineId, parse_machine_id
from mainstay.model.machine import Machine
from mainstay.model.notice import InterruptionNotice
from mainstay.model.state import State
from mainstay.providers.kit import cursor
from mainstay.providers.kit.cursor import Place
from mainstay.providers.kit.fencing import Fences
from mainstay.providers.kit.record import Record, to_text
from mainstay.providers.kit.steps import placed, stepped
from mainstay.providers.kit.store import Sql, Store, Write

TOMBSTONES_MAX: Final = 20_000
"""When there are more, the older half is forgotten, and cursors from before it mean a full list."""

OPERATIONS_RESERVED: Final = 1_000
"""Operation numbers are taken from the store so many at a time."""


class Ledger:
    """All there is to know. Nothing here waits, so a check and the change after it are one."""

    def __init__(self, store: Store) -> None:
        stored = store.load()
        self._store = store
        self._name = stored.store
        self.fences = Fences(stored)
        self._operations = stored.operations
        self._next_operation = self._reserved = stored.operations_reserved
        self._tombstones = stored.tombstones
        self._tombstones_dropped = stored.tombstones_dropped
        self._generations = stored.generations
        self._records = {record.machine.id: record for record in stored.records}
        self._id_of = {record.slot: record.machine.id for record in stored.records}
        self._writes: list[Write] = []
        self.by_state = Counter(record.machine.state for record in stored.records)
        self.revision = max(
            (
                stored.tombstones_dropped,
                *(record.modified for record in stored.records[-1:]),
                *stored.tombstones.values(),
            )
        )

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        """In the order of their last changes; what changes meanwhile is not seen again."""
        return iter(list(self._records.values()))

    def record(self, machine: str) -> Record | None:
        """The record with this id, if there is one."""
        return self._records.get(MachineId(machine))

    def known(self, machine: str) -> Record:
        """The record with this id."""
        record = self.record(machine)
        if record is None:
            raise UnknownMachine(f"no such machine: {machine}")
        return record

    def of_slot(self, slot: str) -> Record | None:
        """The record of what the backend calls by this name."""
        machine = self._id_of.get(slot)
        return None if machine is None else self._records[machine]

    def write(self, writes: Iterable[Write]) -> None:
        """Rows that are not machines, such as marks."""
        self._writes.extend(writes)

    def commit(self) -> None:
        """Submit what has changed, as one."""
        if self._writes:
            writes, self._writes = self._writes, []
            self._store.submit(writes)

    def admit(
        self, slot: str, machine: Machine, notice: InterruptionNotice | None = None
    ) -> Machine:
        """Take a new machine in; an id that was used up gets its next generation."""
        if slot in self._id_of:
            raise Rejected(f"slot is taken already: {slot}")
        generation = self._generations.get(slot, 0)
        name = parse_machine_id(f"{slot}+{generation}" if generation else slot)
        if name in self._records or name in self._tombstones:
            raise Rejected(f"machine id is taken already: {name}")
        admitted = dataclasses.replace(machine, id=name)
        self._id_of[slot] = name
        self._keep(Record(admitted, slot, notice=notice))
        return admitted

    def step(self, machine: str, state: State, *, grace_s: int = 0, **parts: Any) -> Machine:
        """One legal step of one machine."""
        record = self.known(machine)
        return self._move(record, stepped(record.machine, state, **parts), grace_s)

    def invent(self, machine: str, state: State, **parts: Any) -> Machine:
        """A step that the table may not have: only a named fault asks for it."""
        record = self.known(machine)
        return self._move(record, placed(record.machine, state, **parts), record.grace_s)

    def refresh(self, machine: Machine, notice: InterruptionNotice | None = None) -> bool:
        """Take in declared facts of a machine that stays where it is; whether any is new."""
        record = self.known(machine.id)
        if record.machine.state != machine.state:
            raise AssertionError(f"not a refresh: {record.machine.state} -> {machine.state}")
        if (record.machine, record.notice) == (machine, notice):
            return False
        self._keep(dataclasses.replace(record, machine=machine, notice=notice))
        return True

    def remove(self, machine: str, *, reason: str, at: float) -> None:
        """Forget a machine and leave a tombstone; its id is used up."""
        record = self.known(machine)
        del self._records[record.machine.id]
        self.by_state[record.machine.state] -= 1
        del self._id_of[record.slot]
        for call in Call:
            self._operations.pop((machine, call), None)
        self.revision += 1
        self._tombstones[machine] = self.revision
        generation = self._generations.get(record.slot, 0) + 1
        self._generations[record.slot] = generation
        self.write(
            [
                (Sql.DROP_MACHINE, (machine,)),
                (Sql.DROP_OPERATIONS, (machine,)),
                (Sql.PUT_TOMBSTONE, (machine, self.revision, reason, at)),
                (Sql.PUT_GENERATION, (record.slot, generation)),
            ]
        )
        if len(self._tombstones) > TOMBSTONES_MAX:
            self._forget_tombstones()

    def operation(self, machine: str, call: Call) -> str | None:
        """The operation of the last step of this kind."""
        return self._operations.get((machine, call))

    def begin(self, machine: str, call: Call) -> str:
        """A new operation; its id has never been given out before."""
        if self._next_operation >= self._reserved:
            self._reserved = self._next_operation + OPERATIONS_RESERVED
            self.write([(Sql.PUT_META, ("operations_reserved", str(self._reserved)))])
        self._next_operation += 1
        operation = f"op-{self._name}-{self._next_operation}"
        self._operations[machine, call] = operation
        self.write([(Sql.PUT_OPERATION, (machine, call.value, operation))])
        return operation

    def listing(self, request: ListRequest) -> Listing:
        """One answer to List, in the order of changes, so that a cut is a cursor like any other."""
        place = cursor.decode(self._name, request.since)
        full = place is None or not self._tombstones_dropped <= place.base <= self.revision
        start = Place(0, self.revision) if place is None or full else place
        found = self._changed_after(start.position, request.states)
        more = 0 < request.results_max < len(found)
        if more:
            found = found[: request.results_max]
            end = Place(found[-1].modified, start.base)
        else:
            end = Place(self.revision, self.revision)
        gone = () if more or full else self._gone_after(start.base)
        return Listing(
            machines=[record.machine for record in found],
            full=full,
            cursor=cursor.encode(self._name, end),
            tombstones=gone,
            more=more,
            notices={each.machine.id: each.notice for each in found if each.notice is not None},
        )

    def _move(self, record: Record, moved: Machine, grace_s: int) -> Machine:
        """Keep a machine in its new state; a notice was about the host it had."""
        notice = record.notice if moved.host == record.machine.host else None
        self._keep(dataclasses.replace(record, machine=moved, grace_s=grace_s, notice=notice))
        return moved

    def _changed_after(self, position: int, states: frozenset[State]) -> list[Record]:
        later: Iterable[Record] = self._records.values()
        if position:
            newest_first = reversed(self._records.values())
            changed = itertools.takewhile(lambda each: each.modified > position, newest_first)
            later = reversed(list(changed))
        return [each for each in later if not states or each.machine.state in states]

    def _gone_after(self, base: int) -> tuple[MachineId, ...]:
        newest_first = reversed(self._tombstones.items())
        gone = itertools.takewhile(lambda each: each[1] > base, newest_first)
        return tuple(MachineId(machine) for machine, _ in gone)[::-1]

    def _keep(self, record: Record) -> None:
        self.revision += 1
        kept = dataclasses.replace(record, modified=self.revision)
        name = kept.machine.id
        before = self._records.pop(name, None)  # the dictionary is in the order of the changes
        self._records[name] = kept
        self.by_state[kept.machine.state] += 1
        if before is not None:
            self.by_state[before.machine.state] -= 1
        self.write([(Sql.PUT_MACHINE, (name, self.revision, to_text(kept)))])

    def _forget_tombstones(self) -> None:
        older = list(self._tombstones.items())[: TOMBSTONES_MAX // 2]
        for machine, _ in older:
            del self._tombstones[machine]
        self._tombstones_dropped = older[-1][1]
        self.write(
            [
                (Sql.DROP_TOMBSTONES, (self._tombstones_dropped,)),
                (Sql.PUT_META, ("tombstones_dropped", str(self._tombstones_dropped))),
            ]
        )
