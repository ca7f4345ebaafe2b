"""Allocations with a past, for billing: times are made up, so that hours pass in a test at once.

Also connections that break in the middle of a transaction when they are told to.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import psycopg
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool
from typing_extensions import override

from mainstay.tenancy.billing.reconcile import reconcile
from mainstay.tenancy.database.connect import Pool, Row, transaction
from tenants import ACCOUNT, NEW, PROJECT, REGION, SLICE, rows, value

STAMPS: Final = {
    "provisioning": "provisioning_started_at",
    "active": "active_at",
    "releasing": "releasing_at",
    "released": "released_at",
    "failed": "failed_at",
    "release_failed": "release_failed_at",
}
DONE: Final = '{"released": true, "wiped": true, "leases_released": true}'


async def account(pool: Pool, funds: int = 0, *, low: int = 0, name: str = "") -> str:
    """A payer with a project of its own, whose id is `prj_` and the account's."""
    identity = name or NEW("acc")
    async with transaction(pool) as tx:
        await tx.execute(
            "insert into accounts (id, low_balance_minor) values (%s, %s)", [identity, low]
        )
        await tx.execute(
            "insert into projects (id, account_id) values (%s, %s)", [f"prj_{identity}", identity]
        )
        if funds:
            await tx.execute(
                """insert into ledger (account_id, amount_minor, currency, kind, dedupe_key)
                   values (%s, %s, 'USD', 'credit', %s)""",
                [identity, funds, f"funds:{identity}"],
            )
    return identity


async def requested(
    pool: Pool, at: datetime, *, price: int = 450, gpus: int = 1, payer: str = ACCOUNT
) -> str:
    """An allocation that was asked for then; it holds nothing, since nobody asks here."""
    identity = NEW("alc")
    async with transaction(pool) as tx:
        await tx.execute(
            """insert into nodes (id, region, sku, status, gpus_total)
               values ('ghost', %s, %s, 'retired', 8) on conflict do nothing""",
            [REGION, SLICE],
        )
        await tx.execute(
            """insert into allocations (id, project_id, account_id, requested_by, sku, gpus, region,
                   capacity_shape, node_id, price_minor, currency, status, correlation_id,
                   created_at)
               values (%s, %s, %s, 'usr', %s, %s, %s, 'gpu_slice', 'ghost', %s, 'USD', 'requested',
                   'cor', %s)""",
            [
                identity,
                PROJECT if payer == ACCOUNT else f"prj_{payer}",
                payer,
                SLICE,
                gpus,
                REGION,
                price,
                at,
            ],
        )
    return identity


async def step(pool: Pool, allocation: str, state: str, at: datetime) -> None:
    """Take it there, at that time. A second `releasing` does not touch the time of the first."""
    stamp = STAMPS[state]
    async with transaction(pool) as tx:
        await tx.execute(
            f"""update allocations set status = %(state)s, version = version + 1,
                {stamp} = case when %(state)s = 'releasing' then coalesce({stamp}, %(at)s)
                               else %(at)s end,
                failure_code = case when %(state)s = 'failed' then 'made_up' end,
                proof = case when %(state)s = 'released' then %(proof)s::jsonb end
                where id = %(id)s""",
            {"state": state, "at": at, "id": allocation, "proof": DONE},
        )


async def lived(pool: Pool, *, ago_s: float, for_s: float | None = None, **columns: Any) -> str:
    """One that became active so long ago; with `for_s`, released after that."""
    now = await clock(pool)
    began = now - timedelta(seconds=ago_s)
    allocation = await requested(pool, began - timedelta(seconds=90), **columns)
    await step(pool, allocation, "provisioning", began - timedelta(seconds=80))
    await step(pool, allocation, "active", began)
    if for_s is not None:
        await step(pool, allocation, "releasing", began + timedelta(seconds=for_s))
        await step(pool, allocation, "released", began + timedelta(seconds=for_s + 30))
    return allocation


async def clock(pool: Pool) -> datetime:
    """The database's, which is the one that counts."""
    now = await value(pool, "select clock_timestamp()")
    assert isinstance(now, datetime)
    return now


async def charged(pool: Pool, allocation: str) -> int:
    """What the ledger says it has cost so far."""
    return int(
        await value(
            pool,
            """select -coalesce(sum(amount_minor), 0)::bigint from ledger
               where allocation_id = %s and kind = 'charge'""",
            [allocation],
        )
    )


async def usage(pool: Pool, allocation: str) -> list[Row]:
    return await rows(
        pool, "select * from usage_records where allocation_id = %s order by id", [allocation]
    )


async def told_to(pool: Pool, payer: str) -> list[str]:
    """The events about an account, in order, without those about money that came."""
    found = await rows(
        pool,
        """select event_type from outbox where key = %s
             and event_type <> 'payments.balance_credited' order by position""",
        [payer],
    )
    return [row["event_type"] for row in found]


async def differences(pool: Pool) -> list[str]:
    async with transaction(pool) as tx:
        return await reconcile(tx)


class Crash(Exception):
    """The process died here."""


@dataclass(slots=True)
class Fuse:
    """After how many statements it blows; None: never."""

    left: int | None = None
    blown: int = 0

    def burn(self) -> None:
        if self.left is None:
            return
        if self.left == 0:
            self.left = None
            self.blown += 1
            raise Crash
        self.left -= 1


@asynccontextmanager
async def fragile(url: str, fuse: Fuse) -> AsyncIterator[Pool]:
    """A pool whose connections break when the fuse blows, in the middle of what they do."""

    class Connection(psycopg.AsyncConnection[DictRow]):
        @override
        async def execute(self, *given: Any, **named: Any) -> psycopg.AsyncCursor[DictRow]:
            fuse.burn()
            return await super().execute(*given, **named)

    pool: Pool = AsyncConnectionPool(
        url,
        connection_class=Connection,
        kwargs={"row_factory": dict_row},
        min_size=1,
        max_size=4,
        open=False,
    )
    async with pool:
        yield pool
