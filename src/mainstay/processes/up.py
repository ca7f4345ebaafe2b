"""`mainstay up`: a simulated fleet whose machines walk their lifecycle until told to stop.

At this stage it is the machine model at work: every legal edge is walked, every illegal one is
tried and refused, and every machine is checked against every rule.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from mainstay.inventory.inventory import Inventory
from mainstay.model.errors import IllegalTransition
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.machine import Machine, faults
from mainstay.model.state import EDGES, State, can_transition
from mainstay.providers.sim.fleet import FleetSpec, fleet
from mainstay.providers.sim.walk import moved, next_state
from mainstay.runtime.clock import Clock

Edge = tuple[State, State]


@dataclass(slots=True)
class World:
    """A fleet, and what has happened to it so far."""

    inventory: Inventory
    machines: list[MachineId]
    clusters: list[ClusterId]
    random: Random
    walked: Counter[Edge] = field(default_factory=Counter)

    @property
    def edges_left(self) -> list[Edge]:
        """The legal edges nobody has walked yet."""
        return [edge for edge in EDGES if not self.walked[edge]]


def build(machines: int, seed: int, clock: Clock) -> World:
    """Make the fleet and take it in as a provider's first full list."""
    spec = FleetSpec(machines=machines, seed=seed)
    batch = fleet(spec)
    inventory = Inventory()
    report = inventory.merge(batch, now=clock.now_s())
    if report.refused or len(report.added) != machines:
        raise AssertionError(f"the simulated fleet broke its own rules: {report.refused[:3]}")
    clusters = [ClusterId(name) for name in batch.clusters if name]
    return World(inventory, inventory.ids(), clusters, Random(seed))


def walk(world: World, steps: int, clock: Clock) -> int:
    """Move up to `steps` machines, chosen at random, along one legal edge each."""
    taken = 0
    for _ in range(steps):
        machine = world.inventory.machine(world.random.choice(world.machines))
        state = next_state(machine, world.random)
        if state is not None:
            step(world, machine, state, clock)
            taken += 1
    return taken


def step(world: World, machine: Machine, state: State, clock: Clock) -> None:
    """Move one machine along one edge."""
    record = moved(machine, state, world.clusters, world.random)
    world.inventory.apply(record, now=clock.now_s())
    world.walked[machine.state, state] += 1


def walk_every_edge(world: World, clock: Clock) -> int:
    """Walk until every legal edge was walked: first at random, then straight at what is left."""
    taken = walk(world, len(world.machines), clock)
    for old, new in world.edges_left:
        machine = _one_in(world, old)
        if machine is not None:
            step(world, machine, new, clock)
            taken += 1
    return taken


def try_every_illegal_edge(world: World, clock: Clock) -> Iterator[tuple[Edge, IllegalTransition]]:
    """Ask for every edge the table does not have; each must be refused and change nothing."""
    for old in State:
        machine = _one_in(world, old)
        for new in State:
            if machine is None or new in {old, State.UNSPECIFIED} or can_transition(old, new):
                continue
            revision = world.inventory.revision
            try:
                record = moved(machine, new, world.clusters, world.random)
                world.inventory.apply(record, now=clock.now_s())
            except IllegalTransition as refusal:
                if world.inventory.revision != revision:
                    raise AssertionError("a refused write left a trace") from refusal
                yield (old, new), refusal
            else:
                raise AssertionError(f"an illegal edge was let through: {old} -> {new}")


def faulty(world: World) -> list[str]:
    """Every machine against every rule: what is broken, in sentences."""
    return [
        f"machine {machine}: {why}"
        for machine in world.machines
        for _, why in faults(world.inventory.machine(machine))
    ]


def _one_in(world: World, state: State) -> Machine | None:
    snapshot = world.inventory.snapshot()
    rows = snapshot.rows_in(state)
    return world.inventory.machine(snapshot.machine_ids(rows[:1])[0]) if len(rows) else None
