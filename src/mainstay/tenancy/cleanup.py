"""Getting free what is stuck before it was ever active, and what failed without a clean undo.

Force-release is the other thing: it runs clean-up again and asks for its proof. Here nobody proves
anything; an admin says that nothing runs there, or leaves the slots blocked.
"""

from dataclasses import dataclass
from typing import Final

from mainstay.model.errors import Rejected
from mainstay.tenancy import audit, settle
from mainstay.tenancy.cancel import BEFORE_ACTIVE
from mainstay.tenancy.database.connect import Connection, Pool, Row, transaction
from mainstay.tenancy.holdings import live_claims, set_holdings
from mainstay.tenancy.ids import Ids
from mainstay.tenancy.placement.shape import CapacityShape
from mainstay.tenancy.states import Actor, ClaimStatus, IllegalStep, SlotStatus, Status
from mainstay.tenancy.transition import Step, locked, move

FORCED: Final = "force_cleanup"
"""The failure code of what an admin gave up."""


class WholeNode(Rejected):
    """A whole node has no slots to block: its clean-up must be seen."""

    code = "wrong_shape"
    what_to_do = "cancel it; once it has failed, say that nothing runs there any more"


async def force_cleanup(
    pool: Pool, ids: Ids, allocation: str, *, runtime_verified_absent: bool, by: str
) -> Row:
    """Give up a slice that is stuck in `requested` or `provisioning`: it is `failed` then.

    Its slots are free only if an admin has verified that nothing runs there; otherwise they stay
    blocked, and the same call with the verification frees them later, for a whole node too. What
    is active or being released is refused. A worker that still has it finds it failed.
    """
    attempt = audit.Attempt(
        by=by,
        role=str(Actor.ADMIN),
        action="allocation.force_cleanup",
        target=allocation,
        metadata={"runtime_verified_absent": runtime_verified_absent},
    )
    try:
        async with transaction(pool) as tx:
            row = await locked(tx, allocation)
            given_up = await _given_up(tx, ids, row, absent=runtime_verified_absent)
            await audit.record(tx, attempt.about(row), done=True)
            return given_up
    except Rejected as error:
        await audit.refused(pool, attempt, error)
        raise


async def _given_up(tx: Connection, ids: Ids, row: Row, *, absent: bool) -> Row:
    if row["status"] == Status.FAILED:
        if absent and await live_claims(tx, row["id"]):
            await set_holdings(tx, row, ClaimStatus.FAILED, SlotStatus.AVAILABLE)
        return row
    if row["status"] not in BEFORE_ACTIVE:
        raise IllegalStep(f"allocation {row['id']} is {row['status']}: release it instead")
    if row["capacity_shape"] == CapacityShape.BAREMETAL:
        raise WholeNode(f"allocation {row['id']} has a whole node: cancel it instead")
    if row["status"] == Status.REQUESTED:
        row = await move(tx, ids, row, Step(new=Status.PROVISIONING, actor=Actor.WORKER))
    return await settle.failed(
        tx,
        ids,
        row,
        code=FORCED,
        phase="cleanup",
        reason="given up by an admin"
        + (", who verified that nothing runs there" if absent else ": nobody looked at the node"),
        clean=absent,
        actor=Actor.ADMIN,
    )


@dataclass(frozen=True, slots=True)
class Remains:
    """A machine that nobody is to have, and where it is. It must be released there."""

    allocation: str
    node: str
    slots: tuple[str, ...]
    """None for a whole node."""

    elsewhere: tuple[str, ...]
    """Of these slots, those that somebody else has by now: the agent's leases keep them apart."""


async def late_success(tx: Connection, row: Row) -> Remains | None:
    """The node says that it made a machine for an allocation which has failed meanwhile.

    It is never revived. What is free of what it had is blocked again, for the machine is there
    whatever was said of the undo; the caller releases it, and `settle.cleaned` ends it with the
    proof. None: the allocation has not failed, so its own work knows what to do.
    """
    if row["status"] != Status.FAILED:
        return None
    await tx.execute("select id from nodes where id = %s for update", [row["node_id"]])
    if not await live_claims(tx, row["id"]):
        await _block_again(tx, row)
    found = await tx.execute(
        """select slot_id, live_mode from claims where allocation_id = %s order by id""",
        [row["id"]],
    )
    claims = await found.fetchall()
    return Remains(
        allocation=row["id"],
        node=row["node_id"],
        slots=tuple(claim["slot_id"] for claim in claims if claim["slot_id"]),
        elsewhere=tuple(
            claim["slot_id"] for claim in claims if claim["slot_id"] and not claim["live_mode"]
        ),
    )


async def _block_again(tx: Connection, row: Row) -> None:
    """Under the node's lock: take back what of it nobody has, as blocked."""
    whole = row["capacity_shape"] == CapacityShape.BAREMETAL
    mode = "node_exclusive" if whole else "slot"
    others = await tx.execute(
        """select from claims where node_id = %s and live_mode is not null
           and (%s or live_mode = 'node_exclusive')""",
        [row["node_id"], whole],
    )
    if await others.fetchone() is not None:
        return
    blocked = await tx.execute(
        """update slots set status = 'cleanup_blocked' where status = 'available'
           and id in (select slot_id from claims where allocation_id = %s) returning id""",
        [row["id"]],
    )
    slots = [slot["id"] for slot in await blocked.fetchall()]
    await tx.execute(
        "update nodes set mode = %s where id = %s and mode <> %s", [mode, row["node_id"], mode]
    )
    await tx.execute(
        """update claims set status = 'blocked', ended_at = null
           where allocation_id = %s and (slot_id = any(%s) or kind = 'node_exclusive')""",
        [row["id"], slots],
    )
