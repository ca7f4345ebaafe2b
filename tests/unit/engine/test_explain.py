"""Why a need, a machine or a cluster stands as it does, on fleets to be reckoned by hand."""

import dataclasses
from collections.abc import Callable, Iterable

import numpy as np
import pytest

from builders import a_machine, a_need, a_need_profile, a_profile, an_assignment
from mainstay.engine import relax, trial
from mainstay.engine.again import Recoder
from mainstay.engine.certificate import (
    LISTED_MAX,
    Change,
    Drop,
    Fewer,
    Filter,
    Group,
    HigherPriority,
    Holder,
    How,
    Miss,
    MoreQuota,
    NeedCertificate,
    Relaxation,
    SmallerUnit,
    SoftSpread,
    Wait,
    Widen,
)
from mainstay.engine.decide import decide
from mainstay.engine.doings import DRAINS, doings
from mainstay.engine.explain import (
    Neighbours,
    Standing,
    examine_need,
    explain_cluster,
    explain_machine,
    explain_need,
)
from mainstay.engine.lookup import topic_of
from mainstay.engine.normalize import normalize
from mainstay.engine.plan import Demand, Memory, Plan, Unmet, Unsatisfied
from mainstay.engine.policy import Policy
from mainstay.engine.preempt import preempt
from mainstay.engine.quota import NO_QUOTA, REGION_KEY, Quota
from mainstay.engine.resume import claim_again
from mainstay.engine.trace import claim
from mainstay.inventory.inventory import Inventory
from mainstay.model.action import ActionKind
from mainstay.model.assignment import NeedRef
from mainstay.model.errors import Rejected, UnknownMachine
from mainstay.model.ids import ClusterId, Fingerprint, MachineId
from mainstay.model.machine import Machine
from mainstay.model.need import Need, Operator, Requirement, Spread, WhenUnsatisfiable
from mainstay.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY, CapacityType
from mainstay.model.state import State

NOW = 1_000.0
WEB, BATCH = ClusterId("web"), ClusterId("batch")
CORES_8 = {"cpu": 8000}

IN_ZONE_A = Requirement(ZONE_KEY, Operator.IN, ("zone-a",))
SAME_ZONE = Requirement(ZONE_KEY, Operator.SAME)


def planned(
    machines: Iterable[Machine],
    *needs: Need,
    heard: Iterable[ClusterId] = (WEB, BATCH),
    ages: dict[NeedRef, int] | None = None,
    quota: Quota = NO_QUOTA,
) -> Plan:
    inventory = Inventory()
    for machine in machines:
        inventory.add(machine, now=NOW, source="metal")
    ordered = sorted(needs, key=lambda n: -n.profile.priority)
    demand = Demand(tuple(ordered), frozenset(heard), quota)
    return decide(inventory.snapshot(), demand, Memory(ages or {}, {}), Policy(), NOW)


def some(count: int, state: State = State.IDLE, name: str = "m", **profile: str) -> list[Machine]:
    """Machines of eight cores at a dollar each."""
    made = a_profile(**profile)  # type: ignore[arg-type]
    return [
        a_machine(state, id=f"{name}-{number}", profile=made, price_per_hour=1.0)
        for number in range(1, count + 1)
    ]


def wanting(cores: int, *requirements: Requirement, priority: int = 100, group: str = "") -> Need:
    """That many cores in pieces of eight, for cluster `web`."""
    profile = a_need_profile(requirements=requirements, priority=priority)
    total = {"cpu": cores * 1000}
    return a_need(cluster=WEB, profile=profile, aggregate=total, min_unit=CORES_8, group=group)


def left(certificate: NeedCertificate) -> list[tuple[str, int]]:
    return [(step.filter.value, step.left) for step in certificate.funnel]


def blocker(certificate: NeedCertificate) -> Filter:
    assert certificate.blocking is not None
    return certificate.funnel[certificate.blocking].filter


def changes(certificate: NeedCertificate) -> list[object]:
    return [relaxation.change for relaxation in certificate.relaxations]


class TestServing:
    def test_of_a_satisfied_need_only_what_serves_it_is_told(self) -> None:
        plan = planned(some(1) + some(2, State.CONFIGURED, "c"), wanting(24))

        certificate = explain_need(plan, 0)

        assert certificate.verdict is None
        assert certificate.serving == {
            How.CONFIGURED: Group(2, (MachineId("c-1"), MachineId("c-2"))),
            How.BOOTSTRAP: Group(1, (MachineId("m-1"),)),
        }
        assert (certificate.funnel, certificate.relaxations, certificate.nearest) == ((), (), None)

    def test_a_need_that_waits_for_drains_is_admitted_and_says_whom_it_takes(self) -> None:
        [machine] = some(1, State.CONFIGURED)
        plan = planned([dataclasses.replace(machine, cluster=BATCH)], wanting(8))

        certificate = explain_need(plan, 0)

        assert certificate.verdict is not None
        assert certificate.missing == {}
        assert certificate.serving == {How.RECLAIM: Group(1, (MachineId("m-1"),))}
        assert certificate.relaxations == ()

    def test_a_machine_that_another_need_preempts_is_lost(self) -> None:
        low = a_need(
            cluster=BATCH, profile=a_need_profile(priority=1), aggregate=CORES_8, min_unit={}
        )
        [machine] = some(1, State.CONFIGURED)
        plan = planned([dataclasses.replace(machine, cluster=BATCH)], wanting(8), low)

        high, robbed = explain_need(plan, 0), explain_need(plan, 1)

        assert high.serving == {How.PREEMPT: Group(1, (MachineId("m-1"),))}
        assert robbed.serving == {How.LOST: Group(1, (MachineId("m-1"),))}

    def test_of_many_machines_the_first_by_id_are_named(self) -> None:
        plan = planned(some(30), wanting(240))

        group = explain_need(plan, 0).serving[How.BOOTSTRAP]

        assert group.count == 30
        assert list(group.ids) == sorted(f"m-{n}" for n in range(1, 31))[:LISTED_MAX]

    def test_a_gang_that_waits_for_drains_sets_aside_what_is_free(self) -> None:
        [taken] = some(1, State.CONFIGURED, "c")
        machines = [*some(1), dataclasses.replace(taken, cluster=BATCH)]

        certificate = explain_need(planned(machines, wanting(16, SAME_ZONE, group="g")), 0)

        assert certificate.missing == {}
        assert certificate.serving == {
            How.ASIDE: Group(1, (MachineId("m-1"),)),
            How.RECLAIM: Group(1, (MachineId("c-1"),)),
        }

    def test_of_two_rows_of_one_name_the_one_that_misses_something_is_explained(self) -> None:
        plan = planned(some(1), wanting(8), wanting(16))

        assert explain_need(plan, wanting(8).ref).place == 1

    def test_a_plan_whose_actions_have_no_columns_is_explained_alike(self) -> None:
        rival = dataclasses.replace(wanting(16, priority=500), cluster=BATCH)
        plan = planned(some(1) + some(3, State.CONFIGURED, "c"), wanting(32), rival)
        plain = dataclasses.replace(plan, actions=tuple(plan.actions))

        assert len(plan.actions) > 1
        for place in range(2):
            assert explain_need(plain, place) == explain_need(plan, place)
        assert explain_cluster(plain, WEB) == explain_cluster(plan, WEB)


class TestFunnel:
    def test_it_names_the_requirement_that_leaves_too_little(self) -> None:
        typed = Requirement(INSTANCE_TYPE_KEY, Operator.IN, ("m5.2xlarge",))
        machines = some(3, zone="zone-b") + some(2, name="g", instance_type="g5", zone="zone-a")
        plan = planned(machines, wanting(8, typed, IN_ZONE_A))

        certificate = explain_need(plan, 0)

        assert left(certificate) == [
            ("fleet", 5), ("serving", 5), ("requirement", 3), ("requirement", 0), ("min unit", 0),
            ("adds", 0), ("state", 0), ("claimed", 0), ("quota", 0),
        ]  # fmt: skip
        assert certificate.blocking == certificate.emptied == 3
        assert [step.lifted for step in certificate.funnel[2:4]] == [2, 3]
        assert certificate.funnel[2].capacity == {"cpu": 24_000}

    def test_what_serves_the_need_already_is_no_candidate(self) -> None:
        certificate = explain_need(planned(some(2, State.CONFIGURED), wanting(24)), 0)

        assert left(certificate)[:2] == [("fleet", 2), ("serving", 0)]
        assert blocker(certificate) is Filter.SERVING
        assert certificate.missing == {"cpu": 8000}

    def test_who_holds_what_it_could_use_is_told_with_priority(self) -> None:
        rival = dataclasses.replace(wanting(16, priority=500), cluster=BATCH)
        plan = planned(some(2), wanting(8), rival)

        certificate = explain_need(plan, wanting(8).ref)

        assert blocker(certificate) is Filter.CLAIMED
        assert certificate.holders == (Holder(rival.ref, 500, 2),)

    def test_a_machine_of_a_silent_cluster_is_held_by_nobody(self) -> None:
        held = [
            dataclasses.replace(m, cluster=BATCH, assignment=an_assignment(priority=100))
            for m in some(1, State.CONFIGURED)
        ]

        certificate = explain_need(planned(held, wanting(8), heard=[WEB]), 0)

        assert certificate.holders == (Holder(None, 100, 1),)

    def test_a_gang_is_blocked_by_its_domain(self) -> None:
        machines = some(2, name="a", zone="zone-a") + some(2, name="b", zone="zone-b")

        certificate = explain_need(planned(machines, wanting(24, SAME_ZONE, group="g")), 0)

        assert certificate.domain == ("zone-a",)
        assert blocker(certificate) is Filter.DOMAIN
        assert [step for step in left(certificate) if step[0] != "parked"][-5:] == [
            ("domain", 2), ("state", 2), ("claimed", 2), ("quota", 2), ("whole", 0),
        ]  # fmt: skip

    def test_of_folded_gangs_whole_ones_count(self) -> None:
        machines = [
            dataclasses.replace(m, profile=a_profile(resources={"cpu": "12"})) for m in some(2)
        ]
        gangs = [wanting(8, SAME_ZONE, group=f"g-{n}") for n in range(3)]

        certificate = explain_need(planned(machines, *gangs), gangs[1].ref)

        assert certificate.gangs == tuple(gang.ref for gang in gangs)
        assert certificate.missing == {"cpu": 8000}
        assert changes(certificate) == [Fewer(2, 3, 3)]

    def test_the_nearest_miss_says_what_it_fails_and_by_how_much(self) -> None:
        small = a_machine(
            id="s-1", profile=a_profile(zone="zone-a", resources={"cpu": "6"}), price_per_hour=1.0
        )
        machines = [small, *some(1, State.FAILED, "f", zone="zone-b")]

        nearest = explain_need(planned(machines, wanting(8, IN_ZONE_A)), 0).nearest

        assert nearest is not None
        assert nearest.machine == "s-1"
        assert nearest.misses == (Miss(3, (), {"cpu": 2000}, None, None),)

    def test_among_equals_the_nearest_miss_gets_furthest_then_has_the_smallest_id(self) -> None:
        machines = some(2, State.FAILED, "f", zone="zone-a") + some(1, name="a", zone="zone-b")

        nearest = explain_need(planned(machines, wanting(8, IN_ZONE_A)), 0).nearest

        assert nearest is not None
        assert (nearest.machine, nearest.misses[0].has) == ("f-1", ("Failed",))


class TestRelaxations:
    def test_another_zone_is_named_with_what_it_would_cost(self) -> None:
        machines = some(2, name="b", zone="zone-b") + some(1, name="c", zone="zone-c")

        certificate = explain_need(planned(machines, wanting(16, IN_ZONE_A)), 0)

        smallest = certificate.smallest
        assert smallest is not None
        wider = Requirement(ZONE_KEY, Operator.IN, ("zone-a", "zone-b"))
        assert smallest.change == Widen(IN_ZONE_A, wider)
        assert smallest.acquired == Group(2, (MachineId("b-1"), MachineId("b-2")))
        assert smallest.price_per_hour == 2.0

    def test_several_zones_are_named_when_one_is_not_enough(self) -> None:
        machines = some(2, name="b", zone="zone-b") + some(1, name="c", zone="zone-c")

        certificate = explain_need(planned(machines, wanting(24, IN_ZONE_A)), 0)

        wider = Requirement(ZONE_KEY, Operator.IN, ("zone-a", "zone-b", "zone-c"))
        assert Widen(IN_ZONE_A, wider) in changes(certificate)

    def test_a_gang_is_sent_to_another_zone_as_well(self) -> None:
        need = wanting(16, IN_ZONE_A, SAME_ZONE, group="g")

        certificate = explain_need(planned(some(2, zone="zone-b"), need), 0)

        wider = Requirement(ZONE_KEY, Operator.IN, ("zone-a", "zone-b"))
        assert Widen(IN_ZONE_A, wider) in changes(certificate)

    def test_what_must_not_be_may_be_allowed(self) -> None:
        banned = Requirement(ZONE_KEY, Operator.NOT_IN, ("zone-a", "zone-b"))

        certificate = explain_need(planned(some(1, zone="zone-b"), wanting(8, banned)), 0)

        assert changes(certificate) == [
            Widen(banned, dataclasses.replace(banned, values=("zone-a",)))
        ]

    def test_what_names_no_values_can_only_be_dropped(self) -> None:
        rack = Requirement("rack", Operator.EXISTS)

        certificate = explain_need(planned(some(1), wanting(8, rack)), 0)

        assert changes(certificate) == [Drop(rack)]

    def test_fewer_is_the_largest_number_of_min_units(self) -> None:
        certificate = explain_need(planned(some(5), wanting(64)), 0)

        assert changes(certificate) == [Fewer(5, 8, 6)]

    def test_a_gang_may_be_fewer_too(self) -> None:
        machines = some(3, name="a", zone="zone-a") + some(2, name="b", zone="zone-b")

        certificate = explain_need(planned(machines, wanting(40, SAME_ZONE, group="g")), 0)

        assert changes(certificate) == [Fewer(3, 5, 4), Drop(SAME_ZONE)]

    def test_a_smaller_unit_is_the_largest_that_does(self) -> None:
        sizes = {"a": "7", "b": "6", "c": "1"}
        machines = [
            a_machine(id=name, profile=a_profile(resources={"cpu": cores}))
            for name, cores in sizes.items()
        ]

        certificate = explain_need(planned(machines, wanting(12)), 0)

        assert changes(certificate) == [SmallerUnit({"cpu": 6000})]

    def test_the_priority_named_is_just_above_enough_of_the_holders(self) -> None:
        rivals = [
            dataclasses.replace(wanting(8, priority=p), cluster=BATCH) for p in (200, 300, 400)
        ]

        certificate = explain_need(planned(some(3), wanting(16), *rivals), wanting(16).ref)

        [relaxation] = certificate.relaxations
        assert relaxation.change == HigherPriority(301, 201)
        assert relaxation.displaced == tuple(
            sorted((r.ref for r in rivals[:2]), key=lambda ref: ref.fingerprint)
        )

    def test_a_spread_may_be_preferred_only(self) -> None:
        hard = Spread(ZONE_KEY, 1, WhenUnsatisfiable.DO_NOT_SCHEDULE)
        profile = a_need_profile(spread=(hard,))
        need = a_need(profile=profile, aggregate={"cpu": 40_000}, min_unit=CORES_8)
        machines = some(4, name="a", zone="zone-a") + some(1, name="b", zone="zone-b")

        certificate = explain_need(planned(machines, need), 0)

        assert blocker(certificate) is Filter.SPREAD
        assert changes(certificate)[0] == SoftSpread()

    def test_a_parked_gang_needs_only_to_try_again(self) -> None:
        need = wanting(16, SAME_ZONE, group="g")

        certificate = explain_need(planned(some(2), need, ages={need.ref: 9}), 0)

        assert Filter.PARKED in {step.filter for step in certificate.funnel}
        assert certificate.smallest is not None
        assert certificate.smallest.change == Wait()
        assert certificate.smallest.acquired.count == 2

    def test_what_counting_can_tell_is_not_decided(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def never(*_: object) -> None:
            pytest.fail("a decision was made")

        plan = planned(some(3), wanting(80, SAME_ZONE, group="g"))
        monkeypatch.setattr(trial, "claim_again", never)

        assert trial.Ground(topic_of(plan, 0)).attempt(HigherPriority(500, 100)) is None

    def test_none_are_looked_for_when_not_asked(self) -> None:
        certificate = explain_need(planned(some(5), wanting(64)), 0, relax=False)

        assert certificate.relaxations == ()
        assert certificate.funnel != ()

    def test_the_number_of_decisions_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        tried: list[Change] = []
        attempt = trial.Ground.attempt

        def counted(ground: trial.Ground, change: Change) -> Relaxation | None:
            tried.append(change)
            return attempt(ground, change)

        monkeypatch.setattr(trial.Ground, "attempt", counted)
        asked = [Requirement(f"label-{n}", Operator.IN, ("y",)) for n in range(12)]
        labels = [{f"label-{n}": "y" for n in range(12)} | {f"label-{k}": "z"} for k in range(12)]
        machines = [
            a_machine(id=f"m-{k}", profile=a_profile(labels=given))
            for k, given in enumerate(labels)
        ]
        need = a_need(
            profile=a_need_profile(requirements=tuple(asked)),
            aggregate={"cpu": 2**53 - 1},
            min_unit={"cpu": 1},
        )

        explain_need(planned(machines, need), 0)

        assert 0 < len(tried) <= relax.DECISIONS_MAX


def in_vain() -> Plan:
    """One need with two requirements, each of which keeps a machine away; nothing helps."""
    machines = [*some(1, name="b", zone="zone-b"), *some(1, name="o", instance_type="other")]
    of_type = Requirement(INSTANCE_TYPE_KEY, Operator.NOT_IN, ("other",))
    return planned(machines, wanting(80, IN_ZONE_A, of_type))


def after(asks: int) -> Callable[[], bool]:
    """It is enough when it was asked for so many times."""
    left = iter(range(asks))
    return lambda: next(left, None) is None


class TestPatience:
    """Changes are tried until it is enough, whether or not one has helped."""

    def test_all_are_tried_where_nobody_is_in_a_hurry(self) -> None:
        told = examine_need(in_vain(), 0)

        assert (told.certificate.relaxations, told.tried, told.left_out) == ((), 3, 0)

    def test_it_ends_where_nothing_helps_and_one_change_is_always_tried(self) -> None:
        told = examine_need(in_vain(), 0, enough=lambda: True)

        assert (told.certificate.relaxations, told.tried, told.left_out) == ((), 1, 2)

    def test_what_was_found_by_then_holds_and_nothing_untried_is_called_refused(self) -> None:
        machines = [
            *(
                an_idle
                for zone in ("zone-a", "zone-b")
                for an_idle in some(4, name=zone, zone=zone)
            ),
            *(
                dataclasses.replace(
                    machine,
                    cluster=BATCH,
                    assignment=an_assignment(cluster=BATCH, priority=200 + 10 * at),
                )
                for at, machine in enumerate(some(6, State.CONFIGURED, "c"))
            ),
        ]
        holders = [
            dataclasses.replace(wanting(8, IN_ZONE_A, priority=200 + 10 * at), cluster=BATCH)
            for at in range(6)
        ]
        plan = planned(machines, *holders, wanting(64, IN_ZONE_A, priority=1))
        place = len(holders)
        whole = examine_need(plan, place)
        ground = trial.Ground(topic_of(plan, place))
        cut = 0
        for asks in range(1, 20):
            told = examine_need(plan, place, enough=after(asks))
            cut += told.left_out > 0
            assert told.tried <= whole.tried
            for change in changes(told.certificate):
                if isinstance(change, Fewer):
                    refused: Change = Fewer(change.refused, change.of, change.of)
                elif isinstance(change, HigherPriority):
                    refused = HigherPriority(change.refused, change.refused - 1)
                else:
                    continue
                at_most = isinstance(change, Fewer) and change.refused == change.of
                assert at_most or ground.attempt(refused) is None, asks
        assert {type(change) for change in changes(whole.certificate)} >= {Fewer, HigherPriority}
        assert 1 < cut < 19


class TestSearch:
    def test_a_good_guess_is_proved_in_two_tries(self) -> None:
        tried: list[int] = []

        def is_admitted(number: int) -> bool:
            tried.append(number)
            return number <= 700

        assert relax.largest(2**50, 700, is_admitted, 12) == (700, 701)
        assert tried == [700, 701]

    def test_when_tries_run_out_both_answers_still_hold(self) -> None:
        admitted, refused = relax.largest(2**50, 5, lambda number: number <= 700, 12)

        assert 0 < admitted <= 700 < refused

    def test_a_number_that_was_not_tried_is_not_called_refused(self) -> None:
        def said(number: int) -> bool | None:
            return True if number == 5 else None

        assert relax.largest(8, 5, said, 12) == (5, 8)

    def test_where_nothing_is_admitted_none_is_named(self) -> None:
        assert relax.largest(8, 3, lambda _: False, 12) == (0, 1)


def refused_by_quota(quota: Quota, state: State = State.IDLE, region: str = "r") -> Plan:
    """A plan that leaves two machines alone and says that the quota is why."""
    machines = [
        dataclasses.replace(m, profile=a_profile(labels={REGION_KEY: region}))
        for m in some(2, state)
    ]
    need = wanting(16)
    plan = planned(machines, need, quota=quota)
    told = Unsatisfied(
        need, {"cpu": 16_000}, None, False, False, {"cpu": 16_000}, Unmet.QUOTA
    )  # fmt: skip
    nobody = np.full_like(plan.owner, -1)
    return dataclasses.replace(plan, actions=(), unsatisfied=(told,), owner=nobody)


class TestQuota:
    def test_a_cluster_that_may_hold_nothing_more_is_blocked_by_its_quota(self) -> None:
        certificate = explain_need(refused_by_quota(Quota({WEB: 0}, {})), 0)

        assert certificate.verdict is Unmet.QUOTA
        assert blocker(certificate) is Filter.QUOTA
        assert certificate.funnel[-1].lifted == 2
        assert MoreQuota(2, {}) in changes(certificate)

    def test_room_for_one_is_not_room_for_two(self) -> None:
        certificate = explain_need(refused_by_quota(Quota({WEB: 1}, {})), 0)

        assert left(certificate)[-1] == ("quota", 2)
        assert certificate.funnel[-1].capacity == {"cpu": 8000}
        assert blocker(certificate) is Filter.QUOTA

    def test_slots_of_a_region_are_limited_by_themselves(self) -> None:
        place = ("metal", "r")

        certificate = explain_need(refused_by_quota(Quota({}, {place: 1}), State.SPECULATIVE), 0)

        assert certificate.funnel[-1].capacity == {"cpu": 8000}
        assert MoreQuota(0, {place: 1}) in changes(certificate)

    def test_slots_of_another_region_are_free(self) -> None:
        quota = Quota({}, {("metal", "r"): 0})

        certificate = explain_need(refused_by_quota(quota, State.SPECULATIVE, "else"), 0)

        assert left(certificate)[-1] == ("quota", 2)


class TestNames:
    def test_a_place_that_is_none_is_refused(self) -> None:
        with pytest.raises(Rejected, match="no need at place 1"):
            explain_need(planned([], wanting(8)), 1)

    def test_a_need_that_nobody_asked_for_is_refused(self) -> None:
        with pytest.raises(Rejected, match="no need web/f00 in the plan"):
            explain_need(planned([], wanting(8)), NeedRef(WEB, Fingerprint("f00")))

    def test_a_machine_that_is_not_there_is_refused(self) -> None:
        with pytest.raises(UnknownMachine, match="no machine m-9 in the snapshot"):
            explain_machine(planned(some(3)), MachineId("m-9"))

    def test_a_cluster_that_is_unknown_is_refused(self) -> None:
        with pytest.raises(Rejected, match="no cluster nobody in the plan"):
            explain_cluster(planned(some(1)), ClusterId("nobody"))


def standing(plan: Plan, machine: str) -> Standing:
    return explain_machine(plan, MachineId(machine)).standing


class TestMachine:
    def test_it_says_why_a_machine_is_touched_or_not(self) -> None:
        metal = a_profile(capacity_type=CapacityType.BARE_METAL, zone="zone-c")
        plan = planned(
            [
                *some(2, State.CONFIGURED, "c"),
                *some(1, State.SPECULATIVE, "s"),
                *some(1, State.CREATING, "n"),
                *some(1, State.FAILED, "f"),
                *some(1, name="i"),
                a_machine(id="k-1", profile=metal),
                dataclasses.replace(some(1, State.CONFIGURED, "q")[0], cluster=ClusterId("quiet")),
            ],
            wanting(8),
        )

        expected = {
            "c-1": Standing.SERVES, "c-2": Standing.EXCESS, "s-1": Standing.SLOT,
            "n-1": Standing.IN_FLIGHT, "f-1": Standing.FAILED, "i-1": Standing.HELD,
            "k-1": Standing.KEPT, "q-1": Standing.SILENT,
        }  # fmt: skip
        assert {machine: standing(plan, machine) for machine in expected} == expected

    def test_what_is_taken_says_for_whom(self) -> None:
        plan = planned(some(1), wanting(8))

        told = explain_machine(plan, MachineId("m-1"))

        assert told.standing is Standing.ACQUIRED
        assert told.claimed_by == wanting(8).ref
        assert told.action is not None
        assert (told.action.kind, told.hold_until) == (ActionKind.BOOTSTRAP, None)

    def test_an_idle_machine_says_when_it_may_go(self) -> None:
        told = explain_machine(planned(some(1)), MachineId("m-1"))

        assert told.hold_until == NOW + Policy().hold_on_demand_s

    def test_a_serving_machine_says_what_priority_takes_it(self) -> None:
        [machine] = some(1, State.CONFIGURED)
        assigned = dataclasses.replace(machine, assignment=an_assignment(priority=700))

        assert explain_machine(planned([assigned], wanting(8)), machine.id).priority == 700
        assert explain_machine(planned([machine], wanting(8)), machine.id).priority == 100

    def test_it_names_its_neighbours_in_keep_order(self) -> None:
        prices = {"x": 3.0, "y": 1.0, "z": 2.0}
        machines = [
            a_machine(State.CONFIGURED, id=name, price_per_hour=price)
            for name, price in prices.items()
        ]
        plan = planned(machines)

        assert explain_machine(plan, MachineId("y")).neighbours == Neighbours(
            0, 3, None, MachineId("z")
        )
        assert explain_machine(plan, MachineId("z")).neighbours == Neighbours(
            1, 3, MachineId("y"), MachineId("x")
        )
        assert explain_machine(plan, MachineId("x")).neighbours == Neighbours(
            2, 3, MachineId("z"), None
        )

    def test_of_equal_price_the_one_worth_more_to_its_workload_is_kept(self) -> None:
        machines = [
            dataclasses.replace(m, assignment=an_assignment(reclamation_penalty_dollars=dollars))
            for m, dollars in zip(some(2, State.CONFIGURED), (0.5, 8.0), strict=True)
        ]

        told = explain_machine(planned(machines), MachineId("m-1"))

        assert told.neighbours == Neighbours(1, 2, MachineId("m-2"), None)


class TestCluster:
    def test_what_is_drained_counts_where_it_is(self) -> None:
        machines = [dataclasses.replace(m, cluster=BATCH) for m in some(2, State.CONFIGURED)]
        plan = planned(machines, wanting(8))

        assert explain_cluster(plan, BATCH).actions == {ActionKind.RECLAIM: 2}
        assert explain_cluster(plan, WEB).actions == {}
        assert explain_cluster(plan, WEB).quota.planned == 1

    def test_it_counts_needs_machines_actions_and_quota(self) -> None:
        creating = dataclasses.replace(
            some(1, State.CREATING, "n")[0],
            assignment=an_assignment(
                priority=None, interruption_penalty_dollars=None, reclamation_penalty_dollars=None
            ),
        )
        machines = [*some(2, State.CONFIGURED, "c"), *some(1), creating]
        plan = planned(
            machines, wanting(24), wanting(8, IN_ZONE_A, priority=1), quota=Quota({WEB: 9}, {})
        )

        told = explain_cluster(plan, WEB)

        assert told.heard
        assert sum(told.needs.values()) == 2
        assert told.needs[None] == 1
        assert told.machines == {State.CONFIGURED: 2, State.CREATING: 1}
        assert told.actions == {ActionKind.BOOTSTRAP: 1}
        assert (told.quota.now, told.quota.planned, told.quota.held) == (3, 4, 9)
        assert told.quota.room == 5


class TestAbove:
    """What is claimed above a need is not claimed again for every change that is tried."""

    def same(self, plan: Plan, place: int) -> bool:
        assert plan.trace is not None
        stage, walk = trial.stage_of(plan), plan.walk
        origin = np.arange(len(walk.asked.needs))
        origin[walk.need[place]] = -1
        coverage = claim_again(stage, walk, walk.is_gang & False, plan.trace, origin)
        takings = preempt(stage, coverage, plan.demand.heard)
        told = sorted(
            pair
            for taken in (takings.victims, takings.excess)
            for pair in zip(taken.rows.tolist(), taken.places.tolist(), strict=True)
        )
        found = doings(plan)
        meant = found.are(DRAINS) & (found.place >= 0)
        drained = sorted(zip(found.row[meant].tolist(), found.place[meant].tolist(), strict=True))
        return stage.owner.tolist() == plan.owner.tolist() and told == drained

    def test_what_a_whole_gang_above_has_left_over_is_open(self) -> None:
        gang = wanting(16, SAME_ZONE, priority=500, group="g")
        held = an_assignment(
            cluster=WEB, fingerprint=gang.profile.fingerprint, group="g", priority=500
        )
        machines = [
            dataclasses.replace(machine, cluster=WEB, assignment=held)
            for machine in some(3, State.CONFIGURED, "c")
        ]
        plan = planned(machines, gang, wanting(24))

        assert np.count_nonzero(plan.owner == 1) == 1
        assert self.same(plan, 1)

    def test_a_gang_above_that_waits_for_drains_still_takes_them(self) -> None:
        held = some(2, State.CONFIGURED, "c")
        machines = [*some(1), *(dataclasses.replace(each, cluster=BATCH) for each in held)]
        gang = wanting(16, SAME_ZONE, priority=500, group="g")
        plan = planned(machines, gang, wanting(16))

        assert np.count_nonzero(doings(plan).place == 0) == 2
        assert self.same(plan, 1)

    def test_of_a_pool_that_is_as_empty_it_counts_who_emptied_it(self) -> None:
        """What another took above is not in the pool either way, but of whose quota it went."""
        in_zone_b = Requirement(ZONE_KEY, Operator.IN, ("zone-b",))
        first, second = wanting(8, IN_ZONE_A), wanting(8, IN_ZONE_A)
        second = dataclasses.replace(second, cluster=BATCH, arrival_nanos=first.arrival_nanos + 1)
        third = dataclasses.replace(wanting(8, in_zone_b, priority=1), cluster=BATCH)
        machines = [*some(1, name="a", zone="zone-a"), *some(1, name="b", zone="zone-b")]
        quota = Quota({WEB: 1, BATCH: 1}, {})
        plan = planned(machines, first, second, third, quota=quota)
        assert plan.trace is not None
        assert plan.owner[:2].tolist() == [0, 2]

        nowhere = Requirement(ZONE_KEY, Operator.IN, ("zone-c",))
        profile = dataclasses.replace(first.profile, requirements=(nowhere,))
        found = []
        for resumed in (True, False):
            stage = trial.stage_of(plan)
            recoder = Recoder(plan.walk.asked)
            asked, origin = recoder.changed([0], [dataclasses.replace(first, profile=profile)])
            stage.begin(asked)
            walk = normalize(stage, plan.walk)
            parked = walk.is_gang & False
            if resumed:
                claim_again(stage, walk, parked, plan.trace, origin, quota=quota)
            else:
                claim(stage, walk, parked, quota)
            found.append(stage.owner.tolist()[:2])

        assert found == [[1, -1], [1, -1]]
