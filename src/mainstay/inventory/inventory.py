"""The machines a shard owns: every write is checked, every read is of a frozen copy.

A write that is refused raises a typed error naming the machine and the rule or the edge, and
leaves everything as it was.
"""

import dataclasses
from collections.abc import Collection

from mainstay.inventory.merge import NOBODY, Adopt, MergeReport, Named, Report, merge
from mainstay.inventory.snapshot import Snapshot
from mainstay.inventory.store import Store
from mainstay.model.assignment import NO_ASSIGNMENT, Assignment, overlay
from mainstay.model.batch import MachineBatch
from mainstay.model.errors import DuplicateMachine, UnknownMachine
from mainstay.model.ids import MachineId, is_id
from mainstay.model.machine import Machine, check
from mainstay.model.state import check_transition, state_of


class Inventory:
    """One row per machine, in columns. Not for several threads at once; snapshots are."""

    def __init__(self) -> None:
        self._store = Store()

    def __len__(self) -> int:
        return len(self._store)

    def __contains__(self, machine: object) -> bool:
        return isinstance(machine, str) and self._store.index.row_of(machine) >= 0

    @property
    def revision(self) -> int:
        """Grows with every write that changed something."""
        return self._store.log.revision

    def add(self, machine: Machine, *, now: float, source: str = "") -> None:
        """Take in a machine that is not there yet. Its metadata is neither decoded nor kept."""
        check(machine)
        if machine.id in self:
            raise DuplicateMachine(f"machine {machine.id} is already in the inventory")
        store = self._store
        new = store.encode(machine, store.source_code(source))
        row = int(store.allocate(1)[0])
        store.add_id(row, machine.id)
        ref = machine.host.ref if machine.host else ""
        store.put(row, new, host_ref=ref, last_error=machine.last_error, now=now)

    def apply(self, machine: Machine, *, now: float) -> None:
        """Put a record in the place of the one with its id: the rules first, then the edge.

        In the same state it is a merge of fields, and no edge is needed.
        """
        store = self._store
        row = self._row(machine.id)
        check(machine)
        old = state_of(store.columns.state.item(row))
        if old is not None and old is not machine.state:
            check_transition(old, machine.state, machine=machine.id)
        new = store.encode(machine, store.columns.source.item(row))
        ref = machine.host.ref if machine.host else ""
        store.put(row, new, host_ref=ref, last_error=machine.last_error, now=now)

    def assign(self, machine: MachineId, assignment: Assignment) -> None:
        """Add the known parts of `assignment` to what the machine is committed to."""
        held = self._store.record(self._row(machine))
        self._commit(held, overlay(held.assignment, assignment))

    def clear_assignment(self, machine: MachineId) -> None:
        """Take away every part of its assignment at once."""
        self._commit(self._store.record(self._row(machine)), NO_ASSIGNMENT)

    def remove(self, machine: MachineId) -> None:
        """Forget a machine; its row is used again."""
        self._store.clear(self._row(machine))

    def merge(
        self,
        report: MachineBatch | Report,
        *,
        now: float,
        skip: Collection[MachineId] = (),
        adopt: Adopt | None = None,
        named: Named = NOBODY,
    ) -> MergeReport:
        """Take in what a provider reports, as `add` and `apply` would, one machine after the other.

        Machines in `skip` are in our own hands and left alone. What is absent is told, not removed.
        Of a `Report` only the records are read whose digest we do not know. With `adopt`, a machine
        that we do not know is taken in only if it says so of its shape, asked once per shape, or if
        `named` calls it ours. One that we do not know and that is away is passed over, uncounted.
        """
        return merge(self._store, report, now=now, skip=skip, adopt=adopt, named=named)

    def machine(self, machine: MachineId) -> Machine:
        """One record."""
        return self._store.record(self._row(machine))

    def idle_since(self, machine: MachineId) -> float | None:
        """When a machine became Idle; None when it is not."""
        since = self._store.columns.idle_since.item(self._row(machine))
        return None if since != since else since  # noqa: PLR0124 - NaN is the one unlike itself

    def source(self, machine: MachineId) -> str:
        """Which provider reports a machine."""
        return self._store.sources.value(self._store.columns.source.item(self._row(machine)))

    def ids(self) -> list[MachineId]:
        """Every id, in order."""
        snapshot = self.snapshot()
        return [MachineId(text) for text in snapshot.ids.take(snapshot.order.astype("intp"))]

    def snapshot(self) -> Snapshot:
        """A frozen copy; the same object as long as nothing changes."""
        return self._store.snapshot()

    def nbytes(self) -> int:
        """Bytes of all arrays and tables, without the values that the tables hold."""
        return self._store.nbytes()

    def values(self) -> list[object]:
        """Every value the tables hold, for counting what they take."""
        return self._store.values()

    def _row(self, machine: MachineId) -> int:
        row = self._store.index.row_of(machine)
        if row < 0:
            shown = machine if is_id(machine) else repr(machine[:80])
            raise UnknownMachine(f"no machine {shown} in the inventory")
        return row

    def _commit(self, held: Machine, assignment: Assignment) -> None:
        self.apply(dataclasses.replace(held, assignment=assignment), now=float("nan"))
