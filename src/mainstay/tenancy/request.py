"""A tenant asks for capacity: all of it or a truthful no, decided under the lock of one node.

Nodes are ranked on what is read at a glance. The best one is locked, read again and placed on by
itself; if it has no room any more, the next one is. A node that somebody else has locked is left
for the end. Nothing is refused before every open node was read in one piece and none had room.
"""

from collections import Counter
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from typing import Final

import psycopg

from mainstay.model.errors import NoCapacity, Rejected, Unavailable
from mainstay.tenancy import candidates, outbox
from mainstay.tenancy.database.connect import Connection, Pool, Row, transaction
from mainstay.tenancy.ids import Ids
from mainstay.tenancy.placement.place import Placement, Refusal, place
from mainstay.tenancy.placement.rank import Choice, outlook_for, ranked
from mainstay.tenancy.placement.shape import Ask, CapacityShape, Catalogue, NodeView
from mainstay.tenancy.states import EDGES, EventType, Status

ROUNDS_MAX: Final = 20
"""So often others may be faster before we say that we are busy, which is no refusal."""

NODES_PER_ROUND_MAX: Final = 16
"""After so many nodes what was read at a glance is too old: read again."""


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


class UnknownProject(Rejected):
    """There is no such project."""

    code = "project_not_found"
    what_to_do = "check the project's id"


class UnknownSshKey(Rejected):
    """An SSH key that the project does not have."""

    code = "ssh_key_not_found"
    what_to_do = "name keys of the project, or add the key first"


class CurrencyDiffers(Rejected):
    """The SKU is priced in a currency that the payer does not pay in."""

    code = "currency_mismatch"
    what_to_do = "ask for a SKU in the account's currency"


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
            await _check(tx, order)
            known = await candidates.catalogue(tx)
            seen = await candidates.likely(tx, ask)
            choices = _best(ask, known, seen)
            if not _is_settled(ask, choices, seen):
                choices = _best_or_refusal(ask, known, await candidates.everything(tx))
        nodes = [choice.node for choice in choices[:NODES_PER_ROUND_MAX]]
        placed = await _first_that_holds(_Trial(pool, ids, order, ask, known), nodes)
        if placed is not None:
            return placed
    raise Unavailable("too many want the same nodes at this moment: try again")


async def _check(tx: Connection, order: Order) -> None:
    """What is wrong with an order wherever it would go: said before a node is locked for it."""
    project = await _project(tx, order)
    await _check_balance(tx, project["account_id"])
    await _check_currency(tx, project["account_id"], order.sku)
    found = await tx.execute(
        "select id from ssh_keys where id = any(%s) and project_id = %s",
        [list(order.ssh_keys), order.project],
    )
    keys = {key["id"] for key in await found.fetchall()}
    if missing := sorted(set(order.ssh_keys) - keys):
        raise UnknownSshKey(f"no such SSH key in project {order.project}: {', '.join(missing)}")


_outlook = lru_cache(maxsize=1024)(outlook_for)


def _best(ask: Ask, known: Catalogue, nodes: list[NodeView]) -> list[Choice]:
    sku = known.get(ask.sku)
    if sku is None or ask.gpus not in sku.allowed_gpu_counts:
        return []
    here = [node for node in nodes if ask.sku in node.skus and node.region == ask.region]
    return ranked(sku, ask.gpus, here, _outlook(sku))


def _is_settled(ask: Ask, choices: list[Choice], seen: list[NodeView]) -> bool:
    """Whether what was seen at a glance has a node than which none is better placed.

    Several NUMA nodes are good enough if all nodes were seen, or if none has a NUMA node so wide.
    """
    if not choices:
        return False
    if choices[0].numa_nodes == 1 or len(seen) < candidates.AT_A_GLANCE:
        return True
    return ask.gpus > max(max(Counter(node.numa).values()) for node in seen)


def _best_or_refusal(ask: Ask, known: Catalogue, nodes: list[NodeView]) -> list[Choice]:
    choices = _best(ask, known, nodes)
    if not choices:
        found = place(ask, known, nodes)
        assert isinstance(found, Refusal)
        raise SkuUnavailable(found)
    return choices


@dataclass(frozen=True, slots=True)
class _Trial:
    """All that is needed to try one node after another."""

    pool: Pool
    ids: Ids
    order: Order
    ask: Ask
    known: Catalogue


class _Not(Enum):
    """Why a node was not taken."""

    HELD = auto()
    """Somebody else has it locked at this moment."""

    FITTING = auto()
    """It has no room any more."""


async def _first_that_holds(trial: _Trial, nodes: list[str]) -> Row | None:
    """The first node that, locked and read again, has room: those nobody holds before the others.

    None: all of them have filled up meanwhile.
    """
    held = []
    for node in nodes:
        placed = await _on(trial, node, wait=False)
        if placed is _Not.HELD:
            held.append(node)
        elif not isinstance(placed, _Not):
            return placed
    for node in held:
        placed = await _on(trial, node, wait=True)
        if not isinstance(placed, _Not):
            return placed
    return None


async def _on(trial: _Trial, node: str, *, wait: bool) -> Row | _Not:
    """Try one node in one short transaction."""
    lock = "select id from nodes where id = %s for update" + ("" if wait else " skip locked")
    try:
        async with transaction(trial.pool) as tx:
            project = await _payer(tx, trial.order)
            if await (await tx.execute(lock, [node])).fetchone() is None:
                return _Not.HELD
            view = await candidates.alone(tx, node)
            if view is None:
                return _Not.FITTING
            found = place(trial.ask, trial.known, [view], _outlook(trial.known[trial.ask.sku]))
            if isinstance(found, Refusal):
                return _Not.FITTING
            return await _recorded(tx, trial, project, found)
    except _Changed:
        return _Not.FITTING
    except psycopg.errors.IntegrityError as error:
        if not str(error.diag.constraint_name).startswith("claims"):
            raise
        return _Not.FITTING  # the database knows of a live claim that we did not see


class _Changed(Exception):
    """A slot, a key or the SKU was taken out of service between two statements."""


async def _payer(tx: Connection, order: Order) -> Row:
    """The project, with its account held still: a balance that runs out now is waited for.

    Held before the node is, so that nobody else's request waits for this tenant's bill.
    """
    project = await _project(tx, order)
    await tx.execute("select id from accounts where id = %s for share", [project["account_id"]])
    await _check_balance(tx, project["account_id"])
    return project


async def _recorded(tx: Connection, trial: _Trial, project: Row, placement: Placement) -> Row:
    """The rows of a new allocation, in the transaction that holds the node's lock."""
    row = await _allocation(tx, trial.ids("alc"), trial.order, placement, project)
    await _claim(tx, row["id"], placement)
    await _attach_keys(tx, row, trial.order)
    await outbox.append(tx, trial.ids, _event(row, trial.order, placement))
    return row


async def _project(tx: Connection, order: Order) -> Row:
    found = await tx.execute("select * from projects where id = %s", [order.project])
    project = await found.fetchone()
    if project is None:
        raise UnknownProject(f"no such project: {order.project}")
    return project


async def _check_balance(tx: Connection, account: str) -> None:
    found = await tx.execute(
        "select coalesce(sum(amount_minor), 0) as balance from ledger where account_id = %s",
        [account],
    )
    row = await found.fetchone()
    if row is None or row["balance"] <= 0:
        raise InsufficientBalance("the balance is used up: nothing new can be started")


async def _check_currency(tx: Connection, account: str, sku: str) -> None:
    found = await tx.execute(
        """select skus.currency as priced, accounts.currency as paid from skus, accounts
           where skus.sku = %s and accounts.id = %s and skus.currency <> accounts.currency""",
        [sku, account],
    )
    if (row := await found.fetchone()) is not None:
        raise CurrencyDiffers(f"{sku} is priced in {row['priced']}, not in {row['paid']}")


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
        from skus where skus.sku = %(sku)s and skus.active
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
        raise _Changed
    return row


async def _claim(tx: Connection, allocation: str, placement: Placement) -> None:
    """The node whole, or some of its slots; the database refuses what somebody else has."""
    whole = placement.shape is CapacityShape.BAREMETAL
    mode = "node_exclusive" if whole else "slot"
    await tx.execute(
        "update nodes set mode = %s where id = %s and mode <> %s", [mode, placement.node, mode]
    )
    if whole:
        await tx.execute(
            """insert into claims (allocation_id, kind, node_id, status)
               values (%s, 'node_exclusive', %s, 'reserved')""",
            [allocation, placement.node],
        )
    else:
        await _claim_slots(tx, allocation, placement)


async def _claim_slots(tx: Connection, allocation: str, placement: Placement) -> None:
    taken = await tx.execute(
        """update slots set status = 'reserved'
           where node_id = %s and slot_index = any(%s) and status = 'available' returning id""",
        [placement.node, list(placement.slots)],
    )
    slots = [row["id"] for row in await taken.fetchall()]
    if len(slots) != len(placement.slots):
        raise _Changed
    await tx.execute(
        """insert into claims (allocation_id, kind, node_id, slot_id, status)
           select %s, 'slot', %s, unnest(%s::text[]), 'reserved'""",
        [allocation, placement.node, slots],
    )


async def _attach_keys(tx: Connection, row: Row, order: Order) -> None:
    keys = sorted(set(order.ssh_keys))
    attached = await tx.execute(
        """insert into allocation_ssh_keys (allocation_id, ssh_key_id)
           select %s, id from ssh_keys where id = any(%s) and project_id = %s""",
        [row["id"], keys, order.project],
    )
    if attached.rowcount != len(keys):
        raise _Changed


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
            "ssh_key_ids": sorted(set(order.ssh_keys)),
            "image": row["image_slug"],
            "at": row["created_at"].isoformat(),
        },
    )
