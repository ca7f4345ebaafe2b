"""Giving up what is not active yet: an intent on the row, which the worker acts on.

There is no edge out of `requested` or `provisioning` for a tenant, and the node may be at work. So
the wish is written down; `settle.begun` and `settle.activated` read it at the next legal edge.
"""

from typing import Final

from mainstay.tenancy.database.connect import Connection, Row
from mainstay.tenancy.states import NEXT, Actor, IllegalStep, NotYours, Status

BEFORE_ACTIVE: Final = frozenset({Status.REQUESTED, Status.PROVISIONING})
MAY: Final = NEXT[Status.ACTIVE][Status.RELEASING].actors
"""Whoever may release it once it is active."""


async def intend(tx: Connection, row: Row, actor: Actor) -> Row:
    """Write the wish on a row that is locked. Who wished first stays; the state does not change."""
    if row["status"] not in BEFORE_ACTIVE:
        raise IllegalStep(f"allocation {row['id']} is {row['status']}: too late to cancel it")
    if actor not in MAY:
        raise NotYours(f"{actor} may not cancel an allocation (may: {', '.join(sorted(MAY))})")
    found = await tx.execute(
        """update allocations set cancel_requested_by = coalesce(cancel_requested_by, %s)
           where id = %s returning *""",
        [str(actor), row["id"]],
    )
    cancelled = await found.fetchone()
    assert cancelled is not None
    return cancelled
