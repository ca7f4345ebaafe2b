"""As whom the programs of PostgreSQL run, and that they end when we do."""

import os
import pwd
import shutil
import sys
from dataclasses import dataclass
from typing import Final

from mainstay.model.errors import Rejected, Unavailable

UNPRIVILEGED: Final = "nobody"
_ERROR_WORDS: Final = ("error:", "ERROR:", "FATAL:", "PANIC:")
_BECOME: Final = """
import ctypes, os, signal, sys
uid, gid, parent = map(int, sys.argv[1:4])
if uid >= 0:
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, int(signal.SIGINT), 0, 0, 0)
if os.getppid() != parent:
    sys.exit("whoever wanted this has ended")
os.execv(sys.argv[4], sys.argv[4:])
"""
"""The signal is a fast shutdown; it is set last, since a change of user would undo it. A parent
that was gone before does not send it.
"""


@dataclass(frozen=True, slots=True)
class Account:
    """Whom the server runs as; None is ourselves."""

    uid: int
    gid: int


def account_for_us() -> Account | None:
    """Ourselves, unless we are root: then one without rights."""
    if os.geteuid() != 0:
        return None
    try:
        entry = pwd.getpwnam(UNPRIVILEGED)
    except KeyError as error:
        message = f"PostgreSQL cannot run as root, and there is no user {UNPRIVILEGED}"
        raise Rejected(f"{message}: give a database by its URL") from error
    return Account(entry.pw_uid, entry.pw_gid)


def command_as(account: Account | None, command: list[str]) -> list[str]:
    """The command that becomes that user and then this one, and dies with us.

    A program of its own does it: what Python offers to run between fork and exec would run the
    threads of libraries that live through a fork, and gRPC's have ended the child.
    """
    uid, gid = (-1, -1) if account is None else (account.uid, account.gid)
    numbers = map(str, (uid, gid, os.getpid()))
    return [_interpreter(), "-I", "-S", "-c", _BECOME, *numbers, *command]


def _interpreter() -> str:
    """Ours, or the system's for a process that has given up the right to run ours."""
    if os.access(sys.executable, os.X_OK):
        return sys.executable
    if (found := shutil.which("python3", path=os.defpath)) is None:
        raise Unavailable(f"cannot start PostgreSQL: this user may not run {sys.executable}")
    return found


def complaint(text: str) -> str:
    """The line that says what is wrong: the first that calls itself an error, else the last."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if any(word in line for word in _ERROR_WORDS)]
    return (errors or lines[-1:] or ["it said nothing"])[0]
