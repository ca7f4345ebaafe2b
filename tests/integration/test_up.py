"""`mainstay up`: everything on one machine, and what becomes of it when something dies."""

import errno
import json
import os
import pty
import re
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import outside
from running import read_until, until
from tree import BIN
from ups import PATIENCE_S, Up, all_gone, an_up, home_below, is_alive, listening, small_disk

STEADY: Final = "[world]\nevery_s = 3600.0\nday_s = 7200.0\n"
"""Demand that stays as it is: whatever is given back then is given back by mistake."""

ORDER: Final = ("--sku", "h200-sxm-slice", "--gpus", "8", "--region", "region-1")


@pytest.fixture
def home() -> Iterator[Path]:
    """Where a database can run as anybody."""
    with home_below(0o755) as path:
        yield path


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


def assigned(up: Up) -> dict[str, str]:
    """Which cluster each machine serves."""
    rows = up.rows("get", "machines", "--state", "Configured", "--limit", "0")
    return {row["id"]: row["cluster"] for row in rows}


def statuses(up: Up) -> dict[str, str]:
    return {each["allocation"]: each["status"] for each in up.rows("alloc", "list")}


def charged(up: Up) -> float:
    """Dollars of the present month."""
    (told,) = re.findall(r"charges \$([0-9.,]+)", up.run("alloc", "bill"))
    return float(told.replace(",", ""))


def test_everything_comes_up_survives_deaths_and_is_there_again(home: Path) -> None:
    home.mkdir()
    (home / "mainstay.toml").write_text(STEADY)
    with an_up(home) as up:
        up.ready()
        assert "Starting 7 processes" in up.said
        assert up.first_node_s() > 0

        # Nobody else on the network can call any of it.
        heard_at = listening(up.pids())
        assert up.fact("coordinator")["addresses"]["grpc"] in heard_at
        assert {at.rpartition(":")[0] for at in heard_at} <= {"127.0.0.1", "::1"}

        # Both shards and the coordinator answer over mutual TLS, with the certificate of the home.
        assert {row["id"] for row in up.rows("get", "shards")} == {"shard-a", "shard-b"}
        assert {row["cluster"] for row in up.rows("get", "clusters")} >= {"blue", "green", "red"}
        assert {row["state"] for row in up.rows("get", "domains")} == {"held"}
        assert len(up.rows("get", "domains")) == 3
        held = up.run("alloc", "create", *ORDER).strip()
        until(lambda: statuses(up) == {held: "active"})
        until(lambda: assigned(up))

        _kill_each_and_see_it_again(up, held)

        # The supervisor itself is killed: nothing of it is left, and the next start goes on.
        served, before = assigned(up), until(lambda: charged(up))
        pids = up.pids()
        assert {each["pid"] for each in _all_facts(up)} < pids
        assert up.fact("postgres")["server_pid"] in pids
        up.kill()
        until(lambda: all_gone(pids))
    with an_up(home) as again:
        again.ready()
        until(lambda: served.items() <= assigned(again).items())
        until(lambda: statuses(again) == {held: "active"})
        assert charged(again) >= before
        assert given_back(home) == []

        # Its terminal is closed: all of it ends in order.
        pids = again.pids()
        assert again.hang_up() == 0
        assert all_gone(pids)
        assert again.said.rstrip().endswith("Stopped.")
        assert list((home / "run").glob("*.json")) == []
        assert "shut down" in (home / "postgres" / "postgres.log").read_text().splitlines()[-1]


def _kill_each_and_see_it_again(up: Up, held: str) -> None:
    """One that dies is started again, takes nothing from anybody, and leaves the others alone."""
    served = serving(up)
    epoch = up.facts("shard")["shard-a"]["epoch"]
    os.kill(up.facts("shard")["shard-a"]["pid"], signal.SIGKILL)
    until(lambda: up.facts("shard").get("shard-a", {}).get("epoch", 0) > epoch)
    assert "shard-a has died (-9)" in up.said
    until(lambda: served <= serving(up))

    database, tenancy = up.fact("postgres"), up.fact("api")["pid"]
    os.kill(tenancy, signal.SIGKILL)
    tenancy = up.again("api", tenancy)["pid"]
    assert up.fact("postgres") == database
    assert is_alive(database["server_pid"])

    os.kill(database["server_pid"], signal.SIGKILL)
    again = up.again("postgres", database["pid"])
    assert again["addresses"] == database["addresses"]
    os.kill(again["pid"], signal.SIGKILL)
    once_more = up.again("postgres", again["pid"])
    assert not is_alive(again["server_pid"])
    assert once_more["addresses"] == database["addresses"]

    assert up.fact("api")["pid"] == tenancy
    until(lambda: statuses(up) == {held: "active"})
    until(lambda: is_bridged(up))


def is_bridged(up: Up) -> bool:
    """Whether tenancy has its session with a shard."""
    url = f"{up.fact('api')['addresses']['api']}/metrics"
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return b"\nmainstay_bridge_connected 1.0" in answer.read()
    except OSError:
        return False


def _all_facts(up: Up) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in (up.home / "run").glob("*.json")]


def test_who_dies_while_others_start_is_named_at_once_and_the_logs_are_kept(home: Path) -> None:
    with an_up(home, "--no-tenancy") as up:
        until(lambda: "world        ready" in up.said)
        os.kill(up.fact("world")["pid"], signal.SIGKILL)
        assert up.process.wait(PATIENCE_S) == 3
        (log,) = (home / "log").glob("*-world.log")
        assert up.said.splitlines()[-1] == (
            f"mainstay: world has died (-9) while others started: see {log}: "
            "read its log, which the next start keeps in log.failed"
        )
    with an_up(home, "--no-tenancy", "--once") as again:
        assert again.process.wait(PATIENCE_S) == 0
    assert "Ctrl-C stops it" in (home / "log.failed" / log.name).read_text()


def test_a_second_one_in_the_same_home_is_refused_in_one_line(home: Path) -> None:
    with an_up(home, "--no-tenancy") as up:
        until(lambda: "Starting" in up.said)
        with an_up(home, "--no-tenancy") as other:
            assert other.process.wait(PATIENCE_S) == 1
        assert up.process.poll() is None
        assert up.stop() == 0


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
    with small_disk(home, 8):
        ended = outside.run(
            [BIN / "mainstay", "up", "--fleet", "120", "--free-ports"],
            env=outside.environment(MAINSTAY_HOME=str(home)),
        )
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1
    assert f"8 MB are free at {home} and 256 MB are needed; make room" in ended.stderr


def has_room(file: int, size: int) -> bool:
    """Whether so much more fits; it is taken."""
    try:
        os.posix_fallocate(file, os.lseek(file, 0, os.SEEK_END), size)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return False
    return True


def fill(path: Path) -> None:
    """Until nothing fits any more, whoever else writes meanwhile."""
    with path.open("wb") as filler:
        for step in (1 << 20, 1 << 12):
            while has_room(filler.fileno(), step):
                pass


def test_a_disk_that_fills_meanwhile_is_one_line_and_it_goes_on_when_there_is_room(
    home: Path,
) -> None:
    with small_disk(home, 96), an_up(home, "--no-tenancy", fleet=30) as up:
        up.ready()
        fill(home / "filler")
        dashboard = up.fact("dashboard")["pid"]
        os.kill(dashboard, signal.SIGKILL)
        until(lambda: "dashboard has died" in up.said)
        (told,) = [line for line in up.said.splitlines() if "dashboard has died" in line]
        assert told == (
            f"dashboard has died (-9): no room on the disk: 0 MB are free below {home}; "
            "make room, and it goes on by itself"
        )
        (home / "filler").unlink()
        assert up.again("dashboard", dashboard)["pid"] != dashboard
        assert up.stop() == 0


def test_a_terminal_shows_how_far_every_process_is(home: Path) -> None:
    ours, its = pty.openpty()
    try:
        with os.fdopen(its, "wb") as terminal:
            up = subprocess.Popen(
                [str(BIN / "mainstay"), "up", "--free-ports", "--fleet", "30", "--no-tenancy"],
                env=outside.environment(MAINSTAY_HOME=str(home), TERM="xterm", COLUMNS="100"),
                stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal,
            )  # fmt: skip
        seen = read_until(ours, lambda seen: b"shard-b" in seen and b"starting" in seen)
        up.send_signal(signal.SIGINT)
        seen += read_until(ours, lambda seen: b"Stopped." in seen)
        assert up.wait(PATIENCE_S) == 0
    finally:
        os.close(ours)
    assert b"waiting" in seen
    assert b"ready after" not in seen
