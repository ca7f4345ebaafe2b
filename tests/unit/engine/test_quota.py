"""The quota, each rule for the plain engine and for the real one. `sim` reports every machine."""

from dataclasses import replace
from typing import Final

import pytest

from mainstay.engine.plan import Memory, Unmet
from mainstay.engine.quota import NO_QUOTA
from mainstay.model.need import Operator, Requirement
from mainstay.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY, CapacityType
from mainstay.model.state import State
from oracles.fleets import RACK, world_of
from oracles.scenes import (
    CONFIGURED,
    CONFIGURING,
    CREATING,
    DRAINING,
    GPU,
    IDLE,
    PRE,
    SPECULATIVE,
    B,
    D,
    Decide,
    P,
    R,
    X,
    Y,
    all_of,
    done,
    failed,
    gang,
    held,
    machine,
    need,
    reasons,
    reported_by,
    several,
    spread,
    unresolved,
)

LONG_AGO: Final = 9_999.0


def zone(name: str) -> tuple[Requirement, ...]:
    return (Requirement(ZONE_KEY, Operator.SAME, (name,)),)


class TestQuotaOfACluster:
    @pytest.mark.parametrize(("count", "ids"), [(0, ""), (1, "a"), (2, "a b"), (9, "a b c")])
    def test_no_more_is_acquired_than_it_may_hold(
        self, decide_like: Decide, count: int, ids: str
    ) -> None:
        plan = decide_like(world_of(several("a b c d"), [need(24)], quota=held(x=count)))

        assert done(plan) == all_of(B, ids)
        assert reasons(plan) == [Unmet.QUOTA] * (count < 3)

    def test_what_is_not_named_is_not_limited(self, decide_like: Decide) -> None:
        world = world_of(several("a b c"), [need(), need(16, Y)], quota=held(x=0))

        assert done(decide_like(world)) == all_of(B, "a b")
        assert done(decide_like(replace(world, demand=replace(world.demand, quota=NO_QUOTA)))) == (
            all_of(B, "a b c")
        )

    def test_it_is_used_by_what_is_bound_and_by_what_is_being_created(
        self, decide_like: Decide
    ) -> None:
        """Whether or not a need claims them; not by what drains, nor by what is another's."""
        elsewhere = need(cluster=Y)
        fleet = [
            machine("a", CONFIGURED, cluster=X, type="old"),
            machine("b", CONFIGURING, cluster=X, type="old"),
            machine("c", CREATING, ref=need(cluster=X, priority=99).ref, type="old"),
            machine("d", DRAINING, cluster=X, type="old"),
            machine("e", CONFIGURED, cluster=Y, type="old"),
            machine("f", CREATING, ref=elsewhere.ref, type="old"),
            machine("g", State.DELETING, type="old"),
            *several("i j"),
        ]
        new = need(16, requires=(Requirement(INSTANCE_TYPE_KEY, Operator.NOT_IN, ("old",)),))

        acquired = [
            [id_ for kind, id_ in done(decide_like(world_of(fleet, [new], [], quota=held(x=n))))
             if kind is B]
            for n in (2, 3, 4, 5)
        ]  # fmt: skip

        assert acquired == [[], [], ["i"], ["i", "j"]]

    def test_what_a_cluster_has_is_kept_and_credited_beyond_it(self, decide_like: Decide) -> None:
        fleet = several("a b c", CONFIGURED)

        plan = decide_like(world_of(fleet, [need(24)], quota=held(x=1)))

        assert (done(plan), plan.unsatisfied) == ([], ())

    def test_the_needs_of_a_cluster_share_it_in_the_order_of_acquiring(
        self, decide_like: Decide
    ) -> None:
        low, high = need(16), need(16, priority=20)

        plan = decide_like(world_of(several("a b c d"), [low, high], quota=held(x=3)))

        assert [action.need for action in plan.actions] == [high.ref, high.ref, low.ref]
        assert [(row.need, row.deficit, row.reason) for row in plan.unsatisfied] == [
            (low, {GPU: 8}, Unmet.QUOTA)
        ]

    def test_a_machine_passed_over_is_there_for_others(self, decide_like: Decide) -> None:
        first, second = need(16, priority=20), need(8, Y)

        plan = decide_like(world_of(several("a b"), [first, second], quota=held(x=1)))

        assert [(action.machine, action.need) for action in plan.actions] == [
            ("a", first.ref), ("b", second.ref),
        ]  # fmt: skip

    def test_one_passed_over_is_deleted_after_its_hold(self, decide_like: Decide) -> None:
        spot = several("a b", capacity=CapacityType.SPOT)

        plan = decide_like(world_of(spot, [need(16)], idle_for=LONG_AGO, quota=held(x=1)))

        assert done(plan) == [(B, "a"), (D, "b")]


class TestQuotaOfAProviderInARegion:
    def test_a_slot_beyond_it_is_passed_over_for_the_next(self, decide_like: Decide) -> None:
        """Each is a place of its own: another region, none, another provider."""
        slots = [
            machine("a", SPECULATIVE, region="r"), machine("b", SPECULATIVE, region="r"),
            machine("c", SPECULATIVE), machine("d", SPECULATIVE, region="r"),
        ]  # fmt: skip
        world = world_of(slots, [need(32)], quota=held({("sim", "r"): 1, ("sim", ""): 1}))

        plan = decide_like(reported_by(world, "ec2", "d"))

        assert done(plan) == all_of(P, "a c d")
        assert reasons(plan) == [Unmet.QUOTA]

    def test_a_region_is_none_when_it_is_not_told(self, decide_like: Decide) -> None:
        slots = [*several("a b", SPECULATIVE), machine("c", SPECULATIVE, region="r")]

        plan = decide_like(world_of(slots, [need(24)], quota=held({("sim", ""): 0})))

        assert done(plan) == [(P, "c")]

    def test_an_idle_machine_uses_no_more_of_it(self, decide_like: Decide) -> None:
        plan = decide_like(world_of(several("a b"), [need(16)], quota=held({("sim", ""): 0})))

        assert (done(plan), plan.unsatisfied) == (all_of(B, "a b"), ())

    @pytest.mark.parametrize("state", [State(n) for n in range(1, len(State))])
    def test_every_machine_that_is_not_a_slot_uses_one(
        self, decide_like: Decide, state: State
    ) -> None:
        used = machine("a", IDLE if state is State.FAILED else state, type="old", cluster=Y)
        fleet = [failed(used) if state is State.FAILED else used, machine("s", SPECULATIVE)]
        new = need(requires=(Requirement(INSTANCE_TYPE_KEY, Operator.NOT_IN, ("old",)),))

        plan = decide_like(world_of(fleet, [new], [], quota=held({("sim", ""): 1})))

        assert done(plan) == [(P, "s")] * (state is SPECULATIVE)

    def test_both_must_allow_it(self, decide_like: Decide) -> None:
        fleet = [*several("a b", SPECULATIVE, region="r"), machine("c", SPECULATIVE)]
        quota = held({("sim", "r"): 1}, x=1)

        plan = decide_like(world_of(fleet, [need(24), need(16, Y)], quota=quota))

        assert done(plan) == all_of(P, "a c")
        assert [action.cluster for action in plan.actions] == [X, Y]


class TestQuotaOfAGang:
    def test_it_takes_nothing_it_may_not_finish_and_uses_nothing(self, decide_like: Decide) -> None:
        wanted, later = gang(24, priority=20), need(16)

        plan = decide_like(world_of(several("a b c"), [wanted, later], quota=held(x=2)))

        assert [(action.machine, action.need) for action in plan.actions] == [
            ("a", later.ref), ("b", later.ref),
        ]  # fmt: skip
        (row,) = plan.unsatisfied
        assert (row.domain, row.satisfiable, row.parked) == (("zone-a",), True, False)
        assert row.reason is Unmet.QUOTA
        assert plan.memory.gang_ages == {}

    def test_its_domain_is_chosen_without_a_look_at_it(self, decide_like: Decide) -> None:
        """Although the other domain, which has more over, would be allowed."""
        fleet = [*several("a b", SPECULATIVE, zone="za", region="r"),
                 *several("c d e", SPECULATIVE, zone="zb")]  # fmt: skip

        plan = decide_like(world_of(fleet, [gang(16)], quota=held({("sim", "r"): 1})))

        assert done(plan) == []
        assert [(row.domain, row.satisfiable) for row in plan.unsatisfied] == [(("za",), True)]
        assert reasons(plan) == [Unmet.QUOTA]

    def test_it_takes_the_machines_of_its_domain_that_it_may(self, decide_like: Decide) -> None:
        fleet = [*several("a b", SPECULATIVE, region="r"), *several("c d", SPECULATIVE)]

        plan = decide_like(world_of(fleet, [gang(24)], quota=held({("sim", "r"): 1})))

        assert (done(plan), plan.unsatisfied) == (all_of(P, "a c d"), ())

    def test_what_it_may_not_take_is_spoken_for_all_the_same(self, decide_like: Decide) -> None:
        """The second gang goes elsewhere, although the first one takes nothing."""
        first, second = gang(16, interruption=5), gang(16, Y)
        fleet = [*several("a b", zone="za"), *several("c d e", zone="zb")]

        plan = decide_like(world_of(fleet, [first, second], quota=held(x=1)))

        assert [(action.machine, action.need) for action in plan.actions] == [
            ("c", second.ref), ("d", second.ref),
        ]  # fmt: skip

    def test_a_parked_one_is_passed_by_before_the_quota_is_asked(self, decide_like: Decide) -> None:
        wanted = gang(16)
        memory = Memory({wanted.ref: 8}, {})
        fleet = [machine("a", CONFIGURED), machine("b")]

        plan = decide_like(world_of(fleet, [wanted], memory=memory, quota=held(x=1)))

        assert reasons(plan) == [Unmet.TOPOLOGY]


class TestQuotaOfASpread:
    def test_the_next_value_is_taken_instead(self, decide_like: Decide) -> None:
        fleet = [machine("a", SPECULATIVE, rack="1", region="r"),
                 machine("b", SPECULATIVE, rack="1", price=3.0),
                 machine("c", SPECULATIVE, rack="2", price=2.0)]  # fmt: skip
        wanted = need(16, spread=spread(RACK, 1))

        plan = decide_like(world_of(fleet, [wanted], quota=held({("sim", "r"): 0})))

        assert (done(plan), plan.unsatisfied) == (all_of(P, "c b"), ())

    def test_a_value_counts_although_all_of_it_is_passed_over(self, decide_like: Decide) -> None:
        """Rack 1 stays at none, so that rack 2 gets one."""
        fleet = [machine("a", SPECULATIVE, rack="1", region="r"),
                 *several("b c", SPECULATIVE, rack="2")]  # fmt: skip
        wanted = need(24, spread=spread(RACK, 1))

        plan = decide_like(world_of(fleet, [wanted], quota=held({("sim", "r"): 0})))

        assert done(plan) == [(P, "b")]
        assert reasons(plan) == [Unmet.QUOTA]

    def test_what_the_skew_forbids_is_not_passed_over(self, decide_like: Decide) -> None:
        """Rack 2 is full before its slot is next."""
        fleet = [
            machine("a", CONFIGURED, rack="1"), machine("b", CONFIGURED, rack="2"),
            machine("i", rack="2"), machine("s", SPECULATIVE, rack="2", region="r"),
        ]  # fmt: skip
        wanted = need(32, spread=spread(RACK, 1))

        plan = decide_like(world_of(fleet, [wanted], quota=held({("sim", "r"): 0})))

        assert (done(plan), reasons(plan)) == ([(B, "i")], [Unmet.TOPOLOGY])


class TestQuotaInPhaseTwo:
    def test_excess_and_victims_use_the_quota_of_the_need(self, decide_like: Decide) -> None:
        fleet = [machine("e", CONFIGURED, cluster=Y), *several("v w", CONFIGURED, cluster="z")]

        plans = [
            decide_like(world_of(fleet, [need(24)], [X, Y], quota=held(x=count)))
            for count in (0, 1, 2, 3)
        ]

        named = [[(a.kind, a.machine) for a in plan.actions if a.need] for plan in plans]
        assert named == [
            [], [(R, "e")], [(PRE, "v"), (R, "e")], [(PRE, "v"), (PRE, "w"), (R, "e")],
        ]  # fmt: skip
        assert unresolved(plans[1]) == [{GPU: 16}]
        assert [reasons(plan) for plan in plans] == [[Unmet.QUOTA]] * 3 + [[Unmet.WAITING]]

    @pytest.mark.parametrize("count", [0, 2, 3])
    def test_a_victim_of_its_own_cluster_uses_nothing_more(
        self, decide_like: Decide, count: int
    ) -> None:
        low, high = gang(16), need(8, priority=20)
        own = several("a b", CONFIGURED, ref=low.ref)

        plan = decide_like(world_of(own, [low, high], quota=held(x=count)))

        assert done(plan) == [(PRE, "a")]
        assert reasons(plan) == [Unmet.WAITING]

    @pytest.mark.parametrize(("count", "does"), [(1, False), (2, True)])
    def test_a_machine_drained_for_a_need_is_used_until_it_is_there(
        self, decide_like: Decide, count: int, *, does: bool
    ) -> None:
        asked = need(16)
        drained = machine("d", State.DRAINING, cluster=Y, drained_for=asked.ref)

        plan = decide_like(world_of([drained, machine("i")], [asked], quota=held(x=count)))

        assert done(plan) == [(B, "i")] * does

    def test_it_is_used_by_what_was_acquired_before(self, decide_like: Decide) -> None:
        fleet = [machine("i"), *several("v w", CONFIGURED, cluster=Y)]

        plan = decide_like(world_of(fleet, [need(24)], [X], quota=held(x=2)))

        assert done(plan) == [(B, "i"), (PRE, "v")]
        assert (unresolved(plan), reasons(plan)) == ([{GPU: 8}], [Unmet.QUOTA])

    @pytest.mark.parametrize(("count", "does"), [(2, False), (3, True)])
    def test_a_gang_sets_aside_and_drains_what_it_may_or_nothing(
        self, decide_like: Decide, count: int, *, does: bool
    ) -> None:
        fleet = [*several("i j"), machine("v", CONFIGURED, cluster=Y)]

        plan = decide_like(world_of(fleet, [gang(24)], [X], quota=held(x=count)))

        assert done(plan) == [(PRE, "v")] * does
        assert plan.claimed_ids() == (["i", "j"] if does else [])
        assert reasons(plan) == [Unmet.WAITING if does else Unmet.QUOTA]

    def test_a_gang_that_takes_nothing_uses_nothing(self, decide_like: Decide) -> None:
        fleet = several("v w", CONFIGURED, cluster=Y)
        wanted, later = gang(24, priority=20), need(16)
        own = machine("a", CONFIGURED, ref=wanted.ref)

        plan = decide_like(world_of([own, *fleet], [wanted, later], [X], quota=held(x=2)))

        assert [(action.machine, action.need) for action in plan.actions] == [("v", later.ref)]

    def test_a_slot_set_aside_uses_one_of_its_provider_and_region(
        self, decide_like: Decide
    ) -> None:
        """And so leaves none for the gang of lower priority, which is short of that one."""
        first = gang(16, requires=zone("za"), priority=20)
        second = gang(16, requires=zone("zb"))
        fleet = [
            machine("r", SPECULATIVE, zone="za"), machine("v", CONFIGURED, zone="za", cluster=Y),
            machine("s", SPECULATIVE, zone="zb"), machine("w", CONFIGURED, zone="zb", cluster=Y),
        ]  # fmt: skip

        plan = decide_like(world_of(fleet, [first, second], [X], quota=held({("sim", ""): 3})))

        assert (done(plan), plan.claimed_ids()) == ([(PRE, "v")], ["r"])
        assert reasons(plan) == [Unmet.WAITING, Unmet.QUOTA]
