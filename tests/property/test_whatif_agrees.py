"""A changed snapshot is as good as an inventory in which the change has happened."""

import dataclasses
import random
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

import outside
from mainstay.engine.decide import decide
from mainstay.engine.plan import Plan
from mainstay.engine.policy import Policy
from mainstay.engine.whatif import MachinesLost, PriceTimes, Selector, changed
from mainstay.inventory.columns import HOT
from mainstay.inventory.inventory import Inventory
from mainstay.model.need import Operator, Requirement
from mainstay.model.profile import ZONE_KEY
from oracles.fleets import World, worlds

POLICY: Final = Policy()
DRAWN: Final = settings(max_examples=outside.examples(60))
IN_ZONE_1: Final = Requirement(ZONE_KEY, Operator.IN, ("z-1",))


def decided(world: World, inventory: Inventory) -> Plan:
    return decide(inventory.snapshot(), world.demand, world.memory, POLICY, world.now)


def told(plan: Plan) -> object:
    short = [(u.need.ref, u.deficit, u.unresolved, u.domain) for u in plan.unsatisfied]
    return tuple(plan.actions), plan.claimed_ids(), short


@given(worlds(), st.randoms(use_true_random=False))
@DRAWN
def test_losing_machines_is_removing_them(world: World, rng: random.Random) -> None:
    inventory = world.inventory()
    gone = [machine for machine in sorted(world.machines) if rng.random() < 0.3]
    lost, demand = changed((inventory.snapshot(), world.demand), [MachinesLost(tuple(gone))])
    for machine in gone:
        inventory.remove(machine)
    removed = inventory.snapshot()

    after = decide(lost, demand, world.memory, POLICY, world.now)

    assert told(after) == told(decided(world, inventory))
    for name in HOT:
        assert getattr(lost, name).tobytes() == getattr(removed, name).tobytes(), name
    assert lost.order.tolist() == removed.order.tolist()
    assert lost.machines_of_shape.tolist() == removed.machines_of_shape.tolist()


@given(worlds(), st.sampled_from((0.0, 0.5, 2.0, 10.0)))
@DRAWN
def test_another_price_is_a_report_of_another_price(world: World, factor: float) -> None:
    inventory = world.inventory()
    zoned = [
        entry[0] for entry in world.machines.values() if IN_ZONE_1.admits(entry[0].profile.zone)
    ]
    snapshot, demand = inventory.snapshot(), world.demand
    if zoned:
        dearer = PriceTimes(Selector(requirements=(IN_ZONE_1,)), factor)
        snapshot, demand = changed((snapshot, demand), [dearer])
    for machine in zoned:
        price = machine.price_per_hour * factor
        inventory.apply(dataclasses.replace(machine, price_per_hour=price), now=world.now)

    after = decide(snapshot, demand, world.memory, POLICY, world.now)

    assert told(after) == told(decided(world, inventory))
