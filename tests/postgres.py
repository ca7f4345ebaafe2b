"""A real PostgreSQL for tests: one server per worker of a run, a fresh database per test.

The schema is made once, in a template; a database of its own costs a test some milliseconds.
Import the fixtures where they are used: `from postgres import database_url, server`. Every module
that does has fixtures of its own, and all of them are given the same server.
"""

import functools
import itertools
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Final

import psycopg
import pytest

from mainstay.tenancy.database.connect import Pool, pool_at
from mainstay.tenancy.database.embedded import Server, embedded
from mainstay.tenancy.database.migrate import migrate

TEMPLATE: Final = "migrated"
MEMORY: Final = Path("/dev/shm")
ROOM_BYTES: Final = 4 << 30
_NUMBERS: Final = itertools.count(1)
_STARTED: Final = ExitStack()
_UNDROPPED: Final[list[str]] = []


@pytest.fixture(scope="session")
def server() -> Server:
    """The server, with a template that has the schema."""
    return running()


@functools.cache
def running() -> Server:
    """Started when the first test asks for it, stopped by `stop` when the run is over."""
    folder = Path(tempfile.mkdtemp(prefix="mainstay-pg-", dir=_where()))
    folder.chmod(0o755)  # ours: a server that runs as somebody else must get in
    _STARTED.callback(shutil.rmtree, folder, ignore_errors=True)
    started = _STARTED.enter_context(embedded(folder, settings=QUICK))
    _execute(started.url, f"create database {TEMPLATE}")
    migrate(named(started.url, TEMPLATE))
    return started


def _where() -> Path | None:
    """In memory, if there is room: a database is hundreds of files, made and removed by each test,
    and on a disk the kernel spends more time on that than PostgreSQL on all its work.
    """
    if not (MEMORY.is_dir() and os.access(MEMORY, os.W_OK)):
        return None
    return MEMORY if shutil.disk_usage(MEMORY).free >= ROOM_BYTES else None


def stop() -> None:
    """Called once, at the end of the run."""
    _STARTED.close()


QUICK: Final = {
    "fsync": "off", "synchronous_commit": "off", "full_page_writes": "off",
    "max_wal_size": "128MB", "min_wal_size": "32MB",
}  # fmt: skip
"""Nobody cuts the power in a test that does not say so."""


@pytest.fixture
def database_url(server: Server) -> Iterator[str]:
    """A database of the test's own, gone when it ends."""
    with database_on(server) as url:
        yield url


@contextmanager
def database_on(server: Server) -> Iterator[str]:
    """A fresh database with the schema, for tests that share one because they undo all they do."""
    name = f"test_{next(_NUMBERS)}"
    _execute(server.url, f"create database {name} template {TEMPLATE} strategy file_copy")
    try:
        yield named(server.url, name)
    finally:
        _UNDROPPED.append(name)
        _drop(server)


def _drop(server: Server) -> None:
    """What is left of tests that are over. Who was cancelled in the middle of connecting is waited
    for by PostgreSQL for a minute, but not by us: the next test tries again.
    """
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("set statement_timeout = '2s'")
        for name in tuple(_UNDROPPED):
            with suppress(psycopg.errors.QueryCanceled):
                connection.execute(f"drop database {name} with (force)")
                _UNDROPPED.remove(name)


@asynccontextmanager
async def pool_of(url: str, *, size_max: int = 16) -> AsyncIterator[Pool]:
    """A pool on a test's database, for `asyncio.run`."""
    async with pool_at(url, size_max=size_max, name="test") as pool:
        yield pool


def _execute(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)


def named(url: str, database: str) -> str:
    """The same server's other database."""
    return f"{url.rpartition('/')[0]}/{database}"
