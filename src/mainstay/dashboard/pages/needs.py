"""Needs with what they miss and why."""

from typing import Final

from mainstay.dashboard.asking import Asking, refusal
from mainstay.dashboard.html import Child, Html, address, h, link, together
from mainstay.dashboard.page import Page, Seen
from mainstay.dashboard.pages.reasons import explained_parts, funnel
from mainstay.dashboard.pages.rows import explain_link
from mainstay.dashboard.paging import ASKED, merged, pager
from mainstay.dashboard.parts import (
    Column,
    check,
    field,
    filters,
    mark,
    section,
    table,
)
from mainstay.dashboard.told import Told
from mainstay.dashboard.words import amounts, number, plural, short
from mainstay.model import questions as q
from mainstay.model import views as v

COLUMNS: Final = (
    "Need", "Cluster", Column("Priority", True), "Asks for", "Missing", "Why",
    Column("For cycles", True), Column("Machines", True), "Shard",
)  # fmt: skip


async def needs(asking: Asking, seen: Seen) -> Page:
    """A page of them."""
    cluster, unmet = seen.asked("cluster"), bool(seen.asked("unmet"))
    told = await asking.needs(v.NeedQuery(cluster=cluster, unmet=unmet, limit=ASKED), seen.cursors)
    paged = merged(told, _served, _place, seen.cursors)
    matched = sum(each.value.matched for each in told if each.value)
    caption = f"{plural(matched, 'need')}, in the order of their priority"
    none = "No need is short." if unmet else "Nobody asks for anything."
    made = table(caption, COLUMNS, [_row(shard, row) for shard, row in paged.rows], none)
    return Page(
        title="Needs",
        section="/needs",
        fixed=filters(
            "/needs",
            field("cluster", "Cluster", cluster),
            check("unmet", "Only those that miss something", checked=unmet),
        ),
        live={"needs": together(made, pager("needs", seen.query, paged.after))},
    )


def _served(told: Told[v.NeedRows], row: v.NeedRow) -> tuple[int, str, int]:
    """The most important first, those of one shard in the order in which it serves them."""
    return -row.priority, told.source, row.place


def _place(row: v.NeedRow) -> int:
    return row.place


def _row(shard: str, row: v.NeedRow) -> list[Child]:
    name = "/".join(filter(None, (short(row.fingerprint), row.group)))
    why: Child = mark(row.reason, "bad") if row.reason else mark("satisfied", "good")
    asks = [amounts(row.asked), row.asks_for and h("small", row.asks_for)]
    return [
        [name, h("small", explain_link(shard, row))],
        link(row.cluster, address("clusters", row.cluster)), number(row.priority), asks,
        amounts(row.missing), [why, " parked" if row.parked else None],
        number(row.age) if row.age else "", number(row.machines), shard,
    ]  # fmt: skip


async def explained(asking: Asking, seen: Seen) -> Page:
    """Why one of them is so: cause, blocker, nearest miss, smallest change."""
    question = q.Question(
        about=q.About.NEED,
        name=seen.asked("cluster"),
        fingerprint=seen.asked("need"),
        group=seen.asked("group"),
    )
    told = await asking.explained(question, seen.asked("shard"))
    answers = [each.value for each in told if each.value is not None]
    if not answers:
        raise refusal(told)
    back = h(
        "p", link("All needs of this cluster", address("needs", cluster=question.name)),
        link("What if it asked for more?", address("whatif", cluster=question.name)),
        class_="ways",
    )  # fmt: skip
    return Page(
        title=f"Need {answers[0].subject}",
        section="/needs",
        fixed=back,
        live={"why": together(*map(_answer, answers))},
    )


def _answer(answer: q.Explanation) -> Html:
    stamp = f"As of cycle {answer.stamp.cycle:,} of {answer.stamp.shard}."
    return section(
        "Why", explained_parts(answer.sentences), funnel(answer.document),
        h("p", stamp, class_="note"),
    )  # fmt: skip
