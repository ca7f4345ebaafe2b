"""The engine against the plain one while a world lives: one inventory, one memory, cycle by cycle.

What was decided is carried out, in part; work in progress ends; prices and demand change. Whatever
the engine keeps from one cycle to the next must not show.
"""

import dataclasses
import random
from typing import Any, Final

import pytest

import outside
from mainstay.engine.audit import differences
from mainstay.engine.barred import NOTHING_BARRED
from mainstay.engine.decide import decide
from mainstay.engine.plan import Demand, Memory, Plan
from mainstay.engine.policy import Policy
from mainstay.engine.quota import NO_QUOTA
from mainstay.inventory.inventory import Inventory
from mainstay.model.action import Action, ActionKind
from mainstay.model.assignment import NO_ASSIGNMENT, Assignment
from mainstay.model.cost import upper_bound
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.machine import Machine
from mainstay.model.need import Need
from mainstay.model.profile import HostRef
from mainstay.model.state import State
from oracles.fleets import (
    CLUSTERS,
    NOW,
    PRICES,
    PRIORITIES,
    a_bar,
    a_quota,
    demand_rows,
    seeded_world,
    some_needs,
)
from oracles.plain_engine import Entry, PlainPlan, plain_decide

POLICY: Final = Policy()
POLICIES: Final = (POLICY, POLICY, Policy(hold_spot_s=90, park_after=2, reprobe_every=3))
LIVES: Final = 60
CYCLES: Final = 12
CYCLE_S: Final = 30.0
STILL_CYCLES: Final = 36

ENDS: Final = {
    State.CREATING: State.IDLE, State.CONFIGURING: State.CONFIGURED,
    State.DRAINING: State.IDLE, State.DELETING: State.SPECULATIVE,
}  # fmt: skip


class Life:
    """A world that goes on: the inventory, what is asked of it, and what each engine remembers."""

    def __init__(self, seed: int) -> None:
        world = seeded_world(seed)
        self.rng = random.Random(f"life {seed}")
        self.now = NOW
        self.inventory = world.inventory()
        self.needs = list(world.demand.needs)
        self.heard = set(world.demand.heard)
        self.remembered = self.remembered_plainly = world.memory
        self.quota = world.demand.quota
        self.barred = world.demand.barred
        self.gone: list[Entry] = []
        self.demand = world.demand

    def machines(self) -> dict[MachineId, Entry]:
        inventory = self.inventory
        return {
            id_: Entry(inventory.machine(id_), inventory.idle_since(id_), inventory.source(id_))
            for id_ in inventory.ids()
        }

    def decide_twice(self) -> tuple[Plan, PlainPlan]:
        rows, before = demand_rows(self.needs), self.demand.asked
        demand = Demand(rows, frozenset(self.heard), self.quota, self.barred, before)
        demand = self.demand = self.demand if demand == self.demand else demand
        policy = self.rng.choice(POLICIES)
        plan = decide(self.inventory.snapshot(), demand, self.remembered, policy, self.now)
        assert differences(plan, self.remembered, self.now) == ()
        plain = plain_decide(self.machines(), demand, self.remembered_plainly, policy, self.now)
        self.remembered, self.remembered_plainly = plan.memory, plain.memory
        return plan, plain

    def go_on(self, plan: Plan) -> None:
        self.now += CYCLE_S
        how = self.rng.choice(("busy", "busy", "slow", "still"))
        if how == "still":
            return
        for machine, *_ in self.machines().values():
            if machine.state in ENDS and self.rng.random() < 0.5:
                self.end_work(machine)
        for action in plan.actions:
            if how == "busy" or self.rng.random() < 0.3:
                self.carry_out(action)
        self.disturb()

    def put(self, machine: Machine, **changes: Any) -> None:
        self.inventory.apply(dataclasses.replace(machine, **changes), now=self.now)

    def end_work(self, machine: Machine) -> None:
        end = ENDS[machine.state]
        if self.rng.random() < 0.1:
            self.put(machine, state=State.FAILED, last_error="lost")
        elif end is State.CONFIGURED:
            self.put(machine, state=end, cluster=machine.cluster or CLUSTERS[0])
        else:
            host = None if end is State.SPECULATIVE else HostRef("sim", machine.id)
            self.put(machine, state=end, host=host, cluster=None, assignment=NO_ASSIGNMENT)

    def carry_out(self, action: Action) -> None:
        machine = self.inventory.machine(action.machine)
        ref = action.need
        meant = Assignment(
            cluster=ref.cluster if ref else None,
            fingerprint=ref.fingerprint if ref else None,
            group=ref.group if ref else None,
        )
        match action.kind:
            case ActionKind.BOOTSTRAP:
                worth = self.worth(action, meant)
                self.put(machine, state=State.CONFIGURING, cluster=action.cluster, assignment=worth)
            case ActionKind.PROVISION:
                self.put(machine, state=State.CREATING, assignment=meant)
            case ActionKind.PREEMPT | ActionKind.RECLAIM:
                drained = dataclasses.replace(machine.assignment, drained_for=ref)
                self.put(machine, state=State.DRAINING, assignment=drained)
            case ActionKind.DELETE:
                self.put(machine, state=State.DELETING)

    def worth(self, action: Action, meant: Assignment) -> Assignment:
        """What a machine carries that serves the need of this action."""
        for need in self.needs:
            if need.ref == action.need:
                return _priced(need, meant)
        return meant

    def disturb(self) -> None:
        rng, ids = self.rng, self.inventory.ids()
        if ids and rng.random() < 0.5:
            self.put(self.inventory.machine(rng.choice(ids)), price_per_hour=rng.choice(PRICES))
        if ids and rng.random() < 0.3:
            gone = rng.choice(ids)
            self.gone.append(self.machines()[gone])
            self.inventory.remove(gone)
        if self.gone and rng.random() < 0.3:
            machine, _, source = self.gone.pop()
            self.inventory.add(machine, now=self.now, source=source)
        if rng.random() < 0.3:
            self.ask_otherwise(keep=0.5)
        if rng.random() < 0.2:
            self.heard ^= {rng.choice(CLUSTERS)}
        if rng.random() < 0.1:
            self.quota = rng.choice((NO_QUOTA, a_quota(rng.choice, CLUSTERS)))
        if rng.random() < 0.3:
            self.barred = rng.choice((NOTHING_BARRED, a_bar(rng.choice, ids)))

    def ask_otherwise(self, *, keep: float) -> None:
        """Some needs go, some come."""
        rng, priorities = self.rng, self.rng.choice(PRIORITIES)
        self.needs = [
            *rng.sample(self.needs, k=round(len(self.needs) * keep)),
            *some_needs(rng.choice, rng.choice((0, 1, 2)), CLUSTERS, priorities),
        ]


def _priced(need: Need, meant: Assignment) -> Assignment:
    profile = need.profile
    return dataclasses.replace(
        meant,
        priority=profile.priority,
        interruption_penalty_dollars=upper_bound(profile.interruption_penalty_bucket),
        reclamation_penalty_dollars=upper_bound(profile.reclamation_penalty_bucket),
    )


def told(plan: Plan | PlainPlan) -> list[object]:
    """Everything but the rows of demand, which are compared elsewhere."""
    rows = [(u.need.ref, u.deficit, u.domain, u.satisfiable, u.parked, u.unresolved, u.reason,
             u.ceiling and (u.ceiling.domain, {k: n for k, n in u.ceiling.capacity.items() if n}))
            for u in plan.unsatisfied]  # fmt: skip
    shortfalls = [(s.fingerprint, s.priority, s.deficit, s.age) for s in plan.shortfalls]
    ages = dict(plan.memory.gang_ages), dict(plan.memory.shortfall_ages)
    return [list(plan.actions), plan.claimed_ids(), rows, shortfalls, ages]


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("seed", range(outside.examples(LIVES)))
def test_they_agree_in_every_cycle_of_a_life(seed: int) -> None:
    life = Life(seed)

    for cycle in range(CYCLES):
        plan, plain = life.decide_twice()
        assert told(plan) == told(plain), f"cycle {cycle}"
        life.go_on(plan)


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("seed", range(outside.examples(20)))
def test_they_agree_while_nothing_changes_but_what_is_asked(seed: int) -> None:
    """The machines are the same, and all that was looked up about them is used again."""
    life = Life(seed)

    for cycle in range(CYCLES):
        plan, plain = life.decide_twice()
        assert told(plan) == told(plain), f"cycle {cycle}"
        life.ask_otherwise(keep=life.rng.choice((0.6, 0.8, 1.0)))


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("seed", range(outside.examples(20)))
def test_they_agree_while_nothing_happens_but_time(seed: int) -> None:
    """Holds run out, shortfalls age, gangs are parked and probe, with the very same inputs."""
    life = Life(seed)
    demand = Demand(demand_rows(life.needs), frozenset(life.heard), life.quota)
    machines = life.machines()
    real = plain = Memory.empty()

    for _ in range(STILL_CYCLES):
        plan = decide(life.inventory.snapshot(), demand, real, POLICY, life.now)
        other = plain_decide(machines, demand, plain, POLICY, life.now)
        assert told(plan) == told(other), f"at {life.now}"
        real, plain = plan.memory, other.memory
        life.now += CYCLE_S


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("seed", range(outside.examples(20)))
def test_what_is_kept_of_one_inventory_does_not_show_in_another(seed: int) -> None:
    """The memory of one world with the machines of the next, at the same revision or not."""
    life, other = Life(seed), Life(seed + 1)
    remembered = life.decide_twice()[0].memory
    ages = Memory(remembered.gang_ages, remembered.shortfall_ages)
    demand = Demand(demand_rows(other.needs), frozenset(map(ClusterId, CLUSTERS)), other.quota)
    inventory: Inventory = other.inventory

    mixed = decide(inventory.snapshot(), demand, remembered, POLICY, NOW)

    assert told(mixed) == told(plain_decide(other.machines(), demand, ages, POLICY, NOW))
