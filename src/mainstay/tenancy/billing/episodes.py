"""Telling a payer that money runs out: each thing once per episode, in the transaction of its row.

Locks are taken in one order, so that nobody waits in a circle: allocation, node, the node's
outages, account. Who holds a later one takes an earlier one only if nobody has it.
"""

from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

from psycopg import sql

from mainstay.model.errors import Rejected
from mainstay.tenancy import outbox
from mainstay.tenancy.billing.options import BillingOptions
from mainstay.tenancy.billing.standing import Standing, Step, steps
from mainstay.tenancy.database.connect import Connection, Row
from mainstay.tenancy.ids import Ids
from mainstay.tenancy.states import EventType

COLUMNS: Final[Mapping[Step, str]] = MappingProxyType(
    {Step.WARN: "warned_at", Step.PEND: "pending_at", Step.DEPLETE: "depleted_at"}
)
"""Where an episode remembers what was told."""

EVENTS: Final[Mapping[Step, tuple[EventType, ...]]] = MappingProxyType(
    {
        Step.WARN: (EventType.LOW_BALANCE,),
        Step.PEND: (EventType.RELEASE_PENDING,),
        Step.DEPLETE: (EventType.DEPLETED, EventType.FORCE_RELEASE_REQUESTED),
    }
)
CAUSE: Final = "balance_depleted"


class AccountNotFound(Rejected):
    """There is none with this id."""

    code = "account_not_found"
    what_to_do = "check the account's id"


async def standing_of(tx: Connection, account: str) -> Standing:
    """The balance, which is the sum of the ledger, and what is running on it."""
    found = await tx.execute(
        """
        select accounts.currency, accounts.low_balance_minor,
               (select coalesce(sum(amount_minor), 0) from ledger
                where account_id = accounts.id)::bigint as balance,
               (select coalesce(sum(price_minor * gpus), 0) from allocations
                where account_id = accounts.id and status = 'active' and not exists (
                    select from node_outages
                    where node_id = allocations.node_id and ended_at is null))::bigint as hour
        from accounts where id = %s
        """,
        [account],
    )
    row = await found.fetchone()
    if row is None:
        raise AccountNotFound(f"no account {account}")
    return Standing(
        account=account,
        currency=row["currency"],
        balance_minor=row["balance"],
        low_minor=row["low_balance_minor"],
        hour_minor=row["hour"],
    )


async def hold(tx: Connection, account: str) -> None:
    """Hold the account still: who else decides about it waits, and so does who asks for more."""
    found = await tx.execute("select id from accounts where id = %s for no key update", [account])
    if await found.fetchone() is None:
        raise AccountNotFound(f"no account {account}")


async def look(tx: Connection, ids: Ids, account: str, options: BillingOptions) -> Standing:
    """Tell what there is to tell of an account, once; how it stands.

    The account is held only when there is something to write, and then looked at again.
    """
    standing = await standing_of(tx, account)
    if not steps(standing, _told(await _open(tx, account)), options.pending_s):
        return standing
    await hold(tx, account)
    standing = await standing_of(tx, account)
    episode = await _open(tx, account)
    for step in steps(standing, _told(episode), options.pending_s):
        if step is Step.END:
            await _end(tx, account)
        elif step is Step.BEGIN:
            episode = await _begin(tx, account)
        else:
            assert episode is not None
            await _tell(tx, ids, standing, step)
    return standing


async def _open(tx: Connection, account: str) -> Row | None:
    found = await tx.execute(
        "select * from low_balance_episodes where account_id = %s and ended_at is null", [account]
    )
    return await found.fetchone()


def _told(episode: Row | None) -> frozenset[Step] | None:
    if episode is None:
        return None
    return frozenset(step for step, column in COLUMNS.items() if episode[column] is not None)


async def _begin(tx: Connection, account: str) -> Row:
    begun = await tx.execute(
        "insert into low_balance_episodes (account_id) values (%s) returning *", [account]
    )
    row = await begun.fetchone()
    assert row is not None
    return row


async def _end(tx: Connection, account: str) -> None:
    await tx.execute(
        """update low_balance_episodes set ended_at = clock_timestamp()
           where account_id = %s and ended_at is null""",
        [account],
    )


async def _tell(tx: Connection, ids: Ids, standing: Standing, step: Step) -> None:
    column = sql.Identifier(COLUMNS[step])
    noted = await tx.execute(
        sql.SQL(
            """update low_balance_episodes set {} = clock_timestamp()
               where account_id = %s and ended_at is null returning began_at, {} as at"""
        ).format(column, column),
        [standing.account],
    )
    row = await noted.fetchone()
    assert row is not None
    correlation = ids("cor")
    for event_type in EVENTS[step]:
        payload = _facts(standing, row) | await _further(tx, standing, event_type, row)
        await outbox.append(
            tx,
            ids,
            outbox.Event(
                event_type=event_type,
                key=standing.account,
                correlation_id=correlation,
                payload=payload,
            ),
        )


def _facts(standing: Standing, row: Row) -> dict[str, Any]:
    return {
        "account_id": standing.account,
        "balance_minor": standing.balance_minor,
        "currency": standing.currency,
        "low_balance_minor": standing.low_minor,
        "hour_minor": standing.hour_minor,
        "episode_began_at": row["began_at"].isoformat(),
        "at": row["at"].isoformat(),
    }


async def _further(
    tx: Connection, standing: Standing, event_type: EventType, row: Row
) -> dict[str, Any]:
    if event_type is EventType.RELEASE_PENDING:
        assert standing.lasts_s is not None
        gone = row["at"] + timedelta(seconds=standing.lasts_s)
        return {"projected_depletion_at": gone.isoformat()}
    if event_type is EventType.FORCE_RELEASE_REQUESTED:
        held = await to_be_ended(tx, standing.account)
        return {"cause": CAUSE, "allocation_ids": [found["id"] for found in held]}
    return {}


async def to_be_ended(tx: Connection, account: str) -> list[Row]:
    """What the account holds or is about to get, and nobody has given up yet."""
    found = await tx.execute(
        """select id, status from allocations
           where account_id = %s
             and (status = 'active'
                  or (status in ('requested', 'provisioning') and cancel_requested_by is null))
           order by id""",
        [account],
    )
    return await found.fetchall()
