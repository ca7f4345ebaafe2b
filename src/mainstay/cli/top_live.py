"""`mainstay top` on a terminal: one picture that is drawn again in place, and keys to change it."""

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from mainstay.cli.top_views import LISTS, Fleet, Page, View, numbers_of
from mainstay.model.errors import MainstayError

OVERVIEW: Final = "o"
QUIT: Final = frozenset({"q", "\x03", "\x04"})
UP: Final = frozenset({"\x1b[A", "K"})
DOWN: Final = frozenset({"\x1b[B", "J"})
PAGE_UP: Final = frozenset({"\x1b[5~", "b"})
PAGE_DOWN: Final = frozenset({"\x1b[6~", " "})
FASTEST_S, SLOWEST_S = 0.5, 60.0
FURNITURE: Final = 4
"""Lines of heading, header and foot."""

BAD: Final = ("lost", "failed", "gone", "starved", "impossible", "no supply", "preemption")
ALERTS: Final = ("NOT ACTING", "not reachable")


@dataclass(slots=True)
class Sight:
    """What is on the screen, and how it is looked at."""

    key: str = OVERVIEW
    page: Page = field(default_factory=Page)
    text: str = "asking ..."
    scroll: int = 0
    interval_s: float = 2.0
    frozen: bool = False

    def press(self, key: str, height: int) -> bool:
        """What a key does; False when it ends the program."""
        if key in QUIT:
            return False
        if key in {OVERVIEW, *(view.key for view in LISTS)}:
            self.key, self.page, self.scroll, self.text = key, Page(), 0, "asking ..."
        elif key in UP | PAGE_UP:
            self.scroll = max(0, self.scroll - (height if key in PAGE_UP else 1))
        elif key in DOWN | PAGE_DOWN:
            self.scroll += height if key in PAGE_DOWN else 1
        elif key in {"+", "="}:
            self.interval_s = max(FASTEST_S, self.interval_s / 2)
        elif key == "-":
            self.interval_s = min(SLOWEST_S, self.interval_s * 2)
        elif key == "f":
            self.frozen = not self.frozen
        return True

    @property
    def view(self) -> View | None:
        """The list that is shown; None for the overview."""
        return next((view for view in LISTS if view.key == self.key), None)


def picture(sight: Sight, fleet: Fleet, clock: str, height: int) -> RenderableType:
    """The whole screen, cut to its height."""
    name = "overview" if sight.view is None else sight.view.name
    pace = "frozen" if sight.frozen else f"every {sight.interval_s:g} s"
    shards = len(fleet.shards)
    head = Text(f"mainstay top  {name}  ", style="bold", no_wrap=True)
    head.append(f"{shards} shard{'' if shards == 1 else 's'}  {pace}  {clock}", style="dim")
    room = max(1, height - FURNITURE)
    body = _lines(sight, room) if sight.view is None else _table(sight, room)
    return Group(head, Text(), body, _keys(sight))


def _lines(sight: Sight, room: int) -> RenderableType:
    lines = sight.text.splitlines()
    sight.scroll = max(0, min(sight.scroll, len(lines) - room))
    shown = lines[sight.scroll : sight.scroll + room]
    return Group(*(Text(line, style=_style(line), no_wrap=True) for line in shown))


def _style(line: str) -> str:
    if line.startswith(ALERTS):
        return "bold red"
    if line.startswith("Shard "):
        return "bold"
    return "red" if line.startswith("provider") and any(bad in line for bad in BAD) else ""


def _table(sight: Sight, room: int) -> RenderableType:
    page = sight.page
    notes = [Text(each, no_wrap=True) for each in page.notes]
    notes += [Text(f"not reachable: {each}", style="bold red", no_wrap=True)
              for each in page.missing]  # fmt: skip
    if not page.rows:
        return Group(*notes, Text("nothing" if sight.text != "asking ..." else sight.text))
    room = max(1, room - len(notes))
    sight.scroll = max(0, min(sight.scroll, len(page.rows) - room))
    table = Table(box=None, pad_edge=False, expand=False, header_style="bold")
    for name in page.rows[0]:
        table.add_column(name.upper(), no_wrap=True, overflow="ellipsis")
    for row in page.rows[sight.scroll : sight.scroll + room]:
        cells = (Text("".join(c if c.isprintable() else "?" for c in v)) for v in row.values())
        style = "red" if any(bad in value for value in row.values() for bad in BAD) else ""
        table.add_row(*cells, style=style)
    return Group(*notes, table)


def _keys(sight: Sight) -> Text:
    foot = Text(no_wrap=True, overflow="ellipsis")
    for key, name in ((OVERVIEW, "overview"), *((view.key, view.name) for view in LISTS)):
        foot.append(f"{key} ", style="bold")
        foot.append(f"{name}  ", style="reverse" if key == sight.key else "dim")
    rows = f"{numbers_of(sight.page.rows)} rows  " if sight.view is not None else ""
    foot.append(f"{rows}f freeze  +/- pace  arrows scroll  q quit", style="dim")
    return foot


@contextmanager
def _keys_at_once(fd: int) -> Iterator[None]:
    """Keys come as they are pressed; the terminal is as before at the end, whatever happens."""
    if not os.isatty(fd):
        yield
        return
    before = termios.tcgetattr(fd)
    try:
        tty.setcbreak(fd)
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


async def watch(
    fleet: Fleet,
    interval_s: float,
    overview: Callable[[], Awaitable[str]],
    now_s: Callable[[], float],
) -> None:
    """Draw until somebody quits. What is slow to answer does not hold up a key."""
    console, fd = Console(), sys.stdin.fileno()
    sight, pressed = Sight(interval_s=interval_s), asyncio.Event()
    ended = asyncio.Event()
    with _keys_at_once(fd), Live(console=console, screen=True, auto_refresh=False) as live:

        def draw() -> None:
            live.update(picture(sight, fleet, _clock(now_s()), console.height), refresh=True)

        def read() -> None:
            keys = os.read(fd, 64).decode(errors="replace")
            going = all(sight.press(key, console.height) for key in split_keys(keys))
            if not keys or not going:
                ended.set()
            pressed.set()
            draw()

        loop = asyncio.get_running_loop()
        if os.isatty(fd):
            loop.add_reader(fd, read)
        loop.add_signal_handler(signal.SIGWINCH, draw)
        try:
            while not ended.is_set():
                pressed.clear()
                draw()
                if not sight.frozen:
                    await _look(sight, fleet, overview, now_s())
                    draw()
                with suppress(TimeoutError):
                    await asyncio.wait_for(pressed.wait(), sight.interval_s)
        finally:
            loop.remove_signal_handler(signal.SIGWINCH)
            loop.remove_reader(fd)


async def _look(
    sight: Sight, fleet: Fleet, overview: Callable[[], Awaitable[str]], now_s: float
) -> None:
    """Ask for what is shown; what arrives for a view that was left is dropped."""
    key, view = sight.key, sight.view
    try:
        page, text = (Page(), await overview()) if view is None else (
            await view.look(fleet, now_s), ""
        )  # fmt: skip
    except MainstayError as error:
        page, text = Page(missing=(error.message,)), f"{error.message}: {error.what_to_do}"
    if sight.key == key:
        sight.page, sight.text = page, text


def split_keys(pressed: str) -> list[str]:
    """Keys that came together, one by one; an arrow is one key."""
    found, at = [], 0
    while at < len(pressed):
        long = next((k for k in UP | DOWN | PAGE_UP | PAGE_DOWN
                     if len(k) > 1 and pressed.startswith(k, at)), pressed[at])  # fmt: skip
        found.append(long)
        at += len(long)
    return found


def _clock(now_s: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(now_s, UTC).strftime("%H:%M:%S UTC")
