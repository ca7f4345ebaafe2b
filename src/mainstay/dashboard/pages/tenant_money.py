"""What tenants cost and bring in, as `mainstay money --by tenant` divides it."""

from collections.abc import Mapping, Sequence
from typing import Final

from mainstay.dashboard.asking import MACHINES_MAX, Asking, Held
from mainstay.dashboard.html import Child, Html, address, h, link, together
from mainstay.dashboard.page import Seen
from mainstay.dashboard.parts import Column, section, sentences, table, told_by
from mainstay.dashboard.told import Told
from mainstay.dashboard.words import dollars
from mainstay.model import money_views as m
from mainstay.model import views as v
from mainstay.tenancy.billing.charge import formatted
from mainstay.tenancy.billing.tenant_money import (
    UNCLAIMED,
    WHOLE,
    Paid,
    TenantRow,
    facts_of,
    margin,
    paid_by,
    remarks,
    tenant_rows,
)

NANO: Final = 1e9

COLUMNS: Final = (
    "Tenant", Column("GPUs", True), Column("Costs per hour", True), Column("Cost so far", True),
    Column("Waste per hour", True), Column("Wasted so far", True), Column("Saved per hour", True),
    Column("Saved so far", True), Column("Pays per hour", True), Column("Paid so far", True),
    Column("Margin per hour", True), Column("Margin so far", True),
)  # fmt: skip


async def by_tenant(asking: Asking, seen: Seen) -> Html:
    """One row for each project, one for what nobody holds, and the whole."""
    cluster = asking.tenants_cluster
    held = await asking.held()
    told = await asking.money("cluster")
    machines = {each.source: each for each in await asking.tenant_machines()}
    paid = [_paid(each.value, machines[each.source].value, cluster) for each in told if each.value]
    if held.value is None:
        return section("By tenant", told_by(held, seen.now_s), h("p", held.error, class_="notice"))
    facts = facts_of(paid, held.value.nodes, held.value.allocations, seen.now_s)
    rows = [_row(each) for each in tenant_rows(facts)]
    caption = f"Tenants are cluster {cluster}; the dearest first"
    notes = [*_cut(held.value, list(machines.values())), *remarks(facts)]
    made = table(caption, COLUMNS, rows, "No project.")
    return section("By tenant", together(told_by(held, seen.now_s), made, sentences(notes)))


def _paid(told: m.MoneyRows, machines: v.MachineRows | None, cluster: str) -> Paid:
    return paid_by(told, cluster, machines.rows if machines else ())


def _cut(held: Held, machines: Sequence[Told[v.MachineRows]]) -> list[str]:
    """What was not looked at."""
    found = []
    if held.cut_retired:
        found.append(
            f"Only the first {len(held.retired):,} retired nodes were looked at: what was spent and"
            " saved so far is divided without the others, and what was paid is told with their"
            " outages."
        )
    if held.cut_allocations:
        found.append(f"Only the newest {len(held.allocations):,} allocations were looked at.")
    if any(each.value and each.value.matched > len(each.value.rows) for each in machines):
        found.append(f"Only the first {MACHINES_MAX:,} machines of each shard were looked at.")
    return found


def _row(row: TenantRow) -> Sequence[Child]:
    name: Child = row.name
    if row.name not in {UNCLAIMED, WHOLE}:
        name = link(row.name, address("allocations", project=row.name))
    return (
        name, f"{row.gpus:,}", dollars(row.spend_per_hour / NANO), dollars(row.spent / NANO),
        dollars(row.waste_per_hour / NANO), dollars(row.waste / NANO),
        dollars(row.saving_per_hour / NANO), dollars(row.saving / NANO),
        _amounts(row.earns_per_hour), _amounts(row.earned),
        _margin(row.spend_per_hour, row.earns_per_hour), _margin(row.spent, row.earned),
    )  # fmt: skip


def _amounts(told: Mapping[str, int]) -> str:
    return ", ".join(formatted(amount, currency) for currency, amount in sorted(told.items()))


def _margin(spent: int, earned: Mapping[str, int]) -> str:
    left = margin(spent, earned)
    return "" if left is None else formatted(left, "USD")
