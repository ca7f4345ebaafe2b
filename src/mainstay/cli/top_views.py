"""What `mainstay top` can show: a view is a key, a name, and rows made of what was answered."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from mainstay.cli import coordinators, exits, servers
from mainstay.cli.words import age, amounts, counts, dollars, held_back
from mainstay.model import coordinator_views as cv
from mainstay.model import views as v
from mainstay.model.errors import MainstayError
from mainstay.model.questions import About, Question

if TYPE_CHECKING:
    from mainstay.processes.finding import Server
    from mainstay.wire.coordinator_client import RemoteCoordinator
    from mainstay.wire.shard_view_client import RemoteShard

LISTED_MAX: Final = 200
"""So many rows of a shard are asked for: nobody scrolls further, and machines can be found by `/`
among all that there are."""

PATIENCE_S: Final = 5.0

Row = Mapping[str, str]
RowsT = TypeVar("RowsT")


@dataclass(frozen=True, slots=True)
class Fleet:
    """Whom to ask."""

    shards: "tuple[Server, ...]"
    coordinators: "tuple[Server, ...]" = ()
    tenants: bool = False
    """Whether the API of tenants is to be asked, too."""


@dataclass(frozen=True, slots=True)
class Page:
    """What one look has found."""

    rows: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()
    """Lines above the rows."""

    missing: tuple[str, ...] = ()
    """Who did not answer."""


@dataclass(frozen=True, slots=True)
class View:
    """One of the things to look at."""

    key: str
    name: str
    look: Callable[[Fleet, float, str], Awaitable[Page]]
    """At a time, with what the rows are to have in them: who can look for that itself is asked."""
    question: Callable[[Row], Question] | None = None
    """What is asked to have a row explained; None: nothing explains it."""


async def _asked(
    fleet: Fleet,
    question: "Callable[[RemoteShard], Awaitable[RowsT]]",
    rows: Callable[[RowsT], Iterable[Row]],
) -> Page:
    """The rows of all shards; of several, each row says whose it is."""
    answers = await servers.ask_all(fleet.shards, question)
    several = len(fleet.shards) > 1
    found = [
        {"shard": answer.server.name, **row} if several else row
        for answer in answers.given
        for row in rows(answer.value)
    ]
    return Page(tuple(found), missing=tuple(error.message for error in answers.missing))


async def needs(fleet: Fleet, _: float, __: str) -> Page:
    """What is unmet, and why."""
    query = v.NeedQuery(unmet=True, limit=LISTED_MAX)
    return await _asked(fleet, lambda shard: shard.needs(query), need_rows)


def need_rows(told: v.NeedRows) -> Iterable[Row]:
    """The most important first."""
    for row in told.rows:
        yield {
            "need": "/".join(filter(None, (row.cluster, row.fingerprint[:8], row.group))),
            "priority": str(row.priority),
            "missing": amounts(row.missing),
            "why": row.reason + (", parked" if row.parked else ""),
            "cycles": str(row.age),
            "asks for": row.asks_for,
        }


def need_question(row: Row) -> Question:
    """Why it is, or is not, served; without trying which change would help."""
    name, _, rest = row["need"].partition("/")
    fingerprint, _, group = rest.partition("/")
    return Question(
        about=About.NEED, name=name, fingerprint=fingerprint, group=group, quick=True
    )  # fmt: skip


def machine_query(wanted: str) -> v.MachineQuery:
    """Which machines are asked for: the shard looks through all it has."""
    return v.MachineQuery(limit=LISTED_MAX, text=wanted)


async def machines(fleet: Fleet, _: float, wanted: str) -> Page:
    """The first ones by id that have what is wanted in them."""

    query = machine_query(wanted)

    async def listed(shard: "RemoteShard") -> list[v.MachineRow]:
        return [row async for chunk in shard.machines(query) for row in chunk.rows]

    return await _asked(fleet, listed, machine_rows)


def machine_rows(told: Sequence[v.MachineRow]) -> Iterable[Row]:
    """What it is, whose, and what the plan does with it."""
    for row in told:
        yield {
            "machine": row.id,
            "state": str(row.state),
            "cluster": row.cluster,
            "type": row.instance_type,
            "zone": row.zone,
            "capacity": row.capacity_type,
            "$/h": dollars(row.price_per_hour),
            "plan": row.action,
        }


def machine_question(row: Row) -> Question:
    """What it is, who claims it, and why."""
    return Question(about=About.MACHINE, name=row["machine"])


async def explained(fleet: Fleet, question: Question) -> tuple[str, ...]:
    """The sentences of those shards that know of it; an error is told as one."""
    try:
        asked = await servers.ask_all(fleet.shards, lambda shard: shard.explain(question))
    except MainstayError as error:
        return (exits.line_of(error),)
    found = servers.known_to_some(asked)
    missing = (f"not reachable: {error.message}" for error in found.missing)
    return (*(line for each in found.given for line in each.value.sentences), *missing)


async def allocations(fleet: Fleet, now_s: float, _: str) -> Page:
    """What tenants have asked for, the newest first."""
    if not fleet.tenants:
        return Page(notes=("no API of tenants runs here",))

    def asked() -> Sequence[Mapping[str, Any]]:
        from mainstay.cli.client import client

        api = client("admin", patience_s=PATIENCE_S)
        found: Sequence[Mapping[str, Any]] = api.get("/admin/allocations", limit=LISTED_MAX)[
            "items"
        ]
        return found

    try:
        return Page(tuple(allocation_rows(await asyncio.to_thread(asked), now_s)))
    except MainstayError as error:
        return Page(notes=(error.message,))


def allocation_rows(told: Iterable[Mapping[str, Any]], now_s: float) -> Iterable[Row]:
    """Where it is in its life, and on which node."""
    for row in told:
        yield {
            "allocation": str(row["allocation_id"]),
            "status": str(row["status"]),
            "project": str(row["project_id"]),
            "sku": str(row["sku"]),
            "gpus": str(row["gpus"]),
            "node": str(row["node_id"] or ""),
            "age": age(now_s - datetime.fromisoformat(row["created_at"]).timestamp()),
        }


async def clusters(fleet: Fleet, now_s: float, _: str) -> Page:
    """Who is connected, what it has and what it costs."""
    return await _asked(
        fleet,
        lambda shard: shard.clusters(v.ClusterQuery()),
        lambda told: cluster_rows(told, now_s),
    )


def cluster_rows(told: v.ClusterRows, now_s: float) -> Iterable[Row]:
    """By name."""
    for row in told.rows:
        since = f" {age(now_s - row.since_s)}" if row.connected and row.since_s else ""
        yield {
            "cluster": row.cluster,
            "session": f"connected{since}" if row.connected else "gone",
            "needs": f"{row.needs:,}",
            "unmet": f"{row.unmet:,}",
            "serving": f"{row.progress.serving:,}",
            "coming": f"{row.progress.coming:,}",
            "held back": held_back(row.progress),
            "machines": counts(row.machines),
            "$/h": dollars(row.spend_per_hour),
            "quota": f"{row.quota:,}" if row.limited else "any",
        }


async def actions(fleet: Fleet, _: float, __: str) -> Page:
    """The last actions, the newest first."""
    query = v.ActionQuery(limit=LISTED_MAX)
    return await _asked(fleet, lambda shard: shard.actions(query), action_rows)


def action_rows(told: v.ActionRows) -> Iterable[Row]:
    """What was done, for whom, and what came of it."""
    for row in told.rows:
        yield {
            "cycle": str(row.cycle),
            "action": row.kind,
            "machine": row.machine,
            "cluster": row.cluster,
            "state": " ".join(filter(None, (row.disposition, row.outcome))),
            "detail": row.detail or row.reason,
        }


async def shortfalls(fleet: Fleet, _: float, __: str) -> Page:
    """What is missing over all clusters, and for how long."""
    return await _asked(fleet, lambda shard: shard.shortfalls(v.ShortfallQuery()), shortfall_rows)


def shortfall_rows(told: v.ShortfallRows) -> Iterable[Row]:
    """The most important first."""
    for row in told.rows:
        yield {
            "shortfall": row.fingerprint[:8],
            "priority": str(row.priority),
            "missing": amounts(row.missing),
            "cycles": str(row.age),
            "needs": str(row.needs),
            "clusters": ",".join(row.clusters),
            "why": ", ".join(row.reasons),
        }


async def providers(fleet: Fleet, now_s: float, _: str) -> Page:
    """Whether they answer, and when they did last."""
    return await _asked(
        fleet,
        lambda shard: shard.providers(v.ProviderQuery()),
        lambda told: provider_rows(told, now_s),
    )


def provider_rows(told: v.ProviderRows, now_s: float) -> Iterable[Row]:
    """By name."""
    for row in told.rows:
        yield {
            "provider": row.name,
            "health": row.health,
            "machines": f"{row.machines:,}",
            "listed": f"{age(now_s - row.listed_at_s)} ago" if row.listed_at_s else "never",
            "failures": str(row.failures),
            "why": row.why,
        }


async def coordinator(fleet: Fleet, now_s: float, _: str) -> Page:
    """Who leads, and what is being moved between shards."""
    if not fleet.coordinators:
        return Page(notes=("no coordinator runs here",))

    async def both(leader: "RemoteCoordinator") -> tuple[cv.StandingRow, cv.MoveRows]:
        standing = await leader.standing(cv.StandingQuery())
        return standing, await leader.moves(cv.MoveQuery(limit=LISTED_MAX))

    try:
        standing, moves = await coordinators.asked(fleet.coordinators, both)
    except MainstayError as error:
        return Page(missing=(error.message,))
    return Page(tuple(move_rows(moves, now_s)), notes=(leader_line(standing),))


def leader_line(told: cv.StandingRow) -> str:
    """Who leads."""
    leads = f"{told.id} leads" if told.leads else f"{told.id} follows {told.leader or 'nobody'}"
    return f"{leads}, term {told.term}, {told.store}"


def move_rows(told: cv.MoveRows, now_s: float) -> Iterable[Row]:
    """The newest first."""
    for row in told.rows:
        yield {
            "move": row.id,
            "from": row.donor,
            "to": row.recipient,
            "machines": str(len(row.machines)),
            "state": row.state,
            "age": age(now_s - row.created_at_ns / 1e9),
            "why": row.why or row.wanted,
        }


LISTS: Final = (
    View("n", "needs unmet", needs, need_question),
    View("m", "machines", machines, machine_question),
    View("c", "clusters", clusters),
    View("a", "actions", actions),
    View("s", "shortfalls", shortfalls),
    View("p", "providers", providers),
    View("k", "coordinator", coordinator),
    View("t", "allocations", allocations),
)


def coordinators_here(given: Mapping[str, Any]) -> "tuple[Server, ...]":
    """Those that run on this machine; none when a server elsewhere was named."""
    if given["server"] or given["context"]:
        return ()
    try:
        return coordinators.find(given)
    except MainstayError:
        return ()


def numbers_of(rows: Sequence[Row]) -> str:
    """How many there are, for a heading."""
    return f"{len(rows):,}" + ("+" if len(rows) >= LISTED_MAX else "")
