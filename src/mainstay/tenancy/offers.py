"""What can be asked for: SKUs with their prices, and what is free of them where."""

from dataclasses import dataclass

from mainstay.tenancy import views
from mainstay.tenancy.database.connect import Pool, Row, transaction
from mainstay.tenancy.views import Room


@dataclass(frozen=True, slots=True)
class Offers:
    """The catalogue, as a tenant sees it."""

    skus: tuple[Row, ...]
    regions: tuple[Row, ...]
    rooms: tuple[Room, ...]


async def offers(pool: Pool) -> Offers:
    """All that is sold now."""
    async with transaction(pool) as tx:
        skus = await tx.execute("select * from skus where active order by sku")
        known = await skus.fetchall()
        regions = await tx.execute("select code, name from regions where active order by code")
        places = await regions.fetchall()
    return Offers(tuple(known), tuple(places), await views.rooms(pool))
