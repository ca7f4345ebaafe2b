"""Connections: a pool by URL, rows as dictionaries, a transaction as a block.

No transaction spans a wait for anything but the database. Nothing is notified inside of one: a
commit that notifies holds a lock of the whole server until it is on disk, so that all of them would
wait for the disk one after the other.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import Any, Final
from weakref import WeakKeyDictionary

import psycopg
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from mainstay.model.errors import Rejected, Unavailable

Connection = psycopg.AsyncConnection[DictRow]
Pool = AsyncConnectionPool[Connection]
Cursor = psycopg.AsyncCursor[DictRow]
Row = dict[str, Any]
Values = Sequence[Any] | Mapping[str, Any]

SERVER_VERSION_MIN: Final = 140000


@asynccontextmanager
async def pool_at(
    url: str, *, size_max: int = 16, name: str = "mainstay", patience_s: float = 10.0
) -> AsyncIterator[Pool]:
    """A pool, closed when the block is left; Unavailable in one line if nobody answers there."""
    pool: Pool = AsyncConnectionPool(
        url,
        connection_class=psycopg.AsyncConnection[DictRow],
        kwargs={"row_factory": dict_row, "application_name": name, "autocommit": True},
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


_OWED: Final[WeakKeyDictionary[Connection, set[tuple[str, str]]]] = WeakKeyDictionary()
"""What the open transaction of a connection has to tell when it is committed."""

NOTIFY: Final = """
    select pg_notify(channel, payload)
    from unnest(%s::text[], %s::text[]) as told (channel, payload)
"""


@asynccontextmanager
async def transaction(pool: Pool, *, pipelined: bool = False) -> AsyncIterator[Connection]:
    """One transaction: committed when the block is left, undone when it raises.

    Pipelined, statements are on their way without waiting for each other until a result is asked
    for: one that is to fail in the block must be asked for there.
    """
    try:
        async with pool.connection() as connection:
            _OWED.pop(connection, None)
            through = connection.pipeline() if pipelined else nullcontext()
            async with through, connection.transaction():
                yield connection
            await _tell(connection)
    except (psycopg.OperationalError, PoolTimeout) as error:
        raise Unavailable(f"the database failed: {type(error).__name__}") from error


async def at_once(pool: Pool, statement: str, values: Values = ()) -> list[Row]:
    """One statement that is a transaction by itself: one way there and back instead of three."""
    try:
        async with pool.connection() as connection:
            done = await connection.execute(statement, values)
            return await done.fetchall() if done.description else []
    except (psycopg.OperationalError, PoolTimeout) as error:
        raise Unavailable(f"the database failed: {type(error).__name__}") from error


def tell(tx: Connection, channel: str, payload: str = "") -> None:
    """Notify who listens once the transaction is committed; each thing is told once.

    Whoever dies in between tells nothing: who listens has to look now and then, too.
    """
    _OWED.setdefault(tx, set()).add((channel, payload))


async def notify(pool: Pool, channel: str, payload: str) -> None:
    """Notify who listens, at once and with nothing else."""
    try:
        async with pool.connection() as connection:
            await connection.execute(NOTIFY, [[channel], [payload]])
    except (psycopg.OperationalError, PoolTimeout) as error:
        raise Unavailable(f"the database failed: {type(error).__name__}") from error


class _Bellringer:
    """Tells one thing for many who have committed: by a notification that begins after each."""

    def __init__(self) -> None:
        self._telling = asyncio.Lock()
        self._begun = 0
        self._ended = 0

    async def tell(self, pool: Pool, channel: str) -> None:
        wanted = self._begun + 1
        async with self._telling:
            if self._ended < wanted:
                self._begun += 1
                await notify(pool, channel, "")
                self._ended = self._begun


_RINGERS: Final[WeakKeyDictionary[Pool, dict[str, _Bellringer]]] = WeakKeyDictionary()


async def tell_soon(pool: Pool, channel: str) -> None:
    """Notify who listens of what is committed, together with others who do so at this moment.

    As with `tell`, what cannot be told is not told: what is committed is committed.
    """
    ringer = _RINGERS.setdefault(pool, {}).setdefault(channel, _Bellringer())
    with suppress(Unavailable, psycopg.Error):
        await ringer.tell(pool, channel)


async def _tell(connection: Connection) -> None:
    owed = sorted(_OWED.pop(connection, ()))
    if owed:
        channels, payloads = zip(*owed, strict=True)
        with suppress(psycopg.Error):  # what is committed is committed
            await connection.execute(NOTIFY, [list(channels), list(payloads)])
