"""A tenant asks for capacity: all of it or a truthful no, decided under the lock of one node.

Nodes are ranked on what is read at a glance. The best one is locked, read again and placed on by
itself; if it has no room any more, the next one is. A node that somebody else has locked is left
for the end. Nothing is refused before every open node was read in one piece and none had room.
"""

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import psycopg

from mainstay.model.errors import NoCapacity, Rejected, Unavailable
from mainstay.tenancy import candidates, outbox
from mainstay.tenancy.database.connect import Connection, Cursor, Pool, Row, transaction
from mainstay.tenancy.ids import Ids
from mainstay.tenancy.placement.place import Placement, Refusal, place
from mainstay.tenancy.placement.rank import Choice, outlook_for, ranked
from mainstay.tenancy.placement.shape import Ask, CapacityShape, Catalogue, NodeView
from mainstay.tenancy.states import EDGES, EventType, Status

ROUNDS_MAX: Final = 20
"""So often others may be faster before we say that we are busy, which is no refusal."""

NODES_PER_ROUND_MAX: Final = 16
"""After so many nodes what was read at a glance is too old: read again."""

IN_ORDER_MAX: Final = 3
"""After so many that have filled up, others are right ahead of us: go on from the other end."""


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
        async with transaction(pool, pipelined=True) as tx:
            facts = await tx.execute(FACTS, _names(order))
            sold = await candidates.select_catalogue(tx)
            near = await candidates.select_likely(tx, ask)
            _check(await facts.fetchone(), order)
            known = candidates.catalogue_of(await sold.fetchall())
            seen = candidates.views(await near.fetchall())
            choices = _best(ask, known, seen)
            if not _is_settled(ask, choices, seen):
                choices = _best_or_refusal(ask, known, await candidates.everything(tx))
        nodes = [choice.node for choice in choices[: candidates.AT_A_GLANCE]]
        placed = await _first_that_holds(_Trial(pool, ids, order, ask, known), nodes)
        if placed is not None:
            return placed
    raise Unavailable("too many want the same nodes at this moment: try again")


FACTS: Final = """
    select accounts.currency as paid, skus.currency as priced,
           (select coalesce(sum(amount_minor), 0) from ledger where account_id = accounts.id)
               as balance,
           array(select id from ssh_keys
                 where id = any(%(keys)s) and project_id = projects.id) as keys
    from projects join accounts on accounts.id = projects.account_id
    left join skus on skus.sku = %(sku)s
    where projects.id = %(project)s
"""
"""All that an order is checked against wherever it would go."""


def _names(order: Order) -> dict[str, object]:
    return {"project": order.project, "sku": order.sku, "keys": list(order.ssh_keys)}


def _check(facts: Row | None, order: Order) -> None:
    """What is wrong with an order wherever it would go: said before a node is locked for it."""
    if facts is None:
        raise UnknownProject(f"no such project: {order.project}")
    _check_balance(facts)
    if facts["priced"] not in {None, facts["paid"]}:
        raise CurrencyDiffers(f"{order.sku} is priced in {facts['priced']}, not in {facts['paid']}")
    if missing := sorted(set(order.ssh_keys) - set(facts["keys"])):
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


class _Full(Exception):
    """A node has no room any more, or a slot, a key or the SKU was taken out of service."""

    def __init__(self, node: str) -> None:
        super().__init__(node)
        self.node = node


async def _first_that_holds(trial: _Trial, nodes: list[str]) -> Row | None:
    """The first node that, locked and read again, has room: those nobody holds before the others.

    None: all of them have filled up meanwhile.
    """
    left = list(nodes)
    for tried in range(min(len(nodes), NODES_PER_ROUND_MAX)):
        if tried == IN_ORDER_MAX:
            left.reverse()
        try:
            return await _on_one_of(trial, left)
        except _Full as full:
            left.remove(full.node)
    return None


async def _on_one_of(trial: _Trial, nodes: list[str]) -> Row:
    """Try one node in one short transaction, which is undone if there is no room."""
    async with transaction(trial.pool, pipelined=True) as tx:
        project, node = await _locked(tx, trial.order, nodes)
        view = await candidates.alone(tx, node)
        if view is None:
            raise _Full(node)
        found = place(trial.ask, trial.known, [view], _outlook(trial.known[trial.ask.sku]))
        if isinstance(found, Refusal):
            raise _Full(node)
        try:
            return await _recorded(tx, trial, project, found)
        except psycopg.errors.IntegrityError as error:
            if not str(error.diag.constraint_name).startswith("claims"):
                raise
            raise _Full(node) from error  # a live claim that we did not see


async def _locked(tx: Connection, order: Order, nodes: list[str]) -> tuple[Row, str]:
    """The project, with its account held still, and the first of the nodes that nobody holds.

    A balance that runs out now is waited for. The account is held before the node is, so that
    nobody else's request waits for this tenant's bill.
    """
    projects = await tx.execute("select * from projects where id = %s", [order.project])
    await tx.execute(
        """select from accounts
           where id = (select account_id from projects where id = %s) for share""",
        [order.project],
    )
    balances = await tx.execute(
        """select coalesce(sum(amount_minor), 0) as balance from ledger
           where account_id = (select account_id from projects where id = %s)""",
        [order.project],
    )
    free = await tx.execute(
        """select id from nodes where id = any(%(nodes)s)
           order by array_position(%(nodes)s, id) limit 1 for update skip locked""",
        {"nodes": nodes},
    )
    project, balance = await projects.fetchone(), await balances.fetchone()
    if project is None or balance is None:
        raise UnknownProject(f"no such project: {order.project}")
    _check_balance(balance)
    if (taken := await free.fetchone()) is not None:
        return project, taken["id"]
    waited = await tx.execute("select id from nodes where id = %s for update", [nodes[0]])
    if await waited.fetchone() is None:
        raise _Full(nodes[0])
    return project, nodes[0]


async def _recorded(tx: Connection, trial: _Trial, project: Row, placement: Placement) -> Row:
    """The rows of a new allocation, in the transaction that holds the node's lock."""
    order, identity = trial.order, trial.ids("alc")
    keys = sorted(set(order.ssh_keys))
    inserted = await _allocation(tx, identity, order, placement, project)
    claimed = await _claim(tx, identity, placement)
    attached = await tx.execute(
        """insert into allocation_ssh_keys (allocation_id, ssh_key_id)
           select %s, id from ssh_keys where id = any(%s) and project_id = %s
           returning ssh_key_id""",
        [identity, keys, order.project],
    )
    row = await inserted.fetchone()
    claims = await claimed.fetchall()
    whole = row is not None and len(claims) == (len(placement.slots) or 1)
    if row is None or not whole or len(await attached.fetchall()) != len(keys):
        raise _Full(placement.node)
    await outbox.append(tx, trial.ids, _event(row, order, placement))
    return row


def _check_balance(row: Row) -> None:
    if row["balance"] <= 0:
        raise InsufficientBalance("the balance is used up: nothing new can be started")


async def _allocation(
    tx: Connection, identity: str, order: Order, placement: Placement, project: Row
) -> Cursor:
    created = next(edge for edge in EDGES if edge.old is None)
    return await tx.execute(
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


async def _claim(tx: Connection, allocation: str, placement: Placement) -> Cursor:
    """The node whole, or some of its slots; the database refuses what somebody else has."""
    whole = placement.shape is CapacityShape.BAREMETAL
    mode = "node_exclusive" if whole else "slot"
    await tx.execute(
        "update nodes set mode = %s where id = %s and mode <> %s", [mode, placement.node, mode]
    )
    if whole:
        return await tx.execute(
            """insert into claims (allocation_id, kind, node_id, status)
               values (%s, 'node_exclusive', %s, 'reserved') returning id""",
            [allocation, placement.node],
        )
    return await tx.execute(
        """with taken as (
               update slots set status = 'reserved'
               where node_id = %(node)s and slot_index = any(%(slots)s) and status = 'available'
               returning id
           )
           insert into claims (allocation_id, kind, node_id, slot_id, status)
           select %(allocation)s, 'slot', %(node)s, id, 'reserved' from taken returning id""",
        {"allocation": allocation, "node": placement.node, "slots": list(placement.slots)},
    )


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
