"""`mainstay up`: everything on one machine, and what becomes of it when something dies."""

import json
import os
import pty
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import outside
from running import until
from tree import BIN

PATIENCE_S: Final = 240.0

STEADY: Final = "[world]\nevery_s = 3600.0\nday_s = 7200.0\n"
"""Demand that stays as it is: whatever is given back then is given back by mistake."""


class Up:
    """One `mainstay up` in a home of its own."""

    def __init__(self, home: Path, *words: str) -> None:
        self.home = home
        self.log = home.parent / f"{home.name}.log"
        self._env = outside.environment(MAINSTAY_HOME=str(home), NO_COLOR="1", COLUMNS="200")
        with self.log.open("wb") as written:
            self.process = subprocess.Popen(
                [str(BIN / "mainstay"), "up", "--free-ports", "--fleet", "120", *words],
                env=self._env, stdin=subprocess.DEVNULL, stdout=written, stderr=written,
            )  # fmt: skip

    @property
    def said(self) -> str:
        return self.log.read_text()

    def ready(self) -> "Up":
        until(
            lambda: "Ctrl-C stops everything." in self.said or self._ended(), patience_s=PATIENCE_S
        )
        return self

    def _ended(self) -> bool:
        assert self.process.poll() is None, self.said
        return False

    def run(self, *words: str) -> str:
        ended = outside.run([BIN / "mainstay", *words], env=self._env)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def rows(self, *words: str) -> list[dict[str, Any]]:
        return [dict(row) for row in json.loads(self.run(*words, "-o", "json"))]

    def facts(self, process: str) -> dict[str, dict[str, Any]]:
        found = [json.loads(path.read_text()) for path in (self.home / "run").glob("*.json")]
        return {each["id"]: each for each in found if each["process"] == process}

    def pids(self) -> set[int]:
        return {json.loads(path.read_text())["pid"] for path in (self.home / "run").glob("*.json")}

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=PATIENCE_S)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def home() -> Iterator[Path]:
    """Where a database can run as anybody, and which is gone afterwards with all that is in it."""
    folder = Path(tempfile.mkdtemp(prefix="mainstay-up-"))
    folder.chmod(0o755)
    yield folder / "home"
    until(lambda: _is_gone(folder))


def _is_gone(folder: Path) -> bool:
    """Processes that were killed may still be writing."""
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def serving(up: Up) -> set[str]:
    return {
        row["id"] for row in up.rows("get", "machines", "--state", "Configured", "--limit", "0")
    }


def given_back(home: Path) -> list[str]:
    """What shards have taken from somebody, by their audit logs."""
    texts = [path.read_text() for path in sorted(home.glob("shards/*/audit/*.jsonl"))]
    lines = [json.loads(line) for text in texts for line in text.splitlines()]
    assert lines
    return [line["machine"] for line in lines if line.get("kind") in {"reclaim", "preempt"}]


def test_everything_comes_up_survives_deaths_and_is_there_again(home: Path) -> None:
    home.mkdir()
    (home / "mainstay.toml").write_text(STEADY)
    up = Up(home)
    try:
        up.ready()
        assert "The first node serves after" in up.said

        # Both shards and the coordinator answer over mutual TLS, with the certificate of the home.
        assert {row["id"] for row in up.rows("get", "shards")} == {"shard-a", "shard-b"}
        assert {row["cluster"] for row in up.rows("get", "clusters")} >= {"blue", "green", "red"}
        assert {row["state"] for row in up.rows("get", "domains")} == {"held"}
        assert len(up.rows("get", "domains")) == 3

        # One that dies is started again, and takes nothing from anybody.
        served = until(lambda: serving(up))
        epoch = up.facts("shard")["shard-a"]["epoch"]
        os.kill(up.facts("shard")["shard-a"]["pid"], signal.SIGKILL)
        until(lambda: up.facts("shard").get("shard-a", {}).get("epoch", 0) > epoch)
        assert "shard-a has died (-9)" in up.said
        until(lambda: served <= serving(up))

        # The supervisor itself is killed: nothing of it is left, and the next start goes on.
        pids = up.pids()
        up.kill()
        until(lambda: not any(is_alive(pid) for pid in pids))
        again = Up(home, "--no-tenancy").ready()
        try:
            until(lambda: served <= serving(again))
            assert given_back(home) == []
            assert again.stop() == 0
        finally:
            again.kill()
        assert again.said.rstrip().endswith("Stopped.")
        assert list((home / "run").glob("*.json")) == []
    finally:
        up.kill()


def test_a_second_one_in_the_same_home_is_refused_in_one_line(home: Path) -> None:
    up = Up(home, "--no-tenancy")
    try:
        until(lambda: "Starting" in up.said)
        other = Up(home, "--no-tenancy")
        until(lambda: other.process.poll() is not None)
        assert other.process.returncode == 1
        assert up.process.poll() is None
        assert up.stop() == 0
    finally:
        up.kill()


def test_a_taken_port_is_one_clear_line(home: Path) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", 7790))
            taken.listen()
        except OSError:
            pytest.skip("port 7790 is not ours to take here")
        ended = outside.run(
            [BIN / "mainstay", "up", "--fleet", "120"],
            env=outside.environment(MAINSTAY_HOME=str(home)),
        )
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1
    assert "7790 (coordinator)" in ended.stderr
    assert "--free-ports" in ended.stderr


def test_a_full_disk_is_one_clear_line(home: Path) -> None:
    home.mkdir()
    small = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(home)]
    if shutil.which("mount") is None or outside.run(small).returncode:
        pytest.skip("no file system may be mounted here")
    try:
        ended = outside.run(
            [BIN / "mainstay", "up", "--fleet", "120", "--free-ports"],
            env=outside.environment(MAINSTAY_HOME=str(home)),
        )
    finally:
        outside.run(["umount", home])
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1
    assert f"8 MB are free at {home} and 256 MB are needed; make room" in ended.stderr


def test_a_terminal_shows_how_far_every_process_is(home: Path) -> None:
    ours, its = pty.openpty()
    try:
        with os.fdopen(its, "wb") as terminal:
            up = subprocess.Popen(
                [str(BIN / "mainstay"), "up", "--free-ports", "--fleet", "30", "--no-tenancy"],
                env=outside.environment(MAINSTAY_HOME=str(home), TERM="xterm", COLUMNS="100"),
                stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal,
            )  # fmt: skip
        seen = ""
        while "shard-b" not in seen or "starting" not in seen:
            seen += os.read(ours, 65_536).decode()
        up.send_signal(signal.SIGINT)
        while "Stopped." not in seen:
            seen += os.read(ours, 65_536).decode()
        assert up.wait(PATIENCE_S) == 0
    finally:
        os.close(ours)
    assert "waiting" in seen
    assert "ready after" not in seen
