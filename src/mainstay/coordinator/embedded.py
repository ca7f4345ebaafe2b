"""The store of a coordinator in one SQLite file: for one machine, and not replicated.

It keeps the promises of the other backend but one: what happens to the disk happens to the state.
Revisions, terms and refusals are the same. Leases end by wall-clock time, so that processes that
share the file agree on it; a clock that is set while they run can let two believe that they lead,
and of those too only one can write.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

from mainstay.coordinator.store import (
    Change,
    Deposed,
    Entry,
    Everything,
    Leader,
    Leadership,
    Overtaken,
    check,
)
from mainstay.model.errors import MainstayError, Rejected, Unavailable
from mainstay.runtime.clock import Clock

VERSION: Final = 1
APPLICATION: Final = 0x4D53434F
"""Marks a file as one of ours, so that no other database is taken for a store."""

LEASE_S: Final = 2.0
CALL_S: Final = 5.0
LOCKED_S: Final = 2.0
"""How long a call waits for another process that writes."""

LOOK_S: Final = 0.05
"""How often one who waits looks whether nobody leads."""

SCHEMA: Final = (
    "create table revision (revision integer not null)",
    "insert into revision values (0)",
    "create table state (key text primary key, value blob not null, revision integer not null)"
    " without rowid",
    "create table leader (candidate text not null, address text not null, term integer not null,"
    " expires_s real not null)",
    f"pragma application_id = {APPLICATION}",
    f"pragma user_version = {VERSION}",
)

AnswerT = TypeVar("AnswerT")


class EmbeddedStore:
    """One file, which several processes of one machine may open; one of them leads."""

    def __init__(
        self, path: Path, *, clock: Clock, lease_s: float = LEASE_S, call_s: float = CALL_S
    ) -> None:
        """Opens the file when it is first asked something, and makes it if need be."""
        if lease_s <= 0:
            raise Rejected(f"a lease of {lease_s} s: it must be more than nothing")
        self._path = path
        self._clock = clock
        self._lease_s = lease_s
        self._call_s = call_s
        self._base: sqlite3.Connection | None = None
        # One thread, so that a call that was given up never meets the next one.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"store {path.name}")

    @property
    def label(self) -> str:
        """For people."""
        return f"embedded in {self._path.name}, not replicated"

    @property
    def lease_s(self) -> float:
        """How long a leadership lasts that nobody renews."""
        return self._lease_s

    async def load(self) -> Everything:
        """All there is."""

        def read(base: sqlite3.Connection) -> Everything:
            rows = base.execute("select key, value, revision from state")
            return Everything({row[0]: Entry(row[1], row[2]) for row in rows}, _revision(base))

        return await self._do(read)

    async def campaign(self, *, candidate: str, address: str) -> Leadership | None:
        """Lead, if nobody does."""

        def lead(base: sqlite3.Connection) -> int:
            if self._led_by(base):
                return 0
            term = _next_revision(base)
            base.execute("delete from leader")
            row = (candidate, address, term, self._clock.now_s() + self._lease_s)
            base.execute("insert into leader values (?, ?, ?, ?)", row)
            return term

        term = await self._do(lead)
        return _EmbeddedLeadership(self, term) if term else None

    async def leader(self) -> Leader | None:
        """Who leads now."""
        return await self._do(self._led_by)

    async def leaderless(self, *, patience_s: float) -> bool:
        """Wait until nobody leads, by looking."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + patience_s
        while await self.leader():
            left_s = deadline_s - loop.time()
            if left_s <= 0:
                return False
            await asyncio.sleep(min(left_s, LOOK_S))
        return True

    async def close(self) -> None:
        """Let go of the file."""

        def closed() -> None:
            if self._base is not None:
                self._base.close()
                self._base = None

        with suppress(RuntimeError):  # closed before
            await asyncio.get_running_loop().run_in_executor(self._thread, closed)
        self._thread.shutdown(wait=False)

    async def renew(self, term: int) -> None:
        """Extend the lease of a term."""

        def extend(base: sqlite3.Connection) -> None:
            self._check_leads(base, term)
            base.execute("update leader set expires_s = ?", (self._clock.now_s() + self._lease_s,))

        await self._do(extend)

    async def commit(self, change: Change, term: int) -> int:
        """Write while that term leads."""
        check(change)

        def write(base: sqlite3.Connection) -> int:
            self._check_leads(base, term)
            _check_expected(base, change)
            if not change.puts and not change.deletes:
                return _revision(base)
            revision = _next_revision(base)
            rows = [(key, value, revision) for key, value in change.puts.items()]
            base.executemany("insert or replace into state values (?, ?, ?)", rows)
            gone = [(key,) for key in change.deletes]
            base.executemany("delete from state where key = ?", gone)
            return revision

        return await self._do(write)

    async def resign(self, term: int) -> None:
        """Make room, if that term leads."""

        def leave(base: sqlite3.Connection) -> None:
            if base.execute("delete from leader where term = ?", (term,)).rowcount:
                _next_revision(base)

        with suppress(MainstayError):  # it runs out by itself
            await self._do(leave)

    def _led_by(self, base: sqlite3.Connection) -> Leader | None:
        row = base.execute(
            "select candidate, address, term from leader where expires_s > ?",
            (self._clock.now_s(),),
        ).fetchone()
        return Leader(*row) if row else None

    def _check_leads(self, base: sqlite3.Connection, term: int) -> None:
        leader = self._led_by(base)
        if leader is None or leader.term != term:
            raise Deposed(f"term {term} is over: {leader.term if leader else 'nobody'} leads")

    async def _do(self, work: Callable[[sqlite3.Connection], AnswerT]) -> AnswerT:
        """One transaction beside the event loop."""

        def done() -> AnswerT:
            with _ours(self._path):
                if self._base is None:
                    self._base = _opened(self._path)
                with _transaction(self._base):
                    return work(self._base)

        try:
            running = asyncio.get_running_loop().run_in_executor(self._thread, done)
        except RuntimeError as error:
            raise Unavailable(f"closed: {self._path}") from error
        try:
            async with asyncio.timeout(self._call_s):
                return await running
        except TimeoutError as error:
            raise Unavailable(f"no answer in {self._call_s} s: {self._path}") from error


class _EmbeddedLeadership:
    """A term."""

    def __init__(self, store: EmbeddedStore, term: int) -> None:
        self._store = store
        self.term = term

    async def renew(self) -> None:
        await self._store.renew(self.term)

    async def commit(self, change: Change) -> int:
        return await self._store.commit(change, self.term)

    async def resign(self) -> None:
        await self._store.resign(self.term)


def _revision(base: sqlite3.Connection) -> int:
    return int(base.execute("select revision from revision").fetchone()[0])


def _next_revision(base: sqlite3.Connection) -> int:
    base.execute("update revision set revision = revision + 1")
    return _revision(base)


def _check_expected(base: sqlite3.Connection, change: Change) -> None:
    for key, expected in change.expects.items():
        row = base.execute("select revision from state where key = ?", (key,)).fetchone()
        revision = int(row[0]) if row else 0
        if revision != expected:
            raise Overtaken(f"{key} is at revision {revision}, not {expected}")


@contextmanager
def _transaction(base: sqlite3.Connection) -> Iterator[None]:
    """Immediate: whoever reads in it has the right to write, so nobody comes between."""
    base.execute("begin immediate")
    try:
        yield
    except BaseException:
        base.execute("rollback")
        raise
    base.execute("commit")


@contextmanager
def _ours(path: Path) -> Iterator[None]:
    """Errors of SQLite by what to do about them."""
    try:
        yield
    except (sqlite3.OperationalError, OSError) as error:
        raise Unavailable(f"cannot use {path}: {error}") from error
    except sqlite3.DatabaseError as error:
        raise Rejected(f"not a store of a coordinator, or damaged: {path} ({error})") from error


def _opened(path: Path) -> sqlite3.Connection:
    """The file, made if it was not there; another program's is left as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    base = sqlite3.connect(path, timeout=LOCKED_S, isolation_level=None, check_same_thread=False)
    try:
        _check_file(base, path)
        base.execute("pragma journal_mode = wal")
        base.execute("pragma synchronous = full")
        with _transaction(base):
            if not _is_made(base):
                for statement in SCHEMA:
                    base.execute(statement)
    except BaseException:
        base.close()
        raise
    return base


def _is_made(base: sqlite3.Connection) -> bool:
    return bool(base.execute("select count(*) from sqlite_master").fetchone()[0])


def _check_file(base: sqlite3.Connection, path: Path) -> None:
    (application,) = base.execute("pragma application_id").fetchone()
    (version,) = base.execute("pragma user_version").fetchone()
    if (application or _is_made(base)) and application != APPLICATION:
        raise Rejected(f"not a store of a coordinator: {path} (name another file)")
    if version > VERSION:
        raise Rejected(
            f"a store of a newer version: {path} has {version}, this one knows {VERSION}"
        )
    (found,) = base.execute("pragma quick_check(1)").fetchone()
    if found != "ok":
        where = str(found).splitlines()[-1]
        raise Rejected(f"damaged: {path} ({where}); restore a snapshot into a new file")
