"""Changes are tried with much that is shared; the answers are those of whole decisions."""

import dataclasses
import random
from collections import Counter
from collections.abc import Iterator
from typing import Final

import pytest
from hypothesis import given, settings

import outside
from mainstay.engine import kernels, relax
from mainstay.engine.certificate import Relaxation
from mainstay.engine.decide import decide
from mainstay.engine.explain import explain_need
from mainstay.engine.lookup import topic_of
from mainstay.engine.plan import Plan
from mainstay.engine.policy import Policy
from mainstay.engine.quota import NO_QUOTA, Quota
from mainstay.engine.trial import Ground, memory_before
from oracles.fleets import World, seeded_world, worlds
from oracles.plain_trial import PlainGround

POLICY: Final = Policy()
DRAWN: Final = 30
SEEDED: Final = 60

Told = tuple[tuple[Relaxation, ...], ...]


def decided(world: World) -> Plan:
    snapshot = world.inventory().snapshot()
    return decide(snapshot, world.demand, world.memory, POLICY, world.now)


def relaxations(plan: Plan) -> Told:
    return tuple(explain_need(plan, place).relaxations for place in range(len(plan.needs)))


def slowly(plan: Plan, patch: pytest.MonkeyPatch) -> Told:
    with patch.context() as patched:
        patched.setattr(relax, "Ground", PlainGround)
        return relaxations(plan)


def limited(world: World, seed: int) -> World:
    """The same with small numbers for every cluster and every provider without a region."""
    rng, inventory = random.Random(seed), world.inventory()
    places = sorted({(inventory.source(machine), "") for machine in world.machines})
    clusters = sorted({need.cluster for need in world.demand.needs})
    quota = Quota({c: rng.randint(0, 5) for c in clusters}, {p: rng.randint(0, 9) for p in places})
    return dataclasses.replace(world, demand=dataclasses.replace(world.demand, quota=quota))


@pytest.fixture(params=["cold", "warm"])
def _loops(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param == "warm":
        kernels.warm()
    yield
    kernels.cool()


@given(world=worlds())
@settings(max_examples=outside.examples(DRAWN))
def test_a_change_tried_in_parts_says_what_a_whole_decision_says(world: World) -> None:
    plan = decided(world)
    with pytest.MonkeyPatch.context() as patch:
        assert relaxations(plan) == slowly(plan, patch)


@pytest.mark.usefixtures("_loops")
def test_seeded_fleets_agree_on_every_kind_of_change(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: Counter[str] = Counter()
    for seed in range(outside.examples(SEEDED)):
        world = seeded_world(seed)
        for each in (world, limited(world, seed)):
            plan = decided(each)
            told = relaxations(plan)
            assert told == slowly(plan, monkeypatch), f"seed {seed}"
            kinds.update(type(r.change).__name__ for of_need in told for r in of_need)

    assert {"Wait", "Widen", "Fewer", "Drop", "MoreQuota", "HigherPriority"} <= set(kinds)


def test_what_the_needs_above_claim_first_is_what_they_claim_in_a_whole_decision() -> None:
    """Machine by machine, for every plain need that has others above it."""
    met: Counter[str] = Counter()
    for seed in range(outside.examples(SEEDED)):
        plan = decided(seeded_world(seed))
        memory = memory_before(plan)
        whole = decide(plan.snapshot, plan.demand, memory, POLICY, 0.0)
        for place in range(len(plan.needs)):
            ground = Ground(topic_of(plan, place))
            if not ground._has_head or plan.demand.quota != NO_QUOTA:
                continue
            found = ground._outcome(plan.walk.asked, memory.gang_ages, NO_QUOTA)
            assert found is not None
            assert found.owner.tolist() == whole.owner.tolist(), f"seed {seed}, place {place}"
            met["given up"] += bool(ground._head.given_up)
            met["compared"] += 1

    assert met["compared"] > 0
