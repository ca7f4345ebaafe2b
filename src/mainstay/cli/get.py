"""`mainstay get`: rows of running shards, and of the coordinator."""

import dataclasses
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import typer

from mainstay.cli import get_columns as columns
from mainstay.cli import get_fleet, servers
from mainstay.cli.options import Option, takes
from mainstay.cli.output import Format
from mainstay.cli.streaming import Column, RowStream, repeat
from mainstay.cli.words import state_named
from mainstay.model import views as v
from mainstay.model.state import State

if TYPE_CHECKING:
    from mainstay.processes.finding import Server
    from mainstay.wire.shard_view_client import RemoteShard

app = typer.Typer(add_completion=False, no_args_is_help=True)
app.add_typer(get_fleet.app)
money_app = typer.Typer(add_completion=False)
"""`mainstay money` is short for `mainstay get money`."""

LIMIT: Final = 100

SHARED: Final = (
    Option("form", Format, "How to print the answer.", Format.TABLE, ("--output", "-o")),
    Option("watch", bool, "Ask again every two seconds, until Ctrl-C.", False, ("--watch", "-w")),
    *servers.SERVER,
)


class MoneyBy(StrEnum):
    """What money is cut by."""

    CLUSTER = "cluster"
    TYPE = "type"
    CLASS = "class"
    TENANT = "tenant"
    """The spending for tenancy, by project: it is divided here, with what the API says."""


LIMITED: Final = Option("limit", int, "At most so many rows of each shard; 0 is all.", LIMIT, (), 0)


@dataclass(frozen=True, slots=True)
class Listing:
    """One question for rows, and how they are shown."""

    ask: "Callable[[RemoteShard], Awaitable[Any]]"
    columns: tuple[Column, ...]


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
    LIMITED,
    *SHARED,
)
def machines(**given: Any) -> int:
    """Machines in order of their ids."""
    query = v.MachineQuery(
        states=tuple(map(state_named, given["state"] or ())),
        cluster=given["cluster"],
        instance_type=given["instance_type"],
        zone=given["zone"],
        provider=given["provider"],
        limit=given["limit"],
    )
    return _repeated(given, lambda found: _stream_machines(found, query, given["form"]))


@app.command()
@takes(
    Option("cluster", str, "Of this cluster.", ""),
    Option("unmet", bool, "Only those that miss something.", False, ("--unmet",)),
    LIMITED,
    *SHARED,
)
def needs(**given: Any) -> int:
    """Needs in the order in which they are served, with what they miss and why."""
    query = v.NeedQuery(cluster=given["cluster"], unmet=given["unmet"], limit=given["limit"])
    return _show(given, Listing(lambda shard: shard.needs(query), columns.NEEDS))


@app.command()
@takes(Option("cluster", str, "Only this one.", ""), *SHARED)
def clusters(**given: Any) -> int:
    """Clusters: connected, heard, what they ask, hold and cost."""
    query = v.ClusterQuery(cluster=given["cluster"])
    return _show(given, Listing(lambda shard: shard.clusters(query), columns.CLUSTERS))


@app.command()
@takes(
    Option("cluster", str, "Of this cluster.", ""),
    Option("machine", str, "Of this machine.", ""),
    Option("disposition", str, "executed, suppressed, capped, deferred and so on.", ""),
    LIMITED,
    *SHARED,
)
def actions(**given: Any) -> int:
    """What was done with the last actions and what was not, the newest first."""
    query = v.ActionQuery(
        cluster=given["cluster"],
        machine=given["machine"],
        disposition=given["disposition"],
        limit=given["limit"],
    )
    return _show(given, Listing(lambda shard: shard.actions(query), columns.ACTIONS))


@app.command()
@takes(*SHARED)
def shortfalls(**given: Any) -> int:
    """What is missing, by kind of need over all clusters."""
    query = v.ShortfallQuery()
    return _show(given, Listing(lambda shard: shard.shortfalls(query), columns.SHORTFALLS))


@app.command()
@takes(*SHARED)
def providers(**given: Any) -> int:
    """Providers, and how they stand."""
    query = v.ProviderQuery()
    return _show(given, Listing(lambda shard: shard.providers(query), columns.PROVIDERS))


@app.command()
@takes(*SHARED)
def controls(**given: Any) -> int:
    """Live controls: who restricts what, why, and until when."""
    query = v.ControlQuery()
    return _show(given, Listing(lambda shard: shard.controls(query), columns.CONTROLS))


@app.command()
@money_app.command()
@takes(
    Option("by", MoneyBy, "What to cut the whole by.", MoneyBy.CLUSTER, ("--by",)),
    Option("api", str, "With --by tenant: URL of the API; else the one that runs here.", ""),
    *SHARED,
)
def money(**given: Any) -> int:
    """What it costs and has cost, what of it is waste, and what all on demand would cost more."""
    if given["by"] is MoneyBy.TENANT:
        from mainstay.cli.get_tenants import show_tenants

        return _repeated(given, lambda found: show_tenants(found, given["api"], given["form"]))
    query = v.MoneyQuery(by=given["by"].value)
    return _repeated(given, lambda found: show_money(found, query, given["form"]))


def show_money(found: "Sequence[Server]", query: v.MoneyQuery, form: Format) -> int:
    """Parts, then the whole; what is to be known about it goes to stderr."""
    answers = servers.ask(found, lambda shard: shard.money(query))
    stream = RowStream(_with_shard(columns.MONEY, found), form)
    for answer in answers.given:
        told = answer.value
        rows = (*told.rows, dataclasses.replace(told.total, name=columns.WHOLE))
        _write(stream, told.stamp, rows)
    stream.close()
    for answer in answers.given:
        for remark in columns.money_remarks(answer.value):
            sys.stderr.write(remark + "\n")
    return answers.exit_code


def _show(given: Mapping[str, Any], listing: Listing) -> int:
    return _repeated(given, lambda found: _show_once(found, listing, given["form"]))


def _repeated(given: Mapping[str, Any], once: "Callable[[Sequence[Server]], int]") -> int:
    found = servers.find_servers(given)
    return repeat(lambda: once(found), watch=given["watch"])


def _show_once(found: "Sequence[Server]", listing: Listing, form: Format) -> int:
    answers = servers.ask(found, listing.ask)
    stream = RowStream(_with_shard(listing.columns, found), form)
    for answer in answers.given:
        _write(stream, answer.value.stamp, answer.value.rows)
    stream.close()
    for answer in answers.given:
        _remark(answer.value.stamp, len(answer.value.rows), getattr(answer.value, "matched", 0))
    return answers.exit_code


def _stream_machines(found: "Sequence[Server]", query: v.MachineQuery, form: Format) -> int:
    """Chunk by chunk as they come in, one shard after the other."""
    stream = RowStream(_with_shard(columns.MACHINES, found), form)
    remarks: list[tuple[v.Stamp, int, int]] = []

    async def write_all(shard: "RemoteShard") -> None:
        stamp, shown, matched = v.Stamp(shard=""), 0, 0
        async for chunk in shard.machines(query):
            _write(stream, chunk.stamp, chunk.rows)
            stamp, matched, shown = chunk.stamp, chunk.matched, shown + len(chunk.rows)
        remarks.append((stamp, shown, matched))

    answers = servers.ask_in_turn(found, write_all)
    stream.close()
    for remark in remarks:
        _remark(*remark)
    return answers.exit_code


def _write(stream: RowStream, stamp: v.Stamp, rows: Sequence[Any]) -> None:
    stream.write([columns.Of(stamp.shard, row) for row in rows], _data)


def _data(each: columns.Of) -> Mapping[str, object]:
    told = dataclasses.asdict(each.row)
    plain = {name: str(held) if isinstance(held, State) else held for name, held in told.items()}
    listed = {name: list(h) if isinstance(h, tuple) else h for name, h in plain.items()}
    return {"shard": each.shard, **listed}


def _with_shard(own: Sequence[Column], found: "Sequence[Server]") -> tuple[Column, ...]:
    """Of several shards a column says which."""
    shard = Column("shard", lambda each: each.shard, wide=len(found) == 1)
    return (shard, *own)


def _remark(stamp: v.Stamp, shown: int, matched: int) -> None:
    """What is to be known about an answer beside its rows: on stderr, so that rows stay rows."""
    if not stamp.cycle:
        sys.stderr.write(f"Shard {stamp.shard} has not finished its first cycle yet.\n")
    if matched > shown:
        more = f"{matched - shown:,} more of {matched:,} are not shown"
        sys.stderr.write(f"Shard {stamp.shard}: {more}; raise --limit, 0 shows all.\n")
