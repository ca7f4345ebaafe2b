"""Crowded clusters: many needs that may have the same machines, so that they exchange."""

import random
from collections.abc import Sequence
from typing import Final

from mainstay.engine.plan import Memory
from mainstay.model.machine import Machine
from mainstay.model.need import Need, Operator, Requirement
from mainstay.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY
from mainstay.model.resources import Resources
from mainstay.model.state import State
from oracles.fleets import World, world_of
from oracles.scenes import GPU, SAME_ZONE, X, Y, Z, machine, need, spread

TYPES: Final = {"a": 1, "b": 1, "c": 2, "d": 2, "e": 4}
"""GPUs by type."""

STATES: Final = (
    *5 * (State.CONFIGURED,), *2 * (State.CONFIGURING,), *3 * (State.CREATING,),
    State.DRAINING, State.SPECULATIVE, State.SPECULATIVE, State.IDLE,
)  # fmt: skip

MOSTLY_PLAIN: Final = ("plain",) * 8 + ("gang", "spread")
FREE: Final = (*4 * (State.IDLE,), *4 * (State.SPECULATIVE,), *STATES)
MOSTLY_GANGS: Final = ("plain",) * 3 + ("gang",) * 4
MIXED: Final = ("plain",) * 6 + ("gang",) * 2 + ("spread",)


def a_crowd(seed: int) -> World:
    """Many needs of one cluster that may have the same machines, and some of another."""
    rng = random.Random(seed)
    rivals = (a_rival(rng, n, (X, X, X, X, Y), MOSTLY_PLAIN) for n in range(rng.randint(3, 7)))
    needs = {asked.ref: asked for asked in rivals}
    return world_of(
        [a_prize(rng, number, list(needs.values())) for number in range(rng.randint(6, 20))],
        needs.values(),
    )


def crowds(seed: int) -> World:
    """Several such clusters with one pool, with more gangs, some of which have waited for long; in
    every third world they are most, and much can be acquired.
    """
    rng = random.Random(seed)
    kinds, states = (MIXED, STATES) if seed % 3 else (MOSTLY_GANGS, FREE)
    rivals = (a_rival(rng, n, (X, Y, Z), kinds) for n in range(rng.randint(10, 16)))
    needs = {asked.ref: asked for asked in rivals}
    gangs = [asked.ref for asked in needs.values() if asked.group]
    ages = {ref: rng.choice((1, 8, 9, 20)) for ref in gangs if rng.random() < 0.2}
    return world_of(
        [
            a_prize(rng, number, list(needs.values()), states)
            for number in range(rng.randint(25, 50))
        ],
        needs.values(),
        memory=Memory(ages, {}),
    )


def a_rival(rng: random.Random, number: int, clusters: Sequence[str], kinds: Sequence[str]) -> Need:
    """A need for machines of some types."""
    types = tuple(sorted(rng.sample(sorted(TYPES), k=rng.randint(1, 3))))
    kind = rng.choice(kinds)
    only = Requirement(INSTANCE_TYPE_KEY, Operator.IN, types)
    return need(
        cluster=rng.choice(clusters),
        wants={GPU: rng.randint(1, 6)},
        unit={GPU: 1},
        priority=rng.choice((10, 50, 100)),
        requires=(only, *SAME_ZONE) if kind == "gang" else (only,),
        spread=spread(ZONE_KEY, 1) if kind == "spread" else (),
        group=f"g-{number}" if kind == "gang" else "",
    )


def a_prize(
    rng: random.Random, number: int, needs: list[Need], states: Sequence[State] = STATES
) -> Machine:
    """A machine that one of them has, or could have."""
    state, owner = rng.choice(states), rng.choice(needs)
    kind = rng.choice(sorted(TYPES))
    free = state in {State.IDLE, State.SPECULATIVE}
    drains = state is State.DRAINING
    return machine(
        f"m-{number:02}",
        state,
        cluster=owner.cluster,
        type=kind,
        has=Resources({GPU: str(TYPES[kind])}),
        price=rng.choice((1.0, 2.0, 3.0)),
        zone=rng.choice(("zone-a", "zone-b")),
        ref=None if free or drains else owner.ref,
        drained_for=owner.ref if drains else None,
    )
