"""What `mainstay up` tells while it starts, in lines and on a terminal."""

import io

import pytest
from rich.console import Console

from mainstay.cli.up_live import OnTerminal, drawn, on_terminal
from mainstay.processes.up_told import Lines, Progress, Standing

STARTING = [
    Standing("world", Progress.READY, 1.25),
    Standing("shard-a", Progress.STARTING, 0.5),
    Standing("tenancy", Progress.WAITING),
]
DONE = [Standing(each.name, Progress.READY, 2.0) for each in STARTING]


def test_a_line_is_written_when_a_process_is_ready_and_only_then() -> None:
    lines: list[str] = []
    voice = Lines(lines.append)

    voice.show(STARTING)
    voice.show(STARTING)
    voice.say("a word")
    voice.show(DONE)

    assert lines == [
        "  world        ready after  1.2 s",
        "a word",
        "  shard-a      ready after  2.0 s",
        "  tenancy      ready after  2.0 s",
    ]


def test_a_terminal_shows_every_process_with_its_state_and_its_seconds() -> None:
    written = io.StringIO()
    Console(file=written, width=60).print(drawn(STARTING))

    assert [line.split() for line in written.getvalue().splitlines()] == [
        ["world", "ready", "1.2", "s"],
        ["shard-a", "starting", "0.5", "s"],
        ["tenancy", "waiting"],
    ]


def test_rows_stay_on_the_terminal_and_lines_go_below_them() -> None:
    written = io.StringIO()
    console = Console(file=written, width=60, force_terminal=True, color_system=None)
    with OnTerminal(console) as voice:
        voice.show(STARTING)
        voice.show(DONE)
        voice.show(DONE)
        voice.say("The first node serves after 2.0 s.")

    last = written.getvalue().rpartition("world")[2]
    assert last.count("ready") == 3
    assert last.rstrip().endswith("The first node serves after 2.0 s.")


def test_a_start_that_is_broken_off_gives_the_terminal_back() -> None:
    written = io.StringIO()
    console = Console(file=written, width=60, force_terminal=True, color_system=None)
    with OnTerminal(console) as voice:
        voice.show(STARTING)

    assert written.getvalue().rstrip().endswith("\x1b[?25h")


@pytest.mark.parametrize(
    ("console", "is_drawn"),
    [
        (Console(file=io.StringIO(), force_terminal=True, no_color=False), True),
        (Console(file=io.StringIO(), force_terminal=True, no_color=True), True),
        (Console(file=io.StringIO()), False),
    ],
    ids=["terminal", "NO_COLOR", "pipe"],
)
def test_only_a_terminal_is_drawn_on_whether_it_may_have_colours_or_not(
    console: Console, is_drawn: bool
) -> None:
    assert (on_terminal(console) is not None) is is_drawn


def test_without_colour_the_rows_are_drawn_without_it() -> None:
    written = {is_plain: io.StringIO() for is_plain in (True, False)}
    for is_plain, file in written.items():
        console = Console(
            file=file, width=60, force_terminal=True, color_system="standard", no_color=is_plain
        )
        with OnTerminal(console) as voice:
            voice.show(STARTING)

    assert "\x1b[33m" in written[False].getvalue()
    assert "\x1b[3" not in written[True].getvalue()
    assert "starting" in written[True].getvalue()
