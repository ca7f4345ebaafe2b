"""Nodes and their slots, as administrators see and change them.

A node is registered with a token for one enrolment. Its slots are found, then approved by a person;
only then are they given out. Draining ends nothing that runs.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

import psycopg

from mainstay.model.errors import Rejected
from mainstay.model.ids import is_id
from mainstay.tenancy import enrolment
from mainstay.tenancy.attempts import Who, attempted
from mainstay.tenancy.database.connect import Connection, Pool, Row, transaction
from mainstay.tenancy.enrolment import NodeNotFound
from mainstay.tenancy.states import SLOT_NEXT, NodeStatus, SlotStatus


class NodeExists(Rejected):
    """A node with this id is there already."""

    code = "node_exists"
    what_to_do = "ask for a new enrolment token instead"


class NodeConflict(Rejected):
    """The node is not in a state from which this can be done."""

    code = "node_state_conflict"
    what_to_do = "look at the node first"


class SlotNotFound(Rejected):
    """The node has no such slot."""

    code = "slot_not_found"
    what_to_do = "list the node's slots"


class SlotConflict(Rejected):
    """The slot is not in a state from which this can be done."""

    code = "slot_state_conflict"
    what_to_do = "release what holds it first"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSlot:
    """A slot as somebody, or the node's agent, describes it."""

    slot_index: int
    numa_node: int = 0
    pci_address: str = ""
    nvme_device: str = ""
    mac_address: str = ""
    private_ip: str = ""
    fabric_vf_pci_address: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNode:
    """A node to be enrolled."""

    id: str
    region: str
    sku: str
    gpus_total: int
    offers: tuple[str, ...] = ()
    """Further SKUs under which it is sold."""

    cpu_milli: int = 0
    memory_mib: int = 0
    slots: tuple[FoundSlot, ...] = field(default=())


class NodeStep(StrEnum):
    """What an administrator may say of a node."""

    DRAIN = "drain"
    RESUME = "resume"
    QUARANTINE = "quarantine"
    RETIRE = "retire"


N = NodeStatus

NODE_STEPS: Final[Mapping[NodeStep, tuple[frozenset[NodeStatus], NodeStatus]]] = MappingProxyType({
    NodeStep.DRAIN: (frozenset({N.ACTIVE, N.OFFLINE, N.DRAINING}), N.DRAINING),
    NodeStep.RESUME: (frozenset({N.DRAINING, N.QUARANTINED, N.ACTIVE}), N.ACTIVE),
    NodeStep.QUARANTINE: (frozenset(NodeStatus) - {N.RETIRED}, N.QUARANTINED),
    NodeStep.RETIRE: (frozenset(NodeStatus), N.RETIRED),
})  # fmt: skip
"""From where each step leads where."""


async def register(pool: Pool, new: NewNode, who: Who) -> tuple[Row, str]:
    """A node that may enrol, with the slots that are known of it; its row and its token."""
    if not is_id(new.id) or "/" in new.id:
        raise Rejected(f"not a node id: {new.id[:80]!r}")
    try:
        async with attempted(pool, who.tries("node.create", "node", new.id)) as tx:
            await tx.execute(
                """insert into nodes (id, region, sku, status, gpus_total, cpu_milli, memory_mib)
                   values (%s, %s, %s, 'bootstrap_issued', %s, %s, %s)""",
                [new.id, new.region, new.sku, new.gpus_total, new.cpu_milli, new.memory_mib],
            )
            for sku in dict.fromkeys(new.offers):
                await tx.execute("insert into node_offers values (%s, %s)", [new.id, sku])
            await _discovered(tx, new.id, new.slots)
            token = await enrolment.invite(tx, new.id)
            row = await _one(tx, new.id)
    except psycopg.errors.UniqueViolation as error:
        raise NodeExists(f"node {new.id} is there already") from error
    except psycopg.errors.ForeignKeyViolation as error:
        what = f"region {new.region}, sku {new.sku}, offers {', '.join(new.offers) or 'none'}"
        raise Rejected(f"a region or SKU that the catalogue does not have: {what}") from error
    return row, token


async def invite(pool: Pool, node: str, who: Who) -> str:
    """Another token for one enrolment; the one before is void."""
    async with attempted(pool, who.tries("node.invite", "node", node)) as tx:
        return await enrolment.invite(tx, node)


async def step(pool: Pool, node: str, what: NodeStep, who: Who) -> Row:
    """Drain, resume, quarantine or retire a node."""
    before, after = NODE_STEPS[what]
    async with attempted(pool, who.tries(f"node.{what}", "node", node)) as tx:
        row = await _one(tx, node, lock=True)
        if row["status"] not in before:
            raise NodeConflict(f"node {node} is {row['status']}: cannot {what} it")
        if what is NodeStep.RETIRE and await _is_held(tx, node):
            raise NodeConflict(f"node {node} is still held by allocations: drain it first")
        await tx.execute("update nodes set status = %s where id = %s", [str(after), node])
        return {**row, "status": str(after)}


async def _is_held(tx: Connection, node: str) -> bool:
    found = await tx.execute(
        "select from claims where node_id = %s and live_mode is not null limit 1", [node]
    )
    return await found.fetchone() is not None


async def take_in(pool: Pool, node: str, slots: tuple[FoundSlot, ...], who: Who) -> list[Row]:
    """Slots that were found: new ones wait for approval, known ones stay as they are."""
    async with attempted(pool, who.tries("node.slot.discover", "node", node)) as tx:
        await _one(tx, node, lock=True)
        await _discovered(tx, node, slots)
        return await _slots(tx, node)


async def _discovered(tx: Connection, node: str, slots: tuple[FoundSlot, ...]) -> None:
    for slot in slots:
        await tx.execute(
            """insert into slots (id, node_id, slot_index, status, numa_node, pci_address,
                   nvme_device, mac_address, private_ip, fabric_vf_pci_address)
               values (%s, %s, %s, 'discovered', %s, %s, %s, %s, %s, %s)
               on conflict (node_id, slot_index) do nothing""",
            [
                f"{node}/{slot.slot_index}",
                node,
                slot.slot_index,
                slot.numa_node,
                slot.pci_address,
                slot.nvme_device,
                slot.mac_address,
                slot.private_ip,
                slot.fabric_vf_pci_address,
            ],
        )


async def set_slot(pool: Pool, node: str, index: int, *, to: SlotStatus, who: Who) -> Row:
    """Approve or disable a slot. One that is where it is to go stays there."""
    verb = "approve" if to is SlotStatus.AVAILABLE else "disable"
    before = [str(old) for old in SLOT_NEXT if to in SLOT_NEXT[old]]
    held = {SlotStatus.RESERVED, SlotStatus.RELEASING, SlotStatus.CLEANUP_BLOCKED}
    allowed = [*(set(before) - held), str(to)]
    attempt = who.tries(f"node.slot.{verb}", "slot", f"{node}/{index}")
    async with attempted(pool, attempt) as tx:
        await _one(tx, node, lock=True)
        changed = await tx.execute(
            """update slots set status = %s where node_id = %s and slot_index = %s
                  and status = any(%s) returning *""",
            [str(to), node, index, allowed],
        )
        row = await changed.fetchone()
        if row is None:
            raise await _why_not(tx, node, index, verb)
    return row


async def _why_not(tx: Connection, node: str, index: int, verb: str) -> Rejected:
    found = await tx.execute(
        "select status from slots where node_id = %s and slot_index = %s", [node, index]
    )
    row = await found.fetchone()
    if row is None:
        return SlotNotFound(f"node {node} has no slot {index}")
    return SlotConflict(f"slot {node}/{index} is {row['status']}: cannot {verb} it")


async def _one(tx: Connection, node: str, *, lock: bool = False) -> Row:
    found = await tx.execute(
        "select * from nodes where id = %s" + (" for update" if lock else ""), [node]
    )
    row = await found.fetchone()
    if row is None:
        raise NodeNotFound(f"no node {node}")
    return row


async def _slots(tx: Connection, node: str) -> list[Row]:
    found = await tx.execute("select * from slots where node_id = %s order by slot_index", [node])
    return await found.fetchall()


async def slots(pool: Pool, node: str) -> list[Row]:
    """The slots of a node, with their health."""
    async with transaction(pool) as tx:
        await _one(tx, node)
        return await _slots(tx, node)


_LISTED: Final = """
    select nodes.*, count(slots.id) as slots,
           count(slots.id) filter (where slots.status = 'available') as slots_available,
           count(slots.id) filter (where slots.status = 'cleanup_blocked') as slots_blocked,
           life.machine, life.retired_at,
           case when %(outages)s then (
               select coalesce(jsonb_agg(jsonb_build_object(
                          'began_at', began_at, 'ended_at', ended_at) order by began_at), '[]')
               from node_outages where node_id = nodes.id) end as outages
    from nodes left join slots on slots.node_id = nodes.id
    left join bridge_nodes life on life.node_id = nodes.id
    where nodes.id > %(after)s and (%(node)s::text is null or nodes.id = %(node)s)
      and (%(retired)s or %(retired_only)s or nodes.status <> 'retired')
      and (nodes.status = 'retired' or not %(retired_only)s)
    group by nodes.id, life.machine, life.retired_at order by nodes.id limit %(limit)s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Which nodes to list, and what of them."""

    after: str = ""
    limit: int = 100
    retired: bool = False
    retired_only: bool = False
    outages: bool = False


async def listed(pool: Pool, query: Query) -> list[Row]:
    """A page of nodes by id, each with how its slots are and the machine that it is a life of."""
    return await _counted(pool, {**asdict(query), "node": None})


async def show(pool: Pool, node: str) -> Row:
    """One node, counted in the same way."""
    query = Query(limit=1, retired=True, outages=True)
    rows = await _counted(pool, {**asdict(query), "node": node})
    if not rows:
        raise NodeNotFound(f"no node {node}")
    return rows[0]


async def _counted(pool: Pool, values: Mapping[str, Any]) -> list[Row]:
    async with transaction(pool) as tx:
        return await (await tx.execute(_LISTED, values)).fetchall()
