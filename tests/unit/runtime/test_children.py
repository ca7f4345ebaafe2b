"""Processes that we start: they have a home of their own, and none of them outlives us."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import outside
from mainstay.runtime.children import Child, Children

SERVER = ["mainstay.bench.list_server", "--machines=100", "--needs=50", "--racks=3"]


def is_alive(pid: int) -> bool:
    """A zombie that nobody has waited for is dead."""
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_command_runs_in_a_home_of_its_own_and_is_logged(tmp_path: Path) -> None:
    with Children(tmp_path) as children:
        child = children.command("config", ["--version"])
        child.process.wait(30)

        assert child.tail()
        assert child.log.parent == tmp_path / "log"


def test_none_of_our_own_settings_reach_a_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAINSTAY_NO_SUCH_SETTING", "1")

    with Children(tmp_path) as children:
        child = children.command("config", ["config", "show"])

        assert child.process.wait(30) == 0, child.tail()


def test_settings_that_a_child_is_told_of_reach_it_and_its_home_stays_its_own(
    tmp_path: Path,
) -> None:
    told = {"MAINSTAY_UP_FLEET": "70", "MAINSTAY_HOME": "/nowhere"}

    with Children(tmp_path, told) as children:
        child = children.command("config", ["config", "show"])

        assert child.process.wait(30) == 0, child.tail()
        assert re.search(r"up\.fleet +70 +environment", child.log.read_text())
        assert child.home == tmp_path


def test_every_child_has_ended_when_the_block_is_left_by_an_error(tmp_path: Path) -> None:
    pids = []

    def work() -> None:
        with Children(tmp_path) as children:
            for name in ("one", "two"):
                child = children.module(name, SERVER)
                assert "address" in json.loads(child.line())
                pids.append(child.pid)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()

    assert len(pids) == 2
    assert [pid for pid in pids if is_alive(pid)] == []


def test_a_killed_child_has_ended_at_once_and_leaves_the_others_alone(tmp_path: Path) -> None:
    with Children(tmp_path) as children:
        one, two = (children.module(name, SERVER) for name in ("one", "two"))
        assert one.line()
        assert two.line()

        one.kill()

        assert (one.is_running, two.is_running) == (False, True)
        assert one.process.returncode == -signal.SIGKILL
        two.tell("facts")
        assert json.loads(two.line())["machines"] == 100
        now, most = two.memory_mb()
        assert 0 < now <= most


STANDING = """
import pathlib, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
print("ready", flush=True)
signal.sigwait({signal.SIGTERM})
with pathlib.Path(sys.argv[2]).open("a") as ended:
    print(sys.argv[1], file=ended)
"""


def test_one_that_was_started_again_still_ends_after_those_that_stand_on_it(tmp_path: Path) -> None:
    ended = tmp_path / "ended"

    def begin(children: Children, name: str) -> Child:
        words = [sys.executable, "-c", STANDING, name, str(ended)]
        child = children.program(name, words)
        while "ready" not in child.tail():
            assert child.is_running
        return child

    with Children(tmp_path) as children:
        ground = begin(children, "ground")
        begin(children, "house")
        ground.kill()
        begin(children, "ground")

    assert ended.read_text().split() == ["house", "ground"]


PROGRAM = """
import sys
from pathlib import Path
from mainstay.runtime.children import Children
with Children(Path(sys.argv[1])) as children:
    child = children.command("provider", ["provider", "sim", "--listen", "127.0.0.1:0"])
    while child.announced() is None:
        assert child.is_running, child.tail()
    print(child.pid, child.announced()["addresses"]["grpc"], flush=True)
    sys.stdin.read()
"""


def test_a_child_dies_with_the_process_that_started_it_however_that_ends(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    with subprocess.Popen(
        command, env=outside.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid, address = parent.stdout.readline().split()
        assert is_alive(int(pid))
        assert address.startswith("127.0.0.1:")
        parent.send_signal(signal.SIGKILL)

    for _ in range(10_000_000):
        if not is_alive(int(pid)):
            break
    assert not is_alive(int(pid))
