"""`mainstay get`: rows of running shards, and of the coordinator."""

import dataclasses
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mainstay.cli import get_columns as columns
from mainstay.cli import get_fleet, get_tenancy, servers
from mainstay.cli.changes import selection
from mainstay.cli.listing import PRINTED, Listing, Printer
from mainstay.cli.nouns import Nouns
from mainstay.cli.options import Option, takes
from mainstay.cli.streaming import Column
from mainstay.cli.words import reason_named, state_named
from mainstay.model import money_views as m
from mainstay.model import views as v
from mainstay.model.action import ActionKind
from mainstay.model.state import State
from mainstay.shard.outcomes import Disposition

if TYPE_CHECKING:
    from mainstay.cli.servers import Answers
    from mainstay.processes.finding import Server
    from mainstay.wire.shard_view_client import RemoteShard

app = typer.Typer(add_completion=False, no_args_is_help=True, cls=Nouns)
app.add_typer(get_fleet.app)
app.add_typer(get_tenancy.app)
money_app = typer.Typer(add_completion=False)
"""`mainstay money` is short for `mainstay get money`."""

LIMIT: Final = 100

SHARED: Final = (*PRINTED, *servers.SERVER)

Question = Callable[["RemoteShard"], Awaitable[Any]]
Machines = Annotated[list[str] | None, typer.Argument(metavar="[MACHINE]...", help="Only these.")]
Need = Annotated[
    str, typer.Argument(metavar="[CLUSTER[/NEED[/GROUP]]]", help="Only this one, as shown.")
]
Clusters = Annotated[list[str] | None, typer.Argument(metavar="[CLUSTER]...", help="Only these.")]
Providers = Annotated[list[str] | None, typer.Argument(metavar="[PROVIDER]...", help="Only these.")]


class MoneyBy(StrEnum):
    """What money is cut by."""

    CLUSTER = "cluster"
    TYPE = "type"
    CLASS = "class"
    TENANT = "tenant"
    """The spending for tenancy, by project: it is divided here, with what the API says."""


LIMITED: Final = Option("limit", int, "At most so many rows of each shard; 0 is all.", LIMIT, (), 0)


@app.callback()
def get() -> None:
    """List what shards or a coordinator know. `-o wide` shows more, `-o json` all of it."""


@app.command()
@takes(
    Option("state", list[str], "In this state; may be repeated."),
    Option("cluster", str, "Bound to this cluster, or being created for it.", ""),
    Option("instance_type", str, "Of this instance type.", "", ("--type",)),
    Option("zone", str, "In this zone.", ""),
    Option("provider", str, "Of this provider.", ""),
    Option(
        "selector", str, "KEY=VALUE,...: type, zone, rack, capacity, state, provider or a label.",
        "", ("--selector", "-l"),
    ),
    LIMITED,
    *SHARED,
)  # fmt: skip
def machines(names: Machines = None, **given: Any) -> int:
    """Machines in order of their ids."""
    found = servers.find_servers(given)
    printer = Printer.of(_of(columns.MACHINES, found), given)
    query = machine_query(names or (), given, everything=printer.asks_all)
    return _repeated(given, printer, found, lambda now: _stream_machines(now, query, printer))


def machine_query(
    names: Sequence[str], given: Mapping[str, Any], *, everything: bool
) -> v.MachineQuery:
    """What the options mean; a selector and an option for the same thing are not both said."""
    chosen = selection(given["selector"] or "*")
    states = (*map(state_named, given["state"] or ()), *chosen.states)
    providers = {*chosen.providers, *filter(None, (given["provider"],))}
    if len(providers) > 1:
        raise typer.BadParameter("name one provider")
    return v.MachineQuery(
        states=states,
        cluster=given["cluster"],
        instance_type=given["instance_type"],
        zone=given["zone"],
        provider="".join(providers),
        limit=0 if everything or names else given["limit"],
        ids=tuple(names),
        labels={match.key: match.values[0] for match in chosen.matches},
        capacity_types=chosen.capacity_types,
    )


@app.command()
@takes(
    Option("cluster", str, "Of this cluster.", ""),
    Option("unmet", bool, "Only those that miss something.", False, ("--unmet",)),
    Option("short_for", str, "Only those that are short for this reason.", "", ("--reason",)),
    Option("least_priority", int, "Only those of this priority and above."),
    LIMITED,
    *SHARED,
)
def needs(need: Need = "", **given: Any) -> int:
    """Needs in the order in which they are served, with what they miss and why."""
    cluster, _, rest = need.partition("/")
    fingerprint, _, group = rest.partition("/")
    query = v.NeedQuery(
        cluster=cluster or given["cluster"],
        fingerprint=fingerprint,
        group=group,
        unmet=given["unmet"],
        reason=given["short_for"] and reason_named(given["short_for"]),
        least_priority=given["least_priority"],
        limit=0 if given["sort_by"] else given["limit"],
    )
    found = servers.find_servers(given)
    printer = Printer.of(_of(columns.NEEDS, found), given)

    def once(now: "Sequence[Server]") -> int:
        rows, code = _rows(now, lambda shard: shard.needs(query), printer)
        if not need:
            _tell_unknown(now, query.cluster, printer, len(rows))
        known = [need] if rows or not need else []
        return printer.missing("need", [need] if need else [], known, "needs") or code

    return _repeated(given, printer, found, once)


@app.command()
@takes(Option("cluster", str, "Only this one.", ""), *SHARED)
def clusters(names: Clusters = None, **given: Any) -> int:
    """Clusters: connected, heard, what they ask, hold and cost."""
    query = v.ClusterQuery(cluster=given["cluster"])
    return _show(given, lambda shard: shard.clusters(query), columns.CLUSTERS, names or ())


@app.command()
@takes(
    Option("kind", ActionKind, "Only such steps."),
    Option("cluster", str, "Of this cluster.", ""),
    Option("machine", str, "Of this machine.", ""),
    Option("disposition", Disposition, "Only those that this became of."),
    LIMITED,
    *SHARED,
)
def actions(**given: Any) -> int:
    """What was done with the last actions and what was not, the newest first."""
    query = v.ActionQuery(
        cluster=given["cluster"],
        machine=given["machine"],
        disposition=given["disposition"] or "",
        kind=given["kind"] or "",
        limit=0 if given["sort_by"] else given["limit"],
    )
    return _show(given, lambda shard: shard.actions(query), columns.ACTIONS)


@app.command()
@takes(*SHARED)
def shortfalls(**given: Any) -> int:
    """What is missing, by kind of need over all clusters."""
    query = v.ShortfallQuery()
    return _show(given, lambda shard: shard.shortfalls(query), columns.SHORTFALLS)


@app.command()
@takes(*SHARED)
def providers(names: Providers = None, **given: Any) -> int:
    """Providers, and how they stand."""
    query = v.ProviderQuery()
    return _show(given, lambda shard: shard.providers(query), columns.PROVIDERS, names or ())


@app.command()
@takes(*SHARED)
def controls(**given: Any) -> int:
    """Live controls: who restricts what, why, and until when."""
    query = v.ControlQuery()
    return _show(given, lambda shard: shard.controls(query), columns.CONTROLS)


@app.command()
@money_app.command()
@takes(
    Option("by", MoneyBy, "What to cut the whole by.", MoneyBy.CLUSTER, ("--by",)),
    Option("api", str, "With --by tenant: URL of the API; else the one that runs here.", ""),
    *SHARED,
)
def money(**given: Any) -> int:
    """What it costs and has cost, what of it is waste, and what all on demand would cost more."""
    found = servers.find_servers(given)
    if given["by"] is MoneyBy.TENANT:
        from mainstay.cli.get_tenants import LISTING, show_tenants

        tenants = Printer.of(LISTING, given)
        return _repeated(
            given, tenants, found, lambda now: show_tenants(now, given["api"], tenants)
        )
    query = m.MoneyQuery(by=given["by"].value)
    printer = Printer.of(_of(columns.MONEY, found), given)
    return _repeated(given, printer, found, lambda now: show_money(now, query, printer))


def show_money(found: "Sequence[Server]", query: m.MoneyQuery, printer: Printer) -> int:
    """Parts, then the whole, of each shard and, if all of several answer, of all together; what is
    to be known about it goes to stderr.
    """
    answers = servers.ask(found, lambda shard: shard.money(query))
    for answer in answers.given:
        told = answer.value
        rows = (*told.rows, dataclasses.replace(told.total, name=columns.WHOLE))
        _write(printer, told.stamp, rows)
    if len(found) > 1 and not answers.missing:
        fleet = m.added((answer.value.total for answer in answers.given), columns.WHOLE)
        printer.write([columns.Of(columns.WHOLE, fleet)])
    printer.close()
    for answer in answers.given:
        for remark in columns.money_remarks(answer.value):
            printer.remark(remark)
    return printer.answered(answers.missing)


def _show(
    given: Mapping[str, Any],
    question: Question,
    shown: columns.Shown,
    names: Sequence[str] = (),
) -> int:
    """Rows of a list that is asked whole; of some names only those."""
    found = servers.find_servers(given)
    printer = Printer.of(_of(shown, found), given)

    def once(now: "Sequence[Server]") -> int:
        rows, code = _rows(now, question, printer, names)
        _tell_unknown(now, given.get("cluster", ""), printer, len(rows))
        seen = [shown.name(row) for row in rows]
        return printer.missing(shown.noun, names, seen, f"{shown.noun}s") or code

    return _repeated(given, printer, found, once)


def _repeated(
    given: Mapping[str, Any],
    printer: Printer,
    found: "Sequence[Server]",
    look: "Callable[[Sequence[Server]], int]",
) -> int:
    """Once, or for as long as somebody watches, each time where the servers are by then."""
    return printer.repeat(lambda: look(servers.found_again(given, found)))


def _rows(
    found: "Sequence[Server]", question: Question, printer: Printer, names: Sequence[str] = ()
) -> tuple[list[columns.Of], int]:
    """One look: what was written, and how it went."""
    answers = servers.ask(found, question)
    written: list[columns.Of] = []
    for answer in answers.given:
        rows = [columns.Of(answer.value.stamp.shard, row) for row in answer.value.rows]
        if names:
            rows = [row for row in rows if printer.listing.name(row) in names]
        printer.write(rows)
        written += rows
    printer.close()
    _remarks(answers, printer)
    return written, printer.answered(answers.missing)


def _remarks(answers: "Answers[Any]", printer: Printer) -> None:
    for answer in answers.given:
        told = answer.value
        _remark(printer, told.stamp, len(told.rows), getattr(told, "matched", 0))


def _stream_machines(found: "Sequence[Server]", query: v.MachineQuery, printer: Printer) -> int:
    """Chunk by chunk as they come in, one shard after the other."""
    remarks: list[tuple[v.Stamp, int, int]] = []
    seen: list[str] = []

    async def write_all(shard: "RemoteShard") -> None:
        stamp, shown, matched = v.Stamp(shard=""), 0, 0
        async for chunk in shard.machines(query):
            _write(printer, chunk.stamp, chunk.rows)
            stamp, matched, shown = chunk.stamp, chunk.matched, shown + len(chunk.rows)
            seen.extend(row.id for row in chunk.rows if query.ids)
        remarks.append((stamp, shown, matched))

    answers = servers.ask_in_turn(found, write_all)
    printer.close()
    for remark in remarks:
        _remark(printer, *remark)
    code = printer.answered(answers.missing)
    _tell_unknown(found, query.cluster, printer, sum(matched for _, _, matched in remarks))
    return printer.missing("machine", query.ids, seen, "machines") or code


def _tell_unknown(found: "Sequence[Server]", cluster: str, printer: Printer, matched: int) -> None:
    """That nothing was found may be due to a name that nobody has."""
    if not cluster or matched:
        return
    answers = servers.ask(found, lambda shard: shard.clusters(v.ClusterQuery(cluster=cluster)))
    if not any(answer.value.rows for answer in answers.given):
        lists = "`mainstay get clusters` lists those that are"
        printer.remark(f"No cluster {cluster[:80]} is known here: {lists}.")


def _of(shown: columns.Shown, found: "Sequence[Server]") -> Listing:
    """Of several shards a column says which."""
    shard = Column("shard", lambda each: each.shard, wide=len(found) == 1)
    return Listing((shard, *shown.columns), shown.name, _data, shown.identity)


def _write(printer: Printer, stamp: v.Stamp, rows: Sequence[Any]) -> None:
    printer.write([columns.Of(stamp.shard, row) for row in rows])


def _data(each: columns.Of) -> Mapping[str, object]:
    told = dataclasses.asdict(each.row)
    plain = {name: str(held) if isinstance(held, State) else held for name, held in told.items()}
    listed = {name: list(h) if isinstance(h, tuple) else h for name, h in plain.items()}
    return {"shard": each.shard, **listed}


def _remark(printer: Printer, stamp: v.Stamp, shown: int, matched: int) -> None:
    """What is to be known about an answer beside its rows."""
    if not stamp.cycle:
        printer.remark(f"Shard {stamp.shard} has not finished its first cycle yet.")
    if matched > shown:
        more = f"{matched - shown:,} more of {matched:,} are not shown"
        printer.remark(f"Shard {stamp.shard}: {more}; raise --limit, 0 shows all.")
