"""What is wrong with the ground of `mainstay up` is said in one line, before anything starts."""

import errno
import os
import shutil
import socket
from pathlib import Path

import pytest

from mainstay.config.up import UpConfig
from mainstay.model.errors import Rejected, Unavailable
from mainstay.processes.up_ground import (
    DATABASE_BYTES,
    GIVES_NO_MORE,
    OURS,
    ROOM_BYTES,
    free_ports,
    lacking,
    prepared,
)
from mainstay.processes.up_plan import USUAL_PORTS, Stage
from mainstay.runtime.clock import SystemClock

CONFIG = UpConfig(fleet=120, free_ports=True, tenancy=False)


def refused(home: Path) -> str:
    """What is said instead of a start."""
    with pytest.raises(Rejected) as told, prepared(CONFIG, home, SystemClock(), reset=False):
        raise AssertionError("it was begun")
    assert "\n" not in told.value.message
    return told.value.message


def test_a_home_is_ours_while_it_is_used_and_then_anybodys(tmp_path: Path) -> None:
    with prepared(CONFIG, tmp_path, SystemClock(), reset=False) as stage:
        assert (tmp_path / "pki" / "ca.crt").exists()
        assert stage.ports.keys() == USUAL_PORTS.keys()
        assert "runs in" in refused(tmp_path)

    with prepared(CONFIG, tmp_path, SystemClock(), reset=False):
        pass


def test_a_full_disk_is_one_clear_line(tmp_path: Path) -> None:
    """`/dev/full` takes everything and keeps nothing, as a disk without room does."""
    with pytest.raises(Rejected) as told, prepared(CONFIG, tmp_path, SystemClock(), reset=False):
        Path("/dev/full").write_text("what a process would log")

    assert told.value.message.startswith(f"cannot write {tmp_path}: No space left on device;")
    assert "MAINSTAY_HOME" in told.value.message


def test_a_disk_with_little_room_is_refused_before_it_is_full(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    alone, both = ROOM_BYTES, ROOM_BYTES + DATABASE_BYTES
    stages = [Stage(UpConfig(tenancy=tenancy), tmp_path, {}) for tenancy in (False, True)]

    assert [bool(lacking(stage)) for stage in stages] == [free < alone, free < both]
    assert lacking(stages[1], free=lambda _: both - 1) == (
        f"{(both - 1) >> 20} MB are free at {tmp_path} and {both >> 20} MB are needed"
    )
    assert lacking(stages[0], free=lambda _: both - 1) == ""


def test_a_missing_right_is_one_clear_line() -> None:
    """Nobody makes folders in `/sys`, not even root."""
    told = refused(Path("/sys/mainstay-home"))

    assert told.startswith("cannot use /sys/mainstay-home: ")
    assert "MAINSTAY_HOME" in told


def test_a_folder_that_is_a_file_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    assert "Not a directory" in refused(tmp_path / "file" / "home")


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE])
def test_a_system_that_gives_no_more_is_one_clear_line(tmp_path: Path, number: int) -> None:
    with pytest.raises(Unavailable) as told, prepared(CONFIG, tmp_path, SystemClock(), reset=False):
        raise OSError(number, os.strerror(number))

    assert told.value.message == f"the system gives no more: {os.strerror(number)}"
    assert told.value.what_to_do == GIVES_NO_MORE


def test_an_error_that_is_not_the_disks_is_not_hidden(tmp_path: Path) -> None:
    with (
        pytest.raises(OSError, match="no such device"),
        prepared(CONFIG, tmp_path, SystemClock(), reset=False),
    ):
        raise OSError(errno.ENODEV, "no such device")


def test_taken_ports_are_told_together(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = int(taken.getsockname()[1])
        config = UpConfig(fleet=120, tenancy=False)
        usual = {**free_ports(), "world": port, "coordinator": port}
        with (
            pytest.raises(Rejected) as told,
            prepared(config, tmp_path, SystemClock(), reset=False, usual=usual),
        ):
            raise AssertionError("it was begun")

    assert told.value.message == (
        f"taken by another program: port {port} (world), {port} (coordinator); "
        "stop it, or give --free-ports (`make up UP_FLAGS=--free-ports`)"
    )


def test_a_page_for_others_needs_a_certificate(tmp_path: Path) -> None:
    """And who forgets it has lost nothing."""
    config = UpConfig(fleet=120, free_ports=True, tenancy=False, page="0.0.0.0:8700")
    (tmp_path / "coordinator.db").write_text("kept")
    with (
        pytest.raises(Rejected) as told,
        prepared(config, tmp_path, SystemClock(), reset=True),
    ):
        raise AssertionError("it was begun")
    assert (tmp_path / "coordinator.db").read_text() == "kept"

    assert told.value.message == (
        "the page is on loopback only without a certificate, not at 0.0.0.0:8700:"
        " give --page-cert and --page-key"
    )


def test_a_page_must_be_where_nobody_is(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = int(taken.getsockname()[1])
        usual = free_ports()
        for at, why in (
            (f"127.0.0.1:{port}", "taken, or no address of ours"),
            (f"127.0.0.1:{usual['api']}", f"port {usual['api']} is for api"),
            (f"[::1]:{usual['api']}", f"port {usual['api']} is for api"),
        ):
            config = UpConfig(fleet=120, tenancy=False, page=at)
            with (
                pytest.raises(Rejected) as told,
                prepared(config, tmp_path, SystemClock(), reset=False, usual=usual),
            ):
                raise AssertionError("it was begun")
            assert told.value.message == f"the page cannot be at {at}: {why}; give another"


def test_free_ports_are_all_different_and_those_of_the_world_follow_each_other() -> None:
    ports = free_ports()

    assert len(set(ports.values())) == len(ports) == len(USUAL_PORTS)
    assert [ports[name] - ports["world"] for name in ("world-1", "world-2")] == [1, 2]


def test_reset_removes_what_is_ours_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    (tmp_path / "mainstay.toml").write_text("")
    for name in OURS:
        (tmp_path / name).write_text("go")

    with prepared(CONFIG, tmp_path, SystemClock(), reset=True):
        pass

    made = {"pki", "up.lock"}
    assert {path.name for path in tmp_path.iterdir()} == {"mine.txt", "mainstay.toml", *made}
