"""Clusters: what they ask, hold and cost."""

from collections.abc import Sequence
from typing import Final

from mainstay.dashboard.asking import Asking, refusal
from mainstay.dashboard.draw import states_bar
from mainstay.dashboard.html import EMPTY, Child, Html, address, link, together
from mainstay.dashboard.page import Page, Seen
from mainstay.dashboard.pages.rows import ACTION_COLUMNS, action_rows, held_by_text, standing_of
from mainstay.dashboard.paging import merged_by_key, pager
from mainstay.dashboard.parts import Column, age_mark, card, cards, mark, section, sentences, table
from mainstay.dashboard.told import Told
from mainstay.dashboard.words import dollars, moment, number
from mainstay.model import questions as q
from mainstay.model import views as v
from mainstay.model.errors import Unknown

LAST: Final = 15
"""So many of the last actions are shown."""


async def clusters(asking: Asking, seen: Seen) -> Page:
    """All of them."""
    told = await asking.clusters(after=seen.asked("after"))
    ages = {each.source: age_mark(each, seen.now_s) for each in told}
    paged = merged_by_key(told, _name)
    rows = [
        (link(row.cluster, address("clusters", row.cluster)), shard, _connected(row),
         number(row.needs), link(number(row.unmet), address("needs", cluster=row.cluster, unmet=1)),
         number(row.progress.serving), number(row.progress.coming), _held(row),
         link(number(sum(row.machines.values())), address("machines", cluster=row.cluster)),
         dollars(row.spend_per_hour), number(row.quota) if row.limited else "any number",
         moment(row.since_s, seen.now_s), ages[shard])
        for shard, row in paged.rows
    ]  # fmt: skip
    columns = (
        "Cluster", "Shard", "Session", Column("Needs", True), Column("Short", True),
        Column("Serving", True), Column("Coming", True), "Held back",
        Column("Machines", True), Column("$/hour", True), Column("May hold", True),
        "Connected", "Age",
    )  # fmt: skip
    made = table("Who is served", columns, rows, "No cluster is connected.")
    onward = pager("clusters", seen.query, paged.after)
    live = {"clusters": together(made, onward)}
    return Page(title="Clusters", section="/clusters", fixed=EMPTY, live=live)


def _held(row: v.ClusterRow) -> Child:
    return mark(held_by_text(row.progress), "warn") if row.progress.held_back else ""


def _name(row: v.ClusterRow) -> str:
    return row.cluster


def _connected(row: v.ClusterRow) -> Html:
    if not row.connected:
        return mark("not connected", "bad")
    if not row.heard:
        return mark("connected, demand not told yet", "warn")
    return mark("connected", "good")


def _done(told: Sequence[Told[v.ActionRows]], name: str) -> Html:
    rows = action_rows(told)[:LAST]
    none = "Nothing, as far back as its shard remembers."
    made = table("The newest first", ACTION_COLUMNS, rows, none)
    return together(made, link("All actions for it", address("audit", cluster=name)))


async def cluster(asking: Asking, seen: Seen) -> Page:
    """One of them, with why it stands as it does."""
    name = seen.names["cluster"]
    told = await asking.clusters(name)
    rows = [(each, row) for each in told if each.value for row in each.value.rows]
    if not rows:
        if any(each.error for each in told):
            raise refusal(told)
        raise Unknown(f"no shard serves a cluster {name[:80]}")
    why = await asking.explained(q.Question(about=q.About.CLUSTER, name=name, quick=True))
    said = [(each.source, each.value.sentences) for each in why if each.value is not None]
    done = await asking.actions(v.ActionQuery(cluster=name, limit=LAST))
    live: list[Child] = []
    for each, row in rows:
        live.append(cards(
            card("Session", _connected(row), age_mark(each, seen.now_s)),
            card("Needs", link(number(row.needs), address("needs", cluster=name)),
                 f"{number(row.unmet)} short", warns=row.unmet > 0),
            card("Machines", link(number(sum(row.machines.values())),
                                  address("machines", cluster=name)),
                 standing_of(row.progress), warns=row.progress.held_back > 0),
            card("Spend per hour", dollars(row.spend_per_hour)),
            card("May hold", number(row.quota) if row.limited else "any number"),
        ))  # fmt: skip
        live.append(states_bar(f"Machines of {name}", dict(row.machines), cluster=name))
    explained = section("Why it stands so", *(sentences(lines) for _, lines in said))
    return Page(
        title=f"Cluster {name}", section="/clusters", fixed=EMPTY,
        live={"cluster": together(live), "why": explained,
              "events": section("What was done last for it", _done(done, name))},
    )  # fmt: skip
