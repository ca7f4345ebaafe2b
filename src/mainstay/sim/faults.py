"""What happens to a shard from outside: losses, failures, changed demand, a restart."""

import dataclasses
from random import Random

from mainstay.engine.plan import Demand, Memory
from mainstay.model.assignment import NO_ASSIGNMENT
from mainstay.model.ids import ClusterId
from mainstay.model.machine import Machine
from mainstay.model.metadata import encode
from mainstay.model.need import Need
from mainstay.model.needs import NeedsTable
from mainstay.model.state import State
from mainstay.sim.execute import add_slot
from mainstay.sim.scene import Scene
from mainstay.sim.spec import Event, EventKind, LoopSpec
from mainstay.sim.world import NO_DEMAND, Loop, listed, machines


def scheduled(spec: LoopSpec, scene: Scene, random: Random) -> tuple[Event, ...]:
    """All that will happen: what the spec names, and its losses where the seed puts them.

    Drawn before anything else, so that the same seed has the same losses at every dwell.
    """
    losses = [
        Event(EventKind.LOSE, random.randint(1, max(1, spec.cycles // 2)), 1, cluster)
        for cluster in random.choices(scene.clusters, k=spec.losses)
    ]
    return (*spec.events, *losses)


def strike(loop: Loop) -> None:
    """Whatever happens in this cycle."""
    loop.lost = 0
    for event in loop.events:
        if event.cycle != loop.cycle:
            continue
        if event.kind is EventKind.FAIL:
            loop.creates_to_fail += event.amount
        elif event.cluster is not None and event.kind is EventKind.LOSE:
            _lose(loop, event.cluster, event.amount)
    report(loop)


def report(loop: Loop) -> None:
    """Every cluster says what it asks for; nobody is heard in the cycle of a restart."""
    if loop.cycle == loop.spec.restart_at:
        return
    changed = [loop.needs.replace(name, _asked(loop, name)) for name in loop.scene.clusters]
    if any(changed) or loop.demand is NO_DEMAND:
        loop.demand = Demand(loop.needs.snapshot(), frozenset(loop.scene.clusters))


def restart(loop: Loop) -> None:
    """Forget all but what the provider lists: its records, with the echo of what we told it."""
    records = [_echoed(machine, loop.spec) for machine in machines(loop.inventory)]
    loop.random.shuffle(records)
    loop.inventory = listed(records, now=loop.now)
    loop.needs = NeedsTable()
    loop.demand = NO_DEMAND
    loop.memory = Memory.empty()


def _lose(loop: Loop, cluster: ClusterId, count: int) -> None:
    bound = [
        machine
        for machine in machines(loop.inventory)
        if machine.state is State.CONFIGURED and machine.cluster == cluster
    ]
    for machine in loop.random.sample(bound, min(count, len(bound))):
        loop.inventory.remove(machine.id)
        add_slot(loop, machine)
        loop.lost += 1


def _asked(loop: Loop, cluster: ClusterId) -> list[Need]:
    percents = [
        event.amount
        for event in sorted(loop.events, key=lambda event: event.cycle)
        if event.kind is EventKind.SCALE and event.cluster == cluster and event.cycle <= loop.cycle
    ]
    percent = percents[-1] if percents else 100
    needs = [need for need in loop.scene.needs if need.cluster == cluster]
    return [_scaled(need, percent) for need in needs] if percent else []


def _scaled(need: Need, percent: int) -> Need:
    amounts = {name: amount * percent // 100 for name, amount in need.aggregate.items()}
    return dataclasses.replace(need, aggregate=amounts)


def _echoed(machine: Machine, spec: LoopSpec) -> Machine:
    silent = machine.state is State.CREATING and not spec.echo_create
    echo = {} if silent else encode(machine.assignment)
    return dataclasses.replace(machine, assignment=NO_ASSIGNMENT, shard_metadata=echo)
