"""The audit as it is read: newest first, by position."""

from dataclasses import dataclass
from typing import Final

from mainstay.tenancy.database.connect import Pool, Row, transaction

PAGE_MAX: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Which rows; None means any."""

    actor: str | None = None
    action: str | None = None
    target: str | None = None
    before: int | None = None
    """The id of the last row seen."""

    limit: int = 100


async def read(pool: Pool, search: Search) -> list[Row]:
    """A page of attempts."""
    async with transaction(pool) as tx:
        found = await tx.execute(
            """select * from audit
               where (%(actor)s::text is null or actor = %(actor)s)
                 and (%(action)s::text is null or action = %(action)s)
                 and (%(target)s::text is null or target_id = %(target)s)
                 and (%(before)s::bigint is null or id < %(before)s)
               order by id desc limit %(limit)s""",
            {
                "actor": search.actor,
                "action": search.action,
                "target": search.target,
                "before": search.before,
                "limit": min(search.limit, PAGE_MAX),
            },
        )
        return await found.fetchall()
