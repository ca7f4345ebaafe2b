"""A tenant asks for capacity: all of it or a truthful no, decided under the lock of one node.

Nodes are ranked on the board, which is as new as the request. The best one is locked, read again
and placed on by itself; if it has no room any more, the next one is. A node that somebody else has
locked is left for the end. Nothing is refused before every open node was read in one piece and none
had room.
"""

import json
from dataclasses import dataclass
from typing import Final

import psycopg

from mainstay.model.errors import NoCapacity, Rejected, Unavailable
from mainstay.tenancy import board, candidates, outbox
from mainstay.tenancy.database.connect import (
    Connection,
    Pool,
    Row,
    at_once,
    tell_soon,
    transaction,
)
from mainstay.tenancy.ids import Ids
from mainstay.tenancy.placement.place import Placement, Refusal, place
from mainstay.tenancy.placement.rank import Choice, outlook_for
from mainstay.tenancy.placement.shape import Ask, CapacityShape, Catalogue, NodeView
from mainstay.tenancy.states import EDGES, EventType, Status

ROUNDS_MAX: Final = 20
"""So often others may be faster before we say that we are busy, which is no refusal."""

NODES_PER_ROUND_MAX: Final = 4
"""After so many nodes what was read is too old: read again, which costs little."""

SHORT_TURNS: Final = 8
"""So often the short way is tried before nodes are taken one by one, and waited for."""

AT_ONCE_MAX: Final = 8
"""So many of the best nodes are tried in one statement."""

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
    for turn in range(ROUNDS_MAX):
        seen = await board.seen(pool)
        choices = seen.best(ask, candidates.TRIED_MAX)
        if not choices:
            refusal = seen.refusal(ask)
            await _check_facts(pool, order)
            raise SkuUnavailable(refusal)
        trial = _Trial(pool, ids, order, ask, seen.catalogue)
        placed = await _at_once(trial, choices)
        if placed is None and turn == 0:
            await _check_facts(pool, order)
        if placed is None and turn + 1 >= min(SHORT_TURNS, ROUNDS_MAX):
            placed = await _first_that_holds(trial, [choice.node for choice in choices])
        if placed is not None:
            return placed
    raise Unavailable("too many want the same nodes at this moment: try again")


async def _check_facts(pool: Pool, order: Order) -> None:
    """What is wrong with the order itself is said before anything else."""
    found = await at_once(pool, FACTS, _names(order))
    _check(found[0] if found else None, order)


FACTS: Final = """
    select accounts.id as account, accounts.currency as paid, skus.currency as priced,
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


def _check(facts: Row | None, order: Order) -> Row:
    """What is wrong with an order wherever it would go."""
    if facts is None:
        raise UnknownProject(f"no such project: {order.project}")
    if facts["balance"] <= 0:
        raise InsufficientBalance("the balance is used up: nothing new can be started")
    if facts["priced"] not in {None, facts["paid"]}:
        raise CurrencyDiffers(f"{order.sku} is priced in {facts['priced']}, not in {facts['paid']}")
    if missing := sorted(set(order.ssh_keys) - set(facts["keys"])):
        raise UnknownSshKey(f"no such SSH key in project {order.project}: {', '.join(missing)}")
    return facts


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


class _Busy(Exception):
    """Others hold every node that would do."""


async def _at_once(trial: _Trial, choices: list[Choice]) -> Row | None:
    """The first of the best nodes that still has the very slots that were seen, in one statement.

    Nearly every request ends here. None: others were faster, or the order is wrong.
    """
    if not (tried := choices[:AT_ONCE_MAX]):
        return None
    order, sku = trial.order, trial.known[trial.ask.sku]
    values = {
        "id": trial.ids("alc"),
        "event": trial.ids("evt"),
        "order": json.dumps({
            "project": order.project, "by": order.by, "sku": order.sku, "gpus": order.gpus,
            "region": order.region, "correlation": order.correlation_id,
        }),
        "keys": sorted(set(order.ssh_keys)),
        "nodes": [choice.node for choice in tried],
        "slots": [slot for choice in tried for slot in choice.slots],
        "cpu": sku.cpu_milli_per_gpu * order.gpus,
        "memory": sku.memory_mib_per_gpu * order.gpus,
    }  # fmt: skip
    try:
        made = await at_once(trial.pool, ALLOCATE, values)
    except psycopg.errors.IntegrityError as error:
        if not str(error.diag.constraint_name).startswith("claims"):
            raise
        return None
    if not made:
        return None
    await tell_soon(trial.pool, outbox.CHANNEL)
    return made[0]


ALLOCATE: Final = """
    select * from allocate(%(id)s, %(event)s, %(order)s::jsonb, %(keys)s::text[],
                           %(nodes)s::text[], %(slots)s::int[], %(cpu)s, %(memory)s)
"""


async def _first_that_holds(trial: _Trial, nodes: list[str]) -> Row | None:
    """The first node that, locked and read again, has room: those nobody holds before the others.

    None: all of them have filled up meanwhile, or others hold them all.
    """
    left = list(nodes)
    for tried in range(min(len(nodes), NODES_PER_ROUND_MAX)):
        if tried == IN_ORDER_MAX:
            left.reverse()
        try:
            return await _on_one_of(trial, left)
        except _Full as full:
            left.remove(full.node)
        except _Busy:
            await _let_go(trial.pool, left[0])
            return None
    return None


async def _let_go(pool: Pool, node: str) -> None:
    """Wait until nobody holds a node, while holding nothing."""
    async with transaction(pool) as tx:
        await tx.execute("select from nodes where id = %s for share", [node])


async def _on_one_of(trial: _Trial, nodes: list[str]) -> Row:
    """Try one node in one short transaction, which is undone if there is no room."""
    async with transaction(trial.pool, pipelined=True) as tx:
        account, node, view = await _locked(tx, trial.order, nodes)
        if view is None:
            raise _Full(node)
        found = place(trial.ask, trial.known, [view], outlook_for(trial.known[trial.ask.sku]))
        if isinstance(found, Refusal):
            raise _Full(node)
        try:
            return await _recorded(tx, trial, account, found)
        except psycopg.errors.IntegrityError as error:
            if not str(error.diag.constraint_name).startswith("claims"):
                raise
            raise _Full(node) from error  # a live claim that we did not see


HOLD_ACCOUNT: Final = """
    select from accounts where id = (select account_id from projects where id = %s) for share
"""

LOCK_ONE: Final = """
    select set_config('mainstay.node', free.id, true) as id from (
        select id from nodes where id = any(%(nodes)s)
        order by array_position(%(nodes)s, id) limit 1 for update skip locked
    ) free
"""
"""Its name is kept for the next statement, which is sent along: it must be another statement, for
what it reads must be newer than the lock."""


async def _locked(
    tx: Connection, order: Order, nodes: list[str]
) -> tuple[str, str, NodeView | None]:
    """The account, held still, and the first of the nodes that nobody holds, as it is now.

    A balance that runs out now is waited for. The account is held before the node is, so that
    nobody else's request waits for this tenant's bill; so no node is waited for here.
    """
    await tx.execute(HOLD_ACCOUNT, [order.project])
    facts = await tx.execute(FACTS, _names(order))
    free = await tx.execute(LOCK_ONE, {"nodes": nodes})
    read = await candidates.select_kept(tx)
    account = str(_check(await facts.fetchone(), order)["account"])
    if (taken := await free.fetchone()) is not None:
        return account, taken["id"], candidates.only(await read.fetchall())
    raise _Busy


CREATED: Final = next(edge for edge in EDGES if edge.old is None)
GRANT: Final = f"""
    with made as (
        insert into allocations (id, project_id, account_id, requested_by, sku, gpus, region,
            capacity_shape, node_id, image_slug, price_minor, currency, status, correlation_id,
            {CREATED.stamps})
        select %(id)s, %(project)s, %(account)s, %(by)s, skus.sku, %(gpus)s, %(region)s,
            skus.capacity_shape, %(node)s, skus.image_slug, skus.gpu_hourly_price_minor,
            skus.currency, %(status)s, %(correlation)s, clock_timestamp()
        from skus where skus.sku = %(sku)s and skus.active
        returning *
    ), given_out as (
        update nodes set mode = %(mode)s where id = %(node)s and mode <> %(mode)s
    ), taken as (
        update slots set status = 'reserved'
        where node_id = %(node)s and slot_index = any(%(slots)s) and status = 'available'
          and unready = ''
        returning id
    ), claimed as (
        insert into claims (allocation_id, kind, node_id, slot_id, status)
        select %(id)s, 'slot', %(node)s, id, 'reserved' from taken
        union all
        select %(id)s, 'node_exclusive', %(node)s, null, 'reserved'
        where %(mode)s = 'node_exclusive'
        returning id
    ), attached as (
        insert into allocation_ssh_keys (allocation_id, ssh_key_id)
        select %(id)s, id from ssh_keys where id = any(%(keys)s) and project_id = %(project)s
        returning ssh_key_id
    )
    select made.*, (select count(*) from claimed) as claims_made,
           (select count(*) from attached) as keys_attached
    from made
"""
"""The node whole, or some of its slots; the database refuses what somebody else has."""


async def _recorded(tx: Connection, trial: _Trial, account: str, placement: Placement) -> Row:
    """The rows of a new allocation, in the transaction that holds the node's lock."""
    order = trial.order
    keys = sorted(set(order.ssh_keys))
    whole = placement.shape is CapacityShape.BAREMETAL
    values = {
        "id": trial.ids("alc"),
        "project": order.project,
        "account": account,
        "by": order.by,
        "sku": order.sku,
        "gpus": order.gpus,
        "region": order.region,
        "node": placement.node,
        "status": str(Status.REQUESTED),
        "correlation": order.correlation_id,
        "mode": "node_exclusive" if whole else "slot",
        "slots": list(placement.slots),
        "keys": keys,
    }
    row = await (await tx.execute(GRANT, values)).fetchone()
    if row is None or row.pop("claims_made") != (len(placement.slots) or 1):
        raise _Full(placement.node)
    if row.pop("keys_attached") != len(keys):
        raise _Full(placement.node)
    await outbox.append(tx, trial.ids, _event(row, order, placement))
    return row


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
