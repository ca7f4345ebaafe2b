"""One pass of the biller: every allocation that has time to pay for, each in its own transaction.

What is charged follows from the allocation's own times and from where its usage ends, both read
under the lock of its row. So a pass that is repeated, that runs beside another, or that dies
anywhere charges nothing twice and forgets nothing: what was not committed is still to be charged.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import psycopg

from mainstay.model.errors import MainstayError, Unavailable
from mainstay.runtime.log import logger
from mainstay.tenancy.billing import episodes, force, usage
from mainstay.tenancy.billing.charge import Window
from mainstay.tenancy.billing.metrics import BillerMetrics
from mainstay.tenancy.billing.options import DEFAULT, BillingOptions
from mainstay.tenancy.database.connect import Connection, Pool, Row, transaction
from mainstay.tenancy.ids import Ids

NEXT: Final = """
    select allocations.*
    from allocations
    where active_at is not null and billing_closed_at is null and id > %(after)s
      and (releasing_at is not null
           or coalesce((select max(window_end) from usage_records
                        where allocation_id = allocations.id), active_at)
              + make_interval(secs => %(window_s)s)
              <= coalesce(%(at)s::timestamptz, clock_timestamp()))
    order by id
    limit 1
    for no key update skip locked
"""
"""The next that has a window to charge or has ended, and that no other biller is at."""


@dataclass(slots=True)
class Pass:
    """What one pass did."""

    charged: int = 0
    """Allocations that a window was charged for."""

    closed: int = 0
    """Of those, charged to their end."""

    amount_minor: int = 0
    failed: list[str] = field(default_factory=list)
    """Allocations and accounts that could not be dealt with: the next pass tries again."""


async def run(
    pool: Pool,
    ids: Ids,
    options: BillingOptions = DEFAULT,
    wake: asyncio.Event | None = None,
    metrics: BillerMetrics | None = None,
) -> None:
    """Bill until cancelled. Several may run side by side."""
    bell = wake or asyncio.Event()
    metrics = metrics or BillerMetrics()
    while True:
        bell.clear()
        try:
            done = await bill(pool, ids, options)
        except Unavailable as error:
            logger().warning("biller_found_no_database", error=error.message)
            metrics.found_nobody()
        else:
            metrics.passed(
                charged=done.charged, amount_minor=done.amount_minor, failed=len(done.failed)
            )
        await asyncio.sleep(options.pause_s)
        with suppress(TimeoutError):
            async with asyncio.timeout(options.tick_s - options.pause_s):
                await bell.wait()


async def bill(
    pool: Pool, ids: Ids, options: BillingOptions = DEFAULT, at: datetime | None = None
) -> Pass:
    """Charge everything that is due, look at whoever pays for it, release what nobody can pay.

    `at` is a time in the past up to which to charge; None: the database's clock, whose times the
    allocations carry.
    """
    turn = _Turn(pool, ids, options, at)
    after: str | None = ""
    while after is not None:
        after = await _charge_next(turn, after)
    for account in await _payers(pool):
        await _look(turn, account)
    turn.done.failed += await force.release_overdue(pool, ids, options)
    return turn.done


@dataclass(frozen=True, slots=True)
class _Turn:
    """All that a pass needs, and what it has done so far."""

    pool: Pool
    ids: Ids
    options: BillingOptions
    at: datetime | None
    done: Pass = field(default_factory=Pass)


async def _charge_next(turn: _Turn, after: str) -> str | None:
    """Charge the next one in a transaction of its own; its id, None when there is none.

    One that fails is left for the next pass: it does not keep the others from being charged.
    """
    allocation: str | None = None
    asked = {"after": after, "window_s": turn.options.window_s, "at": turn.at}
    try:
        async with transaction(turn.pool) as tx:
            row = await (await tx.execute(NEXT, asked)).fetchone()
            if row is None:
                return None
            allocation = row["id"]
            charged = await charge(tx, turn.ids, row, turn.options, turn.at)
    except Unavailable:
        raise
    except (MainstayError, psycopg.Error) as error:
        if allocation is None:
            raise
        logger().error("charge_failed", allocation=allocation, exc_info=error)
        turn.done.failed.append(allocation)
        return allocation
    _count(turn.done, row, charged)
    return allocation


def _count(done: Pass, row: Row, charged: tuple[Window, ...]) -> None:
    done.charged += bool(charged)
    done.closed += row["releasing_at"] is not None
    done.amount_minor += sum(window.amount_minor for window in charged)


async def charge(
    tx: Connection, ids: Ids, row: Row, options: BillingOptions, at: datetime | None = None
) -> tuple[Window, ...]:
    """Charge an allocation whose row this transaction has locked, up to now or to its end.

    The last charge looks at the account in the same transaction, since no pass will come by for
    this allocation again.
    """
    if row["active_at"] is None or row["billing_closed_at"] is not None:
        return ()
    charged = await usage.charge(tx, row, window_s=options.window_s, at=at)
    if row["releasing_at"] is not None:
        await _close(tx, row)
        await episodes.look(tx, ids, row["account_id"], options)
    return charged


async def _close(tx: Connection, row: Row) -> None:
    await tx.execute(
        "update allocations set billing_closed_at = clock_timestamp() where id = %s", [row["id"]]
    )


async def _payers(pool: Pool) -> list[str]:
    """Whose balance falls."""
    async with transaction(pool) as tx:
        found = await tx.execute(
            """select distinct account_id from allocations
               where active_at is not null and billing_closed_at is null order by account_id"""
        )
        return [row["account_id"] for row in await found.fetchall()]


async def _look(turn: _Turn, account: str) -> None:
    try:
        async with transaction(turn.pool) as tx:
            await episodes.look(tx, turn.ids, account, turn.options)
    except Unavailable:
        raise
    except (MainstayError, psycopg.Error) as error:
        logger().error("account_look_failed", account=account, exc_info=error)
        turn.done.failed.append(account)
