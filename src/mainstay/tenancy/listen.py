"""Hearing what PostgreSQL notifies, over a connection of its own that is made again when lost."""

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

import psycopg
from psycopg import sql

from mainstay.tenancy.database.connect import Pool

RECONNECT_S: Final = 0.5


def heed_cancel() -> None:
    """End a task that was cancelled although nobody noticed.

    In Python 3.11 `asyncio.wait_for`, which drivers wait by, may swallow a cancellation that comes
    together with its result. A loop without end has to ask, or it has none.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling() > 0:
        raise asyncio.CancelledError


class Listener:
    """One channel. Use as a block."""

    def __init__(self, pool: Pool, channel: str) -> None:
        self._pool = pool
        self._channel = channel
        self._connection: psycopg.AsyncConnection[tuple[object, ...]] | None = None

    async def heard(self, timeout_s: float) -> list[str] | None:
        """What was said, nothing after `timeout_s`; None: something may have been missed.

        None comes at first and whenever the connection was made anew: look for yourself then.
        """
        heed_cancel()
        try:
            if self._connection is None:
                await self._connect()
                return None
            return [
                notify.payload
                async for notify in self._connection.notifies(timeout=timeout_s, stop_after=1)
            ]
        except psycopg.OperationalError:
            await self.close()
            await asyncio.sleep(min(RECONNECT_S, max(timeout_s, 0.01)))
            return []

    async def _connect(self) -> None:
        connection = await psycopg.AsyncConnection.connect(
            str(self._pool.conninfo), autocommit=True, application_name="mainstay listener"
        )
        self._connection = connection
        await connection.execute(sql.SQL("listen {}").format(sql.Identifier(self._channel)))

    async def close(self) -> None:
        """Let go of the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                await connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
