"""Exchanges in a crowded cluster: as the oracle makes them, and to nobody's loss."""

import random
from collections import Counter
from typing import Final

import pytest

import outside
from mainstay.engine import relax
from mainstay.engine.cover import Coverage, cover
from mainstay.engine.decide import decide
from mainstay.engine.exchange import exchanged, survey
from mainstay.engine.explain import explain_need
from mainstay.engine.normalize import normalize
from mainstay.engine.plan import Memory
from mainstay.engine.policy import Policy
from mainstay.engine.trace import claim
from mainstay.engine.world import World as Cycle
from mainstay.model.machine import Machine
from mainstay.model.need import Operator, Requirement
from mainstay.model.profile import INSTANCE_TYPE_KEY
from mainstay.model.resources import Resources
from mainstay.model.state import State
from oracles.crowds import TYPES, a_crowd
from oracles.fleets import World, world_of
from oracles.plain_engine import PlainPlan
from oracles.plain_exchange import Fair, Hands
from oracles.plain_trial import PlainGround
from oracles.scenes import (
    GPU,
    machine,
    need,
    plainly,
    really,
)

CROWDS: Final = 240


def alike(seed: int) -> World:
    """Few kinds of machines and many of each, so that many change hands at once."""
    rng = random.Random(seed)
    needs = []
    for priority in (100, 50, 10)[: rng.randint(2, 3)]:
        types = tuple(sorted(rng.sample(("a", "c", "e"), k=rng.randint(1, 2))))
        only = Requirement(INSTANCE_TYPE_KEY, Operator.IN, types)
        wants = {GPU: rng.randint(4, 16)}
        needs.append(need(wants=wants, unit={GPU: 1}, priority=priority, requires=(only,)))
    machines = []
    for lot in range(rng.randint(3, 5)):
        kind, owner = rng.choice(("a", "c", "e")), rng.choice(needs)
        state = rng.choice((State.CONFIGURED, State.CONFIGURED, State.CREATING, State.SPECULATIVE))
        machines += [
            machine(
                f"m-{lot}-{number}",
                state,
                type=kind,
                has=Resources({GPU: str(TYPES[kind])}),
                price=rng.choice((1.0, 1.0, 2.0)) + lot % 2,
                ref=None if state is State.SPECULATIVE else owner.ref,
            )
            for number in range(rng.randint(2, 8))
        ]
    return world_of(machines, needs)


@pytest.mark.usefixtures("loops")
def test_many_alike_are_exchanged_as_the_oracle_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Counter[str] = Counter()
    asked_for = Fair.asked_for

    def spied(fair: Fair, hands: Hands, first: Machine, taker: int) -> list[str]:
        asked = asked_for(fair, hands, first, taker)
        seen["several"] += len(asked) > 1
        return asked

    monkeypatch.setattr(Fair, "asked_for", spied)
    for seed in range(outside.examples(CROWDS)):
        world = alike(seed)
        plain = plainly(world)
        seen.update(plain.notes & {"exchanged"})
        assert told(really(world)) == told(plain), f"seed {seed}"

    assert min(seen["several"], seen["exchanged"]) > 3


def told(plan: PlainPlan) -> list[object]:
    rows = [(u.need.ref, u.deficit, u.unresolved, u.reason) for u in plan.unsatisfied]
    return [list(plan.actions), plan.claimed_ids(), rows, plan.shortfalls]


@pytest.mark.usefixtures("loops")
def test_needs_exchange_as_the_oracle_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Counter[str] = Counter()
    chain: list[int] = []
    given = Fair.given

    def spied(fair: Fair, hands: Hands, prize: Machine, taker: int) -> Hands | None:
        chain.append(taker)
        after = given(fair, hands, prize, taker)
        seen[f"{'refused' if after is None else 'given'}, {len(chain)} in a row"] += 1
        chain.pop()
        return after

    monkeypatch.setattr(Fair, "given", spied)
    for seed in range(outside.examples(CROWDS)):
        world = a_crowd(seed)
        plain = plainly(world)
        seen.update(plain.notes & {"exchanged"})
        assert told(really(world)) == told(plain), f"seed {seed}"

    ways = {f"{end}, {n} in a row" for end in ("given", "refused") for n in (1, 2)}
    assert set(seen) >= {"exchanged", *ways}


def covered(world: World) -> tuple[Cycle, Coverage]:
    """Phase 1 before anybody exchanges."""
    demand = world.demand
    cycle = Cycle(world.inventory().snapshot(), demand.asked)
    walk = normalize(cycle)
    return cycle, cover(cycle, walk, walk.is_gang & False)


def credited(cycle: Cycle, coverage: Coverage) -> list[int]:
    """What each plain need is credited of what it asks for; a gang is left out."""
    state, walk = cycle.snapshot.state, coverage.walk
    free = (state == State.IDLE) | (state == State.SPECULATIVE)
    amounts = []
    for place in range(len(walk)):
        rows = ((cycle.owner == place) & ~free).nonzero()[0]
        total = cycle.alloc[cycle.snapshot.shape[rows]].sum(axis=0)
        had = (total.clip(max=walk.aggregate[place])).sum()
        amounts.append(0 if walk.is_gang[place] else int(had))
    return amounts


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("seed", range(outside.examples(50)))
def test_nobody_is_credited_less_for_an_exchange(seed: int) -> None:
    cycle, before = covered(a_crowd(seed))
    had = credited(cycle, before)

    settled = exchanged(cycle, before, survey(cycle, before)).settled
    cycle.start_over()
    after, _ = claim(cycle, before.walk, before.walk.is_gang & False)

    has = credited(cycle, after)
    assert all(now >= then for now, then in zip(has, had, strict=True))
    assert (settled is None) is (has == had)


def test_a_change_that_is_tried_makes_the_same_exchanges(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(outside.examples(40)):
        world = a_crowd(seed)
        snapshot = world.inventory().snapshot()
        plan = decide(snapshot, world.demand, Memory.empty(), Policy(), world.now)
        tried = [explain_need(plan, place).relaxations for place in range(len(plan.needs))]
        with monkeypatch.context() as patched:
            patched.setattr(relax, "Ground", PlainGround)
            whole = [explain_need(plan, place).relaxations for place in range(len(plan.needs))]
        assert tried == whole, f"seed {seed}"
