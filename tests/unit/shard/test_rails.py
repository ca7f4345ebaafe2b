"""What of a plan may be done now, rule by rule and at the boundaries."""

from dataclasses import replace
from typing import Final

import pytest

from builders import a_machine
from mainstay.engine.decide import decide
from mainstay.engine.plan import Demand, Memory, Plan
from mainstay.engine.policy import Policy
from mainstay.inventory.inventory import Inventory
from mainstay.model.action import ActionKind
from mainstay.model.errors import Rejected
from mainstay.model.ids import ClusterId
from mainstay.model.state import State
from mainstay.shard.admitted import HELD_TOLD_MAX, NOTHING, Admitted, HeldAs
from mainstay.shard.outcomes import Disposition
from mainstay.shard.rails import admit, reclaim_cap, stance_of
from mainstay.shard.restrictions import NO_LIMITS, Limits, Restrictions, Stance
from mainstay.shard.sharing import shares
from plans import a_plan, acquire, delete, name_of, preempt, reclaim

WEB: Final = ClusterId("web")
BATCH: Final = ClusterId("batch")

ONE_OF_EACH: Final = (
    acquire("web"), acquire("web", new=True), preempt("batch", "web"), reclaim("web"), delete(),
)  # fmt: skip
KINDS_IN_ORDER: Final = [doing.kind for doing in ONE_OF_EACH]


def admitted(plan: Plan, restrictions: Restrictions | None = None, *, cycle: int = 7) -> Admitted:
    return admit(plan, cycle=cycle, restrictions=restrictions or Restrictions())


def ran(answer: Admitted) -> list[str]:
    return [order.action.machine for order in answer.orders]


def held_for(answer: Admitted, reason: str) -> list[str]:
    return [each.order.action.machine for each in answer.held if each.reason == reason]


def names(*numbers: int) -> list[str]:
    return [name_of(number) for number in numbers]


class TestNothingHeldBack:
    def test_everything_runs_in_the_order_of_the_plan(self) -> None:
        answer = admitted(a_plan(ONE_OF_EACH))

        assert [order.action.kind for order in answer.orders] == KINDS_IN_ORDER
        assert answer.held == ()
        assert answer.held_counts == {}
        assert not answer.again

    def test_an_order_carries_what_carrying_it_out_takes(self) -> None:
        plan = a_plan([acquire("web", source="ec2")._replace(price_per_hour=2.5)])

        order = admitted(plan, cycle=42).orders[0]

        assert order.action == plan.actions[0]
        assert order.need == plan.needs[0]
        assert (order.cycle, order.source, order.price_per_hour) == (42, "ec2", 2.5)

    def test_a_release_is_for_no_need(self) -> None:
        answer = admitted(a_plan([reclaim("web"), delete()]))

        assert [order.need for order in answer.orders] == [None, None]

    @pytest.mark.parametrize(
        "restrictions",
        [Restrictions(), Restrictions(shard=Stance.PAUSE), Restrictions(stopped="fenced")],
    )
    def test_a_plan_without_actions_costs_nothing(self, restrictions: Restrictions) -> None:
        """Not even an object: whatever is paused, and however often it is asked."""
        plan = a_plan([])

        assert admitted(plan, restrictions) is NOTHING

    def test_the_plan_is_left_as_it_was(self) -> None:
        plan = a_plan(ONE_OF_EACH)
        before = list(plan.actions)

        admitted(plan, Restrictions(shard=Stance.PAUSE))

        assert list(plan.actions) == before


class TestReclaimCap:
    @pytest.mark.parametrize(
        ("fraction", "configured", "cap"),
        [(0.05, 0, 1), (0.05, 1, 1), (0.05, 19, 1), (0.05, 21, 1), (0.05, 40, 2), (0.05, 100, 5),
         (0.25, 40, 10), (0.5, 7, 3), (0.29, 100, 29), (0.57, 100, 57), (0.07, 100, 7)],
    )  # fmt: skip
    def test_s63_cap_arithmetic(self, fraction: float, configured: int, cap: int) -> None:
        assert reclaim_cap(fraction, configured) == cap

    @pytest.mark.parametrize(("configured", "cap"), [(39, 1), (40, 2), (59, 2), (60, 3)])
    def test_a_further_reclaim_takes_twenty_further_machines(
        self, configured: int, cap: int
    ) -> None:
        plan = a_plan([reclaim("web")] * 5, {"web": configured})

        assert ran(admitted(plan)) == names(*range(cap))

    S64: Final = (
        *[acquire("cl-c")] * 3, *[preempt("cl-b", "cl-c")] * 2,
        *[reclaim("cl-a")] * 10, *[reclaim("cl-b")] * 3,
    )  # fmt: skip

    def test_s64_cap_selection(self) -> None:
        answer = admitted(a_plan(self.S64, {"cl-a": 40, "cl-b": 10}))

        assert ran(answer) == names(0, 1, 2, 3, 4, 5, 6, 15)
        assert answer.held_counts == {HeldAs(Disposition.CAPPED, "cap", ActionKind.RECLAIM): 10}

    def test_s64_without_a_fraction_everything_runs(self) -> None:
        plan = a_plan(self.S64, {"cl-a": 40, "cl-b": 10})

        answer = admitted(plan, Restrictions(limits=NO_LIMITS))

        assert len(answer.orders) == len(self.S64)

    def test_s65_what_is_left_over_runs_in_later_cycles(self) -> None:
        """40 machines that nobody needs, a quarter at most in a cycle."""
        inventory = Inventory()
        for number in range(40):
            inventory.add(a_machine(State.CONFIGURED, id=name_of(number), cluster="web"), now=0.0)
        limits = Restrictions(limits=Limits(reclaim_fraction_max=0.25))
        seen = []
        while len(inventory.snapshot()):
            demand = Demand((), frozenset({WEB}))
            plan = decide(inventory.snapshot(), demand, Memory.empty(), Policy(), 0.0)
            answer = admitted(plan, limits)
            seen.append(len(answer.orders))
            for order in answer.orders:
                inventory.remove(order.action.machine)

        assert seen == [10, 7, 5, 4, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1]

    def test_what_is_capped_asks_for_no_further_cycle(self) -> None:
        """It is there to spread the risk over time."""
        answer = admitted(a_plan([reclaim("web")] * 5))

        assert held_for(answer, "cap") == names(1, 2, 3, 4)
        assert not answer.again

    def test_only_configured_machines_of_the_snapshot_count(self) -> None:
        inventory = Inventory()
        for number in range(2):
            inventory.add(a_machine(State.CONFIGURED, id=name_of(number), cluster="web"), now=0.0)
        for number in range(100):
            inventory.add(a_machine(State.DRAINING, id=f"d-{number}", cluster="web"), now=0.0)
        demand = Demand((), frozenset({WEB}))
        plan = decide(inventory.snapshot(), demand, Memory.empty(), Policy(), 0.0)

        assert len(plan.actions) == 2
        assert ran(admitted(plan)) == [plan.actions[0].machine]

    def test_preempts_deletes_and_acquisitions_are_never_capped(self) -> None:
        doings = [*[acquire("web")] * 3, *[preempt("batch", "web")] * 3, *[delete()] * 3]

        assert len(admitted(a_plan(doings)).orders) == 9

    def test_a_reclaim_that_is_held_for_something_else_takes_no_place_in_it(self) -> None:
        """Else a provider that is away would keep the machines of the others from moving."""
        plan = a_plan([reclaim("web", source="ec2"), reclaim("web"), reclaim("web")])

        answer = admitted(plan, Restrictions(unreachable=frozenset({"ec2"})))

        assert ran(answer) == names(1)
        assert held_for(answer, "unreachable") == names(0)
        assert held_for(answer, "cap") == names(2)

    @pytest.mark.parametrize(("spent", "runs"), [(0, 2), (1, 1), (2, 0), (3, 0)])
    def test_a_cycle_between_two_ticks_gets_what_the_others_since_have_left(
        self, spent: int, runs: int
    ) -> None:
        """Else a cluster that reports often would be emptied as often."""
        plan = a_plan([*[reclaim("web")] * 5, reclaim("batch")], {"web": 40})

        answer = admitted(plan, Restrictions(reclaimed={WEB: spent}))

        assert ran(answer) == names(*range(runs), 5)

    def test_without_a_cap_what_ran_before_does_not_matter(self) -> None:
        plan = a_plan([reclaim("web")] * 5)

        answer = admitted(plan, Restrictions(limits=NO_LIMITS, reclaimed={WEB: 99}))

        assert len(answer.orders) == 5

    @pytest.mark.parametrize(
        ("cluster_fraction", "runs"), [(0.1, 1), (0.3, 3), (0.5, 5), (0.9, 5), (0.0, 5)]
    )
    def test_a_cluster_can_be_capped_further_but_not_less(
        self, cluster_fraction: float, runs: int
    ) -> None:
        plan = a_plan([*[reclaim("web")] * 10, *[reclaim("batch")] * 10])
        restrictions = Restrictions(
            limits=Limits(reclaim_fraction_max=0.5),
            cluster_limits={WEB: Limits(reclaim_fraction_max=cluster_fraction)},
        )

        assert ran(admitted(plan, restrictions)) == names(*range(runs), *range(10, 15))


class TestLimit:
    def test_as_many_as_the_limit_all_run(self) -> None:
        plan = a_plan([acquire("web")] * 4)

        answer = admitted(plan, Restrictions(limits=Limits(actions_per_cycle_max=4)))

        assert len(answer.orders) == 4
        assert not answer.again

    def test_one_more_than_the_limit_waits_and_asks_for_another_cycle(self) -> None:
        plan = a_plan([acquire("web")] * 5)

        answer = admitted(plan, Restrictions(limits=Limits(actions_per_cycle_max=4)))

        assert ran(answer) == names(0, 1, 2, 3)
        assert [(each.disposition, each.reason) for each in answer.held] == [
            (Disposition.DEFERRED, "limit")
        ]
        assert answer.again

    def test_acquisitions_do_not_starve_preempts_and_releases(self) -> None:
        """BigFleet keeps the head of the plan, and there releases starve first."""
        doings = [
            *[acquire("web")] * 20, *[preempt("batch", "web")] * 5, *[delete()] * 5,
        ]  # fmt: skip

        answer = admitted(a_plan(doings), Restrictions(limits=Limits(actions_per_cycle_max=8)))

        assert ran(answer) == names(0, 1, 2, 3, 20, 21, 25, 26)

    @pytest.mark.parametrize(
        ("limit", "wanted", "kept"),
        [
            (8, (20, 5, 5), (4, 2, 2)),
            (8, (20, 1, 5), (5, 1, 2)),
            (8, (20, 0, 0), (8, 0, 0)),
            (8, (1, 20, 20), (1, 5, 2)),
            (8, (0, 1, 20), (0, 1, 7)),
            (8, (0, 0, 20), (0, 0, 8)),
            (8, (2, 3, 3), (2, 3, 3)),
            (4, (9, 9, 9), (2, 1, 1)),
            (3, (9, 9, 9), (1, 1, 1)),
            (100, (90, 90, 90), (50, 25, 25)),
        ],
    )
    def test_how_it_is_shared(
        self, limit: int, wanted: tuple[int, ...], kept: tuple[int, ...]
    ) -> None:
        assert shares(limit, wanted, cycle=0) == kept

    @pytest.mark.parametrize(
        ("limit", "wanted", "cycles"),
        [
            (1, (9, 9, 9), [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 0)]),
            (2, (9, 9, 9), [(1, 1, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)]),
            (1, (9, 0, 9), [(1, 0, 0), (0, 0, 1), (0, 0, 1), (1, 0, 0)]),
            (2, (9, 0, 0), [(2, 0, 0)] * 3),
        ],
    )
    def test_a_limit_with_no_seat_for_each_goes_round(
        self, limit: int, wanted: tuple[int, ...], cycles: list[tuple[int, ...]]
    ) -> None:
        assert [shares(limit, wanted, cycle) for cycle in range(len(cycles))] == cycles

    def test_what_is_capped_takes_no_place_in_it(self) -> None:
        plan = a_plan([*[reclaim("web")] * 9, *[delete()] * 2])

        answer = admitted(plan, Restrictions(limits=Limits(actions_per_cycle_max=3)))

        assert ran(answer) == names(0, 9, 10)
        assert not answer.again

    def test_a_cluster_can_be_limited_alone(self) -> None:
        plan = a_plan([acquire("web"), acquire("batch"), acquire("web"), acquire("batch")])
        restrictions = Restrictions(
            cluster_limits={WEB: replace(NO_LIMITS, actions_per_cycle_max=1)}
        )

        answer = admitted(plan, restrictions)

        assert ran(answer) == names(0, 1, 3)
        assert answer.again

    def test_what_a_cluster_may_not_begin_takes_no_place_of_the_shard(self) -> None:
        plan = a_plan([acquire("web"), acquire("web"), acquire("batch"), acquire("batch")])
        restrictions = Restrictions(
            limits=Limits(actions_per_cycle_max=3),
            cluster_limits={WEB: replace(NO_LIMITS, actions_per_cycle_max=1)},
        )

        assert ran(admitted(plan, restrictions)) == names(0, 2, 3)

    @pytest.mark.parametrize("limits", [{"reclaim_fraction_max": -0.1}, {
        "reclaim_fraction_max": 1.1}, {"reclaim_fraction_max": float("nan")},
        {"actions_per_cycle_max": -1}])  # fmt: skip
    def test_a_limit_that_is_none_is_refused(self, limits: dict[str, float]) -> None:
        with pytest.raises(Rejected, match=next(iter(limits))):
            Limits(**limits)  # type: ignore[arg-type]


class TestStances:
    def test_a_paused_shard_does_nothing_and_counts_it_as_suppressed(self) -> None:
        answer = admitted(a_plan(ONE_OF_EACH), Restrictions(shard=Stance.PAUSE))

        assert answer.orders == ()
        assert [each.order.action.kind for each in answer.held] == KINDS_IN_ORDER
        assert answer.held_counts == {
            HeldAs(Disposition.SUPPRESSED, "pause", kind): 1 for kind in ActionKind
        }

    def test_a_shard_in_shadow_mode_tells_everything_and_does_nothing(self) -> None:
        answer = admitted(a_plan(ONE_OF_EACH), Restrictions(shard=Stance.SHADOW))

        assert answer.orders == ()
        assert answer.held_counts == {
            HeldAs(Disposition.SHADOWED, "shadow", kind): 1 for kind in ActionKind
        }

    def test_s67_pause_wins_over_shadow_in_the_counting(self) -> None:
        """Both are on: the greater stance is the shard's."""
        plan = a_plan(ONE_OF_EACH)
        before = list(plan.actions)

        answer = admitted(plan, Restrictions(shard=max(Stance.SHADOW, Stance.PAUSE)))

        assert {key.disposition for key in answer.held_counts} == {Disposition.SUPPRESSED}
        assert answer.orders == ()
        assert list(plan.actions) == before

    @pytest.mark.parametrize("stance", [Stance.SHADOW, Stance.PAUSE])
    def test_neither_cap_nor_limit_applies_where_nothing_runs_and_nothing_spins(
        self, stance: Stance
    ) -> None:
        plan = a_plan([reclaim("web")] * 30)
        limits = Limits(actions_per_cycle_max=2)

        answer = admitted(plan, Restrictions(shard=stance, limits=limits))

        assert {key.reason for key in answer.held_counts} == {stance.name.lower()}
        assert not answer.again

    @pytest.mark.parametrize(
        ("stance", "disposition"),
        [(Stance.PAUSE, Disposition.SUPPRESSED), (Stance.SHADOW, Disposition.SHADOWED)],
    )
    def test_a_cluster_held_back_gets_nothing_and_loses_nothing(
        self, stance: Stance, disposition: Disposition
    ) -> None:
        doings = [
            acquire("web"), acquire("web", new=True), preempt("web", "batch"), reclaim("web"),
            acquire("batch"), preempt("batch", "batch"), reclaim("batch"), delete(),
        ]  # fmt: skip

        answer = admitted(a_plan(doings), Restrictions(clusters={WEB: stance}))

        assert ran(answer) == names(4, 5, 6, 7)
        assert {each.disposition for each in answer.held} == {disposition}

    def test_nobody_is_drained_for_a_cluster_that_is_held_back(self) -> None:
        """The machine would be taken from one and never given to the other."""
        plan = a_plan([preempt("batch", "web")])

        answer = admitted(plan, Restrictions(clusters={WEB: Stance.PAUSE}))

        assert answer.orders == ()

    def test_what_one_cluster_gives_up_runs_although_its_taker_is_held_back(self) -> None:
        """Nobody needs the machine where it is, whoever gets it next."""
        plan = a_plan([reclaim("batch", wanted_by="web")])

        answer = admitted(plan, Restrictions(clusters={WEB: Stance.PAUSE}))

        assert ran(answer) == names(0)

    @pytest.mark.parametrize(
        ("shard", "cluster", "counted"),
        [
            (Stance.ACT, Stance.SHADOW, "shadow"),
            (Stance.ACT, Stance.PAUSE, "pause"),
            (Stance.SHADOW, Stance.ACT, "shadow"),
            (Stance.SHADOW, Stance.PAUSE, "pause"),
            (Stance.PAUSE, Stance.ACT, "pause"),
            (Stance.PAUSE, Stance.SHADOW, "pause"),
        ],
    )
    def test_a_cluster_can_only_be_held_back_further(
        self, shard: Stance, cluster: Stance, counted: str
    ) -> None:
        plan = a_plan([reclaim("web")])

        answer = admitted(plan, Restrictions(shard=shard, clusters={WEB: cluster}))

        assert held_for(answer, counted) == names(0)

    def test_the_caps_of_others_hold_while_one_cluster_is_paused(self) -> None:
        plan = a_plan([*[reclaim("web")] * 3, *[reclaim("batch")] * 3])

        answer = admitted(plan, Restrictions(clusters={WEB: Stance.PAUSE}))

        assert ran(answer) == names(3)
        assert held_for(answer, "pause") == names(0, 1, 2)
        assert held_for(answer, "cap") == names(4, 5)

    def test_a_cluster_that_no_action_concerns_may_be_named(self) -> None:
        plan = a_plan([delete()])

        answer = admitted(plan, Restrictions(clusters={ClusterId("gone"): Stance.PAUSE}))

        assert ran(answer) == names(0)

    def test_a_shard_that_is_fenced_does_nothing_and_says_why(self) -> None:
        why = "epoch 8 of this shard acts"
        restrictions = Restrictions(stopped=why, shard=Stance.PAUSE)

        answer = admitted(a_plan(ONE_OF_EACH), restrictions)

        assert answer.orders == ()
        assert {(each.disposition, each.reason, each.detail) for each in answer.held} == {
            (Disposition.SUPPRESSED, "fenced", why)
        }
        assert not answer.again


class TestDeferred:
    def test_nothing_is_done_through_a_provider_that_does_not_answer(self) -> None:
        doings = [doing._replace(source="ec2") for doing in ONE_OF_EACH] + [*ONE_OF_EACH]

        answer = admitted(a_plan(doings), Restrictions(unreachable=frozenset({"ec2"})))

        assert ran(answer) == names(5, 6, 7, 8, 9)
        assert {each.disposition for each in answer.held} == {Disposition.DEFERRED}
        assert held_for(answer, "unreachable") == names(0, 1, 2, 3, 4)

    def test_while_machines_are_not_known_again_nothing_is_acquired_or_preempted(self) -> None:
        why = "provider ec2 was not listed since the start"

        answer = admitted(a_plan(ONE_OF_EACH), Restrictions(unlisted=why))

        kinds = {each.order.action.kind for each in answer.held}
        assert kinds == {ActionKind.BOOTSTRAP, ActionKind.PROVISION, ActionKind.PREEMPT}
        assert {(each.disposition, each.reason, each.detail) for each in answer.held} == {
            (Disposition.DEFERRED, "unlisted", why)
        }
        assert {order.action.kind for order in answer.orders} == {
            ActionKind.RECLAIM,
            ActionKind.DELETE,
        }
        assert not answer.again

    def test_nothing_is_acquired_through_a_provider_that_a_next_life_would_not_wait_for(
        self,
    ) -> None:
        doings = [doing._replace(source="ec2") for doing in ONE_OF_EACH] + [*ONE_OF_EACH]

        answer = admitted(a_plan(doings), Restrictions(limits=NO_LIMITS, unkept=frozenset({"ec2"})))

        assert held_for(answer, "unlisted") == names(0, 1)
        assert {(each.disposition, each.detail) for each in answer.held} == {
            (Disposition.DEFERRED, "that provider ec2 was listed is not on disk yet")
        }
        assert ran(answer) == names(*range(2, 10))

    def test_it_takes_no_place_under_a_limit_and_asks_for_no_further_cycle(self) -> None:
        plan = a_plan([acquire("web", source="ec2")] * 3 + [acquire("web")])
        limited = Limits(actions_per_cycle_max=1)

        answer = admitted(plan, Restrictions(limits=limited, unkept=frozenset({"ec2"})))

        assert ran(answer) == names(3)
        assert not answer.again

    def test_a_backed_off_cluster_is_offered_no_machine_and_all_else_goes_on(self) -> None:
        doings = [*ONE_OF_EACH, acquire("batch")]

        answer = admitted(a_plan(doings), Restrictions(backed_off=frozenset({WEB})))

        assert held_for(answer, "back_off") == names(0)
        assert ran(answer) == names(1, 2, 3, 4, 5)

    def test_what_is_deferred_asks_for_no_further_cycle(self) -> None:
        restrictions = Restrictions(
            backed_off=frozenset({WEB}), limits=Limits(actions_per_cycle_max=1)
        )

        assert not admitted(a_plan([acquire("web")] * 3), restrictions).again


class TestTold:
    def test_of_each_disposition_the_first_are_told_and_all_are_counted(self) -> None:
        beyond = 3
        doings = [
            *[acquire("web")] * (HELD_TOLD_MAX + beyond), *[reclaim("batch")] * 5,
        ]  # fmt: skip
        restrictions = Restrictions(clusters={WEB: Stance.SHADOW})

        answer = admitted(a_plan(doings), restrictions)

        shadowed = HeldAs(Disposition.SHADOWED, "shadow", ActionKind.BOOTSTRAP)
        capped = HeldAs(Disposition.CAPPED, "cap", ActionKind.RECLAIM)
        assert held_for(answer, "shadow") == names(*range(HELD_TOLD_MAX))
        assert len(held_for(answer, "cap")) == 4
        assert answer.held_counts == {shadowed: HELD_TOLD_MAX + beyond, capped: 4}
        assert answer.counted_only() == {shadowed: beyond}

    def test_reasons_of_one_disposition_share_its_room(self) -> None:
        doings = [
            *[acquire("web", source="ec2")] * HELD_TOLD_MAX, *[acquire("web")] * 2,
        ]  # fmt: skip
        restrictions = Restrictions(unreachable=frozenset({"ec2"}), backed_off=frozenset({WEB}))

        answer = admitted(a_plan(doings), restrictions)

        assert len(answer.held) == HELD_TOLD_MAX
        assert answer.counted_only() == {
            HeldAs(Disposition.DEFERRED, "back_off", ActionKind.BOOTSTRAP): 2
        }

    def test_a_record_names_the_cycle(self) -> None:
        held = admitted(a_plan([delete()]), Restrictions(shard=Stance.PAUSE), cycle=9).held[0]

        assert (held.cycle, held.order.cycle) == (9, 9)
        assert held.outcome is None


class TestStanceOfOneOrder:
    """What is asked again when an order is begun is what was asked of the plan."""

    @pytest.mark.parametrize("shard", Stance)
    @pytest.mark.parametrize("web", Stance)
    @pytest.mark.parametrize("batch", Stance)
    def test_it_is_what_holds_the_same_order_of_a_plan_back(
        self, shard: Stance, web: Stance, batch: Stance
    ) -> None:
        plan = a_plan([*ONE_OF_EACH, reclaim("batch", wanted_by="web")])
        orders = {order.action.machine: order for order in admitted(plan).orders}
        restrictions = Restrictions(shard=shard, clusters={WEB: web, BATCH: batch})

        answer = admitted(plan, restrictions)

        held = {each.order.action.machine: each.reason for each in answer.held}
        reasons = {Stance.ACT: None, Stance.SHADOW: "shadow", Stance.PAUSE: "pause"}
        for machine, order in orders.items():
            assert reasons[stance_of(order, restrictions)] == held.get(machine)


class TestRoom:
    """Nothing is made of orders that no queue could take."""

    def test_of_each_provider_the_first_are_ordered_and_the_rest_is_dropped(self) -> None:
        metal = [acquire("web", source="metal") for _ in range(3)]
        plan = a_plan([*metal, acquire("web", source="ec2")])

        answer = admitted(plan, Restrictions(room=2))

        assert ran(answer) == names(0, 1, 3)
        assert [(each.disposition, each.reason) for each in answer.held] == [
            (Disposition.DROPPED, "queue_full")
        ]
        assert not answer.again

    def test_each_kind_has_a_share_of_the_room_however_many_there_are_of_another(self) -> None:
        doings = [*[acquire("web")] * 20, *[preempt("web", "batch")] * 20, *[reclaim("web")] * 20]

        answer = admitted(a_plan(doings, {"web": 400}), Restrictions(room=8))

        kinds = [order.action.kind for order in answer.orders]
        assert kinds.count(ActionKind.BOOTSTRAP) == 4
        assert kinds.count(ActionKind.PREEMPT) == 2
        assert kinds.count(ActionKind.RECLAIM) == 2

    def test_as_many_as_there_is_room_for_all_run(self) -> None:
        assert len(ran(admitted(a_plan([acquire("web")] * 2), Restrictions(room=2)))) == 2

    def test_what_is_held_for_something_else_takes_no_place(self) -> None:
        plan = a_plan([acquire("batch"), acquire("batch"), acquire("web")])
        paused = Restrictions(room=1, clusters={BATCH: Stance.PAUSE})

        assert ran(admitted(plan, paused)) == names(2)
