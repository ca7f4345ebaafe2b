"""`mainstay top` on a real terminal: keys, a smaller window, and the terminal as it was."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import outside
from live_shard import started
from mainstay.cli import exits
from tree import BIN

PATIENCE_S: Final = 60.0
HEAD: Final = "mainstay top"
SMALL: Final = 12
EXPLAINED: Final = "Machine c-003 is "


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """With two shards."""
    folder = tmp_path_factory.mktemp("two")
    processes = [started(folder, "s-1"), started(folder, "s-2")]
    yield folder
    for process in processes:
        process.terminate()
        process.wait()


class Terminal:
    """A terminal with `top` in it."""

    def __init__(self, home: Path) -> None:
        self._ours, self.theirs = pty.openpty()
        self.resize(40, 200)
        self.before = termios.tcgetattr(self.theirs)
        environment = outside.environment(
            MAINSTAY_HOME=str(home), XDG_CONFIG_HOME=str(home), NO_COLOR="1", TERM="xterm"
        )
        for name in ("COLUMNS", "LINES"):  # which would count for more than the window itself
            environment.pop(name, None)
        self.top = subprocess.Popen(
            [str(BIN / "mainstay"), "top"], env=environment,
            stdin=self.theirs, stdout=self.theirs, start_new_session=True,
        )  # fmt: skip
        self.shown = ""

    def resize(self, lines: int, columns: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def press(self, keys: str) -> None:
        self.shown = ""
        os.write(self._ours, keys.encode())

    def until(self, text: str) -> str:
        """All that is shown until a text is; it fails when that takes too long."""
        end = time.monotonic() + PATIENCE_S
        while text not in self.shown:
            assert time.monotonic() < end, self.shown[-2000:]
            self.read()
        return self.shown

    def ended(self) -> int:
        """Its code; what it still draws is read, since it waits for that."""
        end = time.monotonic() + PATIENCE_S
        while self.top.poll() is None and time.monotonic() < end:
            self.read()
        return self.top.wait(timeout=1)

    def read(self) -> None:
        if select.select([self._ours], [], [], 0.5)[0]:
            self.shown += os.read(self._ours, 65536).decode(errors="replace")


@pytest.fixture
def terminal(home: Path) -> Iterator[Terminal]:
    made = Terminal(home)
    yield made
    made.top.kill()
    made.top.wait()


def test_keys_switch_between_views_and_q_leaves_the_terminal_as_it_was(terminal: Terminal) -> None:
    terminal.until("Shard s-2")
    for key, seen in {
        "n": "ASKS FOR", "c": "SESSION", "a": "ACTION", "s": "SHORTFALL", "p": "HEALTH",
        "k": "no coordinator runs here", "t": "no key: ", "o": "spend  ",
    }.items():  # fmt: skip
        terminal.press(key)
        terminal.until(seen)
    terminal.press("q")

    assert terminal.ended() == exits.DONE
    assert termios.tcgetattr(terminal.theirs) == terminal.before
    assert "\x1b[3" not in terminal.shown


def test_a_row_is_found_and_explained_in_a_pane(terminal: Terminal) -> None:
    terminal.until("Shard s-2")
    terminal.press("m")
    terminal.until("c-003")
    terminal.press("/C-003\n")
    terminal.until("only with 'C-003'")
    terminal.press("\n")
    terminal.until("machine c-003 ")
    terminal.until(EXPLAINED)
    terminal.press("\x1b")
    terminal.press("\x1b")
    terminal.until("c-001")
    terminal.press("q")

    assert terminal.ended() == exits.DONE


def test_a_window_that_changes_its_size_is_drawn_again(terminal: Terminal) -> None:
    terminal.until("Shard s-2")
    terminal.press("f")
    terminal.until("frozen")
    terminal.shown = ""
    terminal.resize(SMALL, 90)
    terminal.top.send_signal(signal.SIGWINCH)

    def is_small() -> bool:
        """Of the last picture that is whole."""
        pictures = terminal.shown.split(HEAD)
        return len(pictures) > 2 and "frozen" in pictures[-2] and pictures[-2].count("\n") <= SMALL

    end = time.monotonic() + PATIENCE_S
    while not is_small() and time.monotonic() < end:
        terminal.read()
    assert is_small()
