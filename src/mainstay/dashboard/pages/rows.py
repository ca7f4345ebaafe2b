"""Rows that several pages show."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from mainstay.dashboard.html import Child, Html, address, link
from mainstay.dashboard.parts import Column, mark
from mainstay.dashboard.told import Told
from mainstay.dashboard.words import dollars, exact_moment, number, short
from mainstay.model import views as v
from mainstay.model.progress import Progress

ACTION_COLUMNS: Final = (
    "Action", "When (UTC)", "Machine", "Cluster", "Need", "Result", "Why",
    Column("$/hour", True), Column("Cycle", True), "Shard",
)  # fmt: skip

STANCES: Final = frozenset({"pause", "shadow"})
"""Controls under which nothing is done."""

FENCED: Final = "fenced"
"""As a provider's health: it refuses the shard."""

_KINDS: Final = {"executed": "good", "capped": "warn", "suppressed": "warn", "deferred": "warn"}


def action_rows(told: Iterable[Told[v.ActionRows]]) -> list[Sequence[Child]]:
    """Actions of all shards: each shard's newest first, in turn, for cycles differ between them."""
    found = [
        (cycles_ago(each, row), each.source, row)
        for each in told
        if each.value is not None
        for row in each.value.rows
    ]
    found.sort(key=lambda each: each[0])
    return [action_row(source, row) for _, source, row in found]


def cycles_ago(told: Told[v.ActionRows], row: v.ActionRow) -> int:
    """How old an action is, for its own shard."""
    return told.value.stamp.cycle - row.cycle if told.value is not None else 0


def action_row(source: str, row: v.ActionRow) -> Sequence[Child]:
    """One action of a shard."""
    cluster: Child = row.cluster and link(row.cluster, address("clusters", row.cluster))
    why = ": ".join(filter(None, (row.reason, row.outcome, row.detail)))
    return (
        row.kind, exact_moment(row.at_s), machine_link(row.machine), cluster,
        need_link(source, row),
        mark(row.disposition, _KINDS.get(row.disposition, "bad")), why,
        dollars(row.price_per_hour), number(row.cycle), source,
    )  # fmt: skip


def need_link(source: str, row: v.ActionRow) -> Child:
    """To why the need that an action was for is as it is: of a preempt, another cluster's."""
    name = "/".join(filter(None, (short(row.need), row.group)))
    if not (row.need and row.need_cluster):
        return name
    to = address("needs", "explain", shard=source, cluster=row.need_cluster, need=row.need,
                 group=row.group)  # fmt: skip
    return link(name, to, title=f"Need of {row.need_cluster}")


Held = Mapping[str, Sequence[v.ControlRow]]
"""By shard the controls that are in force."""


def held_by(told: Iterable[Told[v.ControlRows]]) -> Held:
    """What holds each shard back."""
    return {each.source: each.value.rows if each.value else () for each in told}


def not_acting(summary: v.Summary, held: Held) -> str:
    """Why a shard does not act as a whole; empty: it does."""
    if summary.not_acting:
        return summary.not_acting
    rows = held.get(summary.stamp.shard, ())
    found = [row for row in rows if not row.cluster and row.kind in STANCES]
    if not found:
        return ""
    return f"{found[0].kind} by its configuration" if found[0].fixed else found[0].kind


def stopped_providers(summary: v.Summary) -> list[v.ProviderRow]:
    """Those through which a shard does nothing until it is started again."""
    return [row for row in summary.providers if row.health == FENCED]


def standing_of(progress: Progress) -> str:
    """How far the machines are that a plan gives to needs, in one line."""
    held = f", {held_by_text(progress)}" if progress.held_back else ""
    return f"{number(progress.serving)} serving, {number(progress.coming)} coming{held}"


def held_by_text(progress: Progress) -> str:
    """So many with which nothing is begun, and why."""
    return f"{number(progress.held_back)} held back ({', '.join(progress.held_by)})"


def standing(summary: v.Summary, held: Held) -> Html:
    """Whether it acts."""
    if why := not_acting(summary, held):
        return mark(why, "warn")
    if stopped := stopped_providers(summary):
        return mark(f"acts, but not through {', '.join(row.name for row in stopped)}", "warn")
    return mark("acts, held back" if held.get(summary.stamp.shard) else "acts", "good")


def machine_link(machine: str) -> Child:
    """To the page of a machine."""
    return link(machine, address("machines", machine)) if machine else ""


def explain_link(shard: str, row: v.NeedRow) -> Child:
    """To the explanation of a need."""
    to = address(
        "needs", "explain",
        shard=shard, cluster=row.cluster, need=row.fingerprint, group=row.group,
    )  # fmt: skip
    return link("Explain", to, aria_label=f"Explain need {short(row.fingerprint)}")
