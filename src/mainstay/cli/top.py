"""`mainstay top`: running shards, live. A picture on a terminal, plain text anywhere else."""

import asyncio
import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import typer

from mainstay.cli import exits, servers
from mainstay.cli.options import Option, takes
from mainstay.cli.words import age, dollars, held_back, of_nanos
from mainstay.model.action import ActionKind
from mainstay.model.errors import MainstayError
from mainstay.model.state import State
from mainstay.model.views import Summary, SummaryQuery
from mainstay.runtime.clock import SystemClock

if TYPE_CHECKING:
    from mainstay.processes.finding import Server

app = typer.Typer(add_completion=False)

INTERVAL_S: Final = 2.0
RESTING: Final = {"pause": "PAUSED", "shadow": "SHADOWED"}
FENCED: Final = "fenced"
"""As a provider's health."""

BAR: Final = 30
"""Characters of a full bar."""


@app.command()
@takes(
    Option("once", bool, "Print once and end.", False, ("--once",)),
    Option("interval", float, "Seconds between two looks.", INTERVAL_S, least=0.2),
    *servers.SERVER,
)
def top(**given: Any) -> int:
    """Machines by state, needs unmet, cycle time, actions, providers, sessions, spend.

    On a terminal: o overview, n needs unmet, m machines, c clusters, a actions, s shortfalls,
    p providers, k coordinator, t allocations of tenants; arrows select, Enter explains a need or a
    machine, / filters, Esc closes, f freezes, + and - change the pace, q quits.
    """
    found = servers.find_servers(given)
    if given["once"]:
        answers = servers.ask(found, lambda shard: shard.summary(SummaryQuery()))
        sys.stdout.write(screen([answer.value for answer in answers.given]))
        return answers.exit_code
    with contextlib.suppress(KeyboardInterrupt):
        _live(found, given)
    return exits.DONE


def _live(found: "Sequence[Server]", given: Mapping[str, Any]) -> None:
    interval_s = given["interval"]
    if not sys.stdout.isatty():
        asyncio.run(_looked(found, interval_s, print_plain))
        return
    from mainstay.cli import top_live
    from mainstay.cli.top_views import Fleet, coordinators_here

    here = not (given["server"] or given["context"])
    fleet = Fleet(tuple(found), coordinators_here(given), tenants=here)
    asyncio.run(top_live.watch(fleet, interval_s, lambda: _once(found), SystemClock().now_s))


async def _once(found: "Sequence[Server]") -> str:
    answers = await servers.ask_all(found, lambda shard: shard.summary(SummaryQuery()))
    missing = [error.message for error in answers.missing]
    return screen([answer.value for answer in answers.given], missing)


def print_plain(text: str) -> None:
    """A look after the other, with a line between them."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


async def _looked(found: "Sequence[Server]", interval_s: float, show: Any) -> None:
    while True:
        try:
            show(await _once(found))
        except MainstayError as error:
            show(f"{exits.line_of(error)}\n")
        await asyncio.sleep(interval_s)


def screen(told: Sequence[Summary], missing: Sequence[str] = ()) -> str:
    """Every shard, one after the other."""
    now_s = SystemClock().now_s()
    lines = [line for summary in told for line in (*_lines(summary, now_s), "")]
    lines += [f"not reachable: {each}" for each in missing]
    return "\n".join(lines).rstrip() + "\n"


def _lines(told: Summary, now_s: float) -> Iterator[str]:
    stamp = told.stamp
    if not stamp.cycle:
        yield f"Shard {stamp.shard}, epoch {told.epoch}: has not finished its first cycle"
        yield from _providers(told, now_s)
        return
    ago = age(now_s - stamp.at_s)
    yield f"Shard {stamp.shard}, epoch {told.epoch}, cycle {stamp.cycle}, {ago} ago"
    if told.not_acting:
        yield f"NOT ACTING: {told.not_acting}"
    yield from _held(told, now_s)
    yield ""
    yield from _machines(told)
    yield ""
    parked = f", {told.parked} parked" if told.parked else ""
    yield f"needs     {told.needs:,}, {told.unmet:,} unmet{parked}"
    yield f"for them  {_for_needs(told)}"
    held = f", {told.held_rollups} with a held roll-up" if told.held_rollups else ""
    yield f"clusters  {told.clusters:,} with needs, {told.connected:,} connected{held}"
    yield f"cycle     {_cycle(told)}"
    planned = (f"{told.planned[kind]:,} {kind}" for kind in ActionKind if kind in told.planned)
    yield f"planned   {', '.join(planned) or 'nothing'}"
    yield (
        f"actions   {told.actions_per_minute:,.0f} per minute, {told.queued:,} queued,"
        f" {told.in_flight:,} in flight"
    )
    yield f"spend     {_spend(told)}"
    yield f"money     {_money(told, now_s)}"
    yield ""
    yield from _providers(told, now_s)


def _held(told: Summary, now_s: float) -> Iterator[str]:
    """What keeps the whole shard from acting, or from acting through a provider."""
    for each in told.resting:
        by = f"by its configuration ({each.reason})" if each.fixed else f"by {each.by}"
        ends = "" if each.fixed else f", {age(each.expires_at_s - now_s)} more: {each.reason}"
        yield f"{RESTING.get(each.kind, each.kind)} {by}{ends}"
    for provider in told.providers:
        if provider.health == FENCED:
            yield f"NOT ACTING through {provider.name}: {provider.why}"
    if told.controls:
        controls = "1 control" if told.controls == 1 else f"{told.controls:,} controls"
        yield f"{controls}: `mainstay get controls`"


def _for_needs(told: Summary) -> str:
    progress = told.progress
    machines = "1 machine" if progress.machines == 1 else f"{progress.machines:,} machines"
    held = f", {held_back(progress)} held back" if progress.held_back else ""
    return f"{machines}: {progress.serving:,} serving, {progress.coming:,} coming{held}"


def _machines(told: Summary) -> Iterator[str]:
    total = sum(told.machines.values())
    yield f"{total:,} machines"
    for state in State:
        if count := told.machines.get(str(state), 0):
            bar = "#" * max(1, round(BAR * count / total))
            yield f"  {state!s:<12} {count:>10,}  {bar}"


def _cycle(told: Summary) -> str:
    total = sum(told.seconds.values())
    parts = sorted(told.seconds.items(), key=lambda part: -part[1])
    named = ", ".join(f"{name} {seconds * 1000:.0f}" for name, seconds in parts[:4])
    return f"{total * 1000:.0f} ms" + (f" ({named})" if named else "")


def _spend(told: Summary) -> str:
    by_state = told.spend_per_hour
    idle = by_state.get(str(State.IDLE), 0.0)
    return f"${dollars(sum(by_state.values()))} per hour, ${dollars(idle)} of it idle"


def _money(told: Summary, now_s: float) -> str:
    money = told.money
    waste = of_nanos(money.idle + money.unclaimed)
    counted = age(now_s - told.money_since_s) if told.money_since_s else "no time"
    return (
        f"${of_nanos(money.spent)} in {counted}, ${waste} of it waste,"
        f" ${of_nanos(money.saving)} less than on demand"
    )


def _providers(told: Summary, now_s: float) -> Iterator[str]:
    for each in told.providers:
        listed = f"listed {age(now_s - each.listed_at_s)} ago" if each.listed_at_s else "not listed"
        why = f": {each.why}" if each.why else ""
        yield f"provider  {each.name} {each.health}, {each.machines:,} machines, {listed}{why}"
