"""The engine at the edges of its inputs, against the plain one and against itself.

Nothing at all, the ends of every range, columns that move between two cycles, and sizes at which a
short cut is taken.
"""

import dataclasses
import math
from collections.abc import Iterable
from typing import Final

import numpy as np
import pytest

from builders import a_machine, a_need, a_need_profile, a_profile, an_assignment
from mainstay.engine import preempt, sorting
from mainstay.engine.audit import differences
from mainstay.engine.decide import SHORTFALLS_MAX, decide
from mainstay.engine.plan import Demand, Memory, Plan, Unmet
from mainstay.engine.policy import Policy
from mainstay.engine.quota import Quota
from mainstay.inventory.inventory import Inventory
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.action import ActionKind
from mainstay.model.assignment import PRIORITY_MAX, PRIORITY_MIN, Assignment
from mainstay.model.ids import ClusterId
from mainstay.model.machine import Machine
from mainstay.model.need import Need, NeedProfile, Operator, Requirement
from mainstay.model.profile import ZONE_KEY, CapacityType
from mainstay.model.resources import MACHINE_UNITS_MAX, NEED_UNITS_MAX
from mainstay.model.state import State
from oracles.fleets import World, seeded_world, world_of
from oracles.plain_engine import PlainPlan, plain_decide

POLICY: Final = Policy()
WEB: Final = ClusterId("web")
SAME_ZONE: Final = (Requirement(ZONE_KEY, Operator.SAME),)

pytestmark = pytest.mark.usefixtures("loops")


def told(plan: Plan | PlainPlan) -> list[object]:
    rows = [(u.need.ref, u.deficit, u.domain, u.satisfiable, u.parked, u.unresolved, u.reason)
            for u in plan.unsatisfied]  # fmt: skip
    shortfalls = [(s.fingerprint, s.priority, s.deficit, s.age) for s in plan.shortfalls]
    return [list(plan.actions), plan.claimed_ids(), rows, shortfalls]


def decided(world: World) -> Plan:
    return decide(world.inventory().snapshot(), world.demand, world.memory, POLICY, world.now)


def assert_as_the_rules_say(world: World) -> Plan:
    plan = decided(world)
    plain = plain_decide(world.machines, world.demand, world.memory, POLICY, world.now)
    assert told(plan) == told(plain)
    return plan


def stocked(machines: Iterable[Machine]) -> Inventory:
    inventory = Inventory()
    for machine in machines:
        inventory.add(machine, now=0.0, source="sim")
    return inventory


def alone(snapshot: Snapshot, demand: Demand) -> Plan:
    """With nothing carried over."""
    return decide(snapshot, demand, Memory.empty(), POLICY, 0.0)


def a_gang(group: str, **given: int) -> Need:
    profile = a_need_profile(requirements=SAME_ZONE)
    return a_need(profile=profile, aggregate=given or {"cpu": 16_000}, min_unit={}, group=group)


class TestNothing:
    @pytest.mark.parametrize(
        "needs",
        [
            (), (a_need(),), (a_need(aggregate={}, min_unit={}),), (a_gang("g"),),
            (a_need(aggregate={"cpu": 0}),),
        ],
        ids=["no need", "a need", "of nothing", "a gang", "of zero"],
    )  # fmt: skip
    def test_no_machine_is_a_fleet_too(self, needs: tuple[Need, ...]) -> None:
        assert_as_the_rules_say(world_of([], needs))

    def test_machines_in_flight_for_needs_that_are_gone_do_no_harm(self) -> None:
        ref = a_need().ref
        meant = Assignment(fingerprint=ref.fingerprint, cluster=ref.cluster)
        drained = an_assignment(drained_for=ref)
        flying = [
            a_machine(State.CREATING, id="a", assignment=meant),
            a_machine(State.DRAINING, id="b", assignment=drained),
            a_machine(State.CONFIGURING, id="c"),
        ]

        assert_as_the_rules_say(world_of(flying))
        assert_as_the_rules_say(world_of(flying, [a_need(cluster="other")]))

    def test_machines_without_any_resource_help_nobody(self) -> None:
        bare = a_machine(State.IDLE, profile=a_profile(resources={}))

        plan = assert_as_the_rules_say(world_of([bare], [a_need(min_unit={}), a_gang("g")]))

        assert not plan.actions


class TestRanges:
    @pytest.mark.parametrize("priority", [PRIORITY_MIN, -1, 0, PRIORITY_MAX])
    @pytest.mark.parametrize("assigned", [PRIORITY_MIN, None, PRIORITY_MAX])
    def test_priorities_use_all_their_32_bits(self, priority: int, assigned: int | None) -> None:
        """The gap of the widest pair does not fit them."""
        machines = [
            a_machine(State.CONFIGURED, id=cluster, cluster=cluster,
                      assignment=an_assignment(cluster=cluster, priority=assigned))
            for cluster in ("heard", "silent")
        ]  # fmt: skip
        wanting = a_need(profile=a_need_profile(priority=priority), aggregate={"cpu": 16_000})

        assert_as_the_rules_say(world_of(machines, [wanting], heard=["heard", "web"]))

    def test_a_pinned_penalty_is_a_number_like_any_other(self) -> None:
        machines = [
            a_machine(
                State.CONFIGURED, id=f"m-{at}", cluster="low",
                assignment=an_assignment(
                    cluster="low", priority=0, interruption_penalty_dollars=first,
                    reclamation_penalty_dollars=second,
                ),
            )
            for at, (first, second) in enumerate(
                (one, other) for one in (math.inf, 0.0, -1.0) for other in (math.inf, None, 0.5)
            )
        ]  # fmt: skip
        wanting = a_need(aggregate={"cpu": 40_000})
        keeping = a_need(
            cluster="low", profile=a_need_profile(priority=0), aggregate={"cpu": 24_000}
        )

        plan = assert_as_the_rules_say(world_of(machines, [wanting, keeping]))

        assert plan.actions

    def test_the_largest_amounts_are_added_up_exactly(self) -> None:
        huge = a_profile(resources={"x": str(MACHINE_UNITS_MAX), "y": "1"})
        machines = [a_machine(State.IDLE, id=f"m-{at}", profile=huge) for at in range(1100)]
        most = {"x": NEED_UNITS_MAX, "y": 3}

        plan = decided(world_of(machines, [a_need(aggregate=most, min_unit={"x": 1})]))

        assert len(plan.actions) == NEED_UNITS_MAX // MACHINE_UNITS_MAX
        assert not plan.unsatisfied

    def test_a_quota_of_nearly_no_limit_is_none(self) -> None:
        quota = Quota({WEB: 2**63 - 1}, {("sim", ""): 2**63 - 1})
        slot = a_machine(State.SPECULATIVE)

        assert len(decided(world_of([slot], [a_need()], quota=quota)).actions) == 1

    def test_a_slot_that_the_quota_forbids_is_the_reason(self) -> None:
        quota = Quota({}, {("sim", ""): 0})

        plan = assert_as_the_rules_say(
            world_of([a_machine(State.SPECULATIVE)], [a_need()], quota=quota)
        )

        assert [row.reason for row in plan.unsatisfied] == [Unmet.QUOTA]


class TestColumnsThatMove:
    """What was kept of the last cycle was laid out for other columns."""

    def test_a_dimension_that_the_fleet_learns_moves_what_is_asked_for(self) -> None:
        inventory = stocked([a_machine(State.IDLE, id="a")])
        demand = Demand((a_need(aggregate={"cpu": 8000, "tpu": 4}, min_unit={}),), frozenset())
        first = alone(inventory.snapshot(), demand)
        assert [dict(u.deficit) for u in first.unsatisfied] == [{"tpu": 4}]

        with_nic = a_profile(resources={"nic": "9"})
        inventory.add(a_machine(State.IDLE, id="b", profile=with_nic), now=0.0, source="sim")
        snapshot = inventory.snapshot()
        again = decide(snapshot, demand, first.memory, POLICY, 0.0)

        assert [dict(u.deficit) for u in again.unsatisfied] == [{"tpu": 4}]
        assert list(again.actions) == list(alone(snapshot, demand).actions)

    def test_a_new_kind_of_machine_is_seen_by_needs_that_stay(self) -> None:
        inventory = stocked([a_machine(State.IDLE, id="a", price_per_hour=2.0)])
        demand = Demand((a_need(),), frozenset())
        first = alone(inventory.snapshot(), demand)
        larger = a_profile(instance_type="large", resources={"cpu": "9", "memory": "1Gi"})

        inventory.add(a_machine(State.IDLE, id="b", profile=larger), now=0.0, source="sim")
        again = decide(inventory.snapshot(), demand, first.memory, POLICY, 0.0)

        assert [action.machine for action in again.actions] == ["b"]

    def test_the_memory_of_a_later_snapshot_does_not_show_in_an_earlier_one(self) -> None:
        machines = [
            a_machine(State.CONFIGURED, id=f"m-{at:02}", price_per_hour=float(at % 7))
            for at in range(40)
        ]
        inventory = stocked(machines)
        demand = Demand((a_need(aggregate={"cpu": 80_000}),), frozenset({WEB}))
        before = inventory.snapshot()
        first = alone(before, demand)
        for machine in machines[:5]:
            inventory.apply(dataclasses.replace(machine, price_per_hour=9.0), now=0.0)
        inventory.remove(machines[7].id)
        later = decide(inventory.snapshot(), demand, first.memory, POLICY, 0.0)

        back = decide(before, demand, later.memory, POLICY, 0.0)

        assert told(back) == told(first)
        assert told(later) != told(first)

    @pytest.mark.parametrize("seed", range(5))
    def test_a_plan_stays_what_it_was_while_others_are_made(self, seed: int) -> None:
        world, other = seeded_world(seed, times=3), seeded_world(seed + 1)
        inventory = world.inventory()
        plan = decide(inventory.snapshot(), world.demand, world.memory, POLICY, world.now)
        seen = told(plan)

        for machine in inventory.ids()[::2]:
            inventory.remove(machine)
        decide(inventory.snapshot(), world.demand, plan.memory, POLICY, world.now)
        decide(inventory.snapshot(), other.demand, plan.memory, POLICY, world.now)

        assert told(plan) == seen


class TestNames:
    def test_gangs_are_alike_however_their_amounts_are_written(self) -> None:
        gangs = [a_gang("g-1", cpu=1000, memory=4), a_gang("g-2", memory=4, cpu=1000)]

        plan = assert_as_the_rules_say(world_of([a_machine(State.IDLE)], gangs))

        assert [need.aggregate for need in plan.needs] == [{"cpu": 2000, "memory": 8}]

    def test_a_domain_is_told_from_another_by_each_of_its_keys(self) -> None:
        keys = ("k-1", "k-2", "k-3", "k-4")
        machines = [
            a_machine(State.IDLE, id=f"m-{at}", profile=a_profile(labels=labels))
            for at, labels in enumerate(
                {key: "other" if key == odd else "one" for key in keys} for odd in keys
            )
        ]
        profile = NeedProfile(tuple(Requirement(key, Operator.SAME) for key in keys))
        wanting = a_need(profile=profile, aggregate={"cpu": 16_000}, min_unit={}, group="g")

        plan = assert_as_the_rules_say(world_of(machines, [wanting]))

        assert not plan.actions

    def test_gangs_with_other_keys_beside_them_keep_their_own(self) -> None:
        """Machines in two racks of one zone are no home for a gang that wants one rack."""
        by_zone = a_gang("g")
        by_rack = a_need(
            profile=a_need_profile(requirements=(Requirement("rack", Operator.SAME),)),
            aggregate={"cpu": 16_000}, min_unit={}, group="g",
        )  # fmt: skip
        own = [
            a_machine(
                State.CONFIGURED, id=f"{need.profile.fingerprint[:4]}-{rack}",
                profile=a_profile(labels={"rack": rack}),
                assignment=an_assignment(fingerprint=need.profile.fingerprint, group="g"),
            )
            for need in (by_zone, by_rack)
            for rack in ("r-1", "r-2")
        ]  # fmt: skip

        plan = assert_as_the_rules_say(world_of(own, [by_zone, by_rack]))

        assert [row.need for row in plan.unsatisfied] == [by_rack]

    def test_attribute_values_may_be_any_text(self) -> None:
        odd = ("", " ", "\x00", "é", "\U0001f600", "a\nb", "z" * 300)
        machines = [
            a_machine(State.IDLE, id=f"m-{at}-{half}", profile=a_profile(labels={"k": text}))
            for at, text in enumerate(odd)
            for half in "xy"
        ]
        profile = NeedProfile((Requirement("k", Operator.SAME),))
        gangs = [
            a_need(profile=profile, aggregate={"cpu": 16_000}, min_unit={}, group=group)
            for group in odd
        ]

        plan = assert_as_the_rules_say(world_of(machines, gangs))

        assert len(plan.actions) == len(machines)


class TestInFlight:
    @pytest.mark.parametrize("kind", ["creating", "draining"])
    def test_what_is_in_flight_counts_by_id_whatever_row_it_lies_in(self, kind: str) -> None:
        """Of a gang under both of its names."""
        gang = a_gang("g", cpu=24_000)
        plain = NeedProfile(priority=gang.profile.priority)
        names = (gang.ref, a_need(profile=plain).ref)
        machines = []
        for at, id_ in enumerate(("d", "c", "b", "a", "e")):
            ref = names[at % 2]
            meant = Assignment(fingerprint=ref.fingerprint, cluster=ref.cluster, group=ref.group)
            drained = an_assignment(drained_for=ref)
            machines.append(
                a_machine(State.CREATING, id=id_, assignment=meant)
                if kind == "creating"
                else a_machine(State.DRAINING, id=id_, assignment=drained)
            )
        inventory = stocked(machines)

        plan = alone(inventory.snapshot(), Demand((gang,), frozenset()))

        assert plan.claimed_ids() == ["a", "b", "c"]


class TestOwnMachines:
    def test_a_kind_of_machine_that_is_gone_gives_no_hope(self) -> None:
        """So what the need has is left in peace."""
        need = a_need(min_unit={"cpu": 64_000})
        own = a_machine(
            State.CONFIGURED,
            id="small",
            assignment=an_assignment(fingerprint=need.profile.fingerprint),
        )
        large = a_machine(State.IDLE, id="large", profile=a_profile(resources={"cpu": "64"}))
        inventory = stocked([own, large])
        inventory.remove(large.id)

        plan = alone(inventory.snapshot(), Demand((need,), frozenset({WEB})))

        assert plan.claimed_ids() == [own.id]
        assert not plan.actions

    def test_a_gang_at_home_takes_nothing_of_its_own_that_lies_elsewhere(self) -> None:
        """Not even when that is cheaper."""
        gang = a_gang("g")
        held = an_assignment(fingerprint=gang.profile.fingerprint, group="g")
        own = [
            a_machine(
                State.CONFIGURED, id=id_, profile=a_profile(zone=id_[0]), assignment=held,
                price_per_hour=price,
            )
            for id_, price in (("a-1", 1.0), ("b-1", 2.0), ("a-2", 3.0))
        ]  # fmt: skip

        plan = assert_as_the_rules_say(world_of(own, [gang]))

        assert plan.claimed_ids() == ["a-1", "a-2"]

    def test_a_victim_of_the_same_cluster_uses_up_no_quota_of_it(self) -> None:
        """Two of a lesser gang of its own, then one of another, with room for one more."""
        gang = dataclasses.replace(
            a_gang("g"), profile=a_need_profile(requirements=SAME_ZONE, priority=0)
        )
        other = a_need(cluster="other", profile=a_need_profile(priority=0))
        holders = {"a": gang, "b": gang, "c": other, "d": other}
        victims = [
            a_machine(
                State.CONFIGURED, id=id_, cluster=need.cluster,
                assignment=an_assignment(
                    fingerprint=need.profile.fingerprint, group=need.group, cluster=need.cluster,
                    priority=0,
                ),
            )
            for id_, need in holders.items()
        ]  # fmt: skip
        wanting = a_need(aggregate={"cpu": 32_000})

        plan = assert_as_the_rules_say(
            world_of(victims, [wanting, gang, other], heard=[], quota=Quota({WEB: 3}, {}))
        )

        assert [action.machine for action in plan.actions] == ["a", "b", "c"]

    def test_a_gang_that_finds_the_quota_used_up_in_phase_two_says_so(self) -> None:
        """In phase 1 there was room, but too little to take; then a plain need took it."""
        gang = a_gang("g", cpu=24_000)
        held = an_assignment(fingerprint=gang.profile.fingerprint, group="g")
        elsewhere = a_need_profile(requirements=(Requirement(ZONE_KEY, Operator.IN, ("b",)),))
        here, there = a_profile(zone="a"), a_profile(zone="b")
        machines = [
            a_machine(State.CONFIGURED, id="own", profile=here, assignment=held),
            a_machine(State.IDLE, id="free", profile=here),
            a_machine(State.CONFIGURED, id="theirs", profile=here, cluster="other",
                      assignment=an_assignment(cluster="other", priority=PRIORITY_MAX)),
            a_machine(State.IDLE, id="far", profile=there),
        ]  # fmt: skip
        needs = [gang, a_need(profile=elsewhere)]

        plan = assert_as_the_rules_say(
            world_of(machines, needs, heard=["web"], quota=Quota({WEB: 2}, {}))
        )

        assert [row.reason for row in plan.unsatisfied] == [Unmet.QUOTA]

    def test_a_gang_that_is_at_home_in_two_domains_stays_where_less_is_left_over(self) -> None:
        gang = a_gang("g")
        held = an_assignment(fingerprint=gang.profile.fingerprint, group="g")
        own = [
            a_machine(State.CONFIGURED, id=id_, profile=a_profile(zone=id_[0]), assignment=held)
            for id_ in ("a-1", "a-2", "a-3", "b-1", "b-2", "c-1", "c-2", "c-3")
        ]

        plan = assert_as_the_rules_say(world_of(own, [gang]))

        assert plan.claimed_ids() == ["b-1", "b-2"]


class TestManyOfThem:
    def test_victims_are_the_same_however_few_lists_of_them_are_kept(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        worlds = [seeded_world(seed, times=3) for seed in range(12)]
        seen = [told(decided(world)) for world in worlds]

        monkeypatch.setattr(preempt, "LISTS_MAX", 1)

        assert [told(decided(world)) for world in worlds] == seen

    def test_what_one_need_may_drain_a_lesser_one_that_asks_the_same_may_not(self) -> None:
        machines = [
            a_machine(State.CONFIGURED, id=f"serves-{at}", cluster="other",
                      assignment=an_assignment(cluster="other", priority=at))
            for at in (5, 15)
        ]  # fmt: skip
        needs = [a_need(profile=a_need_profile(priority=priority)) for priority in (20, 10)]

        plan = assert_as_the_rules_say(world_of(machines, needs, heard=["web"]))

        assert [action.machine for action in plan.actions] == ["serves-5"]

    def test_more_shortfalls_than_are_told_grow_older_all_the_same(self) -> None:
        needs = [
            a_need(profile=a_need_profile(priority=priority)) for priority in range(120, 0, -1)
        ]
        snapshot, demand = Inventory().snapshot(), Demand(tuple(needs), frozenset())
        first = alone(snapshot, demand)

        again = decide(snapshot, demand, first.memory, POLICY, 0.0)

        assert len(again.shortfalls) == SHORTFALLS_MAX
        assert set(again.shortfall_ages.values()) == {2}
        assert len(again.shortfall_ages) == len(needs)

    @pytest.mark.parametrize("size", [10, 5000], ids=["few", "many"])
    def test_keys_that_do_not_fit_one_word_are_sorted_all_the_same(self, size: int) -> None:
        rng = np.random.default_rng(size)
        keys = [
            rng.integers(0, 3, size), rng.choice([0.5, -0.0, 0.0, 1e300, -2.0], size),
            rng.integers(-2, 2, size), rng.integers(0, 2**40, size), rng.integers(0, 2**33, size),
        ]  # fmt: skip

        for key in keys:
            alone = key.tolist()
            assert sorting.sorted_by(key).tolist() == sorted(range(size), key=alone.__getitem__)
        for count in range(1, len(keys) + 1):
            rows = list(zip(*(key.tolist() for key in keys[:count]), strict=True))
            expected = sorted(range(size), key=rows.__getitem__)
            assert sorting.sorted_by(*keys[:count]).tolist() == expected

    def test_clusters_give_back_in_order_of_their_names_whoever_came_first(self) -> None:
        names = ("z", "a", "m", "B", "10", "9")
        machines = [
            a_machine(State.CONFIGURED, id=f"{name}-{price}", cluster=name, price_per_hour=price)
            for name in names
            for price in (1.0, 3.0, 2.0)
        ]

        plan = assert_as_the_rules_say(world_of(machines))

        assert [action.cluster for action in plan.actions][::3] == sorted(names)


def test_an_action_is_found_from_either_end_and_nowhere_else() -> None:
    spot = a_profile(capacity_type=CapacityType.SPOT)
    machines = [a_machine(State.IDLE, id=f"m-{at}", profile=spot) for at in range(3)]
    actions = decided(world_of(machines, idle_for=1e6)).actions

    assert actions[-1] == actions[2] == list(actions)[2]
    assert [action.kind for action in actions[:2]] == [ActionKind.DELETE] * 2
    for at in (3, -4):
        with pytest.raises(IndexError):
            actions[at]


def test_a_plan_that_deletes_is_given_again_while_nothing_changes() -> None:
    spot = a_profile(capacity_type=CapacityType.SPOT)
    snapshot = stocked([a_machine(State.IDLE, profile=spot)]).snapshot()
    demand = Demand((), frozenset())
    plan = decide(snapshot, demand, Memory.empty(), POLICY, 1000.0)

    assert [action.kind for action in plan.actions] == [ActionKind.DELETE]
    assert decide(snapshot, demand, plan.memory, POLICY, 1001.0) is plan


def test_an_audit_does_not_believe_the_plan_it_looks_into() -> None:
    snapshot = stocked([a_machine(State.IDLE)]).snapshot()
    plan = alone(snapshot, Demand((a_need(),), frozenset()))
    wrong = dataclasses.replace(plan, actions=())

    assert differences(plan, plan.memory, 0.0) == ()
    assert len(differences(wrong, wrong.memory, 0.0)) == 1


class TestRounding:
    def test_domains_of_many_keys_are_told_apart(self) -> None:
        """So many that the product of their values does not fit 64 bits."""
        keys = [f"k-{at:02}" for at in range(17)]
        values = [dict.fromkeys(keys[1:], f"v-{at}") | {keys[0]: "p"} for at in range(15)]
        machines = [
            a_machine(State.FAILED, id=f"f-{at}", profile=a_profile(labels=labels))
            for at, labels in enumerate(values)
        ]
        for odd in ("p", "q"):
            labels = {**values[0], keys[0]: odd}
            machines.append(a_machine(State.IDLE, id=odd, profile=a_profile(labels=labels)))
        profile = NeedProfile(tuple(Requirement(key, Operator.SAME) for key in keys))
        gang = a_need(profile=profile, aggregate={"cpu": 16_000}, min_unit={}, group="g")

        plan = assert_as_the_rules_say(world_of(machines, [gang]))

        assert not plan.actions

    def test_a_plan_with_a_parked_gang_is_not_given_again(self) -> None:
        """In the next cycle it may hope again, and another domain wins."""
        gang = a_gang("g")
        machines = [
            a_machine(State.IDLE if id_[1] == "i" else State.CONFIGURED, id=id_,
                      profile=a_profile(zone=id_[0]))
            for id_ in ("a0", "a1", "b0", "b1", "b2", "ai0", "ai1", "ai2", "ai3", "ai4")
        ]  # fmt: skip
        world = world_of(machines, [gang], memory=Memory({gang.ref: 9}, {}))
        snapshot = world.inventory().snapshot()
        first = decide(snapshot, world.demand, world.memory, POLICY, world.now)

        again = decide(snapshot, world.demand, first.memory, POLICY, world.now)

        assert first.claimed_ids() == ["a0", "a1"]
        assert again.claimed_ids() == ["b0", "b1"]

    def test_a_clock_that_goes_back_takes_a_deletion_back(self) -> None:
        spot = a_profile(capacity_type=CapacityType.SPOT)
        snapshot = stocked([a_machine(State.IDLE, profile=spot)]).snapshot()
        demand = Demand((), frozenset())
        plan = decide(snapshot, demand, Memory.empty(), POLICY, 100.0)

        assert len(plan.actions) == 1
        assert not decide(snapshot, demand, plan.memory, POLICY, 50.0).actions

    def test_a_hold_ends_when_it_ends_however_times_are_rounded(self) -> None:
        inventory = Inventory()
        spot = a_profile(capacity_type=CapacityType.SPOT)
        inventory.add(a_machine(State.IDLE, profile=spot), now=0.8307684143593228, source="sim")
        snapshot, demand = inventory.snapshot(), Demand((), frozenset())
        plan = decide(snapshot, demand, Memory.empty(), POLICY, 1.0)

        later = 60.83076841435932
        assert len(decide(snapshot, demand, plan.memory, POLICY, later).actions) == 1

    @pytest.mark.parametrize("held", [2**63, 2**64 - 1])
    def test_no_quota_is_too_large(self, held: int) -> None:
        quota = Quota({WEB: held}, {("sim", ""): held})

        assert len(
            decided(world_of([a_machine(State.SPECULATIVE)], [a_need()], quota=quota)).actions
        )
