"""Nodes as placement sees them, read from the database: many at a glance, one under its lock."""

from collections.abc import Sequence
from typing import Final

from mainstay.tenancy.database.connect import Connection, Row
from mainstay.tenancy.placement.shape import (
    CapacityShape,
    Catalogue,
    NodeView,
    Sku,
    Slot,
    SlotState,
)
from mainstay.tenancy.states import SlotStatus

AT_A_GLANCE: Final = 200
"""So many nodes are looked at first, the fullest that could do; all of them before a refusal."""

_STATES: Final = {
    SlotStatus.AVAILABLE: SlotState.FREE,
    SlotStatus.RESERVED: SlotState.USED,
    SlotStatus.IN_USE: SlotState.USED,
}

_NODES: Final = """
    select node.id, node.region, node.sku, node.partitioned, node.mode,
           node.cpu_milli, node.memory_mib,
           array_agg(slot.status order by slot.slot_index) as statuses,
           array_agg(slot.numa_node order by slot.slot_index) as numa,
           count(*) filter (where slot.status = 'available') as free,
           exists (select from claims where claims.node_id = node.id
                                        and claims.live_mode = 'node_exclusive') as claimed,
           coalesce((select sum(skus.cpu_milli_per_gpu) from claims
                     join allocations on allocations.id = claims.allocation_id
                     join skus on skus.sku = allocations.sku
                     where claims.node_id = node.id and claims.live_mode = 'slot'), 0) as cpu_used,
           coalesce((select sum(skus.memory_mib_per_gpu) from claims
                     join allocations on allocations.id = claims.allocation_id
                     join skus on skus.sku = allocations.sku
                     where claims.node_id = node.id and claims.live_mode = 'slot'), 0)
               as memory_used
    from nodes node join slots slot on slot.node_id = node.id
    where node.status = 'active'
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


async def likely(tx: Connection, *, gpus: int, region: str) -> list[NodeView]:
    """The fullest nodes of a region that have so many free slots, a bounded number of them."""
    statement = f"""{_NODES} and node.region = %s
        group by node.id
        having count(*) filter (where slot.status = 'available') >= %s
        order by free, node.id limit %s"""
    return _views(await (await tx.execute(statement, [region, gpus, AT_A_GLANCE])).fetchall())


async def everything(tx: Connection) -> list[NodeView]:
    """Every node that is open, so that a refusal is true and can name an alternative."""
    return _views(
        await (await tx.execute(f"{_NODES} group by node.id order by node.id")).fetchall()
    )


async def alone(tx: Connection, node: str) -> NodeView | None:
    """One node, whose row the caller has locked; None if it is not open any more."""
    statement = f"{_NODES} and node.id = %s group by node.id"
    found = _views(await (await tx.execute(statement, [node])).fetchall())
    return found[0] if found else None


def _views(rows: Sequence[Row]) -> list[NodeView]:
    return [
        NodeView(
            id=row["id"],
            region=row["region"],
            skus=frozenset({row["sku"]}),
            slots=tuple(
                Slot(_STATES.get(SlotStatus(status), SlotState.UNFIT), numa)
                for status, numa in zip(row["statuses"], row["numa"], strict=True)
            ),
            cpu_milli=row["cpu_milli"] - row["cpu_used"],
            memory_mib=row["memory_mib"] - row["memory_used"],
            partitioned=row["partitioned"],
            claimed=row["claimed"],
        )
        for row in rows
    ]
