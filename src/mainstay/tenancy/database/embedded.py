"""A PostgreSQL of our own: the wheel's binaries, a child of this process that dies with it.

An ordinary user runs the binaries where they are. Root may not run PostgreSQL, so there it runs as
an unprivileged user, with a copy of the binaries if that user cannot read them, and in a folder
elsewhere if that user cannot reach ours. No folder's mode is changed that was not made here.
"""

import fcntl
import hashlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import psycopg

from mainstay.model.errors import Rejected, Unavailable
from mainstay.tenancy.database.binaries import binaries_for, can_reach

UNPRIVILEGED: Final = "nobody"
ELSEWHERE: Final = Path("/var/lib")
PATIENCE_S: Final = 60.0
_POLL_S: Final = 0.02
_ERROR_WORDS: Final = ("error:", "ERROR:", "FATAL:", "PANIC:")
_PASSING: Final = ("shared memory block", "could not create any TCP/IP sockets")
"""Sessions of a server that was killed are still going; somebody else was given our port."""
_BECOME: Final = """
import ctypes, os, signal, sys
uid, gid = int(sys.argv[1]), int(sys.argv[2])
if uid >= 0:
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, int(signal.SIGINT), 0, 0, 0)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""The signal is a fast shutdown; it is set last, since a change of user would undo it."""

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


class InUse(Unavailable):
    """Another process has a server on this folder: it may be asked for its address instead."""

    code = "database_in_use"
    what_to_do = "use the server that runs there, stop it, or choose another home"


@dataclass(frozen=True, slots=True)
class Account:
    """Whom the server runs as; None is ourselves."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs."""

    url: str
    """With the password: never print it."""

    port: int
    pid: int


@contextmanager
def embedded(
    folder: Path, *, elsewhere: Path | None = None, settings: Mapping[str, str] = NO_SETTINGS
) -> Iterator[Server]:
    """A server whose data is in `folder`, stopped when the block is left.

    `elsewhere` is where its files go if an unprivileged user cannot reach `folder`; it is made, and
    the default is a folder of ours beside root's other state. The thread that calls must live as
    long as the server is to: it goes with it.
    """
    account = _account()
    _made(folder)
    with _held(folder / "lock"):
        try:
            command, password = _prepared(folder, elsewhere, account)
            log = (folder / "postgres.log").open("ab")
        except OSError as error:
            raise Unavailable(f"cannot prepare PostgreSQL in {folder}: {_why(error)}") from error
        with log:
            yield from _running(
                [*command, *_words({**SETTINGS, **settings})], password, account, log
            )


def _prepared(
    folder: Path, elsewhere: Path | None, account: Account | None
) -> tuple[list[str], str]:
    """The command and the password of a server whose files are there, made where they are not."""
    home = _reachable(folder, elsewhere, account)
    binaries = binaries_for(home, None if account is None else account.uid)
    password = _password(folder / "password")
    data = home / "data"
    if not (data / "PG_VERSION").exists():
        _initialise(data, binaries, password, account)
    _clear_stale_pid(data)
    return [str(binaries / "postgres"), "-D", str(data)], password


def _words(settings: Mapping[str, str]) -> list[str]:
    return [word for pair in settings.items() for word in ("-c", "=".join(pair))]


def _running(
    command: list[str], password: str, account: Account | None, log: IO[bytes]
) -> Iterator[Server]:
    process, port = _started(command, account, log)
    try:
        url = f"postgresql://mainstay:{password}@127.0.0.1:{port}/mainstay"
        yield Server(url, port, process.pid)
    finally:
        _stop(process)


def _started(
    command: list[str], account: Account | None, log: IO[bytes]
) -> tuple["subprocess.Popen[bytes]", int]:
    """A server that answers; tried again over what passes by itself."""
    path = Path(log.name)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        port, said_before = _free_port(), path.stat().st_size
        process = _start([*command, "-p", str(port)], account, log)
        try:
            _wait_until_ready(process, port, path, said_before)
        except BaseException as error:
            _stop(process)
            passing = isinstance(error, Unavailable) and any(map(str(error).count, _PASSING))
            if not passing or time.monotonic() > deadline:
                raise
        else:
            return process, port
        time.sleep(_POLL_S)


def _account() -> Account | None:
    if os.geteuid() != 0:
        return None
    try:
        entry = pwd.getpwnam(UNPRIVILEGED)
    except KeyError as error:
        message = f"PostgreSQL cannot run as root, and there is no user {UNPRIVILEGED}"
        raise Rejected(f"{message}: give a database by its URL") from error
    return Account(entry.pw_uid, entry.pw_gid)


def _made(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Rejected(f"cannot make {folder}: {error.strerror} (set MAINSTAY_HOME)") from error


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Nobody else starts a server on the same folder meanwhile."""
    try:
        opened = path.open("w")
    except OSError as error:
        message = f"cannot write in {path.parent}: {error.strerror}"
        raise Rejected(f"{message} (set MAINSTAY_HOME)") from error
    with opened as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            message = f"another process runs PostgreSQL in {path.parent}"
            raise InUse(f"{message}: stop it, or choose another home") from error
        yield


def _reachable(folder: Path, elsewhere: Path | None, account: Account | None) -> Path:
    """Where the server's own files are: in `folder`, or elsewhere if it cannot get there."""
    if account is None:
        return folder
    home = folder / "server"
    if not can_reach(folder, account.uid):
        named = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:16]
        home = (elsewhere or ELSEWHERE) / f"mainstay-postgres-{named}"
    _made(home)
    os.chown(home, account.uid, account.gid)
    return home


def _password(path: Path) -> str:
    """Kept in a file that only we can read; made on first use."""
    if not path.exists():
        unfinished = path.with_name("password.unfinished")
        _write_private(unfinished, secrets.token_urlsafe(24))
        unfinished.rename(path)
    return path.read_text().strip()


def _write_private(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)


def _initialise(data: Path, binaries: Path, password: str, account: Account | None) -> None:
    """Make the cluster; all of it or nothing."""
    unfinished = data.with_name("data.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    given = data.with_name("initial-password")
    _write_private(given, password)
    if account is not None:
        os.chown(given, account.uid, account.gid)
    command = [
        str(binaries / "initdb"), "-D", str(unfinished), "-U", "mainstay", f"--pwfile={given}",
        "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-instructions",
    ]  # fmt: skip
    try:
        ended = subprocess.run(
            _as(account, command), check=False, capture_output=True, text=True, cwd="/",
            start_new_session=True,
        )  # fmt: skip
    finally:
        given.unlink()
    if ended.returncode:
        raise Unavailable(f"cannot make a PostgreSQL cluster: {_complaint(ended.stderr)}")
    _with_database(unfinished, binaries, account)
    unfinished.rename(data)


def _with_database(data: Path, binaries: Path, account: Account | None) -> None:
    """Our own database, made while nobody else can connect."""
    command = [str(binaries / "postgres"), "--single", "-D", str(data), "postgres"]
    ended = subprocess.run(
        _as(account, command), check=False, capture_output=True, text=True, cwd="/",
        input="create database mainstay\n", start_new_session=True,
    )  # fmt: skip
    if ended.returncode:
        raise Unavailable(f"cannot make the database: {_complaint(ended.stderr)}")


def _clear_stale_pid(data: Path) -> None:
    """Take away the pid file of a server that is gone; wait for one that is going."""
    path = data / "postmaster.pid"
    deadline = time.monotonic() + PATIENCE_S
    while path.exists():
        pid = _pid_in(path)
        if pid is None or not _is_server_of(pid, data):
            path.unlink(missing_ok=True)
            return
        if time.monotonic() > deadline:
            raise Unavailable(f"a PostgreSQL that is not ours uses {data}: stop process {pid}")
        time.sleep(_POLL_S)


def _pid_in(path: Path) -> int | None:
    try:
        return int(path.read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return None


def _is_server_of(pid: int, data: Path) -> bool:
    """Whether this process is a server with this data; a number that was used again is not."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return not sys.platform.startswith("linux") and _is_alive(pid)
    return str(data).encode() in words


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _start(
    command: list[str], account: Account | None, log: IO[bytes]
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        _as(account, command), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
        start_new_session=True,
    )  # fmt: skip


def _as(account: Account | None, command: list[str]) -> list[str]:
    """The command that becomes that user and then this one, and dies with us.

    A program of its own does it: what Python offers to run between fork and exec would run the
    threads of libraries that live through a fork, and gRPC's have ended the child.
    """
    uid, gid = (-1, -1) if account is None else (account.uid, account.gid)
    return [_interpreter(), "-I", "-S", "-c", _BECOME, str(uid), str(gid), *command]


def _interpreter() -> str:
    """Ours, or the system's for a process that has given up the right to run ours."""
    if os.access(sys.executable, os.X_OK):
        return sys.executable
    if (found := shutil.which("python3", path=os.defpath)) is None:
        raise Unavailable(f"cannot start PostgreSQL: this user may not run {sys.executable}")
    return found


def _wait_until_ready(
    process: "subprocess.Popen[bytes]", port: int, log: Path, said_before: int
) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            said = log.read_bytes()[said_before:].decode(errors="replace")
            raise Unavailable(f"PostgreSQL did not start: {_complaint(said)}")
        if _answers(port):
            return
        time.sleep(_POLL_S)
    raise Unavailable(f"PostgreSQL did not answer within {PATIENCE_S:.0f} s: see {log}")


def _answers(port: int) -> bool:
    """Whether it takes connections: one that is starting says so instead of asking for us."""
    try:
        psycopg.connect(f"host=127.0.0.1 port={port} user=mainstay dbname=mainstay", password="x")
    except psycopg.OperationalError as error:
        return "password authentication failed" in str(error)
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


def _complaint(text: str) -> str:
    """The line that says what is wrong: the first that calls itself an error, else the last."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if any(word in line for word in _ERROR_WORDS)]
    return (errors or lines[-1:] or ["it said nothing"])[0]
