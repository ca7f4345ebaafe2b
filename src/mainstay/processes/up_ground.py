"""The ground that `mainstay up` stands on: a home of its own, room, free ports, certificates.

What is wrong with it is said in one line, before anything is started.
"""

import errno
import fcntl
import json
import os
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from mainstay.config.up import UpConfig
from mainstay.model.errors import Rejected, Unavailable
from mainstay.processes import certs
from mainstay.processes.up_plan import (
    CERTIFICATES,
    USUAL_PORTS,
    Stage,
)
from mainstay.runtime import survivors
from mainstay.runtime.clock import Clock
from mainstay.runtime.survivors import Survivor
from mainstay.tenancy.database.cluster import forget
from mainstay.wire.tls import is_loopback

ROOM_BYTES: Final = 64 << 20
DATABASE_BYTES: Final = 192 << 20
"""What the disk must have to begin with; the second for PostgreSQL."""

FULL_BYTES: Final = 20 << 20
"""With less it is full for those that run: PostgreSQL takes 16 MB at a time."""

OF_THE_DISK: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS})
"""What a disk says that is full, or not ours."""

OF_THE_SYSTEM: Final = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})
"""What a system says that gives nobody, or us, any more."""

GIVES_NO_MORE: Final = (
    "end other programs, or let yourself have more processes, files and memory (`ulimit -a`),"
    " and start it again"
)
"""What to do about such a system."""

DAYS: Final = 365
RENEW_DAYS: Final = 30

OURS: Final = (
    "audit", "cache", "coordinator.db", "coordinator.db-shm", "coordinator.db-wal", "dashboard",
    "log", "log.failed", "pki", "postgres", "providers", "run", "shards", "tenancy",
)  # fmt: skip
"""What `--reset` removes below the home directory, and nothing else."""

FAILED_LOG: Final = "log.failed"
"""The logs of the last start that did not come to its end."""

STARTED: Final = "started"

BEGUN: Final = "run/begun.jsonl"
"""Every process that this start began."""

WORLD_PORTS: Final = range(20_000, 32_000, 4)
"""Where three free ports in a row are looked for: below those that the system deals out itself."""


@contextmanager
def prepared(
    config: UpConfig,
    home: Path,
    clock: Clock,
    *,
    reset: bool,
    usual: Mapping[str, int] = USUAL_PORTS,
) -> Iterator[Stage]:
    """A home that is ours while the block runs, and where everything in it is to be."""
    page = _page_port(config)
    with _one_line(home), _alone(home):
        _end_last(home)
        stage = Stage(config, home, {**(free_ports() if config.free_ports else usual), **page})
        _check_ports(stage)
        if reset:
            _reset(home)
        _clear(home)
        _check_room(stage)
        certified(home, clock)
        yield stage


def _page_port(config: UpConfig) -> dict[str, int]:
    """The port of a page that was told where to be; it must not be open to others in plain text."""
    if not config.page:
        return {}
    if not config.page_cert and not is_loopback(config.page):
        what = f"the page is on loopback only without a certificate, not at {config.page}"
        raise Rejected(f"{what}: give --page-cert and --page-key")
    return {"dashboard": int(config.page.rpartition(":")[2])}


def _free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def lacking(stage: Stage, free: Callable[[Path], int] = _free_bytes) -> str:
    """What the disk lacks; empty: nothing."""
    wanted = ROOM_BYTES + (DATABASE_BYTES if stage.config.tenancy else 0)
    there = free(stage.home)
    if there >= wanted:
        return ""
    return f"{there >> 20} MB are free at {stage.home} and {wanted >> 20} MB are needed"


def filled(home: Path, free: Callable[[Path], int] = _free_bytes) -> str:
    """Whether the disk is what those die of that run on it; empty: it is not."""
    there = free(home)
    if there >= FULL_BYTES:
        return ""
    return f"no room on the disk: {there >> 20} MB are free below {home}"


def _check_room(stage: Stage) -> None:
    """Refuse a disk on which it would stop half-way."""
    if lack := lacking(stage):
        raise Rejected(f"{lack}; make room, or set MAINSTAY_HOME to another disk")


@contextmanager
def _one_line(home: Path) -> Iterator[None]:
    """A disk that takes nothing is no defect of ours, nor is a system that gives no more."""
    try:
        yield
    except OSError as error:
        if error.errno in OF_THE_SYSTEM:
            message = f"the system gives no more: {error.strerror}"
            raise Unavailable(message, what_to_do=GIVES_NO_MORE) from error
        if error.errno not in OF_THE_DISK:
            raise
        where = error.filename or home
        what_to_do = "make room, or set MAINSTAY_HOME to a folder of yours"
        raise Rejected(f"cannot write {where}: {error.strerror}; {what_to_do}") from error


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """One supervisor per home; the system takes the lock back from one that dies."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        lock = os.open(home / "up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        message = f"cannot use {home}: {error.strerror}; set MAINSTAY_HOME to a folder of yours"
        raise Rejected(message) from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Rejected(f"mainstay up runs in {home} already: stop it first") from error
        yield
    finally:
        os.close(lock)


def has_begun(home: Path, name: str, pid: int) -> None:
    """A process of ours: if it outlives us, the next start ends it."""
    with suppress(OSError):  # on a disk without room: our system ends it with us, most likely
        (home / "run").mkdir(exist_ok=True)
        survivors.note(home / BEGUN, name, pid)


def _end_last(home: Path) -> None:
    """What is left of the last start ends before anything else: it has our ports and our files."""
    left = survivors.end([*_servers(home), *survivors.noted(home / BEGUN)])
    if left:
        which = ", ".join(f"{each.pid} ({each.name})" for each in left)
        raise Unavailable(f"the last start has left what does not end: stop process {which}")


def _servers(home: Path) -> Iterator[Survivor]:
    """A database that was told to shut down when its process was killed, and is still at it."""
    for path in (home / "run").glob("postgres-*.json"):
        with suppress(OSError, ValueError, KeyError):
            told = json.loads(path.read_text(encoding="utf-8"))
            yield Survivor("PostgreSQL", told["server_pid"], told["server_began"])


def _reset(home: Path) -> None:
    if not (home / "postgres").is_file():
        forget(home / "postgres")  # first: it is refused while somebody runs it
    for name in OURS:
        path = home / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _clear(home: Path) -> None:
    """What processes of an earlier start say of themselves is no longer so: all have ended."""
    for path in (home / "run").glob("*.json*"):
        path.unlink(missing_ok=True)
    log, kept = home / "log", home / FAILED_LOG
    if log.exists() and not (log / STARTED).exists():
        shutil.rmtree(kept, ignore_errors=True)
        log.rename(kept)
    shutil.rmtree(log, ignore_errors=True)


def has_started(home: Path) -> None:
    """All of it has: its logs need not be kept over the next start."""
    (home / "log" / STARTED).touch()


def free_ports() -> dict[str, int]:
    """A free port for everything; those of the world must follow each other."""
    begin = os.getpid() % len(WORLD_PORTS)  # two that start together do not pick the same
    for first in (*WORLD_PORTS[begin:], *WORLD_PORTS[:begin]):
        if all(_is_free(port) for port in range(first, first + 3)):
            break
    else:
        raise Unavailable("no three free ports in a row")
    world = {"world": first, "world-1": first + 1, "world-2": first + 2}
    with contextmanager(_bound)() as others:
        names = [name for name in USUAL_PORTS if name not in world]
        return {**world, **{name: next(others) for name in names}}


def _bound() -> Iterator[Iterator[int]]:
    """Ports that nobody else gets while the block runs, each another one."""
    held: list[socket.socket] = []

    def ports() -> Iterator[int]:
        while True:
            free = socket.socket()
            held.append(free)
            free.bind(("127.0.0.1", 0))
            yield int(free.getsockname()[1])

    try:
        yield ports()
    finally:
        for each in held:
            each.close()


def _is_free(port: int, host: str = "127.0.0.1") -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def _check_ports(stage: Stage) -> None:
    page, ports = stage.config.page, dict(stage.ports)
    if page:
        _check_page(page, ports.pop("dashboard"), ports)
    taken = [name for name, port in ports.items() if not _is_free(port)]
    if taken:
        which = ", ".join(f"{ports[name]} ({name})" for name in taken)
        raise Rejected(
            f"taken by another program: port {which}; stop it, or give --free-ports"
            " (`make up UP_FLAGS=--free-ports`)"
        )


def _check_page(page: str, port: int, others: Mapping[str, int]) -> None:
    """A page that was told where to be can be there."""
    whose = next((name for name, other in others.items() if other == port), None)
    if whose is not None:
        raise Rejected(f"the page cannot be at {page}: port {port} is for {whose}; give another")
    if not _is_free(port, page.rpartition(":")[0].strip("[]")):
        raise Rejected(f"the page cannot be at {page}: taken, or no address of ours; give another")


def certified(home: Path, clock: Clock) -> None:
    """An authority and a certificate for each process, made once and renewed before they end."""
    folder, now = home / certs.FOLDER, datetime.fromtimestamp(clock.now_s(), UTC)
    if not (folder / "ca.crt").exists():
        certs.init(folder, now, days=10 * DAYS)
    for kind, name in CERTIFICATES:
        holder = certs.holder_of(kind, name)
        if certs.days_left(folder, holder, now) < RENEW_DAYS:
            certs.issue(folder, holder, now, days=DAYS)
