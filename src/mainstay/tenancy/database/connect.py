"""Connections: a pool by URL, rows as dictionaries, a transaction as a block.

No transaction spans a wait for anything but the database.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import psycopg
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from mainstay.model.errors import Rejected, Unavailable

Connection = psycopg.AsyncConnection[DictRow]
Pool = AsyncConnectionPool[Connection]
Row = dict[str, Any]

SERVER_VERSION_MIN: Final = 140000


@asynccontextmanager
async def pool_at(
    url: str, *, size_max: int = 16, name: str = "mainstay", patience_s: float = 10.0
) -> AsyncIterator[Pool]:
    """A pool, closed when the block is left; Unavailable in one line if nobody answers there."""
    pool: Pool = AsyncConnectionPool(
        url,
        connection_class=psycopg.AsyncConnection[DictRow],
        kwargs={"row_factory": dict_row, "application_name": name},
        min_size=1,
        max_size=size_max,
        open=False,
        timeout=patience_s,
    )
    try:
        try:
            await pool.open(wait=True, timeout=patience_s)
        except PoolTimeout as error:
            message = "the database does not answer: check its URL and that it runs"
            raise Unavailable(message) from error
        async with transaction(pool) as tx:
            check_version(tx.info.server_version)
        yield pool
    finally:
        await pool.close()


def check_version(version: int) -> None:
    """Refuse a server that is older than what the schema is written for."""
    if version < SERVER_VERSION_MIN:
        oldest, found = SERVER_VERSION_MIN // 10_000, version // 10_000
        raise Rejected(f"PostgreSQL {oldest} or newer is needed: the server is {found}")


@asynccontextmanager
async def transaction(pool: Pool) -> AsyncIterator[Connection]:
    """One transaction: committed when the block is left, undone when it raises."""
    try:
        async with pool.connection() as connection, connection.transaction():
            yield connection
    except (psycopg.OperationalError, PoolTimeout) as error:
        raise Unavailable(f"the database failed: {type(error).__name__}") from error
