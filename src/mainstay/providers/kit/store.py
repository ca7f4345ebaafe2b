"""What a provider remembers over a restart: SQLite with a write-ahead log, one row per change.

The server changes its memory first and submits rows; one thread writes whatever has come in since
its last commit as one transaction and syncs it once. Nobody is answered before `settled` says that
all they could have seen is on disk.
"""

import asyncio
import secrets
import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final, Protocol

from mainstay.model.calls import Call
from mainstay.model.errors import Rejected, Unavailable
from mainstay.providers.kit.record import Reader, Record

VERSION: Final = 1
APPLICATION: Final = 0x4D535052
"""Marks a file as one of ours, so that no other database is taken for a store."""

SCHEMA: Final = """
    create table meta (key text primary key, value text not null) without rowid;
    create table machines (id text primary key, modified integer not null, record text not null)
        without rowid;
    create table operations (machine text, call text, operation text not null,
        primary key (machine, call)) without rowid;
    create table marks (shard text, machine text, epoch integer not null,
        sequence integer not null, primary key (shard, machine)) without rowid;
    create table floors (shard text primary key, epoch integer not null) without rowid;
    create table tombstones (machine text primary key, modified integer not null,
        reason text not null, at real not null) without rowid;
    create table generations (slot text primary key, generation integer not null) without rowid;
"""


class Sql(Enum):
    """The statements there are; each touches only the rows that changed."""

    PUT_META = "insert or replace into meta values (?, ?)"
    PUT_MACHINE = "insert or replace into machines values (?, ?, ?)"
    DROP_MACHINE = "delete from machines where id = ?"
    PUT_OPERATION = "insert or replace into operations values (?, ?, ?)"
    DROP_OPERATIONS = "delete from operations where machine = ?"
    PUT_MARK = "insert or replace into marks values (?, ?, ?, ?)"
    DROP_MARKS_BELOW = "delete from marks where shard = ? and epoch < ?"
    PUT_FLOOR = "insert or replace into floors values (?, ?)"
    PUT_TOMBSTONE = "insert or replace into tombstones values (?, ?, ?, ?)"
    DROP_TOMBSTONES = "delete from tombstones where modified <= ?"
    PUT_GENERATION = "insert or replace into generations values (?, ?)"


Write = tuple[Sql, tuple[str | int | float, ...]]


@dataclass(slots=True)
class Stored:
    """All that a store holds."""

    store: str
    """A name made when the store was: part of every operation id and cursor."""

    records: list[Record] = field(default_factory=list)
    """In the order of their last changes."""

    operations: dict[tuple[str, Call], str] = field(default_factory=dict)
    operations_reserved: int = 0
    marks: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    floors: dict[str, int] = field(default_factory=dict)
    tombstones: dict[str, int] = field(default_factory=dict)
    tombstones_dropped: int = 0
    """The revision up to which tombstones have been forgotten."""

    generations: dict[str, int] = field(default_factory=dict)


class Store(Protocol):
    """Where changes go."""

    def load(self) -> Stored:
        """What was there when it was opened."""

    def submit(self, writes: Sequence[Write]) -> None:
        """Take these rows in, all or none of them, behind all that came before."""

    async def settled(self) -> None:
        """Wait until everything submitted so far survives a power cut; Unavailable if it never."""

    @property
    def failure(self) -> str:
        """Why nothing can be kept any more; empty while all is well."""

    def close(self) -> None:
        """Write what is left and let go of the file."""


class MemoryStore:
    """Keeps nothing: for a provider whose life is its process's."""

    failure = ""

    def __init__(self, name: str) -> None:
        self._name = name

    def load(self) -> Stored:
        """Nothing."""
        return Stored(self._name)

    def submit(self, writes: Sequence[Write]) -> None:
        """Forget them."""

    async def settled(self) -> None:
        """At once."""

    def close(self) -> None:
        """Nothing to do."""


class SqliteStore:
    """One file, held by one process."""

    def __init__(self, path: Path, *, name: str = "") -> None:
        """Open or make it; Rejected when it is not a store, Unavailable when it is in use.

        A store that is made gets this name, or a random one.
        """
        self._path = path
        self._base = _opened(path, name or secrets.token_hex(4))
        self._failure = ""
        self._queue: list[Sequence[Write]] = []
        self._waiting: list[tuple[int, asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._submitted = 0
        self._durable = 0
        self._closing = False
        self._turn = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=f"store {path.name}", daemon=True)
        self._thread.start()

    @property
    def failure(self) -> str:
        """Why nothing can be kept any more; empty while all is well."""
        return self._failure

    def load(self) -> Stored:
        """What was there when it was opened."""
        return _loaded(self._base)

    def submit(self, writes: Sequence[Write]) -> None:
        """Take these rows in, all or none of them, behind all that came before."""
        if not writes:
            return
        with self._turn:
            self._queue.append(writes)
            self._submitted += 1
            self._turn.notify()

    async def settled(self) -> None:
        """Wait until everything submitted so far survives a power cut; Unavailable if it never."""
        with self._turn:
            if self._durable < self._submitted and not self._failure:
                loop = asyncio.get_running_loop()
                future = loop.create_future()
                self._waiting.append((self._submitted, loop, future))
            else:
                future = None
        if future is not None:
            await future
        if self._failure:
            raise Unavailable(self._failure)

    def close(self) -> None:
        """Write what is left and let go of the file."""
        with self._turn:
            self._closing = True
            self._turn.notify()
        self._thread.join()
        self._base.close()

    def _run(self) -> None:
        while True:
            with self._turn:
                while not self._queue and not self._closing:
                    self._turn.wait()
                if not self._queue:
                    return
                taken, self._queue = self._queue, []
            failure = self._commit(taken)
            with self._turn:
                self._failure = self._failure or failure
                self._durable += len(taken)
                done = [each for each in self._waiting if each[0] <= self._durable or failure]
                self._waiting = [each for each in self._waiting if each not in done]
            for _, loop, future in done:
                _tell(loop, future)

    def _commit(self, taken: Sequence[Sequence[Write]]) -> str:
        if self._failure:
            return self._failure  # memory is ahead of the disk: nothing may follow the gap
        try:
            self._base.execute("begin immediate")
            for writes in taken:
                for statement, values in writes:
                    self._base.execute(statement.value, values)
            self._base.execute("commit")
        except sqlite3.Error as error:
            return f"the store cannot be written: {self._path} ({error})"
        return ""


def _tell(loop: asyncio.AbstractEventLoop, future: "asyncio.Future[None]") -> None:
    def wake() -> None:
        if not future.done():
            future.set_result(None)

    if not loop.is_closed():
        loop.call_soon_threadsafe(wake)


def _opened(path: Path, name: str) -> sqlite3.Connection:
    if not path.parent.is_dir():
        raise Rejected(f"no such directory for a store: {path.parent}")
    base = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=1.0)
    try:
        _prepare(base, path, name)
    except sqlite3.OperationalError as error:
        base.close()
        raise Unavailable(f"the store is in use or cannot be opened: {path} ({error})") from error
    except sqlite3.DatabaseError as error:
        base.close()
        raise Rejected(f"not a provider's store: {path} ({error})") from error
    except Rejected:
        base.close()
        raise
    return base


def _prepare(base: sqlite3.Connection, path: Path, name: str) -> None:
    for pragma in ("locking_mode = exclusive", "journal_mode = wal", "synchronous = full"):
        base.execute(f"pragma {pragma}")
    base.execute("begin immediate")
    ours = base.execute("pragma application_id").fetchone()[0]
    version = base.execute("pragma user_version").fetchone()[0]
    empty = base.execute("select count(*) from sqlite_master").fetchone()[0] == 0
    if empty:
        for statement in SCHEMA.split(";"):
            base.execute(statement)
        base.execute(Sql.PUT_META.value, ("store", name))
        base.execute(f"pragma application_id = {APPLICATION}")
        base.execute(f"pragma user_version = {VERSION}")
    elif ours != APPLICATION:
        raise Rejected(f"not a provider's store: {path} (some other SQLite database)")
    elif version != VERSION:
        raise Rejected(f"a store of another version: {path} (has {version}, we read {VERSION})")
    base.execute("commit")


def _loaded(base: sqlite3.Connection) -> Stored:
    meta = dict(base.execute("select key, value from meta"))
    read = Reader().record
    return Stored(
        store=meta["store"],
        records=[
            read(*row)
            for row in base.execute("select id, modified, record from machines order by modified")
        ],
        operations={
            (machine, Call(call)): operation
            for machine, call, operation in base.execute("select * from operations")
        },
        operations_reserved=int(meta.get("operations_reserved", 0)),
        marks={
            (shard, machine): (epoch, sequence)
            for shard, machine, epoch, sequence in base.execute("select * from marks")
        },
        floors=dict(base.execute("select shard, epoch from floors")),
        tombstones=dict(base.execute("select machine, modified from tombstones order by modified")),
        tombstones_dropped=int(meta.get("tombstones_dropped", 0)),
        generations=dict(base.execute("select slot, generation from generations")),
    )
