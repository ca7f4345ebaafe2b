"""Progress of long work: drawn on a terminal, plain lines elsewhere."""

import io
import sys
from typing import Any

import pytest
from typing_extensions import override

from mainstay.cli import progress
from mainstay.cli.progress import TEXT_MAX, Bar, Lines, draws
from mainstay.runtime.clock import StepClock


class Terminal(io.StringIO):
    @override
    def isatty(self) -> bool:
        return True


@pytest.fixture
def capable(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return monkeypatch


def test_a_bar_fills_with_what_is_done() -> None:
    clock = StepClock()
    bar = Bar(Terminal(), clock, 4)
    clock.advance(65)
    bar.done("one")

    assert bar.drawn("kill 1") == "[#####...............] 1/4  1:05  kill 1"


def test_it_is_full_when_all_is_done_and_no_more_after_that() -> None:
    bar = Bar(Terminal(), StepClock(), 1)
    bar.done("one")
    bar.done("two")

    assert bar.drawn("") == "[####################] 1/1  0:00  "


def test_without_a_number_only_the_time_is_told() -> None:
    assert Bar(Terminal(), StepClock()).drawn("explain") == "0:00  explain"


def test_a_line_stays_one_line() -> None:
    drawn = Bar(Terminal(), StepClock()).drawn("a\nb\x1b" + "x" * 200)

    assert drawn == "0:00  " + ("a?b?" + "x" * 200)[:TEXT_MAX]


def test_each_line_is_drawn_over_the_last_and_wiped_at_the_end() -> None:
    terminal = Terminal()
    bar = Bar(terminal, StepClock())
    bar.say("one")
    bar.close()

    assert terminal.getvalue() == "\r\x1b[2K0:00  one\r\x1b[2K"


def test_plain_lines_have_no_control_codes() -> None:
    file = io.StringIO()
    lines = Lines(file)
    lines.say("one")
    lines.done("two")
    lines.close()

    assert file.getvalue() == "one\ntwo\n"


def test_a_terminal_is_drawn_on_and_a_file_is_not(capable: pytest.MonkeyPatch) -> None:
    assert draws(Terminal())
    assert not draws(io.StringIO())


def test_without_colour_a_terminal_is_drawn_on_all_the_same(capable: pytest.MonkeyPatch) -> None:
    capable.setenv("NO_COLOR", "1")

    assert draws(Terminal())


@pytest.mark.parametrize(("name", "value"), [("TERM", "dumb")])
def test_who_wants_no_drawing_gets_lines(
    name: str, value: str, capable: pytest.MonkeyPatch
) -> None:
    capable.setenv(name, value)
    terminal: Any = Terminal()
    capable.setattr(sys, "stderr", terminal)

    with progress.progress(3) as shown:
        shown.done("one")

    assert isinstance(shown, Lines)
    assert terminal.getvalue() == "one\n"
