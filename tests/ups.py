"""`mainstay up` in a home of its own, as a person starts it, and all that becomes of it."""

import ipaddress
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest

import outside
from running import until
from tree import BIN

PATIENCE_S: Final = 240.0

LISTEN: Final = "0A"
"""The state of a socket, in the tables of /proc/net."""

AT_A_TERMINAL: Final = (
    "import fcntl, os, sys, termios\n"
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
    "os.execv(sys.argv[1], sys.argv[1:])\n"
)
"""The terminal on stdin is the one whose end it is told of."""


class Up:
    """One `mainstay up`."""

    def __init__(
        self,
        home: Path,
        *words: str,
        fleet: int = 120,
        program: Path = BIN / "mainstay",
        here: Path = Path(),
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.home = home
        self._program = program
        self.log = home.parent / f"{home.name}.log"
        self._env = outside.environment(MAINSTAY_HOME=str(home), NO_COLOR="1", COLUMNS="200")
        self._terminal, its = pty.openpty()
        command = [program, "up", "--free-ports", "--fleet", str(fleet), *words]
        with self.log.open("wb") as written, os.fdopen(its, "rb") as terminal:
            self.process = subprocess.Popen(
                [sys.executable, "-c", AT_A_TERMINAL, *map(str, command)],
                env=self._env | dict(settings or {}), cwd=here,
                stdin=terminal, stdout=written, stderr=written, start_new_session=True,
            )  # fmt: skip

    @property
    def said(self) -> str:
        return self.log.read_text()

    def ready(self) -> "Up":
        until(
            lambda: "Ctrl-C stops everything." in self.said or self._ended(), patience_s=PATIENCE_S
        )
        return self

    def first_node_s(self) -> float:
        """As it tells people."""
        (told,) = re.findall(r"\nThe first node serves after ([0-9]+\.[0-9]) s\.\n", self.said)
        return float(told)

    def _ended(self) -> bool:
        assert self.process.poll() is None, self.said
        return False

    def run(self, *words: str) -> str:
        ended = outside.run([self._program, *words], env=self._env)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def rows(self, *words: str) -> list[dict[str, Any]]:
        return [dict(row) for row in json.loads(self.run(*words, "-o", "json"))]

    def facts(self, process: str) -> dict[str, dict[str, Any]]:
        found = [json.loads(path.read_text()) for path in (self.home / "run").glob("*.json")]
        return {each["id"]: each for each in found if each["process"] == process}

    def fact(self, process: str) -> dict[str, Any]:
        """Of the only one of its kind."""
        (found,) = self.facts(process).values()
        return found

    def again(self, process: str, pid: int) -> dict[str, Any]:
        """What one says that was started again in place of this one."""
        until(lambda: [each for each in self.facts(process).values() if each["pid"] != pid])
        return self.fact(process)

    def pids(self) -> set[int]:
        """All processes below it, however deep; its own, too."""
        return {self.process.pid, *below(self.process.pid)}

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=PATIENCE_S)

    def hang_up(self) -> int:
        """Close the terminal in which it runs."""
        os.close(self._terminal)
        self._terminal = -1
        return self.process.wait(timeout=PATIENCE_S)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self._terminal >= 0:
            os.close(self._terminal)
            self._terminal = -1


@contextmanager
def an_up(home: Path, *words: str, **more: Any) -> Iterator[Up]:
    """One that is gone when the block is left, whatever happened."""
    up = Up(home, *words, **more)
    try:
        yield up
    finally:
        up.kill()


@contextmanager
def small_disk(at: Path, megabytes: int) -> Iterator[None]:
    """A file system of its own, where this user may mount one."""
    at.mkdir()
    asked = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(at)]
    if shutil.which("mount") is None or outside.run(asked).returncode:
        told = "no file system may be mounted here"
        (pytest.fail if outside.require_all() else pytest.skip)(told)
    try:
        yield
    finally:
        outside.run(["umount", "-l", at])


@contextmanager
def home_below(mode: int) -> Iterator[Path]:
    """Below a folder of this mode, gone afterwards with all that is in it."""
    folder = Path(tempfile.mkdtemp(prefix="mainstay-up-"))
    folder.chmod(mode)
    try:
        yield folder / "home"
    finally:
        until(lambda: _is_gone(folder))


def _is_gone(folder: Path) -> bool:
    """Processes that were killed may still be writing."""
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


def below(pid: int) -> set[int]:
    """The children of a process, and theirs."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has just ended
    found: set[int] = set()
    more = {pid}
    while more:
        more = {child for child, parent in parents.items() if parent in more}
        found |= more
    return found


def listening(pids: Collection[int]) -> set[str]:
    """Every HOST:PORT at which these processes take calls."""
    theirs = {each for pid in pids for each in _open_files(pid)}
    tables = [Path(f"/proc/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table]
    return {_address(row[1]) for row in rows if row[3] == LISTEN and f"socket:[{row[9]}]" in theirs}


def _open_files(pid: int) -> Iterator[str]:
    with suppress(OSError):  # it, or one of them, has just gone
        for path in Path(f"/proc/{pid}/fd").iterdir():
            yield str(path.readlink())


def _address(told: str) -> str:
    """As people write it; the kernel writes each word as a number of this machine."""
    host, _, port = told.partition(":")
    words = [int(host[at : at + 8], 16) for at in range(0, len(host), 8)]
    ip = ipaddress.ip_address(b"".join(word.to_bytes(4, sys.byteorder) for word in words))
    return f"{getattr(ip, 'ipv4_mapped', None) or ip}:{int(port, 16)}"


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def all_gone(pids: set[int]) -> bool:
    return not any(is_alive(pid) for pid in pids)
