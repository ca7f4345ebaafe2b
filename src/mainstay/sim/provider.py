"""A provider of simulated machines: what there really is, and the lists in which it tells of it.

It knows nothing of needs. It takes a call on a machine that is in the right state and on no other,
is at work for as many cycles as the call takes, and gives back the metadata it was given.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import Final, NamedTuple

from mainstay.model.action import ActionKind
from mainstay.model.assignment import NO_ASSIGNMENT, Assignment
from mainstay.model.batch import MachineBatch, batch_of
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.machine import Machine
from mainstay.model.metadata import encode
from mainstay.model.state import State
from mainstay.sim.spec import LoopSpec
from mainstay.sim.stage import host

SOURCE: Final = "sim"
DELETE_DWELL: Final = 1
FAILED_REST: Final = 3
"""So many cycles after a Create failed its record is gone and its slot is back."""


class Work(NamedTuple):
    """The states a machine goes through in one call."""

    before: State
    during: State
    after: State


_DRAIN: Final = Work(State.CONFIGURED, State.DRAINING, State.IDLE)
WORK: Final[Mapping[ActionKind, Work]] = MappingProxyType({
    ActionKind.PROVISION: Work(State.SPECULATIVE, State.CREATING, State.IDLE),
    ActionKind.BOOTSTRAP: Work(State.IDLE, State.CONFIGURING, State.CONFIGURED),
    ActionKind.PREEMPT: _DRAIN,
    ActionKind.RECLAIM: _DRAIN,
    ActionKind.DELETE: Work(State.IDLE, State.DELETING, State.SPECULATIVE),
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Operation:
    """A provider at work on one machine."""

    due: int
    """The cycle before whose decision it is done."""

    machine: MachineId
    after: State


class Provider:
    """The machines there are, by id, and the work that is under way."""

    def __init__(self, machines: Iterable[Machine], spec: LoopSpec) -> None:
        self._spec = spec
        self._records = {machine.id: machine for machine in machines}
        for machine in [*self._records.values()]:
            self.put(self.told(machine, machine.assignment))
        self._operations: list[Operation] = []
        self._batch: MachineBatch | None = None
        self._slots_added = 0
        self.creates_to_fail = 0

    def machines(self) -> list[Machine]:
        """Every record, in order of ids."""
        return [self._records[name] for name in sorted(self._records)]

    def find(self, machine: MachineId) -> Machine | None:
        """One record, if there is such a machine."""
        return self._records.get(machine)

    def put(self, record: Machine) -> None:
        """Have this record from now on."""
        self._records[record.id] = record
        self._batch = None

    def told(self, record: Machine, assignment: Assignment) -> Machine:
        """The record with what the shard says it is committed to, as far as it is echoed."""
        silent = record.state is State.CREATING and not self._spec.echo_create
        echo = {} if silent or not self._spec.echo else encode(assignment)
        return dataclasses.replace(record, assignment=NO_ASSIGNMENT, shard_metadata=echo)

    def call(
        self, kind: ActionKind, name: MachineId, cluster: ClusterId | None, meant: Assignment,
        *, cycle: int,
    ) -> bool:  # fmt: skip
        """Begin the work, if the machine is there and in the state the work begins in."""
        record, work = self._records.get(name), WORK[kind]
        if record is None or record.state is not work.before:
            return False
        if kind is ActionKind.BOOTSTRAP:
            record = dataclasses.replace(record, cluster=cluster)
        self.put(self.told(dataclasses.replace(record, state=work.during), meant))
        self._operations.append(Operation(cycle + 1 + self._dwell(kind), name, work.after))
        return True

    def complete(self, cycle: int, random: Random) -> int:
        """Finish whatever is due, in any order; how many Creates failed instead."""
        due = [operation for operation in self._operations if operation.due <= cycle]
        self._operations = [o for o in self._operations if o.due > cycle]
        random.shuffle(due)
        failed = 0
        for operation in due:
            record = self._records[operation.machine]
            if record.state is State.FAILED:
                self.lose(record)
            elif record.state is State.CREATING and self.creates_to_fail:
                self._fail(record, cycle)
                failed += 1
            else:
                self.put(_done(record, operation.after))
        return failed

    def lose(self, gone: Machine) -> None:
        """A machine is gone; a slot with an id of its own takes its place."""
        del self._records[gone.id]
        self._slots_added += 1
        name = MachineId(f"{gone.id.partition('+')[0]}+{self._slots_added:03d}")
        slot = dataclasses.replace(_done(gone, State.SPECULATIVE), id=name, last_error="")
        self.put(slot)

    def listed(self, random: Random) -> MachineBatch:
        """A full list, in any order; the same object as long as nothing changes."""
        if self._batch is None:
            records = self.machines()
            random.shuffle(records)
            self._batch = batch_of(records, source=SOURCE)
        return self._batch

    def _fail(self, record: Machine, cycle: int) -> None:
        self.creates_to_fail -= 1
        self.put(dataclasses.replace(record, state=State.FAILED, last_error="out of stock"))
        self._operations.append(Operation(cycle + FAILED_REST, record.id, State.SPECULATIVE))

    def _dwell(self, kind: ActionKind) -> int:
        dwells = {
            ActionKind.PROVISION: self._spec.create_dwell,
            ActionKind.BOOTSTRAP: self._spec.configure_dwell,
            ActionKind.DELETE: DELETE_DWELL,
        }
        return dwells.get(kind, self._spec.drain_dwell)


def _done(record: Machine, after: State) -> Machine:
    """The record when the work is done; only a Configured machine keeps what it was told."""
    done = dataclasses.replace(record, state=after)
    if after is State.CONFIGURED:
        return done
    hardware = (record.host or host(record.id)) if after is State.IDLE else None
    return dataclasses.replace(done, host=hardware, cluster=None, shard_metadata={})
