"""Shards as they see themselves and as the coordinator sees them, and the domains they have."""

from collections.abc import Mapping, Sequence
from typing import Any

from mainstay.dashboard.asking import SHOWN_MAX, Asking
from mainstay.dashboard.draw import Share, bar, states_bar
from mainstay.dashboard.draw_lines import history_part
from mainstay.dashboard.html import EMPTY, Child, Html, address, link
from mainstay.dashboard.page import Page, Seen
from mainstay.dashboard.pages.rows import Held, held_by, standing
from mainstay.dashboard.parts import (
    Column,
    age_mark,
    card,
    cards,
    facts,
    mark,
    section,
    table,
    told_by,
)
from mainstay.dashboard.told import Told
from mainstay.dashboard.words import dollars, lasting, moment, number, plural
from mainstay.model import coordinator_views as c
from mainstay.model import views as v
from mainstay.model.errors import Unknown


async def shards(asking: Asking, seen: Seen) -> Page:
    """All of them."""
    told = await asking.summaries()
    known, domains = await asking.registered()
    held = held_by(await asking.controls())
    return Page(
        title="Shards",
        section="/shards",
        fixed=EMPTY,
        live={
            "shards": _shards(told, known, held, seen.now_s),
            "domains": _domains(domains, seen.now_s),
        },
    )


def _shards(
    told: Sequence[Told[v.Summary]], fleet: Told[c.ShardRows], held: Held, now_s: float
) -> Html:
    known: Mapping[str, c.ShardRow] = (
        {row.id: row for row in fleet.value.rows} if fleet.value else {}
    )
    asked = {each.source: each for each in told}
    rows = [
        _shard(name, asked.get(name), known.get(name), held, now_s) for name in {**asked, **known}
    ]
    columns = (
        "Shard", "Age", "State", Column("Cycle", True), Column("Machines", True),
        Column("Needs", True),
        Column("Short", True), Column("$/hour", True), Column("Acts/min", True),
        "Reported", Column("Free", True), Column("Domains", True), Column("Strays", True),
    )  # fmt: skip
    caption = "Each shard; what stands behind Reported is what the coordinator knows of it"
    return table(caption, columns, rows, "No shard runs here.")


def _shard(
    name: str, told: Told[v.Summary] | None, row: c.ShardRow | None, held: Held, now_s: float
) -> Sequence[Child]:
    own: Sequence[Child] = ("", "", "", "", "", "", "")
    if told is not None and told.value is not None:
        s = told.value
        own = (
            standing(s, held), number(s.stamp.cycle), number(sum(s.machines.values())),
            number(s.needs),
            number(s.unmet), dollars(sum(s.spend_per_hour.values())),
            f"{s.actions_per_minute:.1f}",
        )  # fmt: skip
    seen: Sequence[Child] = ("", "", "", "")
    if row is not None:
        seen = (moment(row.last_heartbeat_ns / 1e9, now_s), number(row.free),
                number(row.domains), number(row.strays))  # fmt: skip
    age = age_mark(told, now_s) if told else mark("not asked", "warn")
    return (link(name, address("shards", name)), age, *own, *seen)


def _domains(told: Told[c.DomainRows], now_s: float) -> Html:
    rows = [
        (f"{row.key}={row.value}", _named(row.shard),
         mark(row.state, "good" if row.state == "held" else "warn"), row.to, number(row.strays))
        for row in (told.value.rows if told.value else ())
    ]  # fmt: skip
    matched = told.value.matched if told.value else 0
    more = f", the first {SHOWN_MAX} of them" if matched > SHOWN_MAX else ""
    columns = ("Domain", "Shard", "State", "Goes to", Column("Strays", True))
    caption = f"Who has which machines: {plural(matched, 'domain')}{more}"
    return section(
        "Domains", told_by(told, now_s), table(caption, columns, rows, "No domain is assigned.")
    )


def _named(shard: str) -> Child:
    return link(shard, address("shards", shard)) if shard else ""


async def shard(asking: Asking, seen: Seen) -> Page:
    """One of them."""
    name = seen.names["shard"]
    told = next((each for each in await asking.summaries() if each.source == name), None)
    if told is None:
        raise Unknown(f"no shard {name[:80]} is known here")
    if told.value is None:
        live = {"shard": facts(("State", age_mark(told, seen.now_s)), ("Why", told.error))}
    else:
        live = _one(told, told.value, held_by(await asking.controls()), seen.now_s)
        live["history"] = history_part(asking.history.lines(name))
    return Page(title=f"Shard {name}", section="/shards", fixed=EMPTY, live=live)


def _one(told: Told[Any], s: v.Summary, held: Held, now_s: float) -> dict[str, Html]:
    of = s.stamp.shard
    providers = [
        (row.name, mark(row.health, "good" if row.health == "answering" else "bad"),
         number(row.machines), number(row.failures), row.why,
         f"{lasting(now_s - row.listed_at_s)} ago" if row.listed_at_s else "never")
        for row in s.providers
    ]  # fmt: skip
    phases = [
        Share(name, value, f"phase-{place % 6}", f"{value * 1000:,.1f} ms")
        for place, (name, value) in enumerate(s.seconds.items())
        if name != "total" and value > 0
    ]
    columns = (
        "Provider", "Health", Column("Machines", True), Column("Failures", True), "Why", "Listed",
    )  # fmt: skip
    return {
        "figures": cards(
            card("State", standing(s, held), age_mark(told, now_s)),
            card("Cycle", number(s.stamp.cycle), moment(s.stamp.at_s, now_s)),
            card("Needs", number(s.needs), f"{number(s.unmet)} short, {number(s.parked)} parked"),
            card("Clusters", number(s.clusters), f"{number(s.connected)} connected"),
            card("Actions", f"{s.actions_per_minute:.1f}/min",
                 f"{number(s.in_flight)} in flight, {number(s.queued)} queued"),
            card("Spend per hour", dollars(sum(s.spend_per_hour.values()))),
            card("Epoch", number(s.epoch)),
        ),
        "fleet": section("Machines", states_bar(f"Machines of {of}", dict(s.machines))),
        "cycle": section("Where the last cycle spent its time",
                         bar("Seconds by phase", phases) if phases else "Not told yet."),
        "providers": section("Providers", table("Through whom it acts", columns, providers,
                                                "None.")),
    }  # fmt: skip
