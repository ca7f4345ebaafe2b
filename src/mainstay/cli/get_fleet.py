"""`mainstay get shards|domains|...`: rows of a coordinator, whichever of several leads."""

import dataclasses
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mainstay.cli import coordinators
from mainstay.cli.listing import PRINTED, Listing, Printer
from mainstay.cli.options import Option, takes
from mainstay.cli.streaming import Column
from mainstay.cli.words import age
from mainstay.model import coordinator_views as v
from mainstay.runtime.clock import SystemClock

if TYPE_CHECKING:
    from mainstay.processes.finding import Server
    from mainstay.wire.coordinator_client import RemoteCoordinator

app = typer.Typer(add_completion=False)

LIMIT: Final = 100

SHARED: Final = (*PRINTED, *coordinators.SERVER)
LIMITED: Final = Option("limit", int, "At most so many rows; 0 is all.", LIMIT, (), 0)
SHARD: Final = Option("shard", str, "Only of this shard.", "")


Question = Callable[["RemoteCoordinator"], Awaitable[Any]]
Shards = Annotated[list[str] | None, typer.Argument(metavar="[SHARD]...", help="Only these.")]
Moves = Annotated[list[str] | None, typer.Argument(metavar="[MOVE]...", help="Only these.")]


@app.command()
@takes(SHARD, *SHARED)
def shards(names: Shards = None, **given: Any) -> int:
    """Shards that report to the coordinator: what they have and when they were heard."""
    query = v.ShardQuery(shard=given["shard"])
    return _show(given, lambda asked: asked.shards(query), SHARDS, ("shard", names or ()))


@app.command()
@takes(
    Option("key", str, "Only of this label.", ""),
    Option("value", str, "Only with this value.", ""),
    SHARD,
    LIMITED,
    *SHARED,
)
def domains(**given: Any) -> int:
    """Domains: which shard has each, or gets it."""
    query = v.DomainQuery(
        shard=given["shard"], key=given["key"], value=given["value"], limit=_limit(given)
    )
    return _show(given, lambda asked: asked.domains(query), DOMAINS)


@app.command()
@takes(SHARD, LIMITED, *SHARED)
def instructions(**given: Any) -> int:
    """What shards were told and have not done yet."""
    query = v.InstructionQuery(shard=given["shard"], limit=_limit(given))
    return _show(given, lambda asked: asked.instructions(query), INSTRUCTIONS)


@app.command()
@takes(
    Option("unsettled", bool, "Only those under way.", False, ("--unsettled",)),
    Option("shard", str, "Only from or to this shard.", ""),
    LIMITED,
    *SHARED,
)
def moves(names: Moves = None, **given: Any) -> int:
    """Hand-overs of machines between shards, the newest first."""
    query = v.MoveQuery(
        shard=given["shard"], unsettled=given["unsettled"], limit=0 if names else _limit(given)
    )
    return _show(given, lambda asked: asked.moves(query), MOVES, ("move", names or ()))


@app.command()
@takes(
    Option("kind", str, "cluster or place.", ""),
    Option("name", str, "Of this cluster or provider.", ""),
    *SHARED,
)
def quotas(**given: Any) -> int:
    """Entitlements, and which shard holds how much of each."""
    query = v.QuotaQuery(kind=given["kind"], name=given["name"])
    return _show(given, lambda asked: asked.quotas(query), QUOTAS)


@app.command()
@takes(Option("cluster", str, "Only this one.", ""), SHARD, LIMITED, *SHARED)
def bindings(**given: Any) -> int:
    """Which shard serves which cluster, for good."""
    query = v.ClusterBindingQuery(
        cluster=given["cluster"], shard=given["shard"], limit=_limit(given)
    )
    return _show(given, lambda asked: asked.clusters(query), BINDINGS)


@app.command()
@takes(SHARD, *SHARED)
def conflicts(**given: Any) -> int:
    """What two shards claim; the first one keeps it until somebody settles it."""
    query = v.ConflictQuery(shard=given["shard"])
    return _show(given, lambda asked: asked.conflicts(query), CONFLICTS)


def _limit(given: Mapping[str, Any]) -> int:
    """Whoever sorts sees all first."""
    return 0 if given["sort_by"] else int(given["limit"])


def _show(
    given: Mapping[str, Any],
    question: Question,
    listing: Listing,
    named: tuple[str, Sequence[str]] = ("", ()),
) -> int:
    found = coordinators.find(given)
    printer = Printer.of(listing, given)
    return printer.repeat(lambda: _show_once(found, question, printer, named))


def _show_once(
    found: "tuple[Server, ...]",
    question: Question,
    printer: Printer,
    named: tuple[str, Sequence[str]],
) -> int:
    answer = coordinators.ask(found, question)
    noun, names = named
    name = printer.listing.name
    rows = [row for row in answer.rows if not names or name(row) in names]
    printer.write(rows)
    printer.close()
    hidden = getattr(answer, "matched", 0) - len(answer.rows)
    if hidden > 0:
        more = f"{hidden:,} more of {answer.matched:,} are not shown"
        printer.remark(f"{more}; raise --limit, 0 shows all.")
    return printer.missing(noun, names, list(map(name, rows)), f"{noun}s")


def _plain(name: str, *, wide: bool = False) -> Column:
    return Column(name.replace("_", " "), lambda row: getattr(row, name), wide)


def _some(name: str, *, wide: bool = False) -> Column:
    """A number that is not worth a look when it is zero."""
    return Column(name.replace("_", " "), lambda row: getattr(row, name) or "", wide)


def _since(at_ns: int) -> str:
    return age(SystemClock().now_s() - at_ns / 1e9) if at_ns else ""


def _domain_count(row: v.ShardRow) -> str:
    return "(all)" if row.takes_all else str(row.domains)


def _shares(row: v.QuotaRow) -> str:
    return ",".join(f"{share.shard}={share.granted}" for share in row.shares)


def _used(row: v.QuotaRow) -> str:
    """By the last reports; a shard that has not reported yet is a question mark."""
    told = (f"{s.shard}={s.used if s.used >= 0 else '?'}" for s in row.shares)
    return ",".join(told)


def _id(row: Any) -> str:
    return str(row.id)


def _domain(row: v.DomainRow) -> str:
    return f"{row.key}={row.value}"


SHARDS: Final = Listing(
    (
        Column("shard", lambda row: row.id),
        _plain("address"),
        Column("heard", lambda row: _since(row.last_heartbeat_ns) or "not yet"),
        _plain("machines"),
        _plain("free"),
        Column("domains", _domain_count),
        _plain("clusters"),
        _some("strays"),
        _some("shortfalls"),
        _some("instructions"),
        _some("conflicts"),
        _plain("epoch", wide=True),
        Column("registered", lambda row: _since(row.registered_at_ns), wide=True),
        Column("moves", lambda row: row.can_hand_over, wide=True),
        Column("removing", lambda row: "yes" if row.removing else "", wide=True),
    ),
    _id,
    dataclasses.asdict,
)

DOMAINS: Final = Listing(
    (
        Column("domain", _domain),
        _plain("shard"),
        _plain("state"),
        _plain("to"),
        _some("strays"),
    ),
    _domain,
    dataclasses.asdict,
)

INSTRUCTIONS: Final = Listing(
    (
        _plain("shard"),
        _plain("sequence"),
        _plain("kind"),
        _plain("what"),
        Column("age", lambda row: _since(row.created_at_ns)),
        _some("attempts"),
        Column("last", lambda row: row.last_reason or row.last_outcome),
        _plain("move", wide=True),
        _plain("id", wide=True),
    ),
    _id,
    dataclasses.asdict,
)

MOVES: Final = Listing(
    (
        _plain("id"),
        _plain("donor"),
        _plain("recipient"),
        _plain("tier"),
        _plain("state"),
        Column("machines", lambda row: len(row.machines) or ""),
        Column("age", lambda row: _since(row.created_at_ns)),
        _plain("why"),
        _plain("wanted", wide=True),
        Column("settled", lambda row: _since(row.settled_at_ns), wide=True),
        Column("which", lambda row: ",".join(row.machines), wide=True),
    ),
    _id,
    dataclasses.asdict,
)

QUOTAS: Final = Listing(
    (
        _plain("kind"),
        _plain("name"),
        _plain("region"),
        _plain("entitled"),
        _plain("granted"),
        Column("free", lambda row: row.entitled - row.granted),
        Column("by shard", _shares),
        Column("used", _used, wide=True),
    ),
    lambda row: row.name,
    dataclasses.asdict,
    lambda row: (row.kind, row.name, row.region),
)

BINDINGS: Final = Listing(
    (
        _plain("cluster"),
        _plain("shard"),
        Column("bound", lambda row: _since(row.bound_at_ns)),
    ),
    lambda row: row.cluster,
    dataclasses.asdict,
)

CONFLICTS: Final = Listing(
    (
        _plain("kind"),
        _plain("subject"),
        _plain("holder"),
        _plain("claimant"),
        _plain("times"),
        Column("first", lambda row: _since(row.first_seen_ns)),
        Column("last", lambda row: _since(row.last_seen_ns)),
        Column("what to do", lambda row: row.what_to_do),
    ),
    lambda row: row.subject,
    dataclasses.asdict,
    lambda row: (row.kind, row.subject, row.claimant),
)
