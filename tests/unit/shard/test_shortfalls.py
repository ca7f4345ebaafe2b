"""What is missing, for how long, and why: bounded, per kind of need."""

from dataclasses import replace
from typing import Final

import pytest

from builders import a_machine, a_need, a_need_profile
from mainstay.engine.decide import SHORTFALLS_MAX, decide
from mainstay.engine.plan import Demand, Memory, Plan, Unmet
from mainstay.engine.policy import Policy
from mainstay.inventory.inventory import Inventory
from mainstay.model.ids import ClusterId, Fingerprint
from mainstay.model.need import Need
from mainstay.model.state import State
from mainstay.shard.shortfalls import CLUSTERS_TOLD_MAX, Band, band_of, by_band, rows

GPU: Final = a_need_profile(priority=50, interruption_penalty_bucket=3)


def gpus(count: int, cluster: str = "web", group: str = "") -> Need:
    return a_need(
        cluster=cluster, profile=GPU, aggregate={"gpu": count}, min_unit={"gpu": 1}, group=group
    )


def decided(*needs: Need, memory: Memory | None = None) -> Plan:
    ordered = tuple(sorted(needs, key=lambda need: -need.profile.priority))
    demand = Demand(ordered, frozenset())
    return decide(Inventory().snapshot(), demand, memory or Memory.empty(), Policy(), 0.0)


@pytest.mark.parametrize(
    ("age", "band"),
    [(1, "1-9"), (9, "1-9"), (10, "10-59"), (59, "10-59"), (60, "60-299"), (299, "60-299"),
     (300, "300+"), (10**6, "300+")],
)  # fmt: skip
def test_the_bands_of_age_meet_without_a_gap(age: int, band: str) -> None:
    assert band_of(age) == band


def test_s68_needs_of_one_kind_are_one_row_that_ages_once_a_cycle() -> None:
    plain = a_need(profile=a_need_profile(priority=1), aggregate={"cpu": 1})
    first = decided(gpus(8, group="a"), gpus(16, group="b"), plain)
    second = decided(gpus(8, group="a"), gpus(16, group="b"), plain, memory=first.memory)
    third = decided(gpus(16, group="b"), plain, memory=second.memory)
    fourth = decided(memory=third.memory)

    assert [(dict(row.deficit), row.age_cycles) for row in rows(first)] == [
        ({"gpu": 24}, 1), ({"cpu": 1}, 1),
    ]  # fmt: skip
    assert [row.age_cycles for row in rows(second)] == [2, 2]
    assert (dict(rows(third)[0].deficit), rows(third)[0].age_cycles) == ({"gpu": 16}, 3)
    assert rows(fourth) == ()


def test_s68_the_report_has_a_hundred_rows_the_most_important_first() -> None:
    needs = [
        a_need(profile=a_need_profile(priority=number), aggregate={"cpu": 1})
        for number in range(150)
    ]

    plan = decided(*needs)

    found = rows(plan)
    assert len(found) == SHORTFALLS_MAX == 100
    assert [row.priority for row in found] == list(range(149, 49, -1))
    assert sum(by_band(plan).values()) == 150


def test_a_row_says_what_a_machine_must_be_and_who_asks_for_it() -> None:
    plan = decided(gpus(1, "web"), gpus(2, "batch"), gpus(3, "web", group="g"))

    (row,) = rows(plan)
    assert row.profile == GPU
    assert row.fingerprint == GPU.fingerprint
    assert row.profile.interruption_penalty_bucket == 3
    assert (row.needs, row.clusters, row.clusters_in_all) == (3, ("batch", "web"), 2)
    assert row.band is Band.NEW


def test_of_many_clusters_the_first_are_named_and_all_are_counted() -> None:
    many = [gpus(1, f"c-{number:02}") for number in range(CLUSTERS_TOLD_MAX + 2)]

    (row,) = rows(decided(*many))

    assert row.clusters == tuple(f"c-{number:02}" for number in range(CLUSTERS_TOLD_MAX))
    assert row.clusters_in_all == CLUSTERS_TOLD_MAX + 2


def test_a_row_says_why_in_the_order_in_which_reasons_are_asked_for() -> None:
    plan = decided(gpus(1, "a"), gpus(2, "b"), gpus(3, "c"))
    short = [
        replace(each, reason=reason)
        for each, reason in zip(
            plan.unsatisfied, (Unmet.STARVED, Unmet.QUOTA, Unmet.STARVED), strict=True
        )
    ]

    (row,) = rows(replace(plan, unsatisfied=tuple(short)))

    assert list(row.reasons.items()) == [(Unmet.QUOTA, 1), (Unmet.STARVED, 2)]


def test_what_the_plan_drains_machines_for_is_no_shortfall() -> None:
    """It waits, and misses nothing once they are there."""
    inventory = Inventory()
    inventory.add(a_machine(State.CONFIGURED, cluster="batch"), now=0.0)
    need = a_need(cluster="web", profile=a_need_profile(priority=900), aggregate={"cpu": 1000})
    low = a_need(cluster="batch", profile=a_need_profile(priority=1), aggregate={"cpu": 1000})
    demand = Demand((need, low), frozenset({ClusterId("batch")}))
    plan = decide(inventory.snapshot(), demand, Memory.empty(), Policy(), 0.0)

    assert [each.reason for each in plan.unsatisfied] == [Unmet.WAITING]
    assert rows(plan) == ()


def test_a_need_that_only_waits_is_not_counted_with_those_of_its_kind() -> None:
    plan = decided(gpus(1, "a"), gpus(2, "b"))
    waiting = replace(plan.unsatisfied[0], unresolved={}, reason=Unmet.WAITING)

    (row,) = rows(replace(plan, unsatisfied=(waiting, plan.unsatisfied[1])))

    assert (row.needs, row.clusters) == (1, ("b",))


def test_every_band_is_counted_even_when_nothing_is_in_it() -> None:
    plan = replace(
        decided(),
        shortfall_ages={Fingerprint(str(age)): age for age in (1, 9, 10, 60, 61, 62, 300)},
    )

    assert by_band(plan) == {"1-9": 2, "10-59": 1, "60-299": 3, "300+": 1}
    assert by_band(decided()) == dict.fromkeys(Band, 0)
