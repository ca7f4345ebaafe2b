"""Needs with what they miss and why."""

from typing import Final

from mainstay.dashboard.asking import Asking, refusal
from mainstay.dashboard.data import data_of, ways
from mainstay.dashboard.html import Child, Html, address, h, link, together
from mainstay.dashboard.page import Page, Seen
from mainstay.dashboard.pages.reasons import explained_parts, funnel
from mainstay.dashboard.pages.rows import explain_link, held_by_text, standing_of
from mainstay.dashboard.paging import ASKED, merged, pager
from mainstay.dashboard.parts import (
    Choice,
    Column,
    check,
    field,
    filters,
    mark,
    section,
    select,
    table,
)
from mainstay.dashboard.told import Told
from mainstay.dashboard.words import amounts, number, plural, short
from mainstay.engine.plan import Unmet
from mainstay.model import questions as q
from mainstay.model import views as v
from mainstay.model.assignment import PRIORITY_MAX, PRIORITY_MIN, is_priority
from mainstay.model.errors import Rejected
from mainstay.model.progress import Progress

COLUMNS: Final = (
    "Need", "Cluster", Column("Priority", True), "Asks for", "Missing", "Why",
    Column("For cycles", True), Column("Machines", True), "Shard",
)  # fmt: skip

REASONS: Final = (Choice("", "any"), *(Choice(each.value, each.value) for each in Unmet))

PATIENCE_S: Final = 0.8
"""So long changes that would help are tried, as on the command line: who looks at a page does not
want to wait for all of them.
"""


async def needs(asking: Asking, seen: Seen) -> Page:
    """A page of them."""
    try:
        query = _query(seen)
    except Rejected as error:
        wrong = h("p", error.message, class_="notice bad", role="alert")
        return Page(title="Needs", section="/needs", fixed=together(_filters(seen), wrong), live={})
    told = await asking.needs(query, seen.cursors)
    paged = merged(told, _served, _place, seen.cursors)
    matched = sum(each.value.matched for each in told if each.value)
    caption = f"{plural(matched, 'need')}, in the order of their priority"
    made = table(caption, COLUMNS, [_row(shard, row) for shard, row in paged.rows], _none(query))
    return Page(
        title="Needs",
        section="/needs",
        fixed=_filters(seen),
        live={
            "needs": together(
                made, pager("needs", seen.query, paged.after), ways("needs", seen.query)
            )
        },
        data=data_of(paged.rows, paged.after),
    )


def _query(seen: Seen) -> v.NeedQuery:
    return v.NeedQuery(
        cluster=seen.asked("cluster"),
        unmet=bool(seen.asked("unmet")),
        reason=seen.asked("reason"),
        least_priority=priority_of(seen.asked("priority")),
        limit=ASKED,
    )


def _none(query: v.NeedQuery) -> str:
    """What is to be said where no need is shown."""
    if query.reason or query.least_priority is not None:
        return "No need is like that."
    return "No need is short." if query.unmet else "Nobody asks for anything."


def _filters(seen: Seen) -> Html:
    return filters(
        "/needs",
        field("cluster", "Cluster", seen.asked("cluster")),
        select("reason", "Short because", REASONS, seen.asked("reason")),
        field("priority", "Priority at least", seen.asked("priority"), inputmode="numeric"),
        check("unmet", "Only those that miss something", checked=bool(seen.asked("unmet"))),
    )


def priority_of(text: str) -> int | None:
    """A priority that somebody wrote; none where nothing is written."""
    if not text:
        return None
    try:
        found = int(text)
    except ValueError:
        found = PRIORITY_MAX + 1
    if not is_priority(found):
        raise Rejected(f"not a priority: {text} ({PRIORITY_MIN} to {PRIORITY_MAX})")
    return found


def _served(told: Told[v.NeedRows], row: v.NeedRow) -> tuple[int, str, int]:
    """The most important first, those of one shard in the order in which it serves them."""
    return -row.priority, told.source, row.place


def _place(row: v.NeedRow) -> int:
    return row.place


def _row(shard: str, row: v.NeedRow) -> list[Child]:
    name = "/".join(filter(None, (short(row.fingerprint), row.group)))
    why: Child = mark(row.reason, "bad") if row.reason else _met(row.progress)
    asks = [amounts(row.asked), row.asks_for and h("small", row.asks_for)]
    return [
        [name, h("small", explain_link(shard, row))],
        link(row.cluster, address("clusters", row.cluster)), number(row.priority), asks,
        amounts(row.missing), [why, " parked" if row.parked else None],
        number(row.age) if row.age else "", number(row.machines), shard,
    ]  # fmt: skip


def _met(progress: Progress) -> Html:
    """It misses nothing; whether it is served by now is another question."""
    if progress.held_back:
        return mark(held_by_text(progress), "warn")
    if progress.coming:
        return mark(standing_of(progress), "warn")
    return mark("satisfied", "good")


async def explained(asking: Asking, seen: Seen) -> Page:
    """Why one of them is so: cause, blocker, nearest miss, smallest change."""
    question = q.Question(
        about=q.About.NEED,
        name=seen.asked("cluster"),
        fingerprint=seen.asked("need"),
        group=seen.asked("group"),
        patience_s=PATIENCE_S,
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
