"""Quotas: how much each cluster and each place may hold, and which shard has how much of it."""

from collections.abc import Iterator, Sequence
from typing import Final

from mainstay.dashboard.asking import SHOWN_MAX, Asking
from mainstay.dashboard.draw import Share, bar
from mainstay.dashboard.html import EMPTY, Child, Html, address, h, link, together
from mainstay.dashboard.page import Page, Seen
from mainstay.dashboard.parts import Column, mark, section, table, told_by
from mainstay.dashboard.told import Told
from mainstay.dashboard.words import number, plural
from mainstay.model import coordinator_views as c

COLUMNS: Final = (
    "Quota", "Shard", Column("Granted", True), Column("Held", True), Column("Used", True),
    Column("Wanted", True), "Standing",
)  # fmt: skip


async def quotas(asking: Asking, seen: Seen) -> Page:
    """What the coordinator has granted, and what shards say of it."""
    told = await asking.quotas()
    return Page(
        title="Quotas",
        section="/quotas",
        fixed=EMPTY,
        live={"quotas": _quotas(told, seen.now_s), "clusters": await _clusters(asking)},
    )


def _quotas(told: Told[c.QuotaRows], now_s: float) -> Html:
    found = told.value.rows if told.value else ()
    rows = [row for each in found[:SHOWN_MAX] for row in _rows(each)]
    caption = f"{plural(len(found), 'quota')}, and which shard has how much of it"
    none = "No quota is set: `mainstay quota set` sets one."
    drawn = [_drawn(each) for each in found[:12]]
    bars = h("div", *drawn, class_="bars") if drawn else None
    return section(
        "Entitlements", told_by(told, now_s), bars, table(caption, COLUMNS, rows, none)
    )  # fmt: skip


def _name(row: c.QuotaRow) -> str:
    return " ".join(filter(None, (row.kind, row.name, row.region)))


def _drawn(row: c.QuotaRow) -> Html:
    shares = [
        Share(share.shard, share.granted, f"phase-{place % 6}", number(share.granted))
        for place, share in enumerate(row.shares)
        if share.granted
    ]
    left = row.entitled - row.granted
    if left > 0:
        shares.append(Share("nobody", left, "speculative", number(left)))
    label = f"{_name(row)}: {number(row.granted)} of {number(row.entitled)} granted"
    return together(h("h3", label), bar(label, shares))


def _rows(row: c.QuotaRow) -> Iterator[Sequence[Child]]:
    over = row.granted > row.entitled
    standing = mark("more granted than there is", "bad") if over else mark("in order", "good")
    whole = f"{number(row.granted)} of {number(row.entitled)}"
    yield _name(row), "all together", whole, "", "", "", standing
    for share in row.shares:
        shard = link(share.shard, address("shards", share.shard))
        told = map(_told, (share.held, share.used, share.wanted))
        yield _name(row), shard, number(share.granted), *told, ""


def _told(value: int) -> str:
    return "not told yet" if value < 0 else number(value)


async def _clusters(asking: Asking) -> Html:
    """What each shard holds its clusters to; true also where no coordinator runs."""
    told = await asking.clusters()
    rows = [
        (link(row.cluster, address("clusters", row.cluster)), each.source,
         number(sum(row.machines.values())), number(row.quota) if row.limited else "any number")
        for each in told if each.value for row in each.value.rows
    ]  # fmt: skip
    columns = ("Cluster", "Shard", Column("Machines", True), Column("May hold", True))
    made = table("What the first clusters have and may have", columns, rows, "No cluster.")
    return section("Clusters", made, h("p", link("All clusters", "/clusters")))
