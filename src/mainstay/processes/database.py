"""The database of a home: the one that is named, the one that runs, or one of our own.

Whoever runs it writes its URL where only we can read it, with his number, so that others of the
home find it; `mainstay postgres` does nothing else.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from mainstay.config.api import RUNNING
from mainstay.model.errors import Unavailable
from mainstay.tenancy.credentials import folder_of
from mainstay.tenancy.database.cluster import InUse
from mainstay.tenancy.database.embedded import Server, embedded
from mainstay.tenancy.private_files import read_private

FILE: Final = "database"
PATIENCE_S: Final = 60.0
LOOK_S: Final = 0.1


@contextmanager
def our_own(home: Path, port: int = 0) -> Iterator[Server]:
    """A server that others of this home find; 0 is any free port."""
    said = folder_of(home) / FILE
    with embedded(home / "postgres", port=port) as server:
        _write(said, json.dumps({"pid": os.getpid(), "url": server.url}))
        try:
            yield server
        finally:
            said.unlink(missing_ok=True)


@asynccontextmanager
async def database(named: str, home: Path) -> AsyncIterator[str]:
    """The URL of the one that is named; `running` is the one that runs; else that or our own."""
    if named == RUNNING:
        yield await _beside(home)
    elif named:
        yield named
    else:
        with ExitStack() as stack:
            try:
                url = stack.enter_context(our_own(home)).url
            except InUse:
                url = await _beside(home)
            yield url


async def _beside(home: Path) -> str:
    """The URL of the one that a process beside us runs, or is about to."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + PATIENCE_S
    while (url := running_at(home)) is None:
        if loop.time() > until_s:
            start = "start one with `mainstay postgres`"
            raise Unavailable(f"no PostgreSQL runs in {home}", what_to_do=start)
        await asyncio.sleep(LOOK_S)
    return url


def running_at(home: Path) -> str | None:
    """The URL of the database that runs in a home, with its password; None: none does."""
    said = folder_of(home) / FILE
    try:
        told = json.loads(read_private(said)) if said.exists() else {}
        os.kill(told["pid"], 0)
        return str(told["url"])
    except (KeyError, TypeError, ValueError, OSError):  # what a process left that was killed
        return None


def _write(path: Path, text: str) -> None:
    unfinished = path.with_suffix(".unfinished")
    unfinished.unlink(missing_ok=True)
    unfinished.touch(mode=0o600)
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)
