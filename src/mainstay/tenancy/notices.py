"""What people are told: every event, by project, in an order that a cursor can follow.

The notifier writes a notice in the transaction that consumes the event. It locks the project until
the commit, so the positions of a project's notices appear in their order: who has read up to one
has missed none before it.
"""

from collections.abc import Sequence
from typing import Any, Final

from mainstay.model.errors import Rejected
from mainstay.tenancy.bell import Channel
from mainstay.tenancy.bus import Envelope
from mainstay.tenancy.database.connect import Connection, Pool, Row, tell, transaction
from mainstay.tenancy.states import EventType
from mainstay.tenancy.subscribers import NOTIFIER, subjects_of

PAGE_MAX: Final = 200
POSITION_MAX: Final = 2**63 - 1


class Notifier:
    """Consumes everything."""

    name = NOTIFIER
    subjects: frozenset[EventType] = subjects_of(NOTIFIER)

    async def handle(self, tx: Connection, event: Envelope) -> None:
        """Write it down for each project it is about, and ring."""
        for project in await _projects(tx, event.payload):
            await _write(tx, project, event)
            tell(tx, str(Channel.NOTICED), project)


async def _projects(tx: Connection, payload: dict[str, Any]) -> Sequence[str]:
    """The one project, or all that the account pays for, in the order in which they are locked."""
    if project := payload.get("project_id"):
        return [str(project)]
    found = await tx.execute(
        "select id from projects where account_id = %s order by id", [payload.get("account_id")]
    )
    return [row["id"] for row in await found.fetchall()]


async def _write(tx: Connection, project: str, event: Envelope) -> None:
    await tx.execute(
        "select pg_advisory_xact_lock(hashtext('mainstay notices'), hashtext(%s))", [project]
    )
    await tx.execute(
        """insert into notices (project_id, event_id, event_type, allocation_id, occurred_at,
                                correlation_id, payload)
           values (%s, %s, %s, (select id from allocations where id = %s), %s, %s,
                   (select envelope -> 'payload' from outbox where id = %s))
           on conflict do nothing""",
        [
            project,
            event.event_id,
            str(event.event_type),
            event.payload.get("allocation_id"),
            event.occurred_at,
            event.correlation_id,
            event.event_id,
        ],
    )


async def since(
    pool: Pool, project: str, *, after: int, allocation: str | None = None, limit: int = 100
) -> list[Row]:
    """Notices of a project after a position, oldest first."""
    if not 1 <= limit <= PAGE_MAX:
        raise Rejected(f"not a size of a page: {limit} (1 to {PAGE_MAX})")
    if not 0 <= after <= POSITION_MAX:
        raise Rejected(f"not a cursor of ours: {after}")
    async with transaction(pool) as tx:
        found = await tx.execute(
            """select * from notices where project_id = %(project)s and position > %(after)s
                  and (%(allocation)s::text is null or allocation_id = %(allocation)s)
               order by position limit %(limit)s""",
            {"project": project, "after": after, "allocation": allocation, "limit": limit},
        )
        return await found.fetchall()
