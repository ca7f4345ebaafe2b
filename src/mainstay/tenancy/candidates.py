"""Nodes as placement sees them, read from the database: many at a glance, one under its lock."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from mainstay.tenancy.database.connect import Connection, Cursor, Row
from mainstay.tenancy.placement.shape import (
    Ask,
    CapacityShape,
    Catalogue,
    NodeView,
    Sku,
    Slot,
    SlotState,
)
from mainstay.tenancy.states import SlotStatus

AT_A_GLANCE: Final = 32
"""So many nodes are looked at first, the fullest that could do; all of them before a refusal, and
before a slice is spread over several NUMA nodes that would fit on one."""

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
        select node_id, array_agg(status order by slot_index) as statuses,
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


async def select_catalogue(tx: Connection) -> Cursor:
    """Ask for every SKU that is sold."""
    return await tx.execute("select * from skus where active")


async def catalogue(tx: Connection) -> Catalogue:
    """Every SKU that is sold."""
    return catalogue_of(await (await select_catalogue(tx)).fetchall())


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


_FULLEST: Final = """
    with sold as (
        select id from nodes
        where status = 'active' and region = %(region)s and sku = %(sku)s
        union
        select nodes.id from nodes join node_offers on node_offers.node_id = nodes.id
        where nodes.status = 'active' and region = %(region)s and node_offers.sku = %(sku)s
    )
    select node_id from slots
    where status = 'available' and node_id in (select id from sold)
      and node_id not in (select node_id from claims where live_mode = 'node_exclusive')
    group by node_id having count(*) >= %(gpus)s
    order by count(*), node_id limit {limit}
"""


_OF_THE_FULLEST: Final = _NODES.format(of="node_id = any(array(select node_id from fullest))")
EVERYTHING: Final = _NODES.format(of="true") + " order by node.id"
ALONE: Final = _NODES.format(of="node_id = %(node)s") + " and node.id = %(node)s"


async def select_likely(tx: Connection, ask: Ask) -> Cursor:
    """Ask for the fullest nodes that could serve a request, a bounded number of them.

    The bound is part of the text: with a number that is not known when it is planned, PostgreSQL
    plans the statement anew whenever it runs, which takes as long as running it.
    """
    fullest = _FULLEST.format(limit=int(AT_A_GLANCE))
    return await tx.execute(
        f"with fullest as materialized ({fullest}) {_OF_THE_FULLEST}",
        {"region": ask.region, "gpus": ask.gpus, "sku": ask.sku},
    )


async def everything(tx: Connection) -> list[NodeView]:
    """Every node that is open, so that a refusal is true and can name an alternative."""
    return views(await (await tx.execute(EVERYTHING)).fetchall())


async def alone(tx: Connection, node: str) -> NodeView | None:
    """One node, whose row the caller has locked; None if it is not open any more."""
    found = views(await (await tx.execute(ALONE, {"node": node})).fetchall())
    return found[0] if found else None


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
