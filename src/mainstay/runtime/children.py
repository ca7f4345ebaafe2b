"""Processes that we start and end ourselves: they die with us, and nobody else's are touched.

What such a process gets from outside is a home of its own and nothing else of our environment, so
that no setting of ours becomes a setting of it that it was not told of.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

STOP_S: Final = 20.0
"""How long a process may take to end when it is told to."""

TAIL: Final = 20
"""So many lines of what a process wrote go into an error."""

# Linux ends the child when the thread that started it ends; elsewhere only `stop` does. Who has
# ended before it was asked to do so does not end it any more: so the child looks.
_WITH_US: Final = """
import ctypes, os, signal, sys
parent = int(sys.argv.pop(1))
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, int(signal.SIGKILL))
if os.getppid() != parent:
    sys.exit("whoever wanted this has ended")
"""
_COMMAND: Final = _WITH_US + "from mainstay.cli.main import main\nmain()\n"
_MODULE: Final = _WITH_US + (
    "import runpy\n"
    "sys.argv = sys.argv[1:]\n"
    "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)\n"
)
_PROGRAM: Final = _WITH_US + "os.execv(sys.argv[1], sys.argv[1:])\n"


@dataclass(frozen=True, slots=True)
class Child:
    """One process of ours."""

    name: str
    home: Path
    log: Path
    """All that it wrote, but for what is read by `line`."""

    process: subprocess.Popen[str]

    @property
    def pid(self) -> int:
        """Its number."""
        return self.process.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self.process.poll() is None

    def line(self) -> str:
        """The next line of its stdout, where that is a pipe; empty when it has ended."""
        return self.process.stdout.readline() if self.process.stdout else ""

    def tell(self, line: str) -> None:
        """Write a line to its stdin, where that is a pipe."""
        if self.process.stdin:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()

    def announced(self) -> Mapping[str, Any] | None:
        """What it says about itself in its home; None as long as it is not ready."""
        for path in sorted((self.home / "run").glob("*.json")):
            try:
                told: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                continue  # just taken away, or not of ours
            if told.get("pid") == self.pid:
                return told
        return None

    def memory_mb(self) -> tuple[float, float]:
        """What of it is in RAM now, and the most that ever was."""
        text = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        found = dict(line.split(":", 1) for line in text.splitlines())
        now, most = (int(found[key].split()[0]) / 1024 for key in ("VmRSS", "VmHWM"))
        return round(now, 1), round(most, 1)

    def cpu_s(self) -> float:
        """The time that all its threads have computed so far."""
        text = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii")
        user, system = text.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def tail(self) -> str:
        """The last lines that it wrote."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-TAIL:])

    def kill(self) -> None:
        """End it as a failing machine would: now, in the middle of whatever it does."""
        if self.is_running:
            self.process.send_signal(signal.SIGKILL)
        self._ended()

    def terminate(self) -> None:
        """Tell it to end, and wait for nothing."""
        if self.is_running:
            self.process.terminate()

    def stop(self) -> int:
        """Tell it to end, and make it end; its exit code."""
        if self.is_running:
            self.process.terminate()
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.process.send_signal(signal.SIGKILL)
        return self._ended()

    def _ended(self) -> int:
        code = self.process.wait(STOP_S)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe and not pipe.closed:
                _close(pipe)
        return code


class Children:
    """The processes of one undertaking, below one folder; all are ended when the block is left."""

    def __init__(self, home: Path, settings: Mapping[str, str] | None = None) -> None:
        """`settings` are the variables of ours that each of them gets."""
        self.home = home
        self._settings = settings or {}
        self._all: list[Child] = []
        self._started = 0

    def __enter__(self) -> Self:
        (self.home / "log").mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for child in _backwards(self._all):
            child.stop()

    def __iter__(self) -> Iterator[Child]:
        return iter(self._all)

    def command(self, name: str, words: Sequence[str]) -> Child:
        """Start `mainstay WORDS`."""
        return self._start(name, _COMMAND, words, piped=False)

    def module(self, name: str, words: Sequence[str]) -> Child:
        """Start `python -m WORDS`, which is spoken to by stdin and stdout."""
        return self._start(name, _MODULE, words, piped=True)

    def program(self, name: str, words: Sequence[str]) -> Child:
        """Start a program that is not ours; the first word is its path."""
        return self._start(name, _PROGRAM, words, piped=False)

    def _start(self, name: str, program: str, words: Sequence[str], *, piped: bool) -> Child:
        """To be called from the main thread: the child lives as long as its starting thread.

        A terminal tells us of Ctrl-C and of its end, and we tell the child.
        """
        self._started += 1
        log = self.home / "log" / f"{self._started:03d}-{name}.log"
        told = {"PATH": os.defpath, "HOME": str(self.home), "MAINSTAY_HOME": str(self.home)}
        with log.open("w", encoding="utf-8") as written:
            process = subprocess.Popen(
                [sys.executable, "-c", program, str(os.getpid()), *words],
                cwd=self.home,
                env={**self._settings, **told, "LANG": "C.UTF-8"},
                stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
                stdout=subprocess.PIPE if piped else written,
                stderr=written,
                encoding="utf-8",
                start_new_session=True,
            )
        child = Child(name, self.home, log, process)
        self._all.append(child)
        return child


def _backwards(children: Sequence[Child]) -> list[Child]:
    """Who came last goes first; one that was started again has the place of its first start."""
    places = {name: place for place, name in enumerate(dict.fromkeys(c.name for c in children))}
    return sorted(children, key=lambda child: places[child.name], reverse=True)


def _close(pipe: IO[str]) -> None:
    with suppress(BrokenPipeError):  # it ended before it read the last line
        pipe.close()
