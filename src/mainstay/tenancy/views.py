"""What is read of allocations: one, a page of many, and what could still be had."""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from mainstay.model.errors import Rejected
from mainstay.tenancy import candidates
from mainstay.tenancy.database.connect import Connection, Pool, Row, transaction
from mainstay.tenancy.placement.shape import CapacityShape, NodeView, Sku
from mainstay.tenancy.states import Status
from mainstay.tenancy.timeline import Moment, timeline
from mainstay.tenancy.transition import AllocationNotFound

PAGE_MAX: Final = 200
CURSOR_MAX: Final = 400


class BadPage(Rejected):
    """A cursor that we did not give, a size that we do not serve, a state that does not exist."""

    code = "validation_error"
    what_to_do = "start without a cursor, and ask for 1 to 200 at a time"


@dataclass(frozen=True, slots=True)
class Shown:
    """An allocation with all that belongs to it."""

    allocation: Row
    claims: tuple[Row, ...]
    """Each with its slot's index and state, and `last_proof`: how it was left by who had it
    before. None: nobody had it, or it was freed without a release."""

    ssh_key_ids: tuple[str, ...]
    timeline: tuple[Moment, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """Some allocations, newest first, and where to go on."""

    rows: tuple[Row, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Which allocations to list."""

    project: str | None = None
    """None: of every project, for those who may."""

    status: Status | None = None
    cursor: str | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class Room:
    """What is free of a SKU in a region."""

    sku: str
    region: str
    nodes: int
    free_gpus: int
    largest_free_block: int
    """GPUs of the largest piece of this shape; 0 when there is none."""


_CLAIMS: Final = """
    select claims.*, slots.slot_index, slots.status as slot_status, before.proof as last_proof
    from claims left join slots on slots.id = claims.slot_id
    left join lateral (
        select earlier.proof
        from claims had join allocations earlier on earlier.id = had.allocation_id
        where had.node_id = claims.node_id and had.id < claims.id
          and (had.slot_id = claims.slot_id or 'node_exclusive' in (had.kind, claims.kind))
        order by had.id desc limit 1
    ) before on true
    where claims.allocation_id = %s order by claims.id
"""

_TAKEN: Final = """
    select reason from bridge_nodes where node_id = %(node_id)s and closed_at <= %(releasing_at)s
"""
"""Why the machine under it was taken back, if it was before its release."""


async def show(pool: Pool, allocation: str, *, project: str | None) -> Shown:
    """One allocation; another project's does not exist."""
    async with transaction(pool) as tx:
        row = await one(tx, allocation, project)
        claims = await (await tx.execute(_CLAIMS, [allocation])).fetchall()
        keys = await tx.execute(
            "select ssh_key_id from allocation_ssh_keys where allocation_id = %s order by 1",
            [allocation],
        )
        tasks = await tx.execute(
            "select * from node_tasks where allocation_id = %s order by created_at, id",
            [allocation],
        )
        taken = await (await tx.execute(_TAKEN, row)).fetchone()
        return Shown(
            row,
            tuple(claims),
            tuple(key["ssh_key_id"] for key in await keys.fetchall()),
            timeline(
                row, claims, await tasks.fetchall(), taken="" if taken is None else taken["reason"]
            ),
        )


async def one(tx: Connection, allocation: str, project: str | None) -> Row:
    """Its row alone; another project's does not exist."""
    found = await tx.execute(
        """select * from allocations
           where id = %(id)s and (%(project)s::text is null or project_id = %(project)s)""",
        {"id": allocation, "project": project},
    )
    row = await found.fetchone()
    if row is None:
        raise AllocationNotFound(f"no allocation {allocation}")
    return row


async def page(pool: Pool, query: Query) -> Page:
    """A page of allocations. What is created meanwhile shifts nothing: pages go by time and id."""
    if not 1 <= query.limit <= PAGE_MAX:
        raise BadPage(f"not a size of a page: {query.limit} (1 to {PAGE_MAX})")
    wanted = ["true"]
    values: dict[str, Any] = {"limit": query.limit + 1}
    if query.project is not None:
        wanted.append("project_id = %(project)s")
        values["project"] = query.project
    if query.status is not None:
        wanted.append("status = %(status)s")
        values["status"] = str(query.status)
    if query.cursor is not None:
        wanted.append("(created_at, id) < (%(at)s, %(id)s)")
        values |= _place_of(query.cursor)
    async with transaction(pool) as tx:
        found = await tx.execute(
            f"""select * from allocations where {" and ".join(wanted)}
                order by created_at desc, id desc limit %(limit)s""",
            values,
        )
        rows = await found.fetchall()
    more = len(rows) > query.limit
    rows = rows[: query.limit]
    return Page(tuple(rows), _cursor(rows[-1]) if more else None)


def _cursor(row: Row) -> str:
    place = json.dumps([row["created_at"].isoformat(), row["id"]])
    return base64.urlsafe_b64encode(place.encode()).decode()


def _place_of(cursor: str) -> Mapping[str, Any]:
    if len(cursor) > CURSOR_MAX:
        raise BadPage(f"not a cursor of ours: {cursor[:80]}")
    try:
        at, identity = json.loads(base64.b64decode(cursor, altchars=b"-_", validate=True))
        when = datetime.fromisoformat(at)
    except (binascii.Error, ValueError, TypeError) as error:
        raise BadPage(f"not a cursor of ours: {cursor[:80]}") from error
    if when.tzinfo is None or not isinstance(identity, str) or "\x00" in identity:
        raise BadPage(f"not a cursor of ours: {cursor[:80]}")
    return {"at": when, "id": identity}


async def rooms(pool: Pool) -> tuple[Room, ...]:
    """What is free, by SKU and region; a SKU without a node in a region is not listed there."""
    async with transaction(pool) as tx:
        known = await candidates.catalogue(tx)
        nodes = await candidates.everything(tx)
    places = {(sku, node.region) for node in nodes for sku in node.skus if sku in known}
    return tuple(
        _room(known[sku], region, [node for node in nodes if node.region == region])
        for sku, region in sorted(places)
    )


def _room(sku: Sku, region: str, nodes: list[NodeView]) -> Room:
    sold = [node for node in nodes if sku.name in node.skus]
    whole = sku.shape is CapacityShape.BAREMETAL
    if whole:
        sold_free = [len(node.slots) for node in sold if node.is_whole]
        return Room(sku.name, region, len(sold), sum(sold_free), max(sold_free, default=0))
    return Room(
        sku.name,
        region,
        len(sold),
        sum(node.tree.free_count for node in sold),
        max((node.largest_free_block for node in sold), default=0),
    )
