"""What outlives its supervisor is ended by the next one, and nobody else is touched."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from mainstay.runtime import survivors
from mainstay.runtime.survivors import Survivor

HEEDLESS: Final = (
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True);"
    " signal.pause()"
)
HEEDS: Final = "import signal; print(1, flush=True); signal.pause()"


@contextmanager
def running(program: str = HEEDS) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


def test_those_that_were_noted_and_still_live_are_ended(tmp_path: Path) -> None:
    path = tmp_path / "started.jsonl"
    with running() as first, running(HEEDLESS) as second:
        survivors.note(path, "first", first.pid)
        survivors.note(path, "second", second.pid)
        noted = survivors.noted(path)
        assert [(each.name, each.pid) for each in noted] == [
            ("first", first.pid), ("second", second.pid),
        ]  # fmt: skip
        assert [each.is_alive() for each in noted] == [True, True]

        assert survivors.end(noted[:1]) == []
        assert first.wait(30) == -signal.SIGTERM
        assert noted[1].is_alive()

        survivors.end(noted, patience_s=0.1)
        assert second.wait(30) == -signal.SIGKILL


def test_who_was_given_the_number_of_one_that_was_noted_is_left_alone() -> None:
    with running() as first, running() as other:
        other_s = survivors.began(other.pid)

        assert survivors.end([Survivor("one", first.pid, f"{other_s} or so")]) == []

        assert Survivor("one", first.pid, survivors.began(first.pid)).is_alive()


def test_one_that_is_dead_and_that_nobody_has_waited_for_is_dead() -> None:
    with running() as process:
        survivor = Survivor("one", process.pid, survivors.began(process.pid))
        assert survivor.is_alive()

        os.kill(process.pid, signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

        assert not survivor.is_alive()
        assert survivors.end([survivor]) == []


def test_a_line_that_was_cut_off_and_a_file_that_is_not_there_name_nobody(tmp_path: Path) -> None:
    path = tmp_path / "started.jsonl"
    assert survivors.noted(path) == []
    survivors.note(path, "us", os.getpid())
    with path.open("a") as written:
        written.write('{"name": "torn')

    (us,) = survivors.noted(path)

    assert us == Survivor("us", os.getpid(), survivors.began(os.getpid()))
    assert us.is_alive()
    assert not replace(us, began="").is_alive()
    assert not replace(us, began=f"{us.began}0").is_alive()
