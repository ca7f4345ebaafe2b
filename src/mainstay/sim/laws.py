"""What must be true of every decision and of every machine, whatever happens."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from mainstay.engine.plan import Demand, Plan
from mainstay.inventory.inventory import Inventory
from mainstay.model.action import Action, ActionKind
from mainstay.model.ids import ClusterId
from mainstay.model.machine import Machine, faults
from mainstay.sim.execute import reclaims_max
from mainstay.sim.provider import Provider

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


def machine_faults(held: Sequence[Machine], *, size: int) -> Iterator[str]:
    """Every law that the machines break."""
    if len(held) != size:
        yield f"there are {len(held)} machines and not {size}"
    for machine in held:
        for _, why in faults(machine):
            yield f"machine {machine.id}: {why}"


def step_faults(
    begun: Iterable[Action], configured: Mapping[ClusterId | None, int] | None
) -> Iterator[str]:
    """Every law that the steps of one cycle break; `configured` holds the machines they cap."""
    steps = list(begun)
    for machine, count in Counter(action.machine for action in steps).items():
        if count > 1:
            yield f"work on machine {machine} was begun {count} times"
    if configured is None:
        return
    reclaimed = Counter(a.cluster for a in steps if a.kind is ActionKind.RECLAIM)
    for cluster, count in reclaimed.items():
        most = reclaims_max(configured[cluster])
        if count > most:
            yield f"{count} machines were reclaimed from {cluster} in one cycle, and not {most}"


def owner_faults(held: Iterable[Machine], provider: Provider) -> Iterator[str]:
    """Every machine that serves one cluster here and another one there."""
    for machine in held:
        record = provider.find(machine.id)
        theirs = None if record is None else record.cluster
        if machine.cluster and theirs and machine.cluster != theirs:
            yield f"machine {machine.id} serves {machine.cluster} here and {theirs} there"
