"""What is written of a charge: usage and the debit for it, under the lock of the allocation's row.

The biller charges as time passes; whoever proves an allocation clean charges what is left of it.
"""

from datetime import UTC, datetime
from typing import Final

import psycopg

from mainstay.runtime.log import logger
from mainstay.tenancy.billing.charge import Outage, Rate, Window, windows
from mainstay.tenancy.database.connect import Connection, Row

HOLD_OUTAGES: Final = """
    select pg_advisory_xact_lock_shared(hashtext('mainstay outages'), hashtext(%s))
"""
"""No outage begins or ends until this charge is committed; one that is being written is waited for.
So what is due at a time that was charged never changes."""

REACHED: Final = """
    select coalesce(max(window_end), %(active_at)s) as charged_to,
           least(coalesce(%(at)s::timestamptz, clock_timestamp()), clock_timestamp()) as now
    from usage_records where allocation_id = %(id)s
"""
"""Asked under the lock: the statement that took the lock may have seen older usage."""

CHARGE: Final = """
    with debit as (
        insert into ledger (account_id, amount_minor, currency, kind, allocation_id, dedupe_key)
        select %(account)s, -%(amount)s::bigint, %(currency)s, 'charge', %(allocation)s, %(key)s
        where %(amount)s::bigint > 0
        returning id
    )
    insert into usage_records (allocation_id, account_id, window_start, window_end, gpus,
                               price_minor, amount_minor, ledger_id)
    values (%(allocation)s, %(account)s, %(start)s, %(end)s, %(gpus)s, %(price)s, %(amount)s,
            (select id from debit))
"""


async def charge(
    tx: Connection, row: Row, *, window_s: int = 0, at: datetime | None = None
) -> tuple[Window, ...]:
    """Charge what is active up to now, or to its end; the caller's transaction has the row locked.

    Less than a window is charged only at the end.
    """
    await tx.execute(HOLD_OUTAGES, [row["node_id"]])
    found = await tx.execute(REACHED, {"id": row["id"], "active_at": row["active_at"], "at": at})
    reached = await found.fetchone()
    assert reached is not None
    ended = row["releasing_at"] is not None
    end = row["releasing_at"] if ended else reached["now"]
    passed = (end - reached["charged_to"]).total_seconds()
    if not ended and passed < window_s:
        return ()
    rate = Rate(row["price_minor"], row["gpus"])
    outages = await _outages(tx, row)
    charged = windows(rate, row["active_at"], reached["charged_to"], end, outages)
    for window in charged:
        await _write(tx, row, window)
    return charged


async def charge_the_rest(tx: Connection, row: Row) -> None:
    """Charge what the biller has not charged yet of one that has ended.

    It is left open, so that the biller still looks at its payer. What cannot be charged keeps
    nobody from going on: that is the biller's, too.
    """
    if row["active_at"] is None or row["billing_closed_at"] is not None:
        return
    try:
        async with tx.transaction():
            await charge(tx, row)
    except psycopg.OperationalError:
        raise
    except psycopg.Error as error:
        logger().error("charge_failed", allocation=row["id"], exc_info=error)


async def _outages(tx: Connection, row: Row) -> list[Outage]:
    found = await tx.execute(
        """select began_at, ended_at from node_outages
           where node_id = %s and (ended_at is null or ended_at > %s) order by began_at""",
        [row["node_id"], row["active_at"]],
    )
    return [Outage(each["began_at"], each["ended_at"]) for each in await found.fetchall()]


async def _write(tx: Connection, row: Row, window: Window) -> None:
    start = window.start.astimezone(UTC)
    await tx.execute(
        CHARGE,
        {
            "allocation": row["id"],
            "account": row["account_id"],
            "currency": row["currency"],
            "key": f"charge:{row['id']}:{start.isoformat()}",
            "start": window.start,
            "end": window.end,
            "gpus": row["gpus"],
            "price": row["price_minor"],
            "amount": window.amount_minor,
        },
    )
