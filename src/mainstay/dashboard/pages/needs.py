"""Needs with what they miss and why."""

from typing import Final

from mainstay.dashboard.asking import Asking, refusal
from mainstay.dashboard.html import Child, Html, address, h, link, together
from mainstay.dashboard.page import PAGES_MAX, Page, Seen
from mainstay.dashboard.pages.rows import explain_link
from mainstay.dashboard.parts import (
    Column,
    check,
    field,
    filters,
    mark,
    pager,
    section,
    sentences,
    table,
)
from mainstay.dashboard.words import amounts, number, plural, short
from mainstay.model import questions as q
from mainstay.model import views as v

SIZE: Final = 50

COLUMNS: Final = (
    "Need", "Cluster", Column("Priority", True), "Asks for", "Missing", "Why",
    Column("Short for cycles", True), Column("Machines", True), "Shard", "Explanation",
)  # fmt: skip


async def needs(asking: Asking, seen: Seen) -> Page:
    """A page of them."""
    cluster, unmet = seen.asked("cluster"), bool(seen.asked("unmet"))
    query = v.NeedQuery(cluster=cluster, unmet=unmet, limit=seen.page * SIZE)
    told = await asking.needs(query)
    found = [(each.source, row) for each in told if each.value for row in each.value.rows]
    found.sort(key=lambda pair: (-pair[1].priority, pair[1].cluster, pair[1].fingerprint))
    matched = sum(each.value.matched for each in told if each.value)
    first = (seen.page - 1) * SIZE
    shown = found[first : first + SIZE]
    caption = f"{plural(matched, 'need')}, in the order of their priority"
    none = "No need is short." if unmet else "Nobody asks for anything."
    made = table(caption, COLUMNS, [_row(shard, row) for shard, row in shown], none)
    more = matched > first + SIZE and seen.page < PAGES_MAX
    return Page(
        title="Needs",
        section="/needs",
        fixed=filters(
            "/needs",
            field("cluster", "Cluster", cluster),
            check("unmet", "Only those that miss something", checked=unmet),
        ),
        live={"needs": together(made, pager("needs", seen.query, seen.page, more))},
    )


def _row(shard: str, row: v.NeedRow) -> list[Child]:
    name = "/".join(filter(None, (short(row.fingerprint), row.group)))
    why: Child = mark(row.reason, "bad") if row.reason else mark("satisfied", "good")
    asks = [amounts(row.asked), row.asks_for and h("small", row.asks_for)]
    return [
        name, link(row.cluster, address("clusters", row.cluster)), number(row.priority), asks,
        amounts(row.missing), [why, " parked" if row.parked else None],
        number(row.age) if row.age else "", number(row.machines), shard,
        explain_link(shard, row),
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
    back = h("p", link("All needs of this cluster", address("needs", cluster=question.name)))
    return Page(
        title=f"Need {answers[0].subject}",
        section="/needs",
        fixed=back,
        live={"why": together(*map(_answer, answers))},
    )


def _answer(answer: q.Explanation) -> Html:
    stamp = f"As of cycle {answer.stamp.cycle:,} of {answer.stamp.shard}."
    return section("Why", sentences(answer.sentences), h("p", stamp, class_="note"))
