"""Who cannot pay any more gives back what he holds: what is active is released, the rest cancelled.

Money that came meanwhile stops it: nobody loses a machine that he can pay for again. What was
released by then does not come back by itself.
"""

from dataclasses import dataclass
from typing import Final

import psycopg

from mainstay.model.errors import MainstayError, Unavailable
from mainstay.runtime.log import logger
from mainstay.tenancy import audit, cancel, settle, transition
from mainstay.tenancy.billing import episodes
from mainstay.tenancy.billing.options import BillingOptions
from mainstay.tenancy.bus import Envelope
from mainstay.tenancy.database.connect import Connection, Pool, Row, transaction
from mainstay.tenancy.ids import Ids
from mainstay.tenancy.states import Actor, EventType, Status
from mainstay.tenancy.subscribers import RELEASER, subjects_of

BY: Final = "billing"
ACTION: Final = "allocation.force_release"


@dataclass(frozen=True, slots=True)
class Releaser:
    """Consumes `provisioning.force_release_requested`."""

    ids: Ids

    @property
    def name(self) -> str:
        """In the table of subscribers."""
        return RELEASER

    @property
    def subjects(self) -> frozenset[EventType]:
        """By the table."""
        return subjects_of(RELEASER)

    async def handle(self, tx: Connection, event: Envelope) -> None:
        """Release everything that the payer holds now, whatever the event lists.

        Each in a savepoint: one that cannot be moved does not keep the others running. The
        biller comes back for it.
        """
        account = event.payload["account_id"]
        if not (await episodes.standing_of(tx, account)).is_depleted:
            return
        for held in await episodes.to_be_ended(tx, account):
            try:
                async with tx.transaction():
                    await end(tx, self.ids, held["id"])
            except psycopg.OperationalError:
                raise
            except (MainstayError, psycopg.Error) as error:
                logger().error("force_release_failed", allocation=held["id"], exc_info=error)


async def end(tx: Connection, ids: Ids, allocation: str) -> Row:
    """Release or cancel one allocation in the name of billing; where it is ending already, nothing.

    The row is locked first: of several who end it at once, one does.
    """
    row = await transition.locked(tx, allocation)
    if row["status"] in cancel.BEFORE_ACTIVE:
        moved = await cancel.intend(tx, row, Actor.BILLING)
    elif row["status"] == Status.ACTIVE:
        moved = await settle.releasing(tx, ids, row, Actor.BILLING)
    else:
        return row
    attempt = audit.Attempt(by=BY, role=str(Actor.BILLING), action=ACTION, target=allocation)
    await audit.record(tx, attempt.about(row), done=True)
    return moved


async def release_overdue(pool: Pool, ids: Ids, options: BillingOptions) -> list[str]:
    """End what is still held so long after a depletion; what could not be ended.

    Usually nothing: the event has been consumed long before. Each in a transaction of its own.
    """
    failed = []
    for allocation in await _overdue(pool, ids, options):
        try:
            async with transaction(pool) as tx:
                await end(tx, ids, allocation)
        except Unavailable:
            raise
        except (MainstayError, psycopg.Error) as error:
            logger().error("force_release_failed", allocation=allocation, exc_info=error)
            failed.append(allocation)
    return failed


async def _overdue(pool: Pool, ids: Ids, options: BillingOptions) -> list[str]:
    async with transaction(pool) as tx:
        found = await tx.execute(
            """select account_id from low_balance_episodes
               where ended_at is null
                 and depleted_at < clock_timestamp() - make_interval(secs => %s)
               order by account_id""",
            [options.overdue_s],
        )
        overdue = []
        for account in [row["account_id"] for row in await found.fetchall()]:
            held = await episodes.to_be_ended(tx, account)
            if held and (await episodes.look(tx, ids, account, options)).is_depleted:
                overdue += [row["id"] for row in held]
        return overdue
