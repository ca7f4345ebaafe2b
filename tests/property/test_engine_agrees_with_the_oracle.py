"""The engine against the plain one: the same plan for the same world, down to the order of actions.

Hypothesis looks for a small world on which they differ; a seeded run goes through more of them and
counts what happened, so that no rule is left untried unnoticed.
"""

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outside
from mainstay.engine.decide import decide
from mainstay.engine.plan import Ceiling, Plan, Unmet
from mainstay.engine.policy import Policy
from mainstay.engine.quota import REGION_KEY, Place
from mainstay.inventory.inventory import Inventory
from mainstay.model.action import ActionKind
from mainstay.model.assignment import NeedRef
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.machine import Machine
from mainstay.model.state import State
from oracles.awkward import awkward_world
from oracles.fleets import World, seeded_world, worlds
from oracles.plain_demand import assigned_ref
from oracles.plain_engine import PlainPlan, plain_decide

POLICY: Final = Policy()
DRAWN: Final = 120
SEEDED: Final = 1_200
AWKWARD: Final = 150


def amounts(units: Mapping[str, int]) -> dict[str, int]:
    """Zeros left out: a dimension that is not named is zero."""
    return {name: amount for name, amount in units.items() if amount}


def told(plan: Plan | PlainPlan) -> dict[str, Any]:
    """A plan as plain values, to be compared and read."""
    return {
        "actions": list(plan.actions),
        "claimed": plan.claimed_ids(),
        "unsatisfied": [
            {
                "need": (u.need.cluster, u.need.profile, u.need.group, u.need.arrival_nanos),
                "aggregate": amounts(u.need.aggregate),
                "min_unit": amounts(u.need.min_unit),
                "deficit": u.deficit,
                "domain": u.domain,
                "satisfiable": u.satisfiable,
                "parked": u.parked,
                "unresolved": u.unresolved,
                "reason": u.reason,
                "ceiling": ceiling_told(u.ceiling),
            }
            for u in plan.unsatisfied
        ],
        "shortfalls": [(s.fingerprint, s.priority, s.deficit, s.age) for s in plan.shortfalls],
        "gang ages": dict(plan.memory.gang_ages),
        "shortfall ages": dict(plan.memory.shortfall_ages),
    }


def ceiling_told(ceiling: Ceiling | None) -> tuple[object, object] | None:
    return None if ceiling is None else (ceiling.domain, amounts(ceiling.capacity))


def decided(world: World, inventory: Inventory | None = None) -> Plan:
    snapshot = (inventory or world.inventory()).snapshot()
    return decide(snapshot, world.demand, world.memory, POLICY, world.now)


def plainly_decided(world: World) -> PlainPlan:
    return plain_decide(world.machines, world.demand, world.memory, POLICY, world.now)


@given(worlds())
@settings(max_examples=outside.examples(DRAWN))
def test_the_engine_decides_what_the_rules_say(world: World) -> None:
    assert told(decided(world)) == told(plainly_decided(world))


def events(world: World, plan: Plan | PlainPlan) -> Iterator[str]:
    """What happened, by name; each of these must have happened in a seeded run."""
    gangs = {need.ref for need in world.demand.needs if need.profile.same_keys}
    for action in plan.actions:
        yield action.kind
        if action.kind is ActionKind.RECLAIM and action.need:
            yield "excess for a gang" if action.need in gangs else "excess for a plain need"
        elif action.need in gangs:
            yield f"{action.kind} for a gang"
    for row in plan.unsatisfied:
        kind = "gang" if row.need.profile.same_keys else "plain"
        hopeless = row.reason is Unmet.IMPOSSIBLE
        yield f"{kind} short"
        yield from (name for name, is_so in {
            "parked": row.parked, "gang with two keys": len(row.domain or ()) == 2,
            "satisfiable gang short": row.satisfiable,
            f"{kind} covered by drains": not row.unresolved,
            "gang nowhere": kind == "gang" and row.domain is None,
            f"reason: {row.reason.value}": True, "ceiling told": row.ceiling is not None,
            "impossible without a ceiling": hopeless and row.ceiling is None,
            "hopeless gang keeps its machines": hopeless and keeps(world, plan, row.need.ref),
        }.items() if is_so)  # fmt: skip
    if claimed_without_action(world, plan):
        yield "set aside"


def keeps(world: World, plan: Plan | PlainPlan, ref: NeedRef) -> bool:
    """Whether a machine that is assigned to this need is claimed."""
    machines = [world.machines[id_].machine for id_ in plan.claimed_ids()]
    return any(assigned_ref(machine) == ref for machine in machines)


def claimed_without_action(world: World, plan: Plan | PlainPlan) -> set[MachineId]:
    """Idle and Speculative machines that are claimed and left alone."""
    free = {id_ for id_, (m, *_) in world.machines.items()
            if m.state in {State.IDLE, State.SPECULATIVE}}  # fmt: skip
    return free & set(plan.claimed_ids()) - {action.machine for action in plan.actions}


EVENTS: Final = {
    *ActionKind, "bootstrap for a gang", "provision for a gang", "preempt for a gang",
    "excess for a gang", "excess for a plain need", "plain short", "gang short", "parked",
    "gang with two keys", "satisfiable gang short", "gang covered by drains",
    "plain covered by drains", "gang nowhere", "set aside",
    *(f"reason: {reason.value}" for reason in Unmet), "ceiling told",
    "impossible without a ceiling", "hopeless gang keeps its machines",
}  # fmt: skip
NOTES: Final = {
    *(f"{state} passed over in acquiring, {kind}" for state in (State.IDLE, State.SPECULATIVE)
      for kind in ("plain", "gang", "spread")),
    "Configured passed over in preempting, plain", "Configured passed over in preempting, gang",
    "Idle passed over in preempting, gang", "Speculative passed over in preempting, gang",
    "exchanged",
}  # fmt: skip
"""What is to happen and is not to be seen in a plan."""


@pytest.mark.usefixtures("loops")
def test_a_long_seeded_run_agrees_and_meets_every_event() -> None:
    counts: Counter[str] = Counter()

    for seed in range(outside.examples(SEEDED)):
        world = seeded_world(seed)
        plan, plain = decided(world), plainly_decided(world)
        counts.update({*events(world, plan), *plain.notes})
        assert told(plan) == told(plain), f"seed {seed}"

    assert set(counts) == EVENTS | NOTES
    assert min(counts.values()) >= 5, counts


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("seed", range(outside.examples(60)))
def test_they_agree_on_larger_worlds(seed: int) -> None:
    world = seeded_world(seed, times=2 + seed % 5)

    assert told(decided(world)) == told(plainly_decided(world))


@pytest.mark.usefixtures("loops")
def test_they_agree_on_amounts_that_no_float_tells_apart() -> None:
    for seed in range(outside.examples(AWKWARD)):
        world = awkward_world(seed)

        assert told(decided(world)) == told(plainly_decided(world)), f"seed {seed}"


FEWER: Final = settings(max_examples=outside.examples(60))


def user_of(machine: Machine) -> ClusterId | None:
    """The cluster that holds a machine or is to get it."""
    if machine.state is State.CREATING:
        return machine.assignment.cluster
    return machine.cluster if machine.state in {State.CONFIGURED, State.CONFIGURING} else None


def place_of(machine: Machine, source: str) -> Place:
    return source, machine.profile.attribute(REGION_KEY) or ""


class TestPromises:
    @given(worlds())
    @FEWER
    def test_a_machine_is_in_one_action_at_most(self, world: World) -> None:
        machines = [action.machine for action in decided(world).actions]

        assert len(machines) == len(set(machines))

    @given(worlds())
    @FEWER
    def test_what_is_claimed_is_neither_reclaimed_nor_deleted(self, world: World) -> None:
        plan = decided(world)

        given_up = {action.machine for action in plan.actions
                    if action.kind in {ActionKind.RECLAIM, ActionKind.DELETE}}  # fmt: skip
        assert given_up & set(plan.claimed_ids()) == set()

    @given(worlds())
    @FEWER
    def test_what_is_acquired_is_claimed(self, world: World) -> None:
        plan = decided(world)

        acquired = {action.machine for action in plan.actions
                    if action.kind in {ActionKind.BOOTSTRAP, ActionKind.PROVISION}}  # fmt: skip
        assert acquired <= set(plan.claimed_ids())

    @given(worlds())
    @FEWER
    def test_every_action_starts_from_the_state_it_needs(self, world: World) -> None:
        needed = {
            ActionKind.BOOTSTRAP: State.IDLE, ActionKind.PROVISION: State.SPECULATIVE,
            ActionKind.PREEMPT: State.CONFIGURED, ActionKind.RECLAIM: State.CONFIGURED,
            ActionKind.DELETE: State.IDLE,
        }  # fmt: skip

        for action in decided(world).actions:
            assert world.machines[action.machine][0].state is needed[action.kind]

    @given(worlds())
    @FEWER
    def test_the_machines_of_a_silent_cluster_are_not_reclaimed(self, world: World) -> None:
        for action in decided(world).actions:
            if action.kind is ActionKind.RECLAIM:
                assert action.cluster in world.demand.heard

    @given(worlds())
    @FEWER
    def test_nobody_is_preempted_for_less_than_it_was_assigned_for(self, world: World) -> None:
        plan = decided(world)
        priorities = {row.need.ref: row.need.profile.priority for row in plan.unsatisfied}

        for action in plan.actions:
            if action.kind is ActionKind.PREEMPT:
                assert action.need is not None
                assigned = world.machines[action.machine][0].assignment.priority or 0
                assert assigned < priorities[action.need]

    @given(worlds())
    @FEWER
    def test_nobody_gets_more_than_the_quota_held(self, world: World) -> None:
        quota, uses, slots = world.demand.quota, Counter[ClusterId](), Counter[Place]()
        for machine, _, source in world.machines.values():
            uses.update([owner] if (owner := user_of(machine)) else [])
            slots.update([place_of(machine, source)] * (machine.state is not State.SPECULATIVE))
        clusters, places = Counter[ClusterId](), Counter[Place]()
        for action in decided(world).actions:
            machine, _, source = world.machines[action.machine]
            changes_hands = action.need and action.need.cluster != user_of(machine)
            clusters.update([action.need.cluster] if action.need and changes_hands else [])
            places.update([place_of(machine, source)] * (action.kind is ActionKind.PROVISION))

        assert [c for c in clusters if uses[c] + clusters[c] > quota.machines.get(c, 99)] == []
        assert [p for p in places if slots[p] + places[p] > quota.slots.get(p, 99)] == []

    @given(worlds())
    @FEWER
    def test_the_same_world_gives_the_same_plan_twice(self, world: World) -> None:
        inventory = world.inventory()

        assert told(decided(world, inventory)) == told(decided(world, inventory))
        assert repr(decided(world, inventory).actions) == repr(decided(world).actions)

    @given(worlds(), st.randoms(use_true_random=False))
    @FEWER
    def test_the_order_in_which_machines_came_does_not_matter(
        self, world: World, rng: random.Random
    ) -> None:
        order = sorted(world.machines)
        rng.shuffle(order)

        assert told(decided(world, world.inventory(order))) == told(decided(world))

    @given(worlds(), st.randoms(use_true_random=False))
    @FEWER
    def test_rows_that_are_used_again_do_not_matter(self, world: World, rng: random.Random) -> None:
        inventory = world.inventory()
        gone = [id_ for id_ in sorted(world.machines) if rng.random() < 0.5]
        for id_ in gone:
            inventory.remove(id_)
        rng.shuffle(gone)
        for id_ in gone:
            world.add_to(inventory, id_)

        assert told(decided(world, inventory)) == told(decided(world))
