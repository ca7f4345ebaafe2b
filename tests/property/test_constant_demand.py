"""Nothing is drained, and nothing is acquired twice, while nobody asks for less (ADR-0048).

Several needs of one cluster, machines of several sizes that fit some needs or all, a provider that
takes as long as it likes over each machine. Every machine is one unit to any need it fits, so that
as many machines as units are enough.
"""

import dataclasses
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import pytest

import outside
from mainstay.engine.audit import differences
from mainstay.engine.decide import decide
from mainstay.engine.plan import Demand, Memory
from mainstay.engine.policy import Policy
from mainstay.inventory.inventory import Inventory
from mainstay.model.action import Action, ActionKind
from mainstay.model.assignment import NO_ASSIGNMENT
from mainstay.model.commitment import commitment, full_commitment
from mainstay.model.ids import MachineId
from mainstay.model.machine import Machine
from mainstay.model.need import Need, Operator, Requirement
from mainstay.model.profile import INSTANCE_TYPE_KEY, CapacityType, HostRef
from mainstay.model.resources import Resources
from mainstay.model.state import State
from oracles.fleets import demand_rows
from oracles.scenes import GPU, IDLE, SPECULATIVE, X, Y, machine, need

SIZES: Final = (2, 4, 8)
"""Cores; every machine has one GPU."""

FLEET: Final = 60
DWELL_MAX: Final = 6
CYCLES: Final = 60
CYCLE_S: Final = 10.0


def a_machine(name: str, size: int, state: State, **given: Any) -> Machine:
    has = Resources({GPU: "1", "cpu": str(size)})
    return machine(name, state, has=has, type=f"c{size}", capacity=CapacityType.RESERVED, **given)


def a_need(units: int, size: int, **given: Any) -> Need:
    """What is smaller does not fit."""
    types = tuple(f"c{large}" for large in SIZES if large >= size)
    only = Requirement(INSTANCE_TYPE_KEY, Operator.IN, types)
    return need(wants={GPU: units}, unit={GPU: 1}, requires=(only,), **given)


class Growing:
    """A fleet, what is asked of it from cycle to cycle, never less, and what was done."""

    def __init__(
        self,
        machines: Iterable[Machine],
        coming: Mapping[int, Need],
        dwell: Callable[[MachineId], int],
    ) -> None:
        self.coming, self.dwell = coming, dwell
        self.needs: list[Need] = []
        self.inventory = Inventory()
        self.memory = Memory.empty()
        self.now = 0.0
        self.due: dict[MachineId, int] = {}
        self.done: Counter[ActionKind] = Counter()
        for made in machines:
            self.inventory.add(made, now=0.0)

    @staticmethod
    def at_random(seed: int, *, idle: int) -> "Growing":
        rng = random.Random(seed)
        machines = [
            a_machine(
                f"m-{number:03}",
                rng.choice(SIZES),
                IDLE if number < idle else SPECULATIVE,
                price=rng.choice((1.0, 2.0, 3.0)),
                chance=rng.choice((0.0, 0.0, 0.5)),
            )
            for number in range(FLEET)
        ]
        coming = {
            rng.randrange(12): a_need(
                rng.randint(1, 4),
                rng.choice(SIZES),
                cluster=rng.choice((X, X, Y)),
                priority=rng.choice((10, 50, 100)),
                interruption=rng.choice((0, 5, 20)),
            )
            for _ in range(5)
        }
        return Growing(machines, coming, lambda _: rng.randint(0, DWELL_MAX))

    @property
    def units(self) -> int:
        return sum(asked.aggregate[GPU] for asked in self.needs)

    def live(self) -> None:
        demand = Demand((), frozenset())
        for cycle in range(CYCLES):
            self.finish(cycle)
            if cycle in self.coming:
                self.ask(self.coming[cycle])
                heard = frozenset(asked.cluster for asked in self.needs)
                demand = Demand(demand_rows(self.needs), heard)
            plan = decide(self.inventory.snapshot(), demand, self.memory, Policy(), self.now)
            assert differences(plan, self.memory, self.now) == ()
            self.memory = plan.memory
            needs = {asked.ref: asked for asked in plan.needs}
            for action in plan.actions:
                self.begin(action, needs[action.need] if action.need else None, cycle)
            self.now += CYCLE_S

    def ask(self, more: Need) -> None:
        same = [asked for asked in self.needs if asked.ref == more.ref]
        units = sum(asked.aggregate[GPU] for asked in [*same, more])
        grown = dataclasses.replace(more, aggregate={GPU: units})
        self.needs = [*(asked for asked in self.needs if asked.ref != more.ref), grown]

    def begin(self, action: Action, wanted: Need | None, cycle: int) -> None:
        self.done[action.kind] += 1
        held = self.inventory.machine(action.machine)
        self.due[held.id] = cycle + 1 + self.dwell(held.id)
        if wanted is not None and action.kind is ActionKind.PROVISION:
            self.put(held, state=State.CREATING, assignment=commitment(wanted))
        elif wanted is not None and action.kind is ActionKind.BOOTSTRAP:
            meant = full_commitment(wanted)
            self.put(held, state=State.CONFIGURING, cluster=action.cluster, assignment=meant)

    def finish(self, cycle: int) -> None:
        for name in sorted(name for name, due in self.due.items() if due <= cycle):
            held, _ = self.inventory.machine(name), self.due.pop(name)
            if held.state is State.CREATING:
                host = HostRef("sim", name)
                self.put(held, state=State.IDLE, host=host, assignment=NO_ASSIGNMENT)
            elif held.state is State.CONFIGURING:
                self.put(held, state=State.CONFIGURED)

    def put(self, held: Machine, **changes: Any) -> None:
        self.inventory.apply(dataclasses.replace(held, **changes), now=self.now)


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("seed", range(outside.examples(24)))
def test_every_unit_is_acquired_once_and_nothing_is_drained(seed: int) -> None:
    grown = Growing.at_random(seed, idle=FLEET)

    grown.live()

    assert grown.done == {ActionKind.BOOTSTRAP: grown.units}
    assert grown.memory.shortfall_ages == {}


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("seed", range(outside.examples(24)))
def test_nothing_is_drained_however_long_it_takes_to_create(seed: int) -> None:
    """One more than is needed may be bought while another is Idle, between its two calls."""
    grown = Growing.at_random(seed, idle=FLEET // 4)

    grown.live()

    assert grown.done.keys() <= {ActionKind.BOOTSTRAP, ActionKind.PROVISION}
    assert grown.done[ActionKind.BOOTSTRAP] == grown.units
    assert grown.memory.shortfall_ages == {}


@pytest.mark.usefixtures("loops")
def test_what_was_bought_by_effective_cost_is_not_drained_for_its_price() -> None:
    """All serve in the end, and the dear one that must not be interrupted is not given up."""
    easy = a_need(1, 2, priority=100, interruption=20)
    fussy = a_need(1, 8, priority=10)
    slots = [
        a_machine("dear", 2, SPECULATIVE, price=3.0),
        a_machine("cheap", 8, SPECULATIVE, price=1.0, chance=0.5),
        a_machine("more", 8, SPECULATIVE, price=1.0, chance=0.5),
    ]
    grown = Growing(slots, {0: easy, 1: fussy}, lambda name: 0 if name == "dear" else 3)

    grown.live()

    assert grown.done == {ActionKind.PROVISION: 2, ActionKind.BOOTSTRAP: 2}
    assert {m.id: m.state for m in map(grown.inventory.machine, grown.inventory.ids())} == {
        "cheap": State.CONFIGURED, "dear": State.CONFIGURED, "more": SPECULATIVE,
    }  # fmt: skip
