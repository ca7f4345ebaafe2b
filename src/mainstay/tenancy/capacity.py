"""Capacity that is waited for: a request of its own, which becomes an allocation in time.

An allocation is all or a truthful no, at once; that stays so. Who would rather wait makes one of
these. It is refused at once, as an allocation is, unless somebody brings machines of the kind.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import psycopg

from mainstay.model.errors import MainstayError, Rejected, Unavailable
from mainstay.tenancy import creation, release
from mainstay.tenancy.database.connect import Connection, Pool, Row, transaction
from mainstay.tenancy.ids import Ids
from mainstay.tenancy.placement.place import Reason
from mainstay.tenancy.request import Order, SkuUnavailable
from mainstay.tenancy.states import REQUEST_PREFIX, Actor, CapacityState, Status
from mainstay.tenancy.transition import locked

BRIDGE_SEEN_S: Final = 60
"""Who has not said for so long that it brings machines brings none."""

WAIT_S: Final = 3_600
WAIT_S_MAX: Final = 7 * 86_400
PAGE_MAX: Final = 200

CURABLE: Final = frozenset({Reason.REGION, Reason.NO_ROOM, Reason.NOT_READY})
"""Refusals that another machine would end."""


NOTHING_HELD: Final = frozenset({Status.FAILED, Status.RELEASED})

C = CapacityState

NEXT: Final[Mapping[CapacityState, frozenset[CapacityState]]] = MappingProxyType({
    C.WAITING: frozenset({C.PLACED, C.CANCELLED, C.EXPIRED}),
    C.PLACED: frozenset(),
    C.CANCELLED: frozenset(),
    C.EXPIRED: frozenset(),
})  # fmt: skip


class CapacityRequestNotFound(Rejected):
    """There is none with this id, or it is another project's."""

    code = "capacity_request_not_found"
    what_to_do = "check the id and the project"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """An order that may wait."""

    order: Order
    wait_s: float = WAIT_S

    def __post_init__(self) -> None:
        if not 1 <= self.wait_s <= WAIT_S_MAX:
            raise Rejected(f"one waits 1 to {WAIT_S_MAX} s, not {self.wait_s:g}")


async def ask(pool: Pool, ids: Ids, wish: Wish) -> Row:
    """Placed now, or waiting; `sku_unavailable` when waiting would change nothing.

    `ids` gives the same ids whenever the same request is tried.
    """
    identity = ids(REQUEST_PREFIX)
    if (row := await _found(pool, identity)) is not None:
        return row
    given = _as(ids, identity)
    try:
        made = await creation.requested(pool, given, wish.order)
    except SkuUnavailable as refusal:
        if not await _may_wait(pool, wish.order, refusal):
            raise
        return await _written(pool, identity, wish, C.WAITING, None)
    return await _written(pool, identity, wish, C.PLACED, made["id"])


async def show(pool: Pool, request: str, *, project: str | None) -> Row:
    """One of them, if this project may know of it."""
    row = await _found(pool, request)
    if row is None or project not in {None, row["project_id"]}:
        raise CapacityRequestNotFound(f"no capacity request {request}")
    return row


async def listed(
    pool: Pool, *, project: str | None, state: CapacityState | None = None, limit: int = 100
) -> list[Row]:
    """Those of a project, or of all; in a state, or in any; newest first."""
    given = {"project_id": project, "state": None if state is None else str(state)}
    wanted = [f"{name} = %({name})s" for name, value in given.items() if value is not None]
    async with transaction(pool) as tx:
        found = await tx.execute(
            f"""select * from capacity_requests where {" and ".join(wanted) or "true"}
                order by created_at desc, id desc limit %(limit)s""",
            {**given, "limit": min(limit, PAGE_MAX)},
        )
        return await found.fetchall()


async def count_waiting(pool: Pool, *, project: str | None) -> int:
    """How many wait, of a project or of all."""
    async with transaction(pool) as tx:
        found = await tx.execute(
            """select count(*) as many from capacity_requests where state = 'waiting'
               and (%(project)s::text is null or project_id = %(project)s)""",
            {"project": project},
        )
        (row,) = await found.fetchall()
    return int(row["many"])


async def cancel(pool: Pool, request: str, *, project: str | None) -> Row:
    """Wait no longer. Said again, or too late, it changes nothing."""
    await show(pool, request, project=project)
    await _end(pool, request, C.CANCELLED, "cancelled by its project")
    return await show(pool, request, project=project)


async def place_due(pool: Pool, ids: Ids) -> dict[str, Exception]:
    """Try all that wait, the most important first; end what has waited too long.

    Those that could not be dealt with, with the reason: they keep no other from its turn, and are
    tried again the next time.
    """
    await _expire(pool)
    async with transaction(pool) as tx:
        found = await tx.execute(
            """select r.* from capacity_requests r join projects on projects.id = r.project_id
               where r.state = 'waiting' order by projects.priority desc, r.created_at, r.id"""
        )
        rows = await found.fetchall()
    failing = await _each(rows, lambda row: _place(pool, ids, row))
    late = await _late(pool)
    return failing | await _each(late, lambda row: _take_back(pool, ids, row))


async def _each(rows: list[Row], deal: Callable[[Row], Awaitable[None]]) -> dict[str, Exception]:
    failing: dict[str, Exception] = {}
    for row in rows:
        try:
            await deal(row)
        except Unavailable:  # the database, and so for all of them
            raise
        except (MainstayError, psycopg.Error) as error:
            failing[row["id"]] = error
    return failing


async def _place(pool: Pool, ids: Ids, row: Row) -> None:
    order = Order(
        project=row["project_id"],
        by=row["requested_by"],
        sku=row["sku"],
        gpus=row["gpus"],
        region=row["region"],
        ssh_keys=tuple(row["ssh_key_ids"]),
        correlation_id=row["correlation_id"],
    )
    try:
        made = await creation.requested(pool, _as(ids, row["id"]), order)
    except SkuUnavailable as refusal:
        await _note(pool, row["id"], refusal.message)
    except Unavailable:
        return
    except MainstayError as error:  # the key is gone, the balance is used up
        await _end(pool, row["id"], C.CANCELLED, f"{error.message} ({error.code})")
    else:
        await _end(pool, row["id"], C.PLACED, "", made["id"])


async def _late(pool: Pool) -> list[Row]:
    """Who had stopped waiting when the allocation was made, and has not been dealt with."""
    async with transaction(pool) as tx:
        found = await tx.execute(
            """select r.id, r.requested_by, a.id as allocation
               from capacity_requests r join allocations a on a.id = 'alc_' || substr(r.id, 5)
               where r.state in ('cancelled', 'expired') and r.allocation_id is null
               order by r.id"""
        )
        return await found.fetchall()


async def _take_back(pool: Pool, ids: Ids, late: Row) -> None:
    """What it holds, if anything; with the note that it was dealt with, or neither."""
    async with transaction(pool) as tx:
        row = await locked(tx, late["allocation"])
        if row["status"] not in NOTHING_HELD:
            by = late["requested_by"]
            await release.given_back(tx, ids, row, actor=Actor.TENANT, by=by)
        await tx.execute(
            "update capacity_requests set allocation_id = %s where id = %s", [row["id"], late["id"]]
        )


async def _may_wait(pool: Pool, order: Order, refusal: SkuUnavailable) -> bool:
    """Whether somebody brings machines, and one of them could serve it."""
    if refusal.details.get("reason") not in {str(reason) for reason in CURABLE}:
        return False
    async with transaction(pool) as tx:
        found = await tx.execute(
            """select from node_kinds kind
               where kind.active and kind.region = %(region)s and %(sku)s = any(kind.sold_as)
                 and kind.gpus_total >= %(gpus)s
                 and exists (select from bridges where seen_at
                             > clock_timestamp() - make_interval(secs => %(seen)s))""",
            {"region": order.region, "sku": order.sku, "gpus": order.gpus, "seen": BRIDGE_SEEN_S},
        )
        return found.rowcount > 0


async def _written(
    pool: Pool, identity: str, wish: Wish, state: CapacityState, allocation: str | None
) -> Row:
    order = wish.order
    async with transaction(pool) as tx:
        await tx.execute(
            """insert into capacity_requests (id, project_id, requested_by, sku, gpus, region,
                   ssh_key_ids, state, allocation_id, correlation_id, expires_at, ended_at)
               values (%(id)s, %(project)s, %(by)s, %(sku)s, %(gpus)s, %(region)s, %(keys)s,
                   %(state)s, %(allocation)s, %(correlation)s,
                   clock_timestamp() + make_interval(secs => %(wait)s),
                   case when %(state)s = 'waiting' then null else clock_timestamp() end)
               on conflict (id) do nothing""",
            {
                "id": identity,
                "project": order.project,
                "by": order.by,
                "sku": order.sku,
                "gpus": order.gpus,
                "region": order.region,
                "keys": sorted(set(order.ssh_keys)),
                "state": str(state),
                "allocation": allocation,
                "correlation": order.correlation_id,
                "wait": wish.wait_s,
            },
        )
        row = await _one(tx, identity)
    assert row is not None
    return row


async def _end(
    pool: Pool, request: str, state: CapacityState, reason: str, allocation: str | None = None
) -> None:
    """The first end stays."""
    async with transaction(pool) as tx:
        await tx.execute(
            """update capacity_requests set state = %s, reason = %s, allocation_id = %s,
                      ended_at = clock_timestamp()
               where id = %s and state = 'waiting'""",
            [str(state), reason, allocation, request],
        )


async def _note(pool: Pool, request: str, reason: str) -> None:
    async with transaction(pool) as tx:
        await tx.execute(
            """update capacity_requests set reason = %s
               where id = %s and state = 'waiting' and reason <> %s""",
            [reason, request, reason],
        )


async def _expire(pool: Pool) -> None:
    async with transaction(pool) as tx:
        await tx.execute(
            """update capacity_requests set state = 'expired', ended_at = clock_timestamp(),
                      reason = 'nothing came free in time'
               where state = 'waiting' and expires_at <= clock_timestamp()"""
        )


async def _found(pool: Pool, request: str) -> Row | None:
    async with transaction(pool) as tx:
        return await _one(tx, request)


async def _one(tx: Connection, request: str) -> Row | None:
    return await (
        await tx.execute("select * from capacity_requests where id = %s", [request])
    ).fetchone()


def _as(ids: Ids, request: str) -> Ids:
    """Ids of which the allocation's is that of its request, but for the prefix."""

    def new(prefix: str) -> str:
        return f"alc_{request.partition('_')[2]}" if prefix == "alc" else ids(prefix)

    return new
