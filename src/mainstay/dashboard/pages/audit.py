"""Who did what: the last actions of shards, and what people tried with tenants."""

from typing import Any, Final

from mainstay.dashboard.asking import Asking
from mainstay.dashboard.html import Html, address, link, together
from mainstay.dashboard.page import Page, Seen
from mainstay.dashboard.pages.rows import ACTION_COLUMNS, action_rows
from mainstay.dashboard.parts import field, filters, mark, section, table
from mainstay.dashboard.told import Told
from mainstay.dashboard.words import day_and_time, plural
from mainstay.model import views as v

SIZE: Final = 50


async def audit(asking: Asking, seen: Seen) -> Page:
    """Both, newest first."""
    query = v.ActionQuery(
        cluster=seen.asked("cluster"),
        machine=seen.asked("machine"),
        disposition=seen.asked("disposition"),
        limit=SIZE,
    )
    done = await asking.actions(query)
    matched = sum(each.value.matched for each in done if each.value)
    before = seen.asked("before")
    told = await asking.tenancy(
        "/admin/audit", limit=SIZE, **({"before": before} if before.isdecimal() else {})
    )
    made = table(
        f"{plural(matched, 'action')} remembered, the newest of each shard first",
        ACTION_COLUMNS, action_rows(done)[: 2 * SIZE], "No action is like that.",
    )  # fmt: skip
    return Page(
        title="Audit",
        section="/audit",
        fixed=filters(
            "/audit",
            field("cluster", "Cluster", query.cluster),
            field("machine", "Machine", query.machine),
            field("disposition", "What became of it", query.disposition),
        ),
        live={"actions": section("Actions of shards", made), "tenancy": _tried(told)},
    )


def _tried(told: Told[Any]) -> Html:
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
    more = link("Older", address("audit", before=items[-1]["id"])) if len(items) == SIZE else None
    return section("What people did with tenants", together(made, more))
