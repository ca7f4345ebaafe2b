"""What must be true of every decision and of every machine, whatever happens."""

from collections import Counter
from collections.abc import Iterator

from mainstay.engine.plan import Demand, Plan
from mainstay.inventory.inventory import Inventory
from mainstay.model.action import ActionKind
from mainstay.model.machine import faults
from mainstay.sim.world import machines

ACQUIRED = (ActionKind.BOOTSTRAP, ActionKind.PROVISION)
RELEASED = (ActionKind.RECLAIM, ActionKind.DELETE)


def plan_faults(plan: Plan, demand: Demand, inventory: Inventory) -> Iterator[str]:
    """Every law that a plan breaks; the inventory is that from before it is carried out."""
    counts = Counter(action.machine for action in plan.actions)
    claimed = set(plan.claimed_ids())
    for machine, count in counts.items():
        if count > 1:
            yield f"machine {machine} is in {count} actions"
    for action in plan.actions:
        if action.kind in ACQUIRED and action.machine not in claimed:
            yield f"machine {action.machine} is acquired and not claimed"
        if action.kind in RELEASED and action.machine in claimed:
            yield f"machine {action.machine} is claimed, and there is a {action.kind}"
        cluster = inventory.machine(action.machine).cluster
        if action.kind is ActionKind.RECLAIM and cluster not in demand.heard:
            yield f"machine {action.machine} is reclaimed from {cluster}, which was not heard from"


def machine_faults(inventory: Inventory, *, size: int) -> Iterator[str]:
    """Every law that the machines break."""
    if len(inventory) != size:
        yield f"there are {len(inventory)} machines and not {size}"
    for machine in machines(inventory):
        for _, why in faults(machine):
            yield f"machine {machine.id}: {why}"
