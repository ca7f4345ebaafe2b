"""What an allocation holds: its claims, and the slots under them, moved together.

A live claim is what keeps others out; the state of a slot says why. Both change in the transaction
that moves the allocation, or neither does.
"""

from typing import Final

from mainstay.model.errors import Rejected
from mainstay.tenancy.database.connect import Connection, Row
from mainstay.tenancy.states import LIVE_CLAIMS, SLOT_NEXT, ClaimStatus, SlotStatus

_ENDED: Final = frozenset(ClaimStatus) - LIVE_CLAIMS
_HELD: Final = frozenset(
    {
        SlotStatus.RESERVED,
        SlotStatus.IN_USE,
        SlotStatus.RELEASING,
        SlotStatus.CLEANUP_BLOCKED,
    }
)
"""The states of a slot under a live claim."""


class HoldingsDiffer(Rejected):
    """Claims and slots do not fit each other: nothing was changed."""

    code = "holdings_differ"
    what_to_do = "look at the node's slots: somebody changed them by hand"


async def set_holdings(tx: Connection, row: Row, claim: ClaimStatus, slot: SlotStatus) -> None:
    """Take every live claim of an allocation, and its slots, to these states.

    The caller has the allocation's row locked. A slot takes only an edge of its own table, so
    one that is not where it should be undoes the whole step. A whole node has no slots to move.
    """
    moved = await tx.execute(
        """update claims set status = %(status)s,
                  ended_at = case when %(ended)s then clock_timestamp() end
           where allocation_id = %(allocation)s and live_mode is not null
           returning slot_id, node_id""",
        {"status": str(claim), "ended": claim in _ENDED, "allocation": row["id"]},
    )
    claims = await moved.fetchall()
    if not claims:
        raise HoldingsDiffer(f"allocation {row['id']} holds nothing that could be {claim}")
    await _set_slots(tx, row, [found["slot_id"] for found in claims if found["slot_id"]], slot)


async def _set_slots(tx: Connection, row: Row, slots: list[str], new: SlotStatus) -> None:
    before = [str(old) for old in _HELD if new in SLOT_NEXT[old]]
    moved = await tx.execute(
        "update slots set status = %s where id = any(%s) and status = any(%s) returning id",
        [str(new), slots, before],
    )
    done = {found["id"] for found in await moved.fetchall()}
    if missing := sorted(set(slots) - done):
        raise HoldingsDiffer(
            f"slots of allocation {row['id']} cannot become {new}: {', '.join(missing)}"
        )


async def live_claims(tx: Connection, allocation: str) -> list[Row]:
    """The claims that still keep others out."""
    found = await tx.execute(
        """select * from claims where allocation_id = %s and live_mode is not null
           order by id""",
        [allocation],
    )
    return await found.fetchall()
