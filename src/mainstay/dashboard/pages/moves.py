"""What goes from shard to shard: moves, what shards were told, the plan, what two claim."""

from collections.abc import Sequence

from mainstay.dashboard.asking import SHOWN_MAX, Asking
from mainstay.dashboard.html import EMPTY, Child, Html, address, link
from mainstay.dashboard.page import Page, Seen
from mainstay.dashboard.parts import Column, mark, section, table, told_by
from mainstay.dashboard.told import Told
from mainstay.dashboard.words import moment, number, plural
from mainstay.model import coordinator_views as c


async def moves(asking: Asking, seen: Seen) -> Page:
    """All of it, as the coordinator that leads tells it."""
    fleet = await asking.coordinated()
    return Page(
        title="Moves",
        section="/moves",
        fixed=EMPTY,
        live={
            "moves": _moves(fleet.moves, seen.now_s),
            "instructions": _instructions(fleet.instructions, seen.now_s),
            "plan": _plan(fleet.plan, seen.now_s),
            "conflicts": _conflicts(fleet.conflicts, seen.now_s),
        },
    )


def _moves(told: Told[c.MoveRows], now_s: float) -> Html:
    rows = [
        (row.id, _named(row.donor), _named(row.recipient), _state(row),
         number(len(row.machines)), row.wanted, row.why, moment(row.created_at_ns / 1e9, now_s))
        for row in (told.value.rows if told.value else ())
    ]  # fmt: skip
    columns = ("Move", "From", "To", "State", Column("Machines", True), "Wanted", "Why", "Since")
    matched = told.value.matched if told.value else 0
    caption = f"{plural(matched, 'hand-over')} from shard to shard, the newest first"
    return section(
        "Moves", told_by(told, now_s), table(caption, columns, rows, "No machine was ever moved.")
    )


def _plan(told: Told[c.PlanRow], now_s: float) -> Html:
    plan = told.value
    rows: list[Sequence[Child]] = []
    if plan is not None:
        rows += [(p.recipient, p.donor, p.wanted, number(p.machines_max), p.why)
                 for p in plan.proposals]  # fmt: skip
        rows += [(verdict.shard, "nobody", "", "0", verdict.sentence) for verdict in plan.verdicts]
    columns = ("For", "From", "Wanted", Column("Machines", True), "Why")
    acts = "carried out by itself" if plan and plan.acts else "shown only"
    caption = f"What the coordinator would move now; it is {acts}"
    made = table(caption, columns, rows[:SHOWN_MAX], "Nothing is to be moved.")
    return section("Plan", told_by(told, now_s), made)


def _conflicts(told: Told[c.ConflictRows], now_s: float) -> Html:
    rows = [
        (f"{row.kind} {row.subject}", row.holder, row.claimant, number(row.times),
         moment(row.last_seen_ns / 1e9, now_s), row.what_to_do)
        for row in (told.value.rows if told.value else ())[:SHOWN_MAX]
    ]  # fmt: skip
    columns = ("What", "Who has it", "Who claims it", Column("Times", True), "Seen", "What to do")
    return section(
        "Conflicts", told_by(told, now_s), table("What two claim", columns, rows, "There is none.")
    )


def _state(row: c.MoveRow) -> Html:
    return mark(row.state, "plain" if row.settled_at_ns else "warn")


def _named(shard: str) -> Child:
    return link(shard, address("shards", shard)) if shard else ""


def _instructions(told: Told[c.InstructionRows], now_s: float) -> Html:
    rows = [
        (f"{row.shard} {row.sequence}", row.kind, row.what, row.move,
         moment(row.created_at_ns / 1e9, now_s), number(row.attempts),
         ": ".join(filter(None, (row.last_outcome, row.last_reason))))
        for row in (told.value.rows if told.value else ())
    ]  # fmt: skip
    columns = ("Instruction", "Kind", "What", "Move", "Since", Column("Tries", True), "Last answer")
    matched = told.value.matched if told.value else 0
    caption = f"{plural(matched, 'instruction')} that shards have not carried out yet"
    return section(
        "Instructions", told_by(told, now_s), table(caption, columns, rows, "Nothing is pending.")
    )
