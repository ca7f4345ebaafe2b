"""The running state of a loop, and what is told of each cycle."""

from dataclasses import dataclass, field
from random import Random
from typing import Final

from mainstay.engine.plan import Demand, Memory
from mainstay.inventory.inventory import Inventory
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.batch import batch_of
from mainstay.model.errors import Rejected
from mainstay.model.machine import Machine
from mainstay.model.needs import NeedsTable
from mainstay.model.state import State
from mainstay.sim.scene import Scene
from mainstay.sim.spec import Event, LoopSpec

CYCLE_S: Final = 10.0
PROVIDER: Final = "sim"
NO_DEMAND: Final = Demand((), frozenset())


@dataclass(frozen=True, slots=True)
class Operation:
    """A provider at work on one machine."""

    due: int
    """The cycle before whose decision the inventory learns of it."""

    begun: State
    record: Machine
    """The machine when it is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """What one cycle did and left."""

    cycle: int
    bootstraps: int
    provisions: int
    preempts: int
    reclaims: int
    deletes: int
    deferred: int
    """Reclaims that were above the cap."""

    lost: int
    failed: int
    creating: int
    configured: int
    unsatisfied: int
    shortfalls: int

    @property
    def actions(self) -> int:
        """How many steps were begun."""
        steps = self.bootstraps + self.provisions + self.preempts + self.reclaims
        return steps + self.deletes


@dataclass(slots=True)
class Loop:
    """One shard, its provider and its clusters."""

    spec: LoopSpec
    scene: Scene
    random: Random
    events: tuple[Event, ...]

    inventory: Inventory
    needs: NeedsTable
    demand: Demand = NO_DEMAND
    """The same object as long as nothing changes, as the engine likes it."""

    memory: Memory = field(default_factory=Memory.empty)
    operations: list[Operation] = field(default_factory=list)
    creates_to_fail: int = 0
    slots_added: int = 0
    lost: int = 0
    failed: int = 0
    """Of this cycle, like `lost`."""

    checked: Snapshot | None = None
    """The machines that were last held against the laws."""

    cycle: int = 0
    history: list[Stats] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    """Every law that was broken, with its cycle."""

    @property
    def now(self) -> float:
        """Seconds since the run began."""
        return self.cycle * CYCLE_S

    def total(self, name: str) -> int:
        """A figure of the statistics, summed over all cycles."""
        return sum(getattr(stats, name) for stats in self.history)

    @property
    def quiet_cycles(self) -> int:
        """How many of the last cycles did nothing."""
        busy = [stats.cycle for stats in self.history if stats.actions]
        return len(self.history) - 1 - max(busy, default=-1)


def machines(inventory: Inventory) -> list[Machine]:
    """Every record, in order of ids."""
    return [inventory.machine(name) for name in inventory.ids()]


def listed(records: list[Machine], *, now: float) -> Inventory:
    """A new inventory that has taken in what a provider lists."""
    inventory = Inventory()
    report = inventory.merge(batch_of(records, source=PROVIDER), now=now)
    if report.refused:
        raise Rejected(f"a list was not taken in: {report.refused[0].message}")
    return inventory
