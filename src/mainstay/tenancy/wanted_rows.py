"""The rows of what is wanted: kinds of nodes, and who waits for one."""

from mainstay.tenancy.database.connect import Connection, Row
from mainstay.tenancy.placement.shape import CapacityShape
from mainstay.tenancy.wanted import Kind, Waiting


async def kinds(tx: Connection) -> list[Row]:
    """Every kind that is in use."""
    found = await tx.execute("select * from node_kinds where active order by kind")
    return await found.fetchall()


def kind_of(row: Row) -> Kind:
    """A kind as demand sees it."""
    return Kind(
        name=row["kind"],
        region=row["region"],
        instance_types=tuple(row["instance_types"]),
        zones=tuple(row["zones"]),
        sold_as=tuple(row["sold_as"]),
        gpus=row["gpus_total"],
        accelerator=row["accelerator"],
        head_room=row["head_room"],
    )


async def waiting(tx: Connection) -> list[Waiting]:
    """Who waits for capacity, the most important first."""
    found = await tx.execute(
        """select r.id, r.sku, r.region, r.gpus, project.priority, skus.capacity_shape,
                  project.interruption_penalty_bucket, project.reclamation_penalty_bucket
           from capacity_requests r join projects project on project.id = r.project_id
           join skus on skus.sku = r.sku
           where r.state = 'waiting' and r.expires_at > clock_timestamp()
           order by project.priority desc, r.created_at, r.id"""
    )
    return [
        Waiting(
            sku=row["sku"],
            region=row["region"],
            gpus=row["gpus"],
            priority=row["priority"],
            whole=row["capacity_shape"] == CapacityShape.BAREMETAL,
            interruption_bucket=row["interruption_penalty_bucket"],
            reclamation_bucket=row["reclamation_penalty_bucket"],
            request=row["id"],
        )
        for row in await found.fetchall()
    ]
