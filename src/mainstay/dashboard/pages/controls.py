"""Controls: what holds a shard back, who said so, why and until when."""

from collections.abc import Sequence
from typing import Final

from mainstay.dashboard.asking import Asking
from mainstay.dashboard.html import EMPTY, Child, Html, h
from mainstay.dashboard.page import Page, Seen
from mainstay.dashboard.pages.rows import held_by, not_acting, stopped_providers
from mainstay.dashboard.parts import (
    Choice,
    Column,
    check,
    field,
    mark,
    order,
    section,
    select,
    table,
)
from mainstay.dashboard.words import moment
from mainstay.model import views as v

KINDS: Final = (
    Choice("pause", "Pause: decide and do nothing"),
    Choice("shadow", "Shadow: do nothing, count what would be done"),
    Choice("action_limit", "Limit: at most so many actions per cycle"),
    Choice("reclaim_cap", "Limit: reclaims per cycle, as a share of a cluster from 0 to 1"),
)

COLUMNS: Final = (
    "Control", "Shard", "Holds back", Column("Value", True), "Reason", "By", "Since", "Ends",
)  # fmt: skip


async def controls(asking: Asking, seen: Seen) -> Page:
    """What is in force, and a form for more."""
    told = await asking.controls()
    summaries = await asking.summaries()
    found = [(each.source, row) for each in told if each.value for row in each.value.rows]
    rows = [_row(shard, row, seen) for shard, row in found]
    columns: Sequence[Column | str] = (*COLUMNS, "Lift") if seen.may_change else COLUMNS
    held = held_by(told)
    resting = [
        (each.source, not_acting(each.value, held)) for each in summaries if each.value is not None
    ]
    stopped = [
        h("li", h("b", each.source), f" does not act through {row.name}: ", row.why)
        for each in summaries if each.value is not None
        for row in stopped_providers(each.value)
    ]  # fmt: skip
    fixed = [h("li", h("b", shard), " does not act: ", why) for shard, why in resting if why]
    fixed += stopped
    return Page(
        title="Controls",
        section="/controls",
        fixed=_form(asking, seen) if seen.may_change else EMPTY,
        live={
            "standing": h("ul", *fixed, class_="sentences") if fixed else EMPTY,
            "controls": table("In force now", columns, rows, "Nothing holds any shard back."),
        },
    )


def _row(shard: str, row: v.ControlRow, seen: Seen) -> list[Child]:
    whom = f"cluster {row.cluster}" if row.cluster else "the whole shard"
    cells: list[Child] = [
        mark(row.kind.replace("_", " "), "warn"), shard, whom,
        f"{row.value:g}" if row.value else "", row.reason, row.by,
    ]  # fmt: skip
    if row.fixed:
        cells += ["its start", "with another configuration and a restart"]
    else:
        cells += [moment(row.set_at_s, seen.now_s), moment(row.expires_at_s, seen.now_s)]
    if seen.may_change:
        cells.append("" if row.fixed else _lift(shard, row, seen))
    return cells


def _lift(shard: str, row: v.ControlRow, seen: Seen) -> Html:
    hidden = [
        h("input", type="hidden", name=name, value=value)
        for name, value in (("shard", shard), ("kind", row.kind), ("cluster", row.cluster))
    ]
    return order("/controls/lift", seen.csrf, *hidden, button="Lift",
                 id=f"lift-{shard}-{row.kind}-{row.cluster}",
                 aria_label=f"Lift {row.kind} of {shard}")  # fmt: skip


def _form(asking: Asking, seen: Seen) -> Html:
    form = order(
        "/controls/set", seen.csrf,
        select("kind", "What", KINDS),
        select("shard", "Shard", [Choice(name, name) for name in asking.names]),
        field("cluster", "Only for this cluster (empty: the whole shard)"),
        check("unknown", "Even if the shard knows no such cluster yet", checked=False),
        field("value", "Value (of limits)", inputmode="decimal"),
        field("reason", "Reason", required=True, maxlength=500),
        field("minutes", "For how many minutes", "30", type="number", min=1, max=43_200,
              required=True),
        button="Set control",
    )  # fmt: skip
    return section("Hold a shard back", form)
