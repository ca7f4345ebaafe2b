"""Nodes as placement sees them, read from the database: many at a glance, one under its lock."""

from collections.abc import Sequence
from typing import Final

from mainstay.tenancy.database.connect import Connection, Row
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
           array(select node.sku union select sku from node_offers where node_id = node.id) as skus,
           own.*, held.*
    from nodes node
    join regions on regions.code = node.region and regions.active
    cross join lateral (
        select array_agg(status order by slot_index) as statuses,
               array_agg(numa_node order by slot_index) as numa
        from slots where slots.node_id = node.id
    ) own
    cross join lateral (
        select coalesce(bool_or(live_mode = 'node_exclusive'), false) as claimed,
               coalesce(sum(skus.cpu_milli_per_gpu) filter (where live_mode = 'slot'), 0)
                   as cpu_used,
               coalesce(sum(skus.memory_mib_per_gpu) filter (where live_mode = 'slot'), 0)
                   as memory_used
        from claims
        join allocations on allocations.id = claims.allocation_id
        join skus on skus.sku = allocations.sku
        where claims.node_id = node.id and claims.live_mode is not null
    ) held
    where node.status = 'active' and own.statuses is not null
"""


async def catalogue(tx: Connection) -> Catalogue:
    """Every SKU that is sold."""
    rows = await (await tx.execute("select * from skus where active")).fetchall()
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
    select slots.node_id from slots join nodes on nodes.id = slots.node_id
    where slots.status = 'available' and nodes.status = 'active' and nodes.region = %(region)s
      and (nodes.sku = %(sku)s or exists (
          select from node_offers where node_offers.node_id = nodes.id
                                    and node_offers.sku = %(sku)s))
      and not exists (select from claims where claims.node_id = nodes.id
                                           and claims.live_mode = 'node_exclusive')
    group by slots.node_id having count(*) >= %(gpus)s
    order by count(*), slots.node_id limit %(limit)s
"""


async def likely(tx: Connection, ask: Ask) -> list[NodeView]:
    """The fullest nodes that could serve a request, a bounded number of them."""
    found = await tx.execute(
        f"{_NODES} and node.id = any(array({_FULLEST}))",
        {"region": ask.region, "gpus": ask.gpus, "sku": ask.sku, "limit": AT_A_GLANCE},
    )
    return _views(await found.fetchall())


async def everything(tx: Connection) -> list[NodeView]:
    """Every node that is open, so that a refusal is true and can name an alternative."""
    return _views(await (await tx.execute(f"{_NODES} order by node.id")).fetchall())


async def alone(tx: Connection, node: str) -> NodeView | None:
    """One node, whose row the caller has locked; None if it is not open any more."""
    found = _views(await (await tx.execute(f"{_NODES} and node.id = %s", [node])).fetchall())
    return found[0] if found else None


def _views(rows: Sequence[Row]) -> list[NodeView]:
    return [
        NodeView(
            id=row["id"],
            region=row["region"],
            skus=frozenset(row["skus"]),
            slots=tuple(
                Slot(_STATES.get(SlotStatus(status), SlotState.UNFIT), numa)
                for status, numa in zip(row["statuses"], row["numa"], strict=True)
            ),
            cpu_milli=int(row["cpu_milli"] - row["cpu_used"]),
            memory_mib=int(row["memory_mib"] - row["memory_used"]),
            partitioned=row["partitioned"],
            claimed=row["claimed"],
        )
        for row in rows
    ]
