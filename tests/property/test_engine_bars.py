"""What is barred is not acquired, and nothing but acquiring looks at it."""

import dataclasses
import random
from collections import Counter
from collections.abc import Iterator
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outside
from mainstay.engine.audit import differences
from mainstay.engine.barred import NOTHING_BARRED, Barred
from mainstay.engine.decide import decide
from mainstay.engine.plan import Plan, Unmet
from mainstay.engine.policy import Policy
from mainstay.model.action import ActionKind
from mainstay.model.ids import MachineId
from mainstay.model.state import State
from oracles.fleets import World, a_bar, seeded_world, worlds
from oracles.plain_barred import is_barred
from oracles.plain_engine import PlainPlan, plain_decide

POLICY: Final = Policy()
FEWER: Final = settings(max_examples=outside.examples(60))
SEEDED: Final = 600
CHANGES: Final = 6


def with_bars(world: World, barred: Barred) -> World:
    return dataclasses.replace(world, demand=dataclasses.replace(world.demand, barred=barred))


def a_barred_world(seed: int) -> World:
    world, rng = seeded_world(seed), random.Random(f"bars {seed}")
    return with_bars(world, a_bar(rng.choice, sorted(world.machines)))


@st.composite
def barred_worlds(draw: st.DrawFn) -> World:
    world = draw(worlds())
    return with_bars(
        world, a_bar(lambda pool: draw(st.sampled_from(list(pool))), sorted(world.machines))
    )


def decided(world: World) -> Plan:
    return decide(world.inventory().snapshot(), world.demand, world.memory, POLICY, world.now)


def plainly_decided(world: World) -> PlainPlan:
    return plain_decide(world.machines, world.demand, world.memory, POLICY, world.now)


def told(plan: Plan | PlainPlan) -> list[object]:
    short = [(u.need.ref, u.deficit, u.domain, u.satisfiable, u.parked, u.unresolved, u.reason)
             for u in plan.unsatisfied]  # fmt: skip
    ages = dict(plan.memory.gang_ages), dict(plan.memory.shortfall_ages)
    return [list(plan.actions), plan.claimed_ids(), short, plan.shortfalls, ages]


def barred_in(world: World) -> set[MachineId]:
    return {
        id_
        for id_, (machine, _, source) in world.machines.items()
        if is_barred(machine, source, world.demand.barred)
    }


def events(world: World, plan: Plan) -> Iterator[str]:
    """What is to happen in a seeded run, so that no part of the rule goes untried."""
    if not barred_in(world):
        return
    free = decided(with_bars(world, NOTHING_BARRED))
    missed = {u.need.ref for u in free.unsatisfied}
    for short in plan.unsatisfied:
        profile = short.need.profile
        kind = "gang" if profile.same_keys else "spread" if profile.spread else "plain"
        if short.reason is Unmet.BARRED:
            yield f"{kind} locked out"
            yield f"{kind} locked out, else met" if short.need.ref not in missed else "else short"
            yield "parked gang locked out" if short.parked else "a try locked out"
        elif short.reason is Unmet.WAITING and short.need.ref not in missed:
            yield "drains because of a bar"
    if any(a.kind is ActionKind.DELETE and a.machine in barred_in(world) for a in plan.actions):
        yield "a barred machine is given back"
    if {n.ref for n in plan.needs if not n.profile.same_keys} != {
        n.ref for n in world.demand.needs if not n.profile.same_keys
    }:
        yield "a fold"


EVENTS: Final = {
    "plain locked out", "gang locked out", "spread locked out", "plain locked out, else met",
    "gang locked out, else met", "spread locked out, else met", "else short", "a try locked out",
    "parked gang locked out", "drains because of a bar", "a barred machine is given back", "a fold",
}  # fmt: skip


@pytest.mark.usefixtures("loops")
def test_engine_and_oracle_agree_on_bars_and_meet_every_event() -> None:
    counts: Counter[str] = Counter()
    for seed in range(outside.examples(SEEDED)):
        world = a_barred_world(seed)
        plan = decided(world)
        assert told(plan) == told(plainly_decided(world)), f"seed {seed}"
        counts.update(set(events(world, plan)))

    assert set(counts) == EVENTS
    assert min(counts.values()) >= 3, counts


@given(barred_worlds())
@FEWER
def test_they_agree_on_what_hypothesis_bars(world: World) -> None:
    assert told(decided(world)) == told(plainly_decided(world))


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("seed", range(outside.examples(40)))
def test_bars_that_come_and_go_leave_nothing_in_the_memory(seed: int) -> None:
    """One snapshot, one inventory; only the bars change, and all that is carried over is used."""
    world, rng = seeded_world(seed), random.Random(f"coming and going {seed}")
    snapshot, ids = world.inventory().snapshot(), sorted(world.machines)
    ours = theirs = world.memory
    for _ in range(CHANGES):
        barred = rng.choice((NOTHING_BARRED, a_bar(rng.choice, ids), world.demand.barred))
        world = with_bars(world, barred)
        plan = decide(snapshot, world.demand, ours, POLICY, world.now)
        plain = plain_decide(world.machines, world.demand, theirs, POLICY, world.now)
        assert told(plan) == told(plain)
        assert differences(plan, ours, world.now) == ()
        ours, theirs = plan.memory, plain.memory


class TestPromises:
    @given(barred_worlds())
    @FEWER
    def test_what_is_barred_is_neither_acquired_nor_set_aside(self, world: World) -> None:
        assert barred_in(world) & set(decided(world).claimed_ids()) == set()

    @given(barred_worlds())
    @FEWER
    def test_bars_on_what_is_not_free_change_nothing(self, world: World) -> None:
        busy = frozenset(
            id_
            for id_, (machine, *_) in world.machines.items()
            if machine.state not in {State.IDLE, State.SPECULATIVE}
        )
        plan = decided(with_bars(world, Barred(machines=busy)))

        assert told(plan) == told(decided(with_bars(world, NOTHING_BARRED)))

    @given(barred_worlds())
    @FEWER
    def test_no_bar_changes_what_is_asked_or_what_could_ever_be(self, world: World) -> None:
        plan, free = decided(world), decided(with_bars(world, NOTHING_BARRED))

        assert [need.ref for need in plan.needs] == [need.ref for need in free.needs]
        hopeless = {u.need.ref: u.ceiling for u in plan.unsatisfied if u.reason is Unmet.IMPOSSIBLE}
        assert hopeless == {
            u.need.ref: u.ceiling for u in free.unsatisfied if u.reason is Unmet.IMPOSSIBLE
        }

    @given(barred_worlds())
    @FEWER
    def test_who_bars_a_machine_does_not_matter(self, world: World) -> None:
        named = with_bars(world, Barred(machines=frozenset(barred_in(world))))

        assert told(decided(named)) == told(decided(world))

    @given(worlds())
    @FEWER
    def test_where_nothing_is_barred_nobody_is_locked_out(self, world: World) -> None:
        reasons = {u.reason for u in decided(with_bars(world, NOTHING_BARRED)).unsatisfied}

        assert Unmet.BARRED not in reasons
