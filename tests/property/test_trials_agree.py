"""Changes are tried with much that is shared; the answers are those of whole decisions."""

import dataclasses
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import numpy as np
import pytest
from hypothesis import given, settings

import outside
from mainstay.engine import exchange, kernels, relax, resume
from mainstay.engine.again import Recoder
from mainstay.engine.certificate import Relaxation
from mainstay.engine.cover import Coverage
from mainstay.engine.decide import decide
from mainstay.engine.explain import explain_need
from mainstay.engine.normalize import normalize
from mainstay.engine.plan import Plan
from mainstay.engine.policy import Policy
from mainstay.engine.quota import NO_QUOTA, Quota
from mainstay.engine.resume import claim_again
from mainstay.engine.rows import Mask
from mainstay.engine.trace import Trace, claim
from mainstay.engine.trial import stage_of
from mainstay.engine.world import World as Stage
from mainstay.model.need import Need
from oracles.crowds import crowds
from oracles.fleets import World, seeded_world, worlds
from oracles.plain_trial import PlainGround

POLICY: Final = Policy()
DRAWN: Final = 30
SEEDED: Final = 60
CROWDS: Final = 12
CHANGED: Final = 100

K = TypeVar("K")
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


@pytest.mark.usefixtures("_loops")
def test_crowds_that_exchange_agree_on_every_kind_of_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kinds: Counter[str] = Counter()
    for seed in range(outside.examples(CROWDS)):
        plan = decided(crowds(seed))
        told = relaxations(plan)
        assert told == slowly(plan, monkeypatch), f"seed {seed}"
        kinds.update(type(r.change).__name__ for of_need in told for r in of_need)

    assert {"Wait", "Widen", "Fewer", "Drop", "HigherPriority"} <= set(kinds)


def changed(rng: random.Random, need: Need) -> Need:
    """Something else instead of a need, from the same cluster."""
    profile, amount = need.profile, rng.choice((1, 2, 3, 9))
    match rng.choice(("as it was", "amount", "amount", "requirement", "spread", "priority")):
        case "amount":
            return dataclasses.replace(need, aggregate=dict.fromkeys(need.aggregate, amount))
        case "requirement":
            kept = profile.requirements[rng.randint(0, 1) :]
            return dataclasses.replace(
                need, profile=dataclasses.replace(profile, requirements=kept)
            )
        case "spread":
            return dataclasses.replace(need, profile=dataclasses.replace(profile, spread=()))
        case "priority":
            priority = rng.choice((5, 10, 11, 50, 51, 100, 101))
            return dataclasses.replace(
                need, profile=dataclasses.replace(profile, priority=priority)
            )
        case _:
            return dataclasses.replace(need)


def phase_1(stage: Stage, coverage: Coverage) -> tuple[object, ...]:
    """All that phase 1 says, machine by machine and need by need."""
    acquired = {
        (row, place)
        for rows, places in coverage.acquired
        for row, place in zip(rows.tolist(), places.tolist(), strict=True)
    }
    spoken = {place: rows.tolist() for place, rows in coverage.spoken.items()}
    columns = (stage.owner, coverage.missing, coverage.parked)
    return (
        *(column.tolist() for column in columns),
        acquired, spoken, coverage.choice, coverage.hopeless,
    )  # fmt: skip


def raised(quota: Quota, rng: random.Random) -> Quota:
    """Some of it more, some as it was, and some without a limit."""

    def more(held: Mapping[K, int]) -> dict[K, int]:
        return {key: n + rng.choice((0, 0, 1, 3)) for key, n in held.items() if rng.random() < 0.8}

    return Quota(more(quota.machines), more(quota.slots))


def both_ways(
    plan: Plan, at: Sequence[int], rows: Sequence[Need], parked_now: float, quota: Quota
) -> tuple[object, object]:
    """Phase 1 of a changed demand: from the trace of a plan, and from nothing."""
    found = []
    assert plan.trace is not None
    for resumed in (True, False):
        stage = stage_of(plan)
        asked, origin = Recoder(plan.walk.asked).changed(at, rows)
        stage.begin(asked)
        walk = normalize(stage, plan.walk)
        parked = walk.is_gang & (np.random.default_rng(len(at)).random(len(walk)) < parked_now)
        coverage = (
            claim_again(stage, walk, parked, plan.trace, origin, quota=quota)
            if resumed
            else claim(stage, walk, parked, quota)[0]
        )
        found.append(phase_1(stage, coverage))
    return found[0], found[1]


def movers(trace: Trace) -> Mask:
    """Which needs hold more or less after the exchange than before."""
    found = np.zeros(len(trace.first.walk) + 1, dtype=np.bool_)
    for deal in trace.exchange.deals.values():
        if deal.holder is not None:
            before = trace.first.owner[deal.rows]
            moved = (deal.holder >= -1) & (deal.holder != before)
            found[before[moved]] = found[deal.holder[moved]] = True
    return found[:-1]


def spied(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each way to spare work is gone from now on."""
    seen: Counter[str] = Counter()

    def spy(owner: Any, name: str, label: str) -> None:
        plain = getattr(owner, name)

        def counted(*given: Any, **named: Any) -> Any:
            result = plain(*given, **named)
            seen[label] += result is None or bool(result)
            return result

        monkeypatch.setattr(owner, name, counted)

    spy(resume, "_known", "deals were known")
    spy(resume._Level, "_undo", "later gangs had hoped in vain")
    spy(resume._Level, "leaves_the_same", "the pools were the same")
    return seen


@pytest.mark.usefixtures("_loops")
def test_phase_1_of_a_changed_demand_is_the_same_in_parts_and_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Needs above, below and beside the changed one exchange, in its cluster and in others; a third
    of all is within a quota, as it was or more.
    """
    seen = spied(monkeypatch)
    for seed in range(outside.examples(CHANGED)):
        monkeypatch.setattr(exchange, "REFUSALS_MAX", 1_000 if seed % 2 else 3)
        world = seeded_world(seed) if seed % 5 == 0 else crowds(seed)
        plan = decided(limited(world, seed) if seed % 3 == 0 else world)
        trace, rng, walk = plan.trace, random.Random(seed), plan.walk
        if trace is None:
            continue
        moved = movers(trace)
        for place in range(len(walk)):
            need = int(walk.need[place])
            at = [need] if need >= 0 else walk.members[-1 - need].tolist()
            rows = [changed(rng, walk.asked.needs[each]) for each in at]
            rows = rows[: rng.randint(0, len(rows))] if len(rows) > 1 else rows
            quota = plan.demand.quota
            quota = quota if rng.random() < 0.5 else raised(quota, rng)
            parts, whole = both_ways(plan, at, rows, rng.choice((0.0, 0.0, 0.3)), quota)
            assert parts == whole, f"seed {seed}, place {place}"
            seen["within a quota"] += plan.demand.quota != NO_QUOTA
            seen["within more of it"] += quota != plan.demand.quota

            here, gap = walk.cluster == walk.cluster[place], walk.priority - walk.priority[place]
            for name, where in (("above", gap > 0), ("below", gap < 0), ("beside", gap == 0)):
                seen[f"{name}, in its cluster"] += bool((moved & where & here).any())
                seen[f"{name}, in others"] += bool((moved & where & ~here).any())

    assert len(seen) == 11
    assert min(seen.values()) > 5, seen
