"""Money as callers see it: the account that pays for a project, and credits by administrators."""

from dataclasses import replace
from datetime import datetime

from mainstay.tenancy import views
from mainstay.tenancy.attempts import Who, attempted
from mainstay.tenancy.billing import account, statement
from mainstay.tenancy.billing.account import Balance, Correction, Credit
from mainstay.tenancy.billing.statement import AllocationBill, Statement
from mainstay.tenancy.database.connect import Connection, Pool, Row, transaction
from mainstay.tenancy.ids import Ids
from mainstay.tenancy.request import UnknownProject


async def balance_of(pool: Pool, project: str) -> Balance:
    """How the account stands that pays for this project."""
    async with transaction(pool) as tx:
        return await account.balance(tx, await _payer(tx, project))


async def statement_of(pool: Pool, project: str, month: str | None) -> Statement:
    """The bill of a month, of the account that pays for this project; None is the present one.

    Of other projects of the same account it has the amounts and nothing else.
    """
    async with transaction(pool) as tx:
        payer = await _payer(tx, project)
        whole = await statement.statement(tx, payer, month or await _this_month(tx))
    ours = {line.allocation for line in whole.lines if line.project == project}
    return replace(
        whole,
        lines=tuple(
            line if line.project == project else replace(line, allocation="", project="", sku="")
            for line in whole.lines
        ),
        entries=tuple(
            entry if entry.allocation in {None, *ours} else replace(entry, allocation="")
            for entry in whole.entries
        ),
    )


async def bill_of(pool: Pool, project: str, allocation: str) -> AllocationBill:
    """What an allocation of this project has cost; another project's does not exist."""
    async with transaction(pool) as tx:
        return await statement.allocation_bill(tx, await views.one(tx, allocation, project))


async def usage_of(pool: Pool, project: str, *, after: int = 0, limit: int = 100) -> list[Row]:
    """What was metered for a project's allocations, in the order it was charged."""
    async with transaction(pool) as tx:
        await _payer(tx, project)
        found = await tx.execute(
            """select usage.*, allocations.currency from usage_records usage
               join allocations on allocations.id = usage.allocation_id
               where allocations.project_id = %s and usage.id > %s order by usage.id limit %s""",
            [project, after, limit],
        )
        return await found.fetchall()


async def credit(pool: Pool, ids: Ids, money: Credit, who: Who) -> Row:
    """Book money that came in; the same key once."""
    attempt = who.tries(
        "account.credit", "account", money.account, {"amount_minor": money.amount_minor}
    )
    async with attempted(pool, attempt) as tx:
        return await account.credit(tx, ids, money)


async def correct(pool: Pool, ids: Ids, correction: Correction, who: Who) -> Row:
    """Correct an entry of a ledger; the same key once."""
    attempt = who.tries(
        "ledger.correct",
        "ledger_entry",
        str(correction.entry),
        {"amount_minor": correction.amount_minor},
    )
    async with attempted(pool, attempt) as tx:
        return await account.correct(tx, ids, correction)


async def _payer(tx: Connection, project: str) -> str:
    found = await tx.execute("select account_id from projects where id = %s", [project])
    row = await found.fetchone()
    if row is None:
        raise UnknownProject(f"no such project: {project}")
    return str(row["account_id"])


async def _this_month(tx: Connection) -> str:
    found = await tx.execute("select clock_timestamp() at time zone 'UTC' as at")
    row = await found.fetchone()
    assert row is not None
    at: datetime = row["at"]
    return f"{at:%Y-%m}"
