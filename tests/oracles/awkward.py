"""Worlds hard for gangs: amounts that no float tells apart, and hope without supply."""

import dataclasses
import random
from typing import Final

from mainstay.model.ids import MachineId
from mainstay.model.machine import Machine
from mainstay.model.need import Need, NeedProfile, Operator, Requirement
from mainstay.model.profile import ZONE_KEY, HostRef, Profile
from mainstay.model.resources import (
    MACHINE_UNITS_MAX,
    NO_RESOURCES,
    Resources,
    Units,
    from_units,
)
from mainstay.model.state import State
from oracles.fleets import (
    CLUSTERS,
    GROUPS,
    IDS,
    RACK,
    STATES,
    Kinds,
    World,
    a_fleet_machine,
    world_of,
)

ELSEWHERE: Final = "~"

AWKWARD: Final = (3, 7, 10, 999_999_999_989, 2**43 - 1, 2**50 + 7, 2**53 - 1, 2**53)
"""Totals whose shares no float tells apart, and whose products fit no 64 bits."""


def awkward_world(seed: int) -> World:
    """Gangs that want up to five things, of which the domains have nearly equal shares."""
    rng = random.Random(seed)
    total = {f"d{n}": rng.choice(AWKWARD) for n in range(rng.choice((1, 2, 3, 5)))}
    parts = rng.choice((2, 3, 5, 10))
    shapes = [
        Resources({
            name: str(min(rng.choice((0, 1, amount // parts, amount // parts + 1, amount)), 2**43))
            for name, amount in total.items()
        })
        for _ in range(4)
    ]  # fmt: skip
    profile = NeedProfile((Requirement(ZONE_KEY, Operator.SAME),), priority=10)
    needs = [
        Need(cluster=CLUSTERS[0], profile=profile, aggregate=total, min_unit={}, group=group)
        for group in GROUPS[: rng.choice((1, 1, 2))]
    ]
    kinds = Kinds(STATES[0][:3], [("t", NO_RESOURCES)], CLUSTERS[:1], [needs[0].ref])
    machines = [a_fleet_machine(rng.choice, id_, kinds) for id_ in IDS[: rng.randint(2, len(IDS))]]
    others = leaving(total) if rng.random() < 0.5 else []
    return world_of(
        [*(dataclasses.replace(m, allocatable=rng.choice(shapes)) for m in machines), *others],
        needs,
    )


def leaving(total: Units) -> list[Machine]:
    """Machines that nobody gets, in a domain of their own, so that a gang may hope for so much."""
    largest = max(total.values(), default=0)
    has = {name: from_units(name, min(units, MACHINE_UNITS_MAX)) for name, units in total.items()}
    profile = Profile("leaving", ELSEWHERE, resources=Resources(has), labels=((RACK, ELSEWHERE),))
    ids = [MachineId(f"leaving-{n}") for n in range(-(-largest // MACHINE_UNITS_MAX))]
    return [
        Machine(id=id_, state=State.DELETING, profile=profile, host=HostRef("sim", id_))
        for id_ in ids
    ]
