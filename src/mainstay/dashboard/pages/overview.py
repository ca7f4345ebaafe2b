"""The fleet at a glance: by state, in dollars, what is missing, what was decided last."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from mainstay.dashboard.asking import SHORTFALLS_SHOWN, Asking
from mainstay.dashboard.draw import STATES, Share, bar, states_bar
from mainstay.dashboard.draw_lines import history_part
from mainstay.dashboard.html import EMPTY, Child, Html, address, h, link
from mainstay.dashboard.page import Page, Seen
from mainstay.dashboard.pages.money import BY, NANO, by_name, money_bar, sums
from mainstay.dashboard.pages.rows import (
    ACTION_COLUMNS,
    Held,
    action_rows,
    held_by,
    not_acting,
    stopped_providers,
)
from mainstay.dashboard.parts import Column, age_mark, card, cards, mark, section, table
from mainstay.dashboard.told import Told
from mainstay.dashboard.words import amounts, dollars, number, of_old, plural, short
from mainstay.model import money_views as m
from mainstay.model import views as v
from mainstay.model.state import State

DECISIONS: Final = 12


async def overview(asking: Asking, seen: Seen) -> Page:
    """The first page."""
    async with asyncio.TaskGroup() as group:
        summed = group.create_task(asking.summaries())
        short_of = group.create_task(asking.shortfalls())
        costs = group.create_task(asking.money("class"))
        done = group.create_task(asking.actions(v.ActionQuery(limit=DECISIONS)))
        controls = group.create_task(asking.controls())
    told, held = summed.result(), held_by(controls.result())
    summaries = [each.value for each in told if each.value is not None]
    return Page(
        title="Overview",
        section="/",
        fixed=EMPTY,
        live={
            "figures": _figures(summaries, told, held),
            "fleet": _fleet(summaries),
            "history": history_part(asking.history.lines()),
            "money": _money(costs.result(), summaries),
            "shortfalls": _shortfalls(short_of.result()),
            "providers": _providers(told, seen.now_s),
            "decisions": _decisions(done.result()),
        },
    )


def _figures(summaries: Sequence[v.Summary], told: Sequence[Told[v.Summary]], held: Held) -> Html:
    machines = _counted(summaries)
    slots = machines[str(State.SPECULATIVE)]
    real = sum(machines.values()) - slots
    needs, unmet = sum(s.needs for s in summaries), sum(s.unmet for s in summaries)
    held_back = sum(s.progress.held_back for s in summaries)
    metered = sums(s.money for s in summaries)
    spend, idle = metered["spend_per_hour"] / NANO, metered["idle_per_hour"] / NANO
    controls = sum(s.controls for s in summaries)
    stances = [(s.stamp.shard, not_acting(s, held)) for s in summaries]
    resting = [f"{shard}: {why}" for shard, why in stances if why]
    resting += [
        f"{s.stamp.shard}: not through {row.name}"
        for s in summaries
        for row in stopped_providers(s)
    ]
    silent = sum(each.is_stale for each in told)
    return cards(
        card("Machines", link(number(real), "/machines"),
             f"and {number(slots)} quota slots{_of_old(told)}", warns=silent > 0),
        card("Serving", number(machines[str(State.CONFIGURED)]), "in state Configured"),
        card("Spending", dollars(spend), f"per hour, {dollars(idle)} idle{_of_old_money(told)}"),
        card("Needs", link(number(needs), "/needs"),
             f"{number(needs - unmet)} miss nothing{_of_held(held_back)}", warns=held_back > 0),
        card("Short", link(number(unmet), "/needs?unmet=1"), "miss something",
             warns=unmet > 0),
        card("Shards", link(number(len(told)), "/shards"),
             f"{plural(silent, 'shard')} silent" if silent else "all answer", warns=silent > 0),
        card("Controls", link(number(controls), "/controls"),
             "; ".join(resting) or "all shards act", warns=bool(resting)),
    )  # fmt: skip


def _of_held(machines: int) -> str:
    """What is planned is not begun with."""
    return f", {plural(machines, 'machine')} held back" if machines else ""


def _of_old(told: Sequence[Told[v.Summary]]) -> str:
    """How many machines of the sum may by now be counted by others too."""
    machines = _counted(each.value for each in told if each.is_stale and each.value)
    return of_old(sum(machines.values()) - machines[str(State.SPECULATIVE)])


def _of_old_money(told: Sequence[Told[v.Summary]]) -> str:
    old = sums(each.value.money for each in told if each.is_stale and each.value)
    spend = old["spend_per_hour"]
    return f", of which {dollars(spend / NANO)} are old" if spend else ""


def _counted(summaries: Iterable[v.Summary]) -> Counter[str]:
    found: Counter[str] = Counter()
    for summary in summaries:
        found.update(dict(summary.machines))
    return found


def _fleet(summaries: Sequence[v.Summary]) -> Html:
    machines = _counted(summaries)
    if not machines:
        return section("Fleet by state", "No shard has told of any machine yet.")
    return section("Fleet by state", states_bar("Machines by state", machines))


def _money(told: Sequence[Told[m.MoneyRows]], summaries: Sequence[v.Summary]) -> Html:
    """By class of capacity; by state where a shard does not tell that."""
    found = by_name(told)
    if not found:
        return _money_by_state(summaries)
    drawn = money_bar(found, BY["class"])
    return section("Money by class of capacity", drawn, h("p", link("All money", "/money")))


def _money_by_state(summaries: Sequence[v.Summary]) -> Html:
    spend: dict[str, float] = {}
    for summary in summaries:
        for state, amount in summary.spend_per_hour.items():
            spend[state] = spend.get(state, 0.0) + amount
    shares = [
        Share(str(state), spend[str(state)], str(state).lower(), dollars(spend[str(state)]))
        for state in STATES
        if spend.get(str(state))
    ]
    drawn = bar("Dollars per hour by state", shares) if shares else "Nothing costs anything now."
    return section("Money per hour by state", drawn)


def _shortfalls(told: Sequence[Told[v.ShortfallRows]]) -> Html:
    rows = [(each, row) for each in told if each.value for row in each.value.rows]
    rows.sort(key=lambda pair: (-pair[1].priority, -pair[1].age))
    shown = [
        (_explain(each, row), row.priority, amounts(row.missing), ", ".join(row.reasons),
         plural(row.age, "cycle"), ", ".join(row.clusters), each.source)
        for each, row in rows[:SHORTFALLS_SHOWN]
    ]  # fmt: skip
    columns = (
        "Need", Column("Priority", True), "Missing", "Why", "For", "Clusters", "Shard",
    )  # fmt: skip
    kinds = sum(each.value.matched for each in told if each.value)
    caption = f"What is missing, the most important first: {plural(kinds, 'kind')} of need"
    made = table(caption, columns, shown, "Nothing is missing.")
    return section("Shortfalls", made, link("All needs that are short", "/needs?unmet=1"))


def _explain(told: Told[Any], row: v.ShortfallRow) -> Child:
    if not row.clusters:
        return short(row.fingerprint)
    to = address(
        "needs", "explain", shard=told.source, cluster=row.clusters[0], need=row.fingerprint
    )
    return link(short(row.fingerprint), to)


def _providers(told: Sequence[Told[v.Summary]], now_s: float) -> Html:
    rows = [
        (row.name, each.source, row.machines and number(row.machines), _health(row), row.why,
         age_mark(each, now_s))
        for each in told if each.value for row in each.value.providers
    ]  # fmt: skip
    columns = ("Provider", "Shard", Column("Machines", True), "Health", "Why", "Age")
    return section("Providers", table("Where machines come from", columns, rows, "None known."))


def _health(row: v.ProviderRow) -> Html:
    return mark(row.health or "unknown", "good" if row.health == "answering" else "bad")


def _decisions(told: Sequence[Told[v.ActionRows]]) -> Html:
    rows = action_rows(told)[:DECISIONS]
    made = table("The newest first", ACTION_COLUMNS, rows, "Nothing was decided yet.")
    return section("Last decisions", made, link("All recent actions", "/audit"))
