"""The running state of a loop, and what is told of each cycle."""

from dataclasses import dataclass, field
from random import Random
from typing import Final

from mainstay.engine.plan import Demand, Memory
from mainstay.inventory.inventory import Inventory
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.action import Action
from mainstay.model.assignment import Assignment
from mainstay.model.batch import MachineBatch, batch_of
from mainstay.model.errors import Rejected
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.machine import Machine
from mainstay.model.needs import NeedsTable
from mainstay.sim.provider import SOURCE, Provider
from mainstay.sim.spec import Event, LoopSpec
from mainstay.sim.stage import Scene

CYCLE_S: Final = 10.0
NO_DEMAND: Final = Demand((), frozenset())


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """What one cycle did and left."""

    cycle: int
    bootstraps: int
    provisions: int
    preempts: int
    reclaims: int
    deletes: int
    planned: int
    """How many steps the plan asked for."""

    deferred: int
    """Reclaims that were above the cap."""

    dropped: int
    """Steps that got lost on their way."""

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
    provider: Provider = field(init=False)
    lists: list[tuple[int, MachineBatch]] = field(default_factory=list)
    """The latest lists, each with the cycle it was made in."""

    listed_at: int = 0
    """When the list was made that was taken in last."""

    taken_in: MachineBatch | None = None
    revision: int = 0
    """That list, and the revision of the inventory that came of it."""

    begun_at: dict[MachineId, int] = field(default_factory=dict)
    """The cycle in which work on a machine was last begun."""

    repeats: list[tuple[Action, Assignment]] = field(default_factory=list)
    """Steps that will come a second time."""

    silent: frozenset[ClusterId] = frozenset()
    market: float = 1.0
    """By what all prices are multiplied."""

    lost: int = 0
    failed: int = 0
    dropped: int = 0
    """Of this cycle, like `lost` and `failed`."""

    checked: Snapshot | None = None
    """The machines that were last held against the laws."""

    cycle: int = 0
    history: list[Stats] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    """Every law that was broken, with its cycle."""

    def __post_init__(self) -> None:
        self.provider = Provider(self.scene.machines, self.spec)

    @property
    def now(self) -> float:
        """Seconds since the run began."""
        return self.cycle * CYCLE_S

    def total(self, name: str) -> int:
        """A figure of the statistics, summed over all cycles."""
        return sum(getattr(stats, name) for stats in self.history)

    @property
    def quiet_cycles(self) -> int:
        """How many of the last cycles had nothing to do."""
        busy = [stats.cycle for stats in self.history if stats.planned or stats.actions]
        return len(self.history) - 1 - max(busy, default=-1)


def machines(inventory: Inventory) -> list[Machine]:
    """Every record, in order of ids."""
    return [inventory.machine(name) for name in inventory.ids()]


def listed(records: list[Machine], *, now: float) -> Inventory:
    """A new inventory that has taken in what a provider lists."""
    inventory = Inventory()
    report = inventory.merge(batch_of(records, source=SOURCE), now=now)
    if report.refused:
        raise Rejected(f"a list was not taken in: {report.refused[0].message}")
    return inventory
