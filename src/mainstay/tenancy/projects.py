"""Projects and who pays for them."""

from dataclasses import dataclass

import psycopg

from mainstay.tenancy.attempts import Who, attempted
from mainstay.tenancy.billing.episodes import AccountNotFound
from mainstay.tenancy.database.connect import Pool, Row, transaction
from mainstay.tenancy.ids import Ids
from mainstay.tenancy.request import UnknownProject


@dataclass(frozen=True, slots=True, kw_only=True)
class NewProject:
    """A project, and the account that pays: one that is there, or a new one."""

    name: str
    account: str | None = None
    currency: str = "USD"
    low_balance_minor: int = 0
    priority: int = 0


async def create(pool: Pool, ids: Ids, new: NewProject, who: Who) -> Row:
    """A project. Tried again with the same id, it finds the one that is there."""
    identity = ids("prj")
    attempt = who.tries("project.create", "project", identity)
    try:
        async with attempted(pool, attempt) as tx:
            account = new.account
            if account is None:
                account = ids("acc")
                await tx.execute(
                    """insert into accounts (id, name, currency, low_balance_minor)
                       values (%s, %s, %s, %s) on conflict (id) do nothing""",
                    [account, new.name, new.currency, new.low_balance_minor],
                )
            made = await tx.execute(
                """insert into projects (id, account_id, name, priority) values (%s, %s, %s, %s)
                   on conflict (id) do update set name = projects.name returning *""",
                [identity, account, new.name, new.priority],
            )
            row = await made.fetchone()
    except psycopg.errors.ForeignKeyViolation as error:
        raise AccountNotFound(f"no such account: {new.account}") from error
    assert row is not None
    return row


async def show(pool: Pool, project: str) -> Row:
    """One project."""
    async with transaction(pool) as tx:
        found = await tx.execute("select * from projects where id = %s", [project])
        row = await found.fetchone()
    if row is None:
        raise UnknownProject(f"no such project: {project}")
    return row


async def listed(
    pool: Pool, *, project: str | None, after: str = "", limit: int = 100
) -> list[Row]:
    """Projects by id: the one that a tenant has, or a page of all."""
    async with transaction(pool) as tx:
        found = await tx.execute(
            """select * from projects
               where id > %(after)s and (%(project)s::text is null or id = %(project)s)
               order by id limit %(limit)s""",
            {"project": project, "after": after, "limit": limit},
        )
        return await found.fetchall()
