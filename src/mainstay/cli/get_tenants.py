"""`mainstay get money --by tenant`: asks shards and the API, and shows one row for each project."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from mainstay.cli import servers
from mainstay.cli.listing import Listing, Printer
from mainstay.cli.streaming import Column
from mainstay.cli.words import age, of_nanos
from mainstay.config.bridge import BridgeConfig
from mainstay.config.load import home_directory
from mainstay.model import money_views as m
from mainstay.model import views as v
from mainstay.processes.finding import find_tenants
from mainstay.runtime.clock import SystemClock
from mainstay.tenancy.billing.charge import formatted
from mainstay.tenancy.billing.tenant_money import (
    Paid,
    TenantRow,
    facts_of,
    paid_by,
    remarks,
    tenant_rows,
)

if TYPE_CHECKING:
    from mainstay.cli.client import Client
    from mainstay.processes.finding import Server
    from mainstay.wire.shard_view_client import RemoteShard

PAGE: Final = 200
PAGES_MAX: Final = 100
"""So many pages of allocations are asked for, the newest first."""


def show_tenants(found: "Sequence[Server]", api: str, printer: Printer) -> int:
    """Projects, what nobody holds, the whole; what is to be known about it goes to stderr."""
    from mainstay.cli.client import client

    home = home_directory()
    cluster = find_tenants(home, BridgeConfig().cluster_id)
    answers = servers.ask(found, lambda shard: _paid(shard, cluster))
    tenancy = client("admin", api or None)
    allocations, cut = _allocations(tenancy)
    paid = [answer.value for answer in answers.given]
    facts = facts_of(paid, list(_nodes(tenancy)), allocations, SystemClock().now_s())
    printer.write(tenant_rows(facts))
    printer.close()
    told = [f"Tenants are cluster {cluster}; counted for {age(facts.now_s - facts.since_s)}."]
    if cut:
        told.append(f"Only the newest {len(allocations):,} allocations were looked at.")
    for remark in (*told, *remarks(facts)):
        printer.remark(remark)
    return printer.answered(answers.missing)


async def _paid(shard: "RemoteShard", cluster: str) -> Paid:
    told = await shard.money(m.MoneyQuery(by="cluster"))
    chunks = shard.machines(v.MachineQuery(cluster=cluster))
    return paid_by(told, cluster, [row async for chunk in chunks for row in chunk.rows])


def _nodes(api: "Client") -> Iterator[Mapping[str, Any]]:
    after = ""
    while page := api.get("/admin/nodes", after=after, retired=True, outages=True)["items"]:
        yield from page
        after = page[-1]["id"]


def _allocations(api: "Client") -> tuple[list[Any], bool]:
    """The newest ones, and whether there are more."""
    rows: list[Any] = []
    cursor: str | None = None
    for _ in range(PAGES_MAX):
        page = api.get("/admin/allocations", limit=PAGE, cursor=cursor)
        rows += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            return rows, False
    return rows, True


def _money(amounts: Mapping[str, int]) -> str:
    return ", ".join(formatted(amount, currency) for currency, amount in sorted(amounts.items()))


def _column(name: str, of: str, *, wide: bool = False) -> Column:
    return Column(name, lambda row: of_nanos(getattr(row, of)), wide)


def _earnings(name: str, of: str) -> Column:
    return Column(name, lambda row: _money(getattr(row, of)))


def _name(row: TenantRow) -> str:
    return row.name


COLUMNS: Final = (
    Column("tenant", _name),
    Column("gpus", lambda row: row.gpus),
    _column("$/hour", "spend_per_hour"),
    _column("spent", "spent"),
    _column("waste/hour", "waste_per_hour"),
    _column("waste", "waste"),
    _column("saves/hour", "saving_per_hour"),
    _column("saved", "saving"),
    _earnings("pays/hour", "earns_per_hour"),
    _earnings("paid", "earned"),
)

LISTING: Final = Listing(COLUMNS, _name, dataclasses.asdict)
