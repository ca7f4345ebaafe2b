"""The files of a PostgreSQL of our own: where they are, how they are made, and how forgotten.

They are in the folder that was named, or elsewhere when the server's user cannot get there. A
folder elsewhere is known by our folder's path and by a number that is kept in it: a home that was
removed and made again begins with a database of its own, and what the first one had stays there
until somebody wants it forgotten.
"""

import fcntl
import hashlib
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mainstay.model.errors import Rejected, Unavailable
from mainstay.tenancy.database.account import Account, account_for_us, command_as, complaint
from mainstay.tenancy.database.binaries import binaries_for, can_reach

ELSEWHERE: Final = Path("/var/lib")
PATIENCE_S: Final = 60.0
_POLL_S: Final = 0.02


class InUse(Unavailable):
    """Another process has a server on this folder: it may be asked for its address instead."""

    code = "database_in_use"
    what_to_do = "use the server that runs there, stop it, or choose another home"


@dataclass(frozen=True, slots=True)
class Cluster:
    """Files of a server, ready to run; nobody else does while they are held."""

    folder: Path
    """Ours: the password and the log."""

    data: Path
    binaries: Path
    account: Account | None

    @property
    def password(self) -> str:
        """Kept in a file that only we can read."""
        return (self.folder / "password").read_text().strip()


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """The folder is made, and nobody else starts a server on it meanwhile."""
    _made(folder)
    try:
        opened = (folder / "lock").open("w")
    except OSError as error:
        message = f"cannot write in {folder}: {error.strerror}"
        raise Rejected(f"{message} (set MAINSTAY_HOME)") from error
    with opened as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            message = f"another process runs PostgreSQL in {folder}"
            raise InUse(f"{message}: stop it, or choose another home") from error
        yield


def prepared(folder: Path, elsewhere: Path | None) -> Cluster:
    """Files that are there, made where they are not. The folder is held."""
    account = account_for_us()
    home = _reachable(folder, elsewhere, account)
    binaries = binaries_for(home, None if account is None else account.uid)
    cluster = Cluster(folder, home / "data", binaries, account)
    password = folder / "password"
    if not (password.exists() and cluster.password):
        _keep(password, secrets.token_urlsafe(24))
    if not (cluster.data / "PG_VERSION").exists():
        _initialise(cluster)
    _clear_stale_pid(cluster.data)
    return cluster


def give_password(cluster: Cluster) -> None:
    """A new password, for files whose own was lost. No server runs on them."""
    password = secrets.token_urlsafe(24)
    _alone(cluster, cluster.data, "mainstay", f"alter role mainstay password '{password}'")
    _keep(cluster.folder / "password", password)


def forget(folder: Path, *, elsewhere: Path | None = None) -> None:
    """Delete the files of every server that belonged to this folder, wherever they are.

    Refused while one runs; one that is going is waited for.
    """
    with held(folder):
        homes = [*_elsewhere(folder, elsewhere), folder / "server", folder]
        for home in homes:
            _clear_stale_pid(home / "data")
        for home in filter(Path.exists, homes):
            shutil.rmtree(home)


def _made(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Rejected(f"cannot make {folder}: {error.strerror} (set MAINSTAY_HOME)") from error


def _reachable(folder: Path, elsewhere: Path | None, account: Account | None) -> Path:
    """Where the server's own files are: in `folder`, or elsewhere if it cannot get there."""
    if account is None:
        return folder
    home = folder / "server"
    if not can_reach(folder, account.uid):
        home = (elsewhere or ELSEWHERE) / f"{_named(folder)}{_identity(folder)}"
    _made(home)
    os.chown(home, account.uid, account.gid)
    return home


def _named(folder: Path) -> str:
    """What every folder elsewhere that belongs to this path begins with."""
    return f"mainstay-postgres-{hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:16]}"


def _identity(folder: Path) -> str:
    """Which of the homes at this path it is; the path alone names those of before there was one."""
    path = folder / "identity"
    if not path.exists():
        _keep(path, "" if (folder / "password").exists() else f"-{secrets.token_hex(4)}")
    return path.read_text().strip()


def _elsewhere(folder: Path, elsewhere: Path | None) -> list[Path]:
    """Folders that were made for this path: by their name and by whose they are."""
    found = sorted((elsewhere or ELSEWHERE).glob(f"{_named(folder)}*"))
    account = account_for_us() if found else None
    return [
        place
        for place in found
        if account and place.lstat().st_uid == account.uid and place.is_dir()
    ]


def _keep(path: Path, text: str) -> None:
    unfinished = path.with_name(f"{path.name}.unfinished")
    _write_private(unfinished, text)
    unfinished.rename(path)


def _write_private(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)


def _initialise(cluster: Cluster) -> None:
    """Make them; all of it or nothing."""
    data, account = cluster.data, cluster.account
    unfinished = data.with_name("data.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    given = data.with_name("initial-password")
    _write_private(given, cluster.password)
    if account is not None:
        os.chown(given, account.uid, account.gid)
    command = [
        str(cluster.binaries / "initdb"), "-D", str(unfinished), "-U", "mainstay",
        f"--pwfile={given}", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C",
        "--no-instructions",
    ]  # fmt: skip
    try:
        _ended_well("make a PostgreSQL cluster", command_as(account, command), "")
    finally:
        given.unlink()
    _alone(cluster, unfinished, "postgres", "create database mainstay")
    unfinished.rename(data)


def _alone(cluster: Cluster, data: Path, database: str, statement: str) -> None:
    """One statement, while nobody can connect."""
    command = [str(cluster.binaries / "postgres"), "--single", "-D", str(data), database]
    what = " ".join(statement.split()[:3])
    _ended_well(what, command_as(cluster.account, command), f"{statement}\n")


def _ended_well(what: str, command: list[str], given: str) -> None:
    ended = subprocess.run(
        command, check=False, capture_output=True, text=True, cwd="/", input=given,
        start_new_session=True,
    )  # fmt: skip
    if ended.returncode:
        raise Unavailable(f"cannot {what}: {complaint(ended.stderr)}")


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
