"""Real processes of ours, on free ports, with a home of their own: all end with the test."""

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from select import select
from typing import Any, Final

import nursery
import outside
from nursery import Born

PATIENCE_S: Final = 60.0


@dataclass(slots=True)
class Process:
    """One of them, and what it said of itself when it was ready."""

    popen: Born
    facts: dict[str, Any]
    log: Path

    @property
    def grpc(self) -> str:
        return str(self.facts["addresses"]["grpc"])

    @property
    def http(self) -> str:
        """Where its pages are; the API has them beside its answers."""
        at = self.facts["addresses"]
        return str(at["http"] if "http" in at else at["api"]).removeprefix("http://")

    def kill(self) -> None:
        """As a power cut would."""
        self.popen.send_signal(signal.SIGKILL)
        self.popen.wait()

    def stop(self) -> int:
        """As a person would; its exit code."""
        self.popen.send_signal(signal.SIGTERM)
        return self.popen.wait(timeout=PATIENCE_S)

    def page(self, path: str, body: str | None = None) -> tuple[int, str]:
        """One of its pages: status and text."""
        url = f"http://{self.http}{path}"
        request = urllib.request.Request(url, data=None if body is None else body.encode())
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's series that have these labels."""
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        lines = self.page("/metrics")[1].splitlines()
        rows = [line for line in lines if line.split("{")[0].split(" ")[0] == name]
        found = [row for row in rows if all(label in row for label in wanted)]
        return sum(float(row.rsplit(" ", 1)[1]) for row in found)


@dataclass(slots=True)
class Home:
    """A MAINSTAY_HOME and the processes that live in it."""

    path: Path
    started: list[Process] = field(default_factory=list)

    def start(self, process: str, *words: str) -> Process:
        """Start `mainstay WORDS` and wait until it says in `run/` that it is ready."""
        log = self.path / f"{process}-{len(self.started)}.log"
        popen = nursery.logged(words, log, cwd=self.path, MAINSTAY_HOME=str(self.path))
        running = Process(popen, {}, log)
        self.started.append(running)
        running.facts = self._ready(running, process)
        return running

    def run(self, *words: str, text: str = "") -> "subprocess.CompletedProcess[str]":
        """Run one command to its end."""
        env = outside.environment(MAINSTAY_HOME=str(self.path), NO_COLOR="1", COLUMNS="200")
        return nursery.run(words, cwd=self.path, env=env, text=text)

    def close(self) -> None:
        for running in reversed(self.started):
            if running.popen.poll() is None:
                running.popen.send_signal(signal.SIGKILL)
                running.popen.wait()

    def _announced(self, process: str) -> dict[Path, dict[str, Any]]:
        found = {}
        for path in (self.path / "run").glob(f"{process}-*.json"):
            try:
                found[path] = json.loads(path.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                continue  # gone, or not whole yet
        return found

    def _ready(self, running: Process, process: str) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            for facts in self._announced(process).values():
                if facts["pid"] == running.popen.pid:
                    return facts
            if running.popen.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(f"not ready: {running.log.read_text()[-3000:]}")


@contextmanager
def at_home(path: Path) -> Iterator[Home]:
    """A home whose processes are ended when the block is left, whatever happened."""
    path.mkdir(parents=True, exist_ok=True)
    home = Home(path)
    try:
        yield home
    finally:
        home.close()


def read_until(
    terminal: int, enough: Callable[[bytes], bool], *, patience_s: float = PATIENCE_S
) -> bytes:
    """What a terminal shows until that is enough."""
    seen, deadline = b"", time.monotonic() + patience_s
    while not enough(seen):
        left_s = deadline - time.monotonic()
        assert left_s > 0, f"it never showed it: {seen[-2000:]!r}"
        if select([terminal], [], [], left_s)[0]:
            seen += os.read(terminal, 65_536)
    return seen


def until(said: Any, *, patience_s: float = PATIENCE_S) -> Any:
    """Ask until the answer is true; the answer. Never a measure of time, only of patience."""
    deadline = time.monotonic() + patience_s
    while True:
        answer = said()
        if answer:
            return answer
        assert time.monotonic() < deadline, "it never became true"
        time.sleep(0.05)
