"""A tenant asks for capacity: all of it or a truthful no, decided under the lock of one node.

Nodes are ranked on what is read at a glance. The best one is locked, read again and placed on by
itself; if it has no room any more, the next one is. A node that somebody else has locked is left
for the end. Nothing is refused before every open node was read in one piece and none had room.
"""

from dataclasses import dataclass
from typing import Final

import psycopg

from mainstay.model.errors import NoCapacity, Rejected, Unavailable
from mainstay.tenancy import candidates, outbox
from mainstay.tenancy.database.connect import Connection, Pool, Row, transaction
from mainstay.tenancy.ids import Ids
from mainstay.tenancy.placement.place import Placement, Refusal, place
from mainstay.tenancy.placement.rank import outlook_for, ranked
from mainstay.tenancy.placement.shape import Ask, CapacityShape, Catalogue, NodeView
from mainstay.tenancy.states import EDGES, EventType, Status

ROUNDS_MAX: Final = 20
"""So often others may be faster before we say that we are busy, which is no refusal."""


class SkuUnavailable(NoCapacity):
    """Nothing that could be given now; `details` says why and what else there is."""

    code = "sku_unavailable"
    what_to_do = "ask for the nearest alternative, or wait"

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(f"nothing free: {refusal.reason}")
        self.details = refusal.details


class InsufficientBalance(Rejected):
    """The payer's balance is used up."""

    code = "insufficient_balance"
    what_to_do = "top up the balance"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a tenant asks for, and in whose name."""

    project: str
    by: str
    sku: str
    gpus: int
    region: str
    ssh_keys: tuple[str, ...] = ()
    correlation_id: str


async def request(pool: Pool, ids: Ids, order: Order) -> Row:
    """Reserve and record, or raise; a refusal leaves nothing behind."""
    ask = Ask(order.sku, order.gpus, order.region)
    for _ in range(ROUNDS_MAX):
        async with transaction(pool) as tx:
            known = await candidates.catalogue(tx)
            nodes = await candidates.likely(tx, gpus=order.gpus, region=order.region)
            best = _choices(ask, known, nodes)
            if not best:
                best = _choices_or_refusal(ask, known, await candidates.everything(tx))
        placed = await _first_that_holds(pool, ids, order, best)
        if placed is not None:
            return placed
    raise Unavailable("too many want the same nodes at this moment: try again")


def _choices(ask: Ask, known: Catalogue, nodes: list[NodeView]) -> list[str]:
    sku = known.get(ask.sku)
    if sku is None or ask.gpus not in sku.allowed_gpu_counts:
        return []
    here = [node for node in nodes if ask.sku in node.skus and node.region == ask.region]
    return [choice.node for choice in ranked(sku, ask.gpus, here, outlook_for(sku))]


def _choices_or_refusal(ask: Ask, known: Catalogue, nodes: list[NodeView]) -> list[str]:
    found = place(ask, known, nodes)
    if isinstance(found, Refusal):
        raise SkuUnavailable(found)
    return _choices(ask, known, nodes)


async def _first_that_holds(pool: Pool, ids: Ids, order: Order, nodes: list[str]) -> Row | None:
    """The first node that, locked and read again, has room: those nobody holds before the others.

    None: all of them have filled up meanwhile.
    """
    busy = []
    for node in nodes:
        placed = await _on(pool, ids, order, node, wait=False)
        if placed is _HELD:
            busy.append(node)
        elif placed is not None:
            return placed
    for node in busy:
        placed = await _on(pool, ids, order, node, wait=True)
        if placed is not None:
            return placed
    return None


_HELD: Final[Row] = {}
"""Somebody else has the node locked."""


async def _on(pool: Pool, ids: Ids, order: Order, node: str, *, wait: bool) -> Row | None:
    """Try one node in one short transaction. None: it has no room."""
    lock = "select id from nodes where id = %s for update" + ("" if wait else " skip locked")
    async with transaction(pool) as tx:
        if await (await tx.execute(lock, [node])).fetchone() is None:
            return _HELD
        view = await candidates.alone(tx, node)
        known = await candidates.catalogue(tx)
        if view is None:
            return None
        found = place(Ask(order.sku, order.gpus, order.region), known, [view])
        if isinstance(found, Refusal):
            return None
        return await _recorded(tx, ids, order, found)


async def _recorded(tx: Connection, ids: Ids, order: Order, placement: Placement) -> Row:
    """The rows of a new allocation, in the transaction that holds the node's lock."""
    project = await _project(tx, order)
    await _check_balance(tx, project["account_id"])
    row = await _allocation(tx, ids("alc"), order, placement, project)
    await _claim(tx, row["id"], placement)
    await _attach_keys(tx, row, order)
    await outbox.append(tx, ids, _event(row, order, placement))
    return row


async def _project(tx: Connection, order: Order) -> Row:
    found = await tx.execute("select * from projects where id = %s", [order.project])
    project = await found.fetchone()
    if project is None:
        raise Rejected(f"no such project: {order.project}")
    return project


async def _check_balance(tx: Connection, account: str) -> None:
    found = await tx.execute(
        "select coalesce(sum(amount_minor), 0) as balance from ledger where account_id = %s",
        [account],
    )
    row = await found.fetchone()
    if row is None or row["balance"] <= 0:
        raise InsufficientBalance("the balance is used up: nothing new can be started")


async def _allocation(
    tx: Connection, identity: str, order: Order, placement: Placement, project: Row
) -> Row:
    created = next(edge for edge in EDGES if edge.old is None)
    inserted = await tx.execute(
        f"""
        insert into allocations (id, project_id, account_id, requested_by, sku, gpus, region,
            capacity_shape, node_id, image_slug, price_minor, currency, status, correlation_id,
            {created.stamps})
        select %(id)s, %(project)s, %(account)s, %(by)s, skus.sku, %(gpus)s, %(region)s,
            skus.capacity_shape, %(node)s, skus.image_slug, skus.gpu_hourly_price_minor,
            skus.currency, %(status)s, %(correlation)s, clock_timestamp()
        from skus where skus.sku = %(sku)s
        returning *
        """,
        {
            "id": identity,
            "project": project["id"],
            "account": project["account_id"],
            "by": order.by,
            "sku": order.sku,
            "gpus": order.gpus,
            "region": order.region,
            "node": placement.node,
            "status": str(Status.REQUESTED),
            "correlation": order.correlation_id,
        },
    )
    row = await inserted.fetchone()
    if row is None:
        raise Unavailable(f"SKU {order.sku} was withdrawn at this moment")
    return row


async def _claim(tx: Connection, allocation: str, placement: Placement) -> None:
    """The node whole, or some of its slots; the database refuses what somebody else has."""
    whole = placement.shape is CapacityShape.BAREMETAL
    mode = "node_exclusive" if whole else "slot"
    await tx.execute(
        "update nodes set mode = %s where id = %s and mode <> %s", [mode, placement.node, mode]
    )
    try:
        if whole:
            await tx.execute(
                """insert into claims (allocation_id, kind, node_id, status)
                   values (%s, 'node_exclusive', %s, 'reserved')""",
                [allocation, placement.node],
            )
        else:
            await _claim_slots(tx, allocation, placement)
    except psycopg.errors.UniqueViolation as error:
        raise Unavailable("somebody else was faster: try again") from error


async def _claim_slots(tx: Connection, allocation: str, placement: Placement) -> None:
    taken = await tx.execute(
        """update slots set status = 'reserved'
           where node_id = %s and slot_index = any(%s) and status = 'available' returning id""",
        [placement.node, list(placement.slots)],
    )
    slots = [row["id"] for row in await taken.fetchall()]
    if len(slots) != len(placement.slots):
        raise Unavailable("a slot was taken out of service at this moment: try again")
    await tx.execute(
        """insert into claims (allocation_id, kind, node_id, slot_id, status)
           select %s, 'slot', %s, unnest(%s::text[]), 'reserved'""",
        [allocation, placement.node, slots],
    )


async def _attach_keys(tx: Connection, row: Row, order: Order) -> None:
    attached = await tx.execute(
        """insert into allocation_ssh_keys (allocation_id, ssh_key_id)
           select %s, id from ssh_keys where id = any(%s) and project_id = %s
           returning ssh_key_id""",
        [row["id"], list(order.ssh_keys), order.project],
    )
    found = {key["ssh_key_id"] for key in await attached.fetchall()}
    if missing := sorted(set(order.ssh_keys) - found):
        raise Rejected(f"no such SSH key in project {order.project}: {', '.join(missing)}")


def _event(row: Row, order: Order, placement: Placement) -> outbox.Event:
    return outbox.Event(
        event_type=EventType.REQUESTED,
        key=row["id"],
        correlation_id=row["correlation_id"],
        payload={
            "allocation_id": row["id"],
            "project_id": row["project_id"],
            "account_id": row["account_id"],
            "sku": row["sku"],
            "gpus": row["gpus"],
            "capacity_shape": row["capacity_shape"],
            "node_id": row["node_id"],
            "slots": list(placement.slots),
            "ssh_key_ids": list(order.ssh_keys),
            "image": row["image_slug"],
            "at": row["created_at"].isoformat(),
        },
    )
