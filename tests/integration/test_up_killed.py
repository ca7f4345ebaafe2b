"""`mainstay up` is killed and started again at once, at the same ports: nothing is in its way."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

import outside
from mainstay.config.up import UpConfig
from mainstay.model.errors import Rejected
from mainstay.processes.up_ground import BEGUN, free_ports, has_begun, prepared
from mainstay.runtime.clock import SystemClock
from mainstay.runtime.survivors import noted
from ups import PATIENCE_S, home_below

PORTS_GIVEN: Final = """
import json, sys
from pathlib import Path
from mainstay.config.up import UpConfig
from mainstay.model.errors import Rejected
from mainstay.processes.up import Supervisor, _told
from mainstay.processes.up_ground import prepared
from mainstay.processes.up_told import Lines
from mainstay.runtime.children import Children
from mainstay.runtime.clock import SystemClock

def say(line):
    print(line, flush=True)

home, ports, clock = Path(sys.argv[1]), json.loads(sys.argv[2]), SystemClock()
with prepared(UpConfig(fleet=60), home, clock, reset=False, usual=ports) as stage:
    with Children(home) as children:
        all_ = Supervisor(stage, clock, Lines(say), children, clock.elapsed_s())
        with _told(all_):
            all_.start()
            say("All have started.")
            all_.run()
            all_.stop()
"""
"""As `mainstay up` does it, at ports that are ours: the usual ones may be somebody's here."""


@pytest.fixture
def home() -> Iterator[Path]:
    with home_below(0o755) as path:
        yield path


@contextmanager
def supervised(home: Path, ports: dict[str, int]) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-c", PORTS_GIVEN, str(home), json.dumps(ports)],
        env=outside.environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def said(process: "subprocess.Popen[str]", wanted: str) -> str:
    """All that it says until it says this."""
    assert process.stdout is not None
    lines = []
    while wanted not in (line := process.stdout.readline()):
        lines.append(line)
        assert line, "".join(lines)
    return "".join(lines)


def test_what_is_killed_starts_again_at_once_at_the_same_ports(home: Path) -> None:
    home.mkdir()
    ports = free_ports()
    for _ in range(2):
        with supervised(home, ports) as up:
            said(up, "All have started.")
            alive = {each.name for each in noted(home / BEGUN) if each.is_alive()}
            assert alive >= {"world", "postgres", "tenancy"}
            up.kill()
            up.wait()
    with supervised(home, ports) as last:
        said(last, "All have started.")
        begun = noted(home / BEGUN)
        last.send_signal(signal.SIGTERM)
        assert last.wait(PATIENCE_S) == 0
    assert [each for each in begun if each.is_alive()] == []


LISTENS: Final = """
import signal, socket, sys
taken = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("ready", flush=True)
signal.pause()
"""


@contextmanager
def orphan(port: int) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-c", LISTENS, str(port)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            said(process, "ready")
            yield process
        finally:
            process.kill()


def test_what_did_not_end_with_its_supervisor_is_ended_by_the_next_start(home: Path) -> None:
    """As where a system does not end children with their parent."""
    home.mkdir()
    ports = free_ports()
    config = UpConfig(fleet=60, tenancy=False)
    with orphan(ports["world"]) as world:
        has_begun(home, "world", world.pid)

        with prepared(config, home, SystemClock(), reset=False, usual=ports):
            assert world.wait(PATIENCE_S) == -signal.SIGTERM
            assert not (home / BEGUN).exists()


def test_who_is_nobody_of_ours_is_left_alone_and_told_of(home: Path) -> None:
    home.mkdir()
    ports = free_ports()
    config = UpConfig(fleet=60, tenancy=False)
    with orphan(ports["world"]) as other:
        has_begun(home, "world", other.pid)
        path = home / BEGUN
        path.write_text(path.read_text().replace('"began": "', '"began": "not then but '))

        with pytest.raises(Rejected, match=f"taken by another program: port {ports['world']}"):
            with prepared(config, home, SystemClock(), reset=False, usual=ports):
                raise AssertionError("it was begun")

        assert other.poll() is None
