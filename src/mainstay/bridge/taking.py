"""Taking back what tenants hold on a machine that leaves: told, then released, then proved.

By the table of allocations and nothing else: an administrator's release for what is active, a
cancellation for what is not. Only of a machine that is gone nobody can prove anything any more: its
provider has emptied it, and no tenant ever gets those slots again, so its word ends what is left.
"""

from typing import Any, Final

from mainstay.tenancy import audit, cancel, outbox, settle
from mainstay.tenancy.database.connect import Connection, Pool, Row, transaction
from mainstay.tenancy.holdings import live_claims
from mainstay.tenancy.ids import Ids
from mainstay.tenancy.states import Actor, EventType, Status
from mainstay.tenancy.transition import Step, locked, move

BY: Final = "bridge"
CODE: Final = "machine_taken"
"""The failure code of what was never active when its machine left."""

BEFORE_RELEASE: Final = frozenset({Status.REQUESTED, Status.PROVISIONING, Status.ACTIVE})


async def holders(pool: Pool, node: str) -> list[str]:
    """The allocations that hold a part of a node."""
    async with transaction(pool) as tx:
        found = await tx.execute(
            """select distinct allocation_id as id from claims
               where node_id = %s and live_mode is not null order by id""",
            [node],
        )
        return [row["id"] for row in await found.fetchall()]


async def warn(pool: Pool, ids: Ids, life: Row, allocation: str) -> bool:
    """Tell the tenant, once; whether this was news."""
    async with transaction(pool) as tx:
        row = await locked(tx, allocation)
        if row["status"] not in BEFORE_RELEASE or not await _is_news(tx, life, allocation):
            return False
        stood = await _life(tx, life)
        await outbox.append(tx, ids, _notice(stood, row))
        return True


async def _life(tx: Connection, life: Row) -> Row:
    found = await tx.execute(
        """select *, to_char(clock_timestamp() at time zone 'UTC',
                             'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as told_at
           from bridge_nodes where node_id = %s""",
        [life["node_id"]],
    )
    row = await found.fetchone()
    assert row is not None
    return row


async def _is_news(tx: Connection, life: Row, allocation: str) -> bool:
    told = await tx.execute(
        """insert into bridge_warnings (node_id, allocation_id) values (%s, %s)
           on conflict do nothing""",
        [life["node_id"], allocation],
    )
    return told.rowcount > 0


def _notice(life: Row, row: Row) -> outbox.Event:
    """Its key is the node's: it is no step of the allocation."""
    release_at = life["release_at"] or life["closed_at"]
    return outbox.Event(
        event_type=EventType.RECLAIM_NOTICE,
        key=life["node_id"],
        correlation_id=row["correlation_id"],
        payload={
            "allocation_id": row["id"],
            "project_id": row["project_id"],
            "account_id": row["account_id"],
            "sku": row["sku"],
            "gpus": row["gpus"],
            "capacity_shape": row["capacity_shape"],
            "node_id": row["node_id"],
            "at": life["told_at"],
            "reason": life["reason"],
            "release_at": release_at.isoformat(),
            "preemptor_priority": life["preemptor_priority"],
        },
    )


async def release(pool: Pool, ids: Ids, life: Row, allocation: str) -> bool:
    """Ask for its release, or cancel it; whether this was news."""
    async with transaction(pool) as tx:
        row = await locked(tx, allocation)
        if row["status"] in cancel.BEFORE_ACTIVE and row["cancel_requested_by"] is None:
            await cancel.intend(tx, row, Actor.ADMIN)
        elif row["status"] == Status.ACTIVE:
            await settle.releasing(tx, ids, row, Actor.ADMIN)
        else:
            return False
        await audit.record(
            tx, _attempt(life, "allocation.reclaim", allocation).about(row), done=True
        )
        return True


async def bury(pool: Pool, ids: Ids, life: Row, allocation: str) -> bool:
    """End what was held on a machine that is gone; whether this was news."""
    async with transaction(pool) as tx:
        row = await locked(tx, allocation)
        if not await live_claims(tx, allocation):
            return False
        await _ended(tx, ids, row, life)
        attempt = _attempt(life, "allocation.machine_gone", allocation)
        await audit.record(tx, attempt.about(row), done=True)
        return True


async def _ended(tx: Connection, ids: Ids, row: Row, life: Row) -> None:
    proof = _word(life)
    match Status(row["status"]):
        case Status.REQUESTED:
            begun = await move(tx, ids, row, Step(new=Status.PROVISIONING, actor=Actor.WORKER))
            await _failed(tx, ids, begun, life)
        case Status.PROVISIONING:
            await _failed(tx, ids, row, life)
        case Status.ACTIVE | Status.RELEASE_FAILED:
            leaving = await settle.releasing(tx, ids, row, Actor.ADMIN)
            await settle.released(tx, ids, leaving, proof)
        case Status.RELEASING:
            await settle.released(tx, ids, row, proof)
        case Status.FAILED:
            await settle.cleaned(tx, row, proof)
        case Status.RELEASED:
            pass


async def _failed(tx: Connection, ids: Ids, row: Row, life: Row) -> None:
    await settle.failed(
        tx,
        ids,
        row,
        code=CODE,
        phase="machine",
        reason=f"its machine was taken back: {life['reason']}",
        clean=True,
        actor=Actor.ADMIN,
    )


def _word(life: Row) -> dict[str, Any]:
    """What the provider vouches for: the machine was emptied, and this node never comes back."""
    return {
        **dict.fromkeys(settle.PROOF, True),
        "hard_stopped": True,
        "by": "provider",
        "machine": life["machine"],
        "reason": life["reason"],
    }


def _attempt(life: Row, action: str, allocation: str) -> audit.Attempt:
    return audit.Attempt(
        by=BY,
        role=str(Actor.ADMIN),
        action=action,
        target=allocation,
        metadata={
            "machine": life["machine"],
            "node": life["node_id"],
            "reason": life["reason"],
            "preemptor_priority": life["preemptor_priority"],
        },
    )
