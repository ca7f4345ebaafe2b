"""Nodes as placement sees them, read from the database: many at a glance, one under its lock."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from mainstay.tenancy.database.connect import Connection, Cursor, Row
from mainstay.tenancy.placement.shape import (
    CapacityShape,
    Catalogue,
    NodeView,
    Sku,
    Slot,
    SlotState,
)
from mainstay.tenancy.states import SlotStatus

TRIED_MAX: Final = 16
"""So many nodes are tried for one request, the best ones, before it is ranked anew."""

_STATES: Final = {
    SlotStatus.AVAILABLE: SlotState.FREE,
    SlotStatus.RESERVED: SlotState.USED,
    SlotStatus.IN_USE: SlotState.USED,
}

_NODES: Final = """
    select node.id, node.region, node.partitioned, node.cpu_milli, node.memory_mib,
           array_append(coalesce(offered.skus, '{{}}'), node.sku) as skus,
           own.statuses, own.numa, coalesce(held.claimed, false) as claimed,
           coalesce(held.cpu_used, 0) as cpu_used, coalesce(held.memory_used, 0) as memory_used
    from nodes node
    join regions on regions.code = node.region and regions.active
    join (
        select node_id,
               array_agg(case when status = 'available' and unready <> '' then 'disabled'
                              else status end order by slot_index) as statuses,
               array_agg(numa_node order by slot_index) as numa
        from slots where {of} group by node_id
    ) own on own.node_id = node.id
    left join (
        select node_id, array_agg(sku) as skus from node_offers where {of} group by node_id
    ) offered on offered.node_id = node.id
    left join (
        select claims.node_id, bool_or(live_mode = 'node_exclusive') as claimed,
               sum(skus.cpu_milli_per_gpu) filter (where live_mode = 'slot') as cpu_used,
               sum(skus.memory_mib_per_gpu) filter (where live_mode = 'slot') as memory_used
        from (select * from claims where live_mode is not null and {of}) claims
        join allocations on allocations.id = claims.allocation_id
        join skus on skus.sku = allocations.sku
        group by claims.node_id
    ) held on held.node_id = node.id
    where node.status = 'active'
"""
"""`of` says in terms of `node_id` which nodes are read, so that no others are."""


CATALOGUE: Final = "select * from skus where active"


async def catalogue(tx: Connection) -> Catalogue:
    """Every SKU that is sold."""
    return catalogue_of(await (await tx.execute(CATALOGUE)).fetchall())


def catalogue_of(rows: Sequence[Row]) -> Catalogue:
    """Lines of the catalogue, by their names."""
    return {row["sku"]: sku_of(row) for row in rows}


def sku_of(row: Row) -> Sku:
    """A line of the catalogue."""
    return Sku(
        name=row["sku"],
        shape=CapacityShape(row["capacity_shape"]),
        allowed_gpu_counts=tuple(row["allowed_gpu_counts"]),
        cpu_milli_per_gpu=row["cpu_milli_per_gpu"],
        memory_mib_per_gpu=row["memory_mib_per_gpu"],
    )


EVERYTHING: Final = _NODES.format(of="true") + " order by node.id"
ALONE: Final = _NODES.format(of="node_id = %(node)s") + " and node.id = %(node)s"
_KEPT: Final = ALONE.replace("%(node)s", "current_setting('mainstay.node', true)")
_NAMED: Final = _NODES.format(of="node_id = any(array(select name from changed))")

ALL: Final = "*"
"""Instead of a node's name: everything has to be read again."""

_HEAD: Final = "select pg_current_snapshot()::text as snapshot, clock_timestamp() as read_at"
"""With the rows of the same statement, so that it says what they are of."""

ALL_NODES: Final = f"""
    {_HEAD}, node.* from (select) one left join ({_NODES.format(of="true")}) node on true
"""
"""Every open node and the snapshot they are of: one row at least."""

CHANGED: Final = f"""
    with changed as materialized (select nodes_changed_since(%(since)s) as name)
    {_HEAD}, changed.name as changed, node.*
    from (select) one left join changed on true left join ({_NAMED}) node on node.id = changed.name
"""
"""What has changed since a snapshot: one row at least. `changed` names a node, or is `ALL`; the
rest is null for a node that is not open."""


async def everything(tx: Connection) -> list[NodeView]:
    """Every node that is open, so that a refusal is true and can name an alternative."""
    return views(await (await tx.execute(EVERYTHING)).fetchall())


async def select_kept(tx: Connection) -> Cursor:
    """Ask for the node whose name the transaction keeps, if it keeps one."""
    return await tx.execute(_KEPT)


def only(rows: Sequence[Row]) -> NodeView | None:
    """One node or none."""
    return views(rows)[0] if rows else None


def views(rows: Sequence[Row]) -> list[NodeView]:
    """Nodes as placement sees them."""
    return [
        NodeView(
            id=row["id"],
            region=row["region"],
            skus=frozenset(row["skus"]),
            slots=_slots(tuple(row["statuses"]), tuple(row["numa"])),
            cpu_milli=int(row["cpu_milli"] - row["cpu_used"]),
            memory_mib=int(row["memory_mib"] - row["memory_used"]),
            partitioned=row["partitioned"],
            claimed=row["claimed"],
        )
        for row in rows
    ]


@lru_cache(maxsize=8192)
def _slots(statuses: tuple[str, ...], numa: tuple[int, ...]) -> tuple[Slot, ...]:
    """Many nodes have the same."""
    return tuple(
        Slot(_STATES.get(SlotStatus(status), SlotState.UNFIT), on)
        for status, on in zip(statuses, numa, strict=True)
    )
