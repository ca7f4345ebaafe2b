"""Money: what is paid now and was paid so far, for what, and what giving back has saved."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from mainstay.dashboard.asking import SHOWN_MAX, Asking
from mainstay.dashboard.draw import Share, bar
from mainstay.dashboard.html import EMPTY, Child, Html, address, h, link, together
from mainstay.dashboard.page import Page, Seen
from mainstay.dashboard.pages.rows import machine_link, need_link
from mainstay.dashboard.pages.tenant_money import by_tenant
from mainstay.dashboard.parts import Column, age_mark, card, cards, mark, section, table, tabs
from mainstay.dashboard.told import Told
from mainstay.dashboard.words import dollars, exact_moment, moment, number, of_old, plural
from mainstay.model import money_views as m
from mainstay.model import views as v
from mainstay.model.action import ActionKind
from mainstay.tenancy.billing.charge import formatted
from mainstay.tenancy.billing.standing import State as Standing

NANO: Final = 1e9
"""Money is told in billionths of a dollar."""

TENANT: Final = "tenant"

BY: Final[Mapping[str, str]] = {
    "class": "class of capacity", "cluster": "cluster", "type": "instance type",
    TENANT: "tenant",
}  # fmt: skip

PARTS: Final[Mapping[str, str]] = {
    "hosts": "Hosts", "spend_per_hour": "Per hour", "spent": "So far",
    "idle_per_hour": "Idle per hour", "unclaimed_per_hour": "Unclaimed per hour",
    "saving_per_hour": "Saved per hour", "saving": "Saved so far",
}  # fmt: skip

STANDINGS: Final[Mapping[str, str]] = {
    Standing.HEALTHY: "good", Standing.LOW: "warn", Standing.PENDING: "bad",
    Standing.DEPLETED: "bad",
}  # fmt: skip
"""How each standing of an account is coloured."""

NOT_BOUGHT: Final = (
    "A machine that is preempted goes on costing, for the need that it was taken for: not bought is"
    " what another one like it would cost."
)

DRAINS: Final = 25
PROJECTS: Final = 20
Sums = Counter[str]


async def page(asking: Asking, seen: Seen) -> Page:
    """By one of three, with the whole above it."""
    by = seen.asked("by") if seen.asked("by") in BY else "class"
    told = await asking.money("class" if by == TENANT else by)
    drained = [
        each
        for kind in (ActionKind.RECLAIM, ActionKind.PREEMPT)
        for each in await asking.actions(v.ActionQuery(kind=kind, limit=DRAINS))
    ]
    choices = [(each, f"By {name}", address("money", by=each)) for each, name in BY.items()]
    return Page(
        title="Money",
        section="/money",
        fixed=EMPTY,
        live={
            "whole": _whole(told, seen.now_s),
            "by": tabs("Money by", by, choices),
            "parts": await by_tenant(asking, seen)
            if by == TENANT
            else section(f"By {BY[by]}", _parts(told, by)),
            "drains": _drains(drained),
            "tenants": await _tenants(asking),
        },
    )


def sums(rows: Iterable[v.MoneyRow]) -> Sums:
    """Some parts as one."""
    found: Sums = Counter()
    for row in rows:
        for part in (*PARTS, "idle", "unclaimed"):
            found[part] += getattr(row, part)
    return found


def by_name(told: Iterable[Told[m.MoneyRows]]) -> list[tuple[str, Sums]]:
    """The parts of all shards together, the dearest first."""
    rows: dict[str, list[v.MoneyRow]] = {}
    for each in told:
        for row in each.value.rows if each.value else ():
            rows.setdefault(row.name or m.NOBODY, []).append(row)
    found = [(name, sums(some)) for name, some in rows.items()]
    return sorted(found, key=lambda pair: (-pair[1]["spend_per_hour"], -pair[1]["spent"], pair[0]))


def _whole(told: Sequence[Told[m.MoneyRows]], now_s: float) -> Html:
    heard = [each.value for each in told if each.value is not None]
    total = sums(each.total for each in heard)
    since = min((each.since_s for each in heard if each.since_s), default=0.0)
    old = sums(each.value.total for each in told if each.is_stale and each.value)
    waste = total["idle_per_hour"] + total["unclaimed_per_hour"]
    wasted = total["idle"] + total["unclaimed"]
    seen_only = sorted({name for each in heard for name in each.as_seen})
    ages = [age_mark(each, now_s) for each in told if each.is_stale]
    made = cards(
        card("Spend per hour", _dollars(total["spend_per_hour"]),
             plural(total["hosts"], "machine") + of_old(old["hosts"])),
        card("Spent so far", _dollars(total["spent"]), ["since ", moment(since, now_s)]),
        card("Waste per hour", _dollars(waste), "idle or unclaimed", warns=waste > 0),
        card("Wasted so far", _dollars(wasted), "idle or unclaimed"),
        card("Saved per hour", _dollars(total["saving_per_hour"]), "against all on demand"),
        card("Saved so far", _dollars(total["saving"]), "against all on demand"),
    )  # fmt: skip
    note = f"Counted by what is seen, not to the cent: {', '.join(seen_only)}."
    return together(ages, made, h("p", note, class_="note") if seen_only else None)


def _dollars(nano: int) -> str:
    return dollars(nano / NANO)


def _parts(told: Sequence[Told[m.MoneyRows]], by: str) -> Html:
    found = by_name(told)
    rows = [(_named(name, by), *_amounts(each)) for name, each in found[:SHOWN_MAX]]
    columns: list[Column | str] = [BY[by].capitalize(), *(Column(n, True) for n in PARTS.values())]
    caption = f"{plural(len(found), 'row')}, the dearest first"
    return together(money_bar(found, BY[by]), table(caption, columns, rows, "Nothing."))


def _named(name: str, by: str) -> Child:
    if name == m.NOBODY:
        return name
    match by:
        case "cluster":
            return link(name, address("clusters", name))
        case "type":
            return link(name, address("machines", type=name))
        case _:
            return name


def _amounts(parts: Sums) -> list[str]:
    return [number(parts["hosts"]), *(_dollars(parts[part]) for part in list(PARTS)[1:])]


def money_bar(found: Sequence[tuple[str, Sums]], what: str) -> Html:
    """The largest shares of what is spent per hour; what is left is one piece."""
    spent = [(name, each["spend_per_hour"]) for name, each in found if each["spend_per_hour"]]
    shares = [
        Share(name, nano, f"phase-{place}", f"{_dollars(nano)} per hour")
        for place, (name, nano) in enumerate(spent[:6])
    ]
    if rest := sum(nano for _, nano in spent[6:]):
        shares.append(Share("all others", rest, "speculative", f"{_dollars(rest)} per hour"))
    return bar(f"Dollars per hour by {what}", shares) if shares else EMPTY


def _drains(told: Sequence[Told[v.ActionRows]]) -> Html:
    """What was taken back, with what it saves and what it put at risk."""
    found = [(each, row) for each in told if each.value for row in each.value.rows]
    found.sort(key=lambda pair: pair[0].value.stamp.cycle - pair[1].cycle if pair[0].value else 0)
    rows = [
        (machine_link(row.machine), mark(row.kind), row.cluster,
         mark(row.disposition, "good" if row.disposition == "executed" else "warn"),
         _saved(row), "no amount is enough" if row.pinned
         else dollars(row.at_risk_dollars), need_link(each.source, row), exact_moment(row.at_s),
         each.source)
        for each, row in found[:DRAINS]
    ]  # fmt: skip
    columns = (
        "Machine", "Action", "Cluster", "What became of it", Column("Saved per hour", True),
        Column("At risk", True), "For need", "When (UTC)", "Shard",
    )  # fmt: skip
    made = table("The last machines that were taken back, the newest first", columns, rows,
                 "Nothing was reclaimed or preempted yet.")  # fmt: skip
    return section("Reclaims and preempts", made, h("p", NOT_BOUGHT, class_="note"))


def _saved(row: v.ActionRow) -> str:
    per_hour = dollars(row.saved_per_hour)
    return f"{per_hour} not bought" if row.kind == ActionKind.PREEMPT else per_hour


async def _tenants(asking: Asking) -> Html:
    """How the accounts of the first projects stand."""
    projects = (await asking.tenancy("/projects", limit=PROJECTS)).value
    items = projects["items"] if isinstance(projects, dict) else ()
    rows = []
    for each in items:
        identity = str(each["id"])
        told = (await asking.tenancy("/billing/balance", project_id=identity)).value
        if isinstance(told, dict):
            rows.append(_tenant(str(each["name"]), told))
    columns = (
        "Project", "Account", "Standing", Column("Balance", True), Column("Per hour", True),
    )  # fmt: skip
    return section("Tenants", table(f"The first {PROJECTS} projects", columns, rows, "No project."))


def _tenant(name: str, told: Mapping[str, Any]) -> Sequence[Child]:
    state = str(told["state"])
    return (
        name, str(told["account"]), mark(state.replace("_", " "), STANDINGS.get(state, "plain")),
        str(told["balance"]), formatted(int(told["hour_minor"]), str(told["currency"])),
    )  # fmt: skip
