"""A PostgreSQL of our own: the wheel's binaries, a child of this process that dies with it.

An ordinary user runs the binaries where they are. Root may not run PostgreSQL, so there it runs as
an unprivileged user, with a copy of the binaries if that user cannot read them, and in a folder
elsewhere if that user cannot reach ours. No folder's mode is changed that was not made here.
"""

import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import psycopg

from mainstay.model.errors import Rejected, Unavailable
from mainstay.tenancy.database.account import command_as, complaint
from mainstay.tenancy.database.cluster import Cluster, give_password, held, prepared

PATIENCE_S: Final = 60.0
_POLL_S: Final = 0.02
_PASSING: Final = ("shared memory block", "could not create any TCP/IP sockets")
"""Sessions of a server that was killed are still going; somebody else was given our port."""

SETTINGS: Final = {
    "max_connections": "200",
    "shared_buffers": "64MB",
    "dynamic_shared_memory_type": "posix",
    "unix_socket_directories": "",
    "listen_addresses": "127.0.0.1",
    "logging_collector": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
}

NO_SETTINGS: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs."""

    url: str
    """With the password: never print it."""

    port: int
    pid: int
    has_ended: Callable[[], bool]
    """Whether it has died by itself."""


class _PasswordRefused(Unavailable):
    """The server runs, and does not know our password."""


@contextmanager
def embedded(
    folder: Path,
    *,
    elsewhere: Path | None = None,
    settings: Mapping[str, str] = NO_SETTINGS,
    port: int = 0,
) -> Iterator[Server]:
    """A server whose data is in `folder`, stopped when the block is left; 0 is any free port.

    `elsewhere` is where its files go if an unprivileged user cannot reach `folder`; it is made, and
    the default is a folder of ours beside root's other state. The thread that calls must live as
    long as the server is to: it goes with it.
    """
    with held(folder):
        try:
            cluster = prepared(folder, elsewhere)
            log = (folder / "postgres.log").open("ab")
        except OSError as error:
            raise Unavailable(f"cannot prepare PostgreSQL in {folder}: {_why(error)}") from error
        with log:
            yield from _running(_Wanted(cluster, {**SETTINGS, **settings}, port, log))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A server that is to run."""

    cluster: Cluster
    settings: Mapping[str, str]
    port: int
    log: IO[bytes]


def _running(wanted: _Wanted) -> Iterator[Server]:
    process, port = _started(wanted)
    try:
        url = f"postgresql://mainstay:{wanted.cluster.password}@127.0.0.1:{port}/mainstay"
        yield Server(url, port, process.pid, lambda: process.poll() is not None)
    finally:
        _stop(process)


def _started(wanted: _Wanted) -> tuple["subprocess.Popen[bytes]", int]:
    """A server that lets us in; tried again over what passes by itself."""
    path = Path(wanted.log.name)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        port, said_before = _free_port(wanted.port), path.stat().st_size
        process = _start(wanted, port)
        try:
            _wait_until_ready(process, wanted.cluster, port, said_before)
        except BaseException as error:
            _stop(process)
            if not _passes(error) or time.monotonic() > deadline:
                raise
            if isinstance(error, _PasswordRefused):
                give_password(wanted.cluster)
        else:
            return process, port
        time.sleep(_POLL_S)


def _passes(error: BaseException) -> bool:
    """Whether it is worth another try."""
    said = isinstance(error, Unavailable) and any(map(str(error).count, _PASSING))
    return said or isinstance(error, _PasswordRefused)


def _free_port(wanted: int) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError as error:
            raise Rejected(f"cannot listen at 127.0.0.1:{wanted}: {error.strerror}") from error
        return int(probe.getsockname()[1])


def _start(wanted: _Wanted, port: int) -> "subprocess.Popen[bytes]":
    settings = {**wanted.settings, "port": str(port)}
    words = [word for pair in settings.items() for word in ("-c", "=".join(pair))]
    cluster, log = wanted.cluster, wanted.log
    command = [str(cluster.binaries / "postgres"), "-D", str(cluster.data), *words]
    return subprocess.Popen(
        command_as(cluster.account, command), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        cwd="/", start_new_session=True,
    )  # fmt: skip


def _wait_until_ready(
    process: "subprocess.Popen[bytes]", cluster: Cluster, port: int, said_before: int
) -> None:
    log = cluster.folder / "postgres.log"
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            said = log.read_bytes()[said_before:].decode(errors="replace")
            raise Unavailable(f"PostgreSQL did not start: {complaint(said)}")
        if _lets_in(port, cluster.password):
            return
        time.sleep(_POLL_S)
    raise Unavailable(f"PostgreSQL did not answer within {PATIENCE_S:.0f} s: see {log}")


def _lets_in(port: int, password: str) -> bool:
    """Whether it takes connections: one that is starting says so instead of asking for us."""
    where = f"host=127.0.0.1 port={port} user=mainstay dbname=mainstay"
    try:
        psycopg.connect(where, password=password).close()
    except psycopg.OperationalError as error:
        if "password authentication failed" in str(error):
            raise _PasswordRefused("PostgreSQL does not know our password") from error
        return False
    return True


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """Fast: sessions are ended, what is committed is on disk."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGQUIT)
            process.wait()


def _why(error: OSError) -> str:
    """In one line; a copy of many files says it of each."""
    if isinstance(error, shutil.Error):
        return str(error.args[0][0][-1])
    return str(error.strerror)
