"""Whatever is held on whatever nodes, what tenants are told adds up to what shards pay for them."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.model.views import MoneyRow
from mainstay.tenancy.billing.tenant_money import (
    SUMS,
    UNCLAIMED,
    WHOLE,
    Cost,
    TenantFacts,
    tenant_rows,
)
from outside import examples

NOW_S = 4 * 3_600.0
SILENT = {"began_at": "1970-01-01T01:00:00Z", "ended_at": "1970-01-01T03:00:00Z"}
amounts = st.integers(0, 10**13)
moments = st.sampled_from([f"1970-01-01T0{hour}:00:00Z" for hour in range(5)])


@st.composite
def nodes(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Some are lives of machines, some were registered by hand, whatever they are called."""
    return [
        {
            "id": name,
            "machine": draw(st.sampled_from([None, f"m-{place}"])),
            "gpus_total": 8,
            "status": draw(st.sampled_from(["active", "retired"])),
            "created_at": "1970-01-01T00:00:00Z",
            "last_seen_at": draw(st.none() | moments),
            "retired_at": draw(st.none() | moments),
            "outages": draw(st.sampled_from([[], [SILENT], [{**SILENT, "ended_at": None}]])),
        }
        for place, name in enumerate(["m-0.1", "m-1.1", "10.0.0.5", "node-a"])
    ]


@st.composite
def allocations(draw: st.DrawFn, on: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """No node has more held at once than it has GPUs: two hold a part of each at most."""
    return [
        {
            "project_id": draw(st.sampled_from(["blue", "red", "green"])),
            "node_id": node["id"],
            "gpus": draw(st.integers(1, 4)),
            "status": draw(st.sampled_from(["active", "releasing", "released"])),
            "created_at": "1970-01-01T00:00:00Z",
            "active_at": "1970-01-01T00:00:00Z",
            "releasing_at": None,
            "released_at": draw(moments),
            "failed_at": None,
            "price": {"gpu_hour_minor": 250, "currency": "USD"},
        }
        for node in on
        for _ in range(draw(st.integers(0, 2)))
    ]


@settings(max_examples=examples(100))
@given(st.data(), nodes(), st.lists(amounts, min_size=8, max_size=8))
def test_the_rows_add_up_to_the_whole_and_the_whole_is_what_shards_pay(
    data: st.DataObject, on: list[dict[str, Any]], told: list[int]
) -> None:
    names = (
        "spend_per_hour", "spent", "idle_per_hour", "idle", "unclaimed_per_hour", "unclaimed",
        "saving_per_hour", "saving",
    )  # fmt: skip
    spending = MoneyRow(name="tenants", hosts=1, **dict(zip(names, told, strict=True)))
    costs = {
        f"m-{place}": Cost(data.draw(amounts), data.draw(st.integers(-(10**12), 10**12)))
        for place in range(4)
    }
    held = data.draw(allocations(on))
    facts = TenantFacts(
        spending=spending, costs=costs, nodes=on, allocations=held, since_s=0.0, now_s=NOW_S
    )

    *parts, whole = tenant_rows(facts)

    assert (parts[-1].name, whole.name) == (UNCLAIMED, WHOLE)
    for column in SUMS:
        assert sum(getattr(row, column) for row in parts) == getattr(whole, column)
    assert (whole.spend_per_hour, whole.spent) == (spending.spend_per_hour, spending.spent)
    assert (whole.saving_per_hour, whole.saving) == (spending.saving_per_hour, spending.saving)
    assert whole.waste_per_hour == spending.idle_per_hour + spending.unclaimed_per_hour
    assert whole.waste == spending.idle + spending.unclaimed

    paid_for = {node["id"] for node in on if node["machine"] is not None}
    for row in parts[:-1]:
        if not any(each["project_id"] == row.name and each["node_id"] in paid_for for each in held):
            assert (row.spend_per_hour, row.spent) == (0, 0)
            assert (row.saving_per_hour, row.saving) == (0, 0)
