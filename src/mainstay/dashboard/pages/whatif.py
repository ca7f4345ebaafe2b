"""What if: a zone lost, a price changed, more demand, a rack drained. Decided, and not done.

The question is in the address, so that an answer can be shown to somebody else; to ask changes
nothing, so that who may only look may ask as well.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from mainstay.dashboard.asking import Asking
from mainstay.dashboard.html import EMPTY, Child, Html, address, h, link, together
from mainstay.dashboard.page import Page, Seen
from mainstay.dashboard.pages.racks import RACK_KEY
from mainstay.dashboard.pages.rows import machine_link
from mainstay.dashboard.parts import (
    Choice,
    Column,
    card,
    cards,
    field,
    filters,
    section,
    select,
    table,
)
from mainstay.dashboard.told import Told
from mainstay.dashboard.words import amounts, dollars, number, plural, short
from mainstay.model import group_views as g
from mainstay.model import questions as q
from mainstay.model.action import ActionKind
from mainstay.model.errors import Rejected
from mainstay.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY, CapacityType
from mainstay.model.rollup import RawNeed
from mainstay.model.supposing import check_known, divided

CHOICES_MAX: Final = 200
"""So many zones or types can be chosen from; another one can be put into the address."""

NAMED_MAX: Final = 20
FACTOR: Final = 2.0


async def whatif(asking: Asking, seen: Seen) -> Page:
    """The form, and the answer when something is asked."""
    form = await _form(asking, seen)
    try:
        query = query_in(seen)
        if query != q.WhatIfQuery():
            return _page(together(form, _told(await _supposed(asking, query))))
    except Rejected as error:
        return _page(together(form, h("p", error.message, class_="notice bad", role="alert")))
    said = "Choose one change or several. Each shard decides twice, as things are and as they"
    note = h("p", f"{said} would be, and tells the difference. Nothing is done.", class_="note")
    return _page(together(form, note))


def _page(fixed: Html) -> Page:
    return Page(title="What if", section="/whatif", fixed=fixed, live={})


async def _supposed(asking: Asking, query: q.WhatIfQuery) -> list[Told[q.WhatIfAnswer]]:
    """By every shard that it is about."""
    serving: dict[str, set[str]] = {name: set() for name in asking.names}
    for cluster in {each.cluster for each in query.additions}:
        for each in await asking.clusters(cluster):
            if each.value is not None and each.value.rows:
                serving.setdefault(each.source, set()).add(cluster)  # perhaps it is new
    return await asking.supposed(divided(query, serving))


def _told(told: Sequence[Told[q.WhatIfAnswer]]) -> Html:
    """The sum, then each shard; one that is not in the sum is named, and says why."""
    answers = [each.value for each in told if each.value is not None]
    others = [each for each in told if each.value is None]
    if not answers:
        why = "; ".join(each.error for each in others) or "no shard could be asked"
        return h("p", why, class_="notice bad", role="alert")
    check_known(answers, all_answered=all(each.refused for each in others))
    left_out = [f"Not in the sum: {each.source} ({each.error})" for each in others]
    notes = [h("p", each, class_="note") for each in left_out]
    return together(_sum(answers), *notes, *map(_answer, answers))


def query_in(seen: Seen) -> q.WhatIfQuery:
    """What the address asks."""
    rack = seen.asked("rack")
    lost = (q.Selection(matches=(q.Match(key=RACK_KEY, values=(rack,)),)),) if rack else ()
    return q.WhatIfQuery(
        lost_zones=tuple(filter(None, (seen.asked("zone"),))),
        lost=lost,
        prices=_prices(seen),
        additions=_additions(seen),
    )


def _prices(seen: Seen) -> tuple[q.PriceChange, ...]:
    capacity, kind, text = seen.asked("capacity"), seen.asked("type"), seen.asked("factor")
    if not (capacity or kind):
        return ()
    try:
        factor = float(text or FACTOR)
    except ValueError:
        factor = math.nan
    if not math.isfinite(factor) or factor < 0:
        raise Rejected(f"not a factor for a price: {text} (2 doubles it, 0.5 halves it)")
    matches = (q.Match(key=INSTANCE_TYPE_KEY, values=(kind,)),) if kind else ()
    types = (capacity,) if capacity else ()
    return (
        q.PriceChange(selection=q.Selection(matches=matches, capacity_types=types), factor=factor),
    )


def _additions(seen: Seen) -> tuple[q.Addition, ...]:
    cluster = seen.asked("cluster")
    asked = {name: seen.asked(name) for name in ("cpu", "memory", "gpu") if seen.asked(name)}
    if not cluster:
        return ()
    if not asked:
        raise Rejected("how much more? Say how many CPUs, how much memory or how many GPUs")
    priority = seen.asked("priority")
    try:
        level = int(priority or 0)
    except ValueError as error:
        raise Rejected(f"not a priority: {priority} (a whole number)") from error
    resources = {RESOURCES[name]: amount for name, amount in asked.items()}
    need = RawNeed(requirements=(), aggregate_resources=resources, priority=level)
    return (q.Addition(cluster=cluster, need=need),)


RESOURCES: Final[Mapping[str, str]] = {"cpu": "cpu", "memory": "memory", "gpu": "nvidia.com/gpu"}


async def _form(asking: Asking, seen: Seen) -> Html:
    zones, types = await _values(asking, ZONE_KEY), await _values(asking, INSTANCE_TYPE_KEY)
    told = await asking.clusters()
    clusters = sorted({row.cluster for each in told if each.value for row in each.value.rows})
    kinds = [Choice(kind.name.lower(), str(kind)) for kind in CapacityType if kind]
    return filters(
        "/whatif",
        _group(
            "Lose machines",
            select("zone", "Lose a zone", _choices(zones, seen.asked("zone")), seen.asked("zone")),
            field("rack", "Drain a rack", seen.asked("rack")),
        ),
        _group(
            "Change a price",
            select("capacity", "Of this class", [Choice("", "any"), *kinds],
                   seen.asked("capacity")),
            select("type", "Of this type", _choices(types, seen.asked("type"), "any"),
                   seen.asked("type")),
            field("factor", "Times", seen.asked("factor") or f"{FACTOR:g}", inputmode="decimal",
                  size=4),
        ),
        _group(
            "Add demand",
            select("cluster", "Of cluster", _choices(clusters, seen.asked("cluster")),
                   seen.asked("cluster")),
            field("cpu", "CPUs", seen.asked("cpu"), size=5),
            field("memory", "Memory", seen.asked("memory"), placeholder="256Gi", size=7),
            field("gpu", "GPUs", seen.asked("gpu"), size=4),
            field("priority", "Priority", seen.asked("priority"), size=5),
        ),
        button="What if?",
    )  # fmt: skip


def _group(name: str, *fields: Html) -> Html:
    return h("fieldset", h("legend", name), *fields)


def _choices(values: Sequence[str], chosen: str, none: str = "none") -> list[Choice]:
    known = values if chosen in {"", *values} else (*values, chosen)
    return [Choice("", none), *(Choice(value, value) for value in known)]


async def _values(asking: Asking, key: str) -> list[str]:
    told = await asking.groups(g.GroupQuery(attribute=key, limit=CHOICES_MAX))
    return sorted({row.value for each in told if each.value for row in each.value.rows})


def _sum(answers: Sequence[q.WhatIfAnswer]) -> Html:
    """All shards together: dollars, actions, needs."""
    before = sum(each.cost_before for each in answers)
    after = sum(each.cost_after for each in answers)
    lost = sum(each.unsatisfied_count for each in answers)
    more = sum(sum(each.actions_after.values()) for each in answers)
    now = sum(sum(each.actions_before.values()) for each in answers)
    return section("What would happen", cards(
        card("Per hour now", dollars(before), "the plan carried out"),
        card("Per hour then", dollars(after), f"{_signed(after - before)} per hour",
             warns=after > before),
        card("Actions now", number(now)),
        card("Actions then", number(more), f"{more - now:+,}"),
        card("Needs no longer served", number(lost), warns=lost > 0),
        card("Needs served only then", number(sum(each.satisfied_count for each in answers))),
        card("Machines drained for it", number(sum(each.drained_count for each in answers))),
    ))  # fmt: skip


def _signed(value: float) -> str:
    return f"{'-' if value < 0 else '+'}{dollars(abs(value))}"


def _answer(told: q.WhatIfAnswer) -> Html:
    kinds = [str(kind) for kind in ActionKind]
    rows = [
        (kind, number(now), number(then), f"{then - now:+,}")
        for kind in kinds
        if (now := told.actions_before.get(kind, 0)) + (then := told.actions_after.get(kind, 0))
    ]
    columns = ("Action", Column("Now", True), Column("Then", True), Column("Change", True))
    stamp = f"On the plan of cycle {told.stamp.cycle:,} of {told.stamp.shard}. Nothing was done."
    return section(
        f"Shard {told.stamp.shard}",
        h("p", f"{dollars(told.cost_before)} per hour now, {dollars(told.cost_after)} then"
               f" ({_signed(told.cost_after - told.cost_before)}).", class_="note"),
        table("Actions that are planned", columns, rows, "No action, now or then."),
        _needs("No longer served in full", told.unsatisfied, told.unsatisfied_count, told),
        _needs("Served in full only then", told.satisfied, told.satisfied_count, told),
        _needs("Missing another amount", told.moved, told.moved_count, told),
        _machines("Drained only then", told.drained, told.drained_count),
        _machines("No longer drained", told.spared, told.spared_count),
        *(h("p", f"No machine of this shard has {each}: that was left out.", class_="note")
          for each in told.unmatched),
        h("p", stamp, class_="note"),
    )  # fmt: skip


def _needs(what: str, changes: Sequence[q.NeedChange], count: int, told: q.WhatIfAnswer) -> Html:
    if not count:
        return EMPTY
    rows: list[Sequence[Child]] = [
        (_need(each, told.stamp.shard), each.cluster, amounts(each.before) or "nothing",
         amounts(each.after) or "nothing")
        for each in changes[:NAMED_MAX]
    ]  # fmt: skip
    columns = ("Need", "Cluster", "Misses now", "Would miss")
    return table(f"{what}: {plural(count, 'need')}{_first(count)}", columns, rows, "None.")


def _need(change: q.NeedChange, shard: str) -> Child:
    name = "/".join(filter(None, (short(change.fingerprint), change.group)))
    to = address("needs", "explain", shard=shard, cluster=change.cluster,
                 need=change.fingerprint, group=change.group)  # fmt: skip
    return link(name, to)


def _machines(what: str, machines: Sequence[str], count: int) -> Html:
    if not count:
        return EMPTY
    named = [h("li", machine_link(machine)) for machine in machines[:NAMED_MAX]]
    said = f"{what}: {plural(count, 'machine')}{_first(count)}"
    return together(h("h3", said), h("ul", *named, class_="names"))


def _first(count: int) -> str:
    return f", the first {NAMED_MAX} of them" if count > NAMED_MAX else ""
