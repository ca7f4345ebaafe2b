"""What the supervisor of `mainstay up` says of one that dies, and what it does then."""

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from typing_extensions import override

from mainstay.cli.exits import line_of
from mainstay.config.up import UpConfig
from mainstay.processes.up import PAUSE_MAX_S, NotStarted, Supervisor, Watched
from mainstay.processes.up_ground import FULL_BYTES, filled
from mainstay.processes.up_plan import USUAL_PORTS, Part, Stage
from mainstay.processes.up_told import Lines
from mainstay.runtime.children import Child, Children
from mainstay.runtime.clock import StepClock

FULL: Final = Path("/proc")
"""A file system without any room."""

PART: Final = Part("world", ("--version",))


@dataclass(slots=True)
class Scene:
    """A supervisor with one process, which ends by itself each time."""

    children: Children
    said: list[str] = field(default_factory=list)
    clock: StepClock = field(default_factory=StepClock)

    def supervisor_of_none(self, home: Path) -> Supervisor:
        stage = Stage(UpConfig(tenancy=False), home, USUAL_PORTS)
        return Supervisor(stage, self.clock, Lines(self.said.append), self.children, 0.0)

    def supervisor(self, home: Path) -> Supervisor:
        made = self.supervisor_of_none(home)
        child = self.children.command(PART.name, PART.words)
        made.watched.append(Watched(PART, child, self.clock.elapsed_s()))
        return made

    def dies_and_is_started_again(self, supervisor: Supervisor) -> None:
        (watched,) = supervisor.watched
        watched.child.process.wait(60)
        supervisor.look()
        self.clock.advance(PAUSE_MAX_S)
        supervisor.look()


def test_one_that_dies_on_a_full_disk_is_told_once_and_started_again_and_again(
    tmp_path: Path,
) -> None:
    with Children(tmp_path) as children:
        scene = Scene(children)
        supervisor = scene.supervisor(FULL)
        for _ in range(3):
            scene.dies_and_is_started_again(supervisor)

    assert scene.said == [
        "world has died (0): no room on the disk: 0 MB are free below /proc; "
        "make room, and it goes on by itself"
    ]
    assert len([*children]) == 4


def test_one_that_dies_on_a_disk_with_room_is_told_each_time_with_its_log(tmp_path: Path) -> None:
    with Children(tmp_path) as children:
        scene = Scene(children)
        supervisor = scene.supervisor(tmp_path)
        for _ in range(2):
            scene.dies_and_is_started_again(supervisor)

    logs = [child.log for child in children]
    assert scene.said == [
        f"world has died (0), see {logs[0]}: again in 1 s",
        f"world has died (0), see {logs[1]}: again in 2 s",
    ]


def test_a_disk_that_does_not_take_the_log_of_one_is_no_reason_to_end_the_others(
    tmp_path: Path,
) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed" / "log").symlink_to("/sys")  # where nobody can make files
    with Children(tmp_path) as children:
        scene = Scene(children)
        supervisor = scene.supervisor(FULL)
        children.home = tmp_path / "closed"
        scene.dies_and_is_started_again(supervisor)
        assert [each.again_s is None for each in supervisor.watched] == [False]
        children.home = tmp_path
        scene.clock.advance(PAUSE_MAX_S)
        supervisor.look()

        assert [each.again_s is None for each in supervisor.watched] == [True]
        assert len([*children]) == 2
    assert len(scene.said) == 1  # that the disk is full


class Refused(Children):
    """A system that makes no process now, or no file, and does again later."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.refusals: list[OSError] = []

    @override
    def command(self, name: str, words: Sequence[str]) -> Child:
        if self.refusals:
            raise self.refusals.pop()
        return super().command(name, words)


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.EIO])
def test_a_system_that_makes_no_process_now_is_no_reason_to_end_the_others(
    tmp_path: Path, number: int
) -> None:
    """It is told each time, and the process comes when it can."""
    with Refused(tmp_path) as children:
        scene = Scene(children)
        supervisor = scene.supervisor(tmp_path)
        children.refusals = [OSError(number, os.strerror(number))] * 2
        scene.dies_and_is_started_again(supervisor)
        (watched,) = supervisor.watched
        for again in (False, True):
            scene.clock.advance(PAUSE_MAX_S)
            assert watched.again_s is not None
            supervisor.look()
            assert (watched.again_s is None) == again

    assert len([*children]) == 2
    assert scene.said[1:] == [f"world cannot be started: {os.strerror(number)}; again in 30 s"] * 2


class Unmade(Children):
    """A system that makes one process and no more."""

    def __init__(self, home: Path, refusal: OSError) -> None:
        super().__init__(home)
        self._refusal = refusal

    @override
    def command(self, name: str, words: Sequence[str]) -> Child:
        if [*self]:
            raise self._refusal
        return self.program(name, ("/bin/sleep", "600"))


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.EIO])
def test_a_start_for_which_the_system_makes_no_process_is_one_line_and_ends_what_was_begun(
    tmp_path: Path, number: int
) -> None:
    with Unmade(tmp_path, OSError(number, os.strerror(number))) as children:
        supervisor = Scene(children).supervisor_of_none(tmp_path)
        with pytest.raises(NotStarted) as told:
            supervisor.start()

    assert line_of(told.value) == (
        f"world cannot be started: {os.strerror(number)}: end other programs, or let yourself have"
        " more processes, files and memory (`ulimit -a`), and start it again"
    )
    assert [child.is_running for child in children] == [False]


def test_a_disk_that_takes_no_log_is_told_as_such(tmp_path: Path) -> None:
    """Whoever began it all knows what to do about a disk."""
    with Unmade(tmp_path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))) as children:
        supervisor = Scene(children).supervisor_of_none(tmp_path)
        with pytest.raises(OSError, match="No space left"):
            supervisor.start()


def test_a_disk_is_full_when_postgresql_could_take_no_more_from_it() -> None:
    assert filled(FULL, lambda _: FULL_BYTES) == ""
    assert filled(FULL, lambda _: FULL_BYTES - 1) == (
        "no room on the disk: 19 MB are free below /proc"
    )
