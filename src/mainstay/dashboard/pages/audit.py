"""Who did what: the last actions of shards, and what people tried with tenants."""

from typing import Any

from mainstay.dashboard.asking import Asking
from mainstay.dashboard.data import data_of, ways
from mainstay.dashboard.html import Html, address, link, together
from mainstay.dashboard.page import Page, Seen
from mainstay.dashboard.pages.rows import ACTION_COLUMNS, action_row, cycles_ago
from mainstay.dashboard.paging import ASKED, SIZE, merged, pager
from mainstay.dashboard.parts import Choice, field, filters, mark, section, select, table
from mainstay.dashboard.told import Told
from mainstay.dashboard.words import day_and_time, plural
from mainstay.model import views as v
from mainstay.model.action import ActionKind


async def audit(asking: Asking, seen: Seen) -> Page:
    """Both, newest first."""
    query = v.ActionQuery(
        cluster=seen.asked("cluster"),
        machine=seen.asked("machine"),
        disposition=seen.asked("disposition"),
        kind=seen.asked("kind"),
        limit=ASKED,
    )
    done = await asking.actions(query, seen.cursors)
    paged = merged(done, cycles_ago, _id, seen.cursors)
    matched = sum(each.value.matched for each in done if each.value)
    before = seen.asked("before")
    told = await asking.tenancy(
        "/admin/audit", limit=SIZE, **({"before": before} if before.isdecimal() else {})
    )
    made = table(
        f"{plural(matched, 'action')} remembered, the newest of each shard first",
        ACTION_COLUMNS, [action_row(*each) for each in paged.rows], "No action is like that.",
    )  # fmt: skip
    return Page(
        title="Audit",
        section="/audit",
        fixed=filters(
            "/audit",
            select("kind", "Action", [Choice("", "any"), *(Choice(k, k) for k in ActionKind)],
                   query.kind),
            field("cluster", "Cluster", query.cluster),
            field("machine", "Machine", query.machine),
            field("disposition", "What became of it", query.disposition),
        ),
        live={
            "actions": section("Actions of shards", made,
                               pager("audit", seen.query, paged.after),
                               ways("audit", seen.query)),
            "tenancy": _tried(told, seen),
        },
        data=data_of(paged.rows, paged.after),
    )  # fmt: skip


def _id(row: v.ActionRow) -> str:
    return row.id


def _tried(told: Told[Any], seen: Seen) -> Html:
    items = told.value["items"] if isinstance(told.value, dict) else []
    rows = [
        (str(row["action"]), day_and_time(row["at"]), f"{row['actor']} ({row['actor_role']})",
         f"{row['target_type']} {row['target_id']}",
         mark(str(row["result"]), "good" if row["result"] == "success" else "bad"),
         str(row["correlation_id"]))
        for row in items
    ]  # fmt: skip
    columns = ("What", "When (UTC)", "Who", "To what", "Result", "Correlation")
    made = table("The newest first", columns, rows, "Nothing was tried yet.")
    kept = {**seen.query, "before": items[-1]["id"] if items else ""}
    more = link("Older", address("audit", **kept)) if len(items) == SIZE else None
    return section("What people did with tenants", together(made, more))
