"""Every change that a shard itself makes to a machine: checked, remembered, told to its cluster."""

import dataclasses
from typing import Any

from mainstay.inventory.inventory import Inventory
from mainstay.model.assignment import NO_ASSIGNMENT, restrict
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.machine import Machine
from mainstay.model.state import RULES, Presence, State
from mainstay.runtime.clock import Clock
from mainstay.shard.ledger import Ledger
from mainstay.shard.ports import Clusters


class Moves:
    """Writes to the inventory. Nothing here waits."""

    def __init__(
        self, inventory: Inventory, ledger: Ledger, clusters: Clusters, clock: Clock
    ) -> None:
        self._inventory = inventory
        self._ledger = ledger
        self._clusters = clusters
        self._clock = clock

    def to(self, machine: MachineId, state: State, **changes: Any) -> Machine:
        """Move a machine along an edge of the table; `changes` are fields of its record.

        What the new state may not carry is taken away. Raises IllegalTransition, and then nothing
        has changed.
        """
        before = self._inventory.machine(machine)
        changed = dataclasses.replace(before, state=state, **changes)
        return self.put(_as_allowed(changed))

    def put(self, record: Machine) -> Machine:
        """Have this record from now on; the edge is checked."""
        before = self._inventory.machine(record.id)
        self._inventory.apply(record, now=self._clock.now_s())
        self._ledger.touch(record.id)
        if record != before:
            self.tell(before.cluster, record)
        return record

    def fail(self, machine: MachineId, why: str) -> Machine:
        """A step failed, and nobody knows how the machine stands: Failed, with the diagnosis."""
        return self.to(machine, State.FAILED, last_error=why)

    def tell(self, cluster_before: ClusterId | None, record: Machine) -> None:
        """Tell whoever had the machine before, so that its last update reaches the one it left."""
        cluster = cluster_before or record.cluster
        if cluster:
            self._clusters.tell(cluster, record)


def _as_allowed(machine: Machine) -> Machine:
    """The record without what its state may not carry."""
    rule = RULES[machine.state]
    return dataclasses.replace(
        machine,
        cluster=None if rule.cluster is Presence.NEVER else machine.cluster,
        host=None if rule.host is Presence.NEVER else machine.host,
        assignment=restrict(machine.assignment, machine.state) if machine.assignment
        else NO_ASSIGNMENT,
        last_error=machine.last_error if machine.state is State.FAILED else "",
    )  # fmt: skip
