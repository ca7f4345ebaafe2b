"""What tenants need, as whole machines by kind and priority."""

from itertools import product
from typing import Any, Final

from mainstay.bridge.demand import Standing, needs, reach
from mainstay.model.cost import PINNED
from mainstay.model.ids import ClusterId
from mainstay.model.need import Operator, Requirement
from mainstay.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY
from mainstay.tenancy.wanted import Kind, Waiting, behind

TENANTS: Final = ClusterId("tenants")
EIGHT: Final = Kind(
    name="eight", region="here", instance_types=("big",), sold_as=("slice", "whole"), gpus=8
)
Rows = list[tuple[int, int, int]]


def machine(name: str, priority: int | None = None, **facts: Any) -> Standing:
    given = {"kind": "eight", "price_per_hour": 1.0, **facts}
    return Standing(machine=name, priority=priority, **given)


def waits(gpus: int, priority: int = 0, **facts: Any) -> Waiting:
    return Waiting(**{"sku": "slice", "region": "here", **facts}, gpus=gpus, priority=priority)


def asked(
    standing: list[Standing], waiting: list[Waiting], *, kinds: tuple[Kind, ...] = (EIGHT,)
) -> Rows:
    """(priority, reclamation bucket, machines) of each need."""
    return [
        (
            need.profile.priority,
            need.profile.reclamation_penalty_bucket,
            need.aggregate["nvidia.com/gpu"] // need.min_unit["nvidia.com/gpu"],
        )
        for need in needs(TENANTS, kinds, standing, waiting)
    ]


def test_nobody_and_nothing_need_nothing() -> None:
    assert asked([], []) == []
    assert asked([machine("a")], []) == []


def test_a_need_asks_for_whole_machines_of_the_kind() -> None:
    kind = Kind(
        name="k", region="here", instance_types=("big", "huge"), zones=("z1",), sold_as=("slice",),
        gpus=4, accelerator="gpu",
    )  # fmt: skip
    (need,) = needs(TENANTS, (kind,), [], [waits(1)])

    assert need.cluster == TENANTS
    assert dict(need.min_unit) == dict(need.aggregate) == {"gpu": 4}
    assert need.profile.requirements == (
        Requirement(INSTANCE_TYPE_KEY, Operator.IN, ("big", "huge")),
        Requirement(ZONE_KEY, Operator.IN, ("z1",)),
    )


def test_a_held_machine_is_needed_with_a_pinned_penalty_and_its_holders_priority() -> None:
    assert asked([machine("a", 7), machine("b", 7), machine("c", 3)], []) == [
        (7, PINNED, 2),
        (3, PINNED, 1),
    ]


def test_waiting_slices_share_machines_and_whole_ones_do_not() -> None:
    assert asked([], [waits(4), waits(4), waits(1)]) == [(0, 0, 2)]
    assert asked([], [waits(8, sku="whole", whole=True), waits(1)]) == [(0, 0, 2)]
    assert asked([], [waits(1, sku="whole", whole=True), waits(1)]) == [(0, 0, 2)]


def test_what_is_left_of_a_machine_goes_to_who_is_less_important() -> None:
    assert asked([], [waits(4, 1), waits(4, 9, reclamation_bucket=3)]) == [(9, 3, 1)]
    assert asked([], [waits(6, 1), waits(4, 9)]) == [(9, 0, 1), (1, 0, 1)]


def test_what_no_kind_could_serve_is_not_asked_for() -> None:
    assert asked([], [waits(9), waits(1, sku="other"), waits(1, region="there")]) == []


def test_head_room_is_asked_for_beside_all_else_and_last() -> None:
    kind = Kind(**{name: getattr(EIGHT, name) for name in ("name", "region", "instance_types",
                "sold_as", "gpus")}, head_room=2)  # fmt: skip
    assert asked([machine("a", 5)], [waits(1, 5)], kinds=(kind,)) == [
        (5, PINNED, 1), (5, 0, 1), (0, 0, 2),
    ]  # fmt: skip


def test_no_fewer_are_asked_for_than_reach_to_the_last_held_one() -> None:
    """The shard keeps the first by price, penalty and id."""
    free_before = [machine("a"), machine("b"), machine("c", 5)]
    assert asked(free_before, []) == [(5, PINNED, 1), (0, 0, 2)]
    assert asked([machine("a", 5), machine("b"), machine("c")], []) == [(5, PINNED, 1)]
    assert reach([machine("a", price_per_hour=2.0), machine("b", 1)], 1) == 1
    assert reach([machine("a"), machine("b", 1, reclamation_penalty_dollars=4.0)], 1) == 1
    assert reach([machine("a"), machine("b", 1)], 1) == 2


def test_all_are_kept_while_the_price_of_one_that_is_held_is_not_known() -> None:
    unsaid = machine("z", 5, price_per_hour=None)
    assert asked([machine("a"), machine("b"), unsaid], []) == [(5, PINNED, 1), (0, 0, 2)]


def test_a_free_machine_without_a_price_stops_no_other_from_being_given_back() -> None:
    unsaid = machine("z", price_per_hour=None)
    free = [machine(name) for name in "bcdef"]
    assert asked([machine("a", 5), *free, unsaid], []) == [(5, PINNED, 1), (0, 0, 1)]
    assert asked([*free, unsaid], [waits(8)]) == [(0, 0, 1)]
    assert asked([*free, unsaid], []) == []


def test_all_are_kept_while_those_with_a_price_are_not_enough() -> None:
    unsaid = machine("z", price_per_hour=None)
    assert asked([machine("a"), unsaid], [waits(8), waits(8)]) == [(0, 0, 2)]
    assert reach([machine("a"), machine("b", usable=False), unsaid], 2) == 3


def test_wherever_one_without_a_price_comes_what_is_held_and_wanted_is_kept() -> None:
    sorts = [(5, True), (None, True), (None, False)]
    for priced in product(sorts, repeat=3):
        known = [machine(f"m{at}", held, usable=can) for at, (held, can) in enumerate(priced)]
        for held, can in sorts:
            unsaid = machine("u", held, usable=can, price_per_hour=None)
            for wanted, at in product((1, 2, 3), range(4)):
                order = [*known[:at], unsaid, *known[at:]]
                kept = order[: reach([*known, unsaid], wanted)]
                assert all(one in kept for one in order if one.priority is not None)
                usable = sum(one.usable for one in order)
                assert sum(one.usable for one in kept) >= min(wanted, usable)


def test_a_machine_that_is_no_node_is_asked_for_once_more_when_it_is_missed() -> None:
    dead = machine("a", usable=False)
    assert asked([dead], [waits(8)]) == [(0, 0, 2)]
    assert asked([dead], []) == []


def test_what_comes_in_place_of_a_machine_that_is_no_node_is_not_given_back_for_it() -> None:
    """The shard would keep the first, which is of no use, and drain the second for ever."""
    first, last = machine("a", usable=False), machine("z", usable=False)
    assert asked([first, machine("b")], [waits(8)]) == [(0, 0, 2)]
    assert asked([first, machine("b", 5)], []) == [(5, PINNED, 1), (0, 0, 1)]
    assert asked([machine("b"), last], [waits(8)]) == [(0, 0, 1)]
    assert asked([first, machine("b"), machine("c")], [waits(8)]) == [(0, 0, 2)]
    unsaid = machine("b", price_per_hour=None)
    assert asked([first, unsaid], [waits(8)]) == [(0, 0, 2)]
    assert asked([first, machine("b")], []) == []


def test_priorities_beyond_the_range_are_the_ends_of_it() -> None:
    ((priority, _, _),) = asked([], [waits(1, 2**40)])
    assert priority == 2**31 - 1


def test_a_request_stands_behind_a_need_that_is_asked_for() -> None:
    """Whoever shares a node stands behind the need of the most important one on it."""
    waiting = [
        waits(8, priority=1, request="alone"),
        waits(6, priority=9, request="first", reclamation_bucket=1),
        waits(2, priority=1, request="beside", interruption_bucket=2),
    ]
    asked = {need.profile.fingerprint for need in needs(TENANTS, (EIGHT,), [], waiting)}

    found = {each.request: behind((EIGHT,), waiting, each.request) for each in waiting}

    assert {stands.profile.fingerprint for stands in found.values() if stands} == asked
    assert found["first"] == found["beside"] != found["alone"]
    assert behind((EIGHT,), waiting, "nobody") is None
    assert behind((EIGHT,), [waits(9, request="large")], "large") is None
