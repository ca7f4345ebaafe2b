"""What happens to a shard from outside: losses, failures, silence, drift, demand, a restart."""

import dataclasses
from collections.abc import Iterator
from random import Random
from typing import Final

from mainstay.engine.plan import Demand, Memory
from mainstay.inventory.inventory import Inventory
from mainstay.model.ids import ClusterId
from mainstay.model.machine import Machine
from mainstay.model.need import Need
from mainstay.model.needs import NeedsTable
from mainstay.model.profile import labels_of
from mainstay.model.resources import Resources
from mainstay.model.state import State
from mainstay.sim.spec import Event, EventKind, LoopSpec
from mainstay.sim.stage import Scene
from mainstay.sim.world import CYCLE_S, NO_DEMAND, Loop

NOTE_KEY: Final = "sim/note"
SPARE: Final = "sim/spare"
"""A label and a resource that no need asks for."""

_CYCLE_NANOS: Final = int(CYCLE_S * 1e9)


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
    """Whatever happens in this cycle to machines and clusters."""
    loop.lost = 0
    loop.silent = frozenset(_silent(loop))
    for event in loop.events:
        if event.cycle != loop.cycle:
            continue
        if event.kind is EventKind.FAIL:
            loop.provider.creates_to_fail += event.amount
        elif event.cluster is not None and event.kind is EventKind.LOSE:
            _lose(loop, event.cluster, event.amount)
    if loop.spec.drift_per_mille:
        _drift(loop)


def report(loop: Loop) -> None:
    """Every cluster that can says what it asks for; nobody is heard in the cycle of a restart.

    In a race their order and their time stamps are drawn anew each time, their demand is not.
    """
    if loop.cycle == loop.spec.restart_at:
        return
    clusters = [name for name in loop.scene.clusters if name not in loop.silent]
    if loop.spec.racing:
        loop.random.shuffle(clusters)
    changed = [loop.needs.replace(name, _rolled_up(loop, name)) for name in clusters]
    heard = loop.demand.heard.union(clusters)
    if any(changed) or heard != loop.demand.heard:
        loop.demand = Demand(loop.needs.snapshot(), heard)


def restart(loop: Loop) -> None:
    """Forget all but what the provider will list: its records, with the echo of what we told it."""
    loop.inventory = Inventory()
    loop.needs = NeedsTable()
    loop.demand = NO_DEMAND
    loop.memory = Memory.empty()
    loop.repeats = []
    loop.begun_at = {}
    loop.lists = []
    loop.taken_in = None


def _silent(loop: Loop) -> Iterator[ClusterId]:
    for event in loop.events:
        now = event.cycle <= loop.cycle < event.cycle + event.amount
        if now and event.kind is EventKind.MUTE and event.cluster is not None:
            yield event.cluster


def _lose(loop: Loop, cluster: ClusterId, count: int) -> None:
    bound = [
        machine
        for machine in loop.provider.machines()
        if machine.state is State.CONFIGURED and machine.cluster == cluster
    ]
    for machine in loop.random.sample(bound, min(count, len(bound))):
        loop.provider.lose(machine)
        loop.lost += 1


def _drift(loop: Loop) -> None:
    """Other prices, labels and amounts, in the state the machine is in.

    Either each price goes its own way, or all go the same way and their order stays.
    """
    random, chance = loop.random, loop.spec.drift_per_mille
    factor = random.choice((0.5, 1.0, 2.0)) if random.randrange(1000) < chance else loop.market
    for machine in loop.provider.machines():
        changed = machine
        if factor != loop.market:
            changed = _priced(changed, changed.price_per_hour * factor / loop.market)
        if random.randrange(1000) < chance:
            changed = _noted(changed, random)
            if loop.spec.drift_reorders:
                changed = _priced(changed, random.randint(1, 400) / 100)
        if changed is not machine:
            loop.provider.put(changed)
    loop.market = factor


def _priced(machine: Machine, price: float) -> Machine:
    return dataclasses.replace(machine, price_per_hour=price)


def _noted(machine: Machine, random: Random) -> Machine:
    """With another label, and another amount of something."""
    labels = dict(machine.profile.labels) | {NOTE_KEY: str(random.randint(1, 9))}
    held = machine.allocatable or machine.profile.resources
    amounts = held.as_dict() | {SPARE: str(random.randint(1, 9))}
    profile = dataclasses.replace(machine.profile, labels=labels_of(labels))
    return dataclasses.replace(machine, profile=profile, allocatable=Resources(amounts))


def _rolled_up(loop: Loop, cluster: ClusterId) -> list[Need]:
    needs = _asked(loop, cluster)
    if not loop.spec.racing:
        return needs
    stamp = 1 + loop.cycle * _CYCLE_NANOS + loop.random.randrange(_CYCLE_NANOS)
    return [dataclasses.replace(need, arrival_nanos=stamp) for need in needs]


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
    if percent == 100:
        return need
    amounts = {name: amount * percent // 100 for name, amount in need.aggregate.items()}
    return dataclasses.replace(need, aggregate=amounts)
