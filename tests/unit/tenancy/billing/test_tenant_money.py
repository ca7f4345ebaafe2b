"""What tenants cost and bring in: divided so that it adds up."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from mainstay.model.money_views import MoneyRows
from mainstay.model.profile import CapacityType
from mainstay.model.state import State
from mainstay.model.views import MachineRow, MoneyRow, Stamp
from mainstay.tenancy.billing.charge import Outage, Rate, windows
from mainstay.tenancy.billing.tenant_money import (
    UNCLAIMED,
    WHOLE,
    Cost,
    Paid,
    TenantFacts,
    TenantRow,
    facts_of,
    margin,
    paid_by,
    remarks,
    tenant_rows,
)
from mainstay.tenancy.node_names import node_name

NANO: Final = 10**9
SINCE_S: Final = 1_000_000.0
HOUR_S: Final = 3_600.0
NOW_S: Final = SINCE_S + 2 * HOUR_S


def at(hours: float) -> str:
    """So long after counting began."""
    return datetime.fromtimestamp(SINCE_S + hours * HOUR_S, UTC).isoformat()


def a_node(machine: str, gpus: int = 8, **given: Any) -> dict[str, Any]:
    node = {"id": node_name(machine, 1), "machine": machine, "gpus_total": gpus,
            "status": "active", "created_at": at(-5), "last_seen_at": None,
            "retired_at": None, "outages": []}  # fmt: skip
    return {**node, **given}


def an_own_node(name: str) -> dict[str, Any]:
    """One that was registered by hand."""
    return {**a_node(name), "id": name, "machine": None}


def an_allocation(project: str, machine: str, gpus: int, **given: Any) -> dict[str, Any]:
    held = {
        "project_id": project, "status": "active", "gpus": gpus,
        "node_id": node_name(machine, 1), "price": {"gpu_hour_minor": 250, "currency": "USD"},
        "created_at": at(-1), "active_at": at(-1), "releasing_at": None, "released_at": None,
        "failed_at": None,
    }  # fmt: skip
    return {**held, **given}


def facts(
    nodes: Sequence[Mapping[str, Any]], allocations: Sequence[Mapping[str, Any]],
    costs: Mapping[str, Cost] | None = None, **spending: int,
) -> TenantFacts:  # fmt: skip
    told = {"hosts": 1, "spend_per_hour": 16 * NANO, "spent": 32 * NANO, **spending}
    return TenantFacts(
        spending=MoneyRow(name="tenants", **told),
        costs={"m-1": Cost(16 * NANO, 8 * NANO)} if costs is None else costs,
        nodes=nodes,
        allocations=allocations,
        since_s=SINCE_S,
        now_s=NOW_S,
    )


def by_name(told: TenantFacts) -> dict[str, TenantRow]:
    return {row.name: row for row in tenant_rows(told)}


def test_a_project_costs_its_share_of_the_machine_it_is_on() -> None:
    rows = by_name(facts([a_node("m-1")], [an_allocation("blue", "m-1", 2)]))

    assert (rows["blue"].gpus, rows["blue"].spend_per_hour) == (2, 4 * NANO)
    assert (rows[UNCLAIMED].gpus, rows[UNCLAIMED].spend_per_hour) == (6, 12 * NANO)
    assert (rows[WHOLE].gpus, rows[WHOLE].spend_per_hour) == (8, 16 * NANO)


def test_what_was_spent_is_divided_by_the_gpu_time_held() -> None:
    half_the_time = an_allocation("red", "m-1", 4, created_at=at(1), active_at=at(1))
    rows = by_name(facts([a_node("m-1")], [an_allocation("blue", "m-1", 2), half_the_time]))

    assert (rows["blue"].spent, rows["red"].spent) == (8 * NANO, 8 * NANO)
    assert rows[UNCLAIMED].spent == 16 * NANO


def test_what_is_saved_is_divided_as_what_is_spent() -> None:
    rows = by_name(facts(
        [a_node("m-1")], [an_allocation("blue", "m-1", 2)], saving_per_hour=8 * NANO,
        saving=16 * NANO,
    ))  # fmt: skip

    assert (rows["blue"].saving_per_hour, rows["blue"].saving) == (2 * NANO, 4 * NANO)
    assert (rows[UNCLAIMED].saving_per_hour, rows[UNCLAIMED].saving) == (6 * NANO, 12 * NANO)
    assert (rows[WHOLE].saving_per_hour, rows[WHOLE].saving) == (8 * NANO, 16 * NANO)


def test_what_is_wasted_is_no_projects() -> None:
    """A machine that a project is on is needed."""
    told = facts(
        [a_node("m-1")], [an_allocation("blue", "m-1", 2)], unclaimed_per_hour=NANO,
        unclaimed=2 * NANO,
    )  # fmt: skip
    rows = by_name(told)

    assert (rows["blue"].waste_per_hour, rows["blue"].waste) == (0, 0)
    assert (rows[UNCLAIMED].waste_per_hour, rows[UNCLAIMED].waste) == (NANO, 2 * NANO)
    assert (rows[WHOLE].waste_per_hour, rows[WHOLE].waste) == (NANO, 2 * NANO)
    assert any("all of the waste is at (unclaimed)" in line for line in remarks(told))


@pytest.mark.parametrize(
    ("capacity", "instance_type", "saving"),
    [
        (CapacityType.SPOT, "big", 5 * NANO),
        (CapacityType.BARE_METAL, "big", 5 * NANO),
        (CapacityType.ON_DEMAND, "big", 0),
        (CapacityType.SPOT, "unheard of", 0),
    ],
)
def test_a_machine_saves_what_it_would_cost_more_on_demand(
    capacity: CapacityType, instance_type: str, saving: int
) -> None:
    told = MoneyRows(stamp=Stamp(shard="s"), since_s=SINCE_S, on_demand={"big": 21 * NANO})
    machine = MachineRow(
        id="m-1", state=State.CONFIGURED, instance_type=instance_type, price_per_hour=16.0,
        capacity_type=str(capacity),
    )  # fmt: skip

    assert paid_by(told, "tenants", [machine]).costs == {"m-1": Cost(16 * NANO, saving)}


def test_the_parts_add_up_to_what_the_shard_pays() -> None:
    uneven = [an_allocation(name, "m-1", 1, created_at=at(n / 7)) for n, name in enumerate("abc")]
    rows = tenant_rows(facts([a_node("m-1")], uneven, spend_per_hour=16 * NANO + 1, spent=77))

    *parts, whole = rows
    assert whole.name == WHOLE
    assert sum(row.spend_per_hour for row in parts) == whole.spend_per_hour
    assert sum(row.spent for row in parts) == whole.spent == 77


def test_what_was_held_before_counting_began_does_not_count() -> None:
    ended = an_allocation(
        "old", "m-1", 8, status="released", created_at=at(-4), active_at=at(-4),
        releasing_at=at(-3), released_at=at(-3),
    )  # fmt: skip
    rows = by_name(facts([a_node("m-1")], [ended]))

    assert set(rows) == {UNCLAIMED, WHOLE}
    assert rows[UNCLAIMED].spent == 32 * NANO


def test_one_that_has_ended_costs_nothing_now_and_paid_until_it_was_given_back() -> None:
    ended = an_allocation(
        "blue", "m-1", 2, status="released", created_at=at(0), active_at=at(0.5),
        releasing_at=at(1), released_at=at(1.5),
    )  # fmt: skip
    rows = by_name(facts([a_node("m-1")], [ended]))

    assert (rows["blue"].gpus, rows["blue"].spend_per_hour) == (0, 0)
    assert rows["blue"].spent == 32 * NANO * 3 // 16
    assert (rows["blue"].earns_per_hour, rows["blue"].earned) == ({}, {"USD": 250})


def test_what_is_not_active_holds_room_and_pays_nothing() -> None:
    waiting = an_allocation("blue", "m-1", 8, status="provisioning", active_at=None)
    rows = by_name(facts([a_node("m-1")], [waiting]))

    assert rows["blue"].spend_per_hour == 16 * NANO
    assert (rows["blue"].earns_per_hour, rows["blue"].earned) == ({}, {})


@pytest.mark.parametrize("hosts", [1, 0])
def test_what_was_paid_is_counted_since_a_shard_pays_for_tenants(hosts: int) -> None:
    """Another shard may have counted for long, and never have had any of them."""
    theirs = Paid(MoneyRow(name="tenants", hosts=hosts, spent=16 * NANO), NOW_S - HOUR_S, {})
    others = Paid(MoneyRow(name="tenants"), NOW_S - 1_000 * HOUR_S, {})
    nodes = [a_node("m-1", created_at=at(-999))]
    held = an_allocation("blue", "m-1", 1, created_at=at(-999), active_at=at(-999),
                         price={"gpu_hour_minor": 100, "currency": "USD"})  # fmt: skip

    told = facts_of([theirs, others], nodes, [held], NOW_S)

    assert told.since_s == NOW_S - HOUR_S
    assert by_name(told)["blue"].earned == {"USD": 100}


def test_where_no_shard_pays_for_tenants_it_is_counted_since_the_first_counts() -> None:
    books = [Paid(MoneyRow(name="tenants"), SINCE_S + n, {}) for n in (5, 3, 4)]

    assert facts_of(books, [], [], NOW_S).since_s == SINCE_S + 3
    assert facts_of([], [], [], NOW_S).since_s == 0.0


def silent(began: float, ended: float | None) -> dict[str, Any]:
    return {"began_at": at(began), "ended_at": None if ended is None else at(ended)}


def test_the_time_in_which_a_node_was_silent_is_not_paid() -> None:
    """Also where it was so when counting began, or when the allocation did."""
    held = an_allocation("blue", "m-1", 2, created_at=at(-4), active_at=at(-4))
    begun = an_allocation("red", "m-1", 2, created_at=at(0.75), active_at=at(0.75))
    outages = [silent(-3, -2), silent(-0.5, 0.25), silent(0.5, 1)]
    rows = by_name(facts([a_node("m-1", outages=outages)], [held, begun]))

    assert rows["blue"].earned == {"USD": 500 * 5 // 4}
    assert rows["red"].earned == {"USD": 500}
    assert rows[WHOLE].earns_per_hour == {"USD": 1_000}


def test_what_is_on_a_silent_node_pays_nothing_and_costs_what_it_did() -> None:
    node = a_node("m-1", outages=[silent(1, None)])
    rows = by_name(facts([node], [an_allocation("blue", "m-1", 2)]))

    assert (rows["blue"].earns_per_hour, rows["blue"].earned) == ({}, {"USD": 500})
    assert (rows["blue"].spend_per_hour, rows["blue"].spent) == (4 * NANO, 8 * NANO)


def test_what_was_paid_is_what_the_windows_of_a_bill_add_up_to() -> None:
    gone = Outage(datetime.fromisoformat(at(0.3)), datetime.fromisoformat(at(0.71)))
    began, end = datetime.fromisoformat(at(0.11)), datetime.fromisoformat(at(1.87))
    billed = windows(Rate(7, 3), began, began, end, [gone])
    held = an_allocation(
        "blue", "m-1", 3, status="released", active_at=at(0.11), releasing_at=at(1.87),
        released_at=at(1.9), price={"gpu_hour_minor": 7, "currency": "JPY"},
    )  # fmt: skip
    rows = by_name(facts([a_node("m-1", outages=[silent(0.3, 0.71)])], [held]))

    assert rows["blue"].earned == {"JPY": sum(each.amount_minor for each in billed)}


def test_currencies_are_not_mixed() -> None:
    euros = an_allocation("red", "m-1", 1, price={"gpu_hour_minor": 100, "currency": "EUR"})
    rows = by_name(facts([a_node("m-1")], [an_allocation("blue", "m-1", 2), euros]))

    assert rows[WHOLE].earns_per_hour == {"USD": 500, "EUR": 100}
    assert rows[WHOLE].earned == {"USD": 1_000, "EUR": 200}


def test_a_node_of_its_own_costs_no_shard_anything_and_that_is_said() -> None:
    own = an_allocation("blue", "m-1", 4, node_id="node-a")
    told = facts([a_node("m-1"), an_own_node("node-a")], [own])
    rows = by_name(told)

    assert (rows["blue"].gpus, rows["blue"].spend_per_hour, rows["blue"].spent) == (4, 0, 0)
    assert (rows[UNCLAIMED].gpus, rows[UNCLAIMED].spent) == (8, 32 * NANO)
    assert any("4 GPUs are on nodes that no shard pays for" in line for line in remarks(told))


@pytest.mark.parametrize("own", ["node-a", "gpu-7.example.com", "10.0.0.5", "m-1.2"])
def test_a_node_of_its_own_takes_no_share_of_what_others_cost(own: str) -> None:
    """However it is called: what is a life of a machine is told, not guessed."""
    held = [an_allocation("blue", "m-1", 4, node_id=own), an_allocation("red", "m-1", 8)]
    rows = by_name(facts([a_node("m-1"), an_own_node(own)], held))

    assert (rows["red"].spent, rows["blue"].spent, rows[UNCLAIMED].spent) == (32 * NANO, 0, 0)


def test_who_paid_for_a_node_of_its_own_is_still_told_when_it_is_given_back() -> None:
    ended = an_allocation(
        "blue", "m-1", 2, node_id="node-a", status="released", created_at=at(0), active_at=at(0),
        releasing_at=at(1), released_at=at(1),
    )  # fmt: skip
    rows = by_name(facts([a_node("m-1"), an_own_node("node-a")], [ended]))

    assert (rows["blue"].spent, rows["blue"].earned) == (0, {"USD": 500})


def test_a_retired_life_of_a_machine_is_no_room() -> None:
    gone = a_node("m-1", id=node_name("m-1", 0), status="retired", last_seen_at=at(1))
    rows = by_name(facts([gone, a_node("m-1", created_at=at(1))], []))

    assert rows[UNCLAIMED].gpus == 8


@pytest.mark.parametrize("lives", [0, 1, 3])
@pytest.mark.parametrize(
    ("created", "retired"),
    [pytest.param(-2, -1, id="before it is counted"), pytest.param(1, None, id="by hand")],
)
def test_a_life_that_never_called_takes_no_time_after_its_end(
    lives: int, created: float, retired: float | None
) -> None:
    over = [
        a_node(f"m-{n}", status="retired", created_at=at(created),
               retired_at=None if retired is None else at(retired))
        for n in range(2, 2 + lives)
    ]  # fmt: skip
    rows = by_name(facts([a_node("m-1"), *over], [an_allocation("blue", "m-1", 8)]))

    assert (rows["blue"].spent, rows[UNCLAIMED].spent) == (32 * NANO, 0)


def test_a_life_lasts_until_it_is_retired_not_until_it_was_last_heard() -> None:
    over = a_node(
        "m-2", status="retired", created_at=at(0), last_seen_at=at(0.5), retired_at=at(2),
    )  # fmt: skip
    rows = by_name(facts([a_node("m-1"), over], [an_allocation("blue", "m-1", 8)]))

    assert (rows["blue"].spent, rows[UNCLAIMED].spent) == (16 * NANO, 16 * NANO)


def test_without_the_bridge_that_is_said() -> None:
    told = facts([], [], costs={}, hosts=0, spend_per_hour=0, spent=0)

    assert any("is the bridge connected?" in line for line in remarks(told))


def test_the_margin_is_what_is_paid_less_what_it_costs_and_unknown_in_another_currency() -> None:
    assert margin(2 * NANO, {"USD": 900}) == 700
    assert margin(NANO, {}) == -100
    assert margin(NANO, {"USD": 900, "EUR": 1}) is None
