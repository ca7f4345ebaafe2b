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
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from mainstay.cli import exits
from mainstay.cli.top_views import LISTS, Fleet, Page, Row, View, explained, numbers_of
from mainstay.model.errors import MainstayError
from mainstay.model.questions import Question

OVERVIEW: Final = "o"
QUIT: Final = frozenset({"q", "\x03", "\x04"})
ENTER: Final = frozenset({"\r", "\n"})
ESCAPE: Final = "\x1b"
ERASE: Final = frozenset({"\x7f", "\b"})
UP: Final = frozenset({"\x1b[A", "K"})
DOWN: Final = frozenset({"\x1b[B", "J"})
PAGE_UP: Final = frozenset({"\x1b[5~", "b"})
PAGE_DOWN: Final = frozenset({"\x1b[6~", " "})
FASTEST_S, SLOWEST_S = 0.5, 60.0
PANE_MIN: Final = 3
FURNITURE: Final = 4
"""Lines of heading, help, header and foot."""

ENDS: Final = frozenset({"\x03", "\x04"})
"""These end the program even in the middle of a filter."""

BAD: Final = ("lost", "failed", "gone", "starved", "impossible", "no supply", "preemption")
ALERTS: Final = ("NOT ACTING", "not reachable")


@dataclass(slots=True)
class Sight:
    """What is on the screen, and how it is looked at."""

    key: str = OVERVIEW
    page: Page = field(default_factory=Page)
    text: str = "asking ..."
    scroll: int = 0
    selected: int = 0
    """Which of the rows that the filter lets through."""

    room: int = 1
    """How many rows were shown at last."""

    wanted: str = ""
    """Only rows that have this somewhere, whatever its case."""

    typing: bool = False
    """Keys go to the filter."""

    question: Question | None = None
    """What the pane explains; None: there is no pane."""

    answer: tuple[str, ...] = ()
    interval_s: float = 2.0
    frozen: bool = False

    def press(self, key: str, height: int) -> bool:
        """What a key does; False when it ends the program."""
        if self.typing and key not in ENDS:
            self._type(key)
        elif key in QUIT:
            return False
        elif key in {OVERVIEW, *(view.key for view in LISTS)}:
            self._turn_to(key)
        elif key in UP | PAGE_UP | DOWN | PAGE_DOWN:
            self._move(key, height)
        elif key == "/":
            self.typing, self.wanted = self.view is not None, ""
        elif key in ENTER:
            self._explain()
        elif key == ESCAPE:
            self._close()
        else:
            self._pace(key)
        return True

    def _turn_to(self, key: str) -> None:
        self.key, self.page, self.text = key, Page(), "asking ..."
        self.scroll = self.selected = 0
        self.wanted, self.question = "", None

    def _type(self, key: str) -> None:
        """Into the filter; its first row is selected then."""
        if key in ENTER:
            self.typing = False
        elif key == ESCAPE:
            self.typing, self.wanted = False, ""
        elif key in ERASE:
            self.wanted = self.wanted[:-1]
        elif len(key) == 1 and key.isprintable():
            self.wanted += key
        self.scroll = self.selected = 0

    def _move(self, key: str, height: int) -> None:
        """By a row or a page; a list goes with what is selected, a text has nothing selected."""
        step = height if key in PAGE_UP | PAGE_DOWN else 1
        by = -step if key in UP | PAGE_UP else step
        if self.view is None or step > 1:
            self.scroll = max(0, self.scroll + by)
        self.selected = min(max(0, self.selected + by), max(0, len(self.rows) - 1))
        if self.view is not None and step == 1:
            last = max(self.scroll, self.selected - self.room + 1)
            self.scroll = min(last, self.selected)

    def _explain(self) -> None:
        view, rows = self.view, self.rows
        if view is not None and view.question is not None and rows:
            self.question = view.question(rows[min(self.selected, len(rows) - 1)])
            self.answer = ()

    def _close(self) -> None:
        """The pane if there is one, else the filter."""
        if self.question is None:
            self.wanted = ""
        self.question = None

    def _pace(self, key: str) -> None:
        if key in {"+", "="}:
            self.interval_s = max(FASTEST_S, self.interval_s / 2)
        elif key == "-":
            self.interval_s = min(SLOWEST_S, self.interval_s * 2)
        elif key == "f":
            self.frozen = not self.frozen

    @property
    def rows(self) -> tuple[Row, ...]:
        """Those that the filter lets through."""
        wanted = self.wanted.casefold()
        return tuple(
            row for row in self.page.rows if any(wanted in each.casefold() for each in row.values())
        )

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
    if sight.wanted and not sight.typing:
        head.append(f"only with {sight.wanted!r}  ", style="bold")
    head.append(f"{shards} shard{'' if shards == 1 else 's'}  {pace}  {clock}", style="dim")
    room = max(1, height - FURNITURE)
    pane = room // 2 if sight.question is not None else 0
    body = (
        _lines(sight, room) if sight.view is None else _table(sight, room - pane)
    )  # fmt: skip
    return Group(head, _help(sight), body, *_pane(sight, pane), _views(sight))


def _pane(sight: Sight, lines: int) -> Iterator[RenderableType]:
    """What explains the row that was selected when it was opened."""
    if sight.question is None or lines < PANE_MIN:
        return
    about = sight.question
    name = "/".join(filter(None, (about.name, about.fingerprint, about.group)))
    told = Text(_plain("\n".join(sight.answer) or "asking ..."))
    title = Text(_plain(f"{about.about.name.lower()} {name}"))
    yield Panel(told, title=title, title_align="left", height=lines, padding=(0, 1))


def _plain(text: str) -> str:
    return "".join(each if each.isprintable() or each == "\n" else "?" for each in text)


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
    rows = sight.rows
    if not rows:
        return Group(*notes, Text("nothing" if sight.text != "asking ..." else sight.text))
    room = max(1, room - len(notes))
    if room < sight.room:  # a pane was opened: what is selected stays to be seen
        sight.scroll = max(sight.scroll, sight.selected - room + 1)
    sight.room = room
    sight.scroll = max(0, min(sight.scroll, len(rows) - room))
    last = min(len(rows), sight.scroll + room) - 1
    sight.selected = max(sight.scroll, min(sight.selected, last))
    table = Table(box=None, pad_edge=False, expand=False, header_style="bold")
    for name in rows[0]:
        table.add_column(name.upper(), no_wrap=True, overflow="ellipsis")
    for at, row in enumerate(rows[sight.scroll : sight.scroll + room], start=sight.scroll):
        cells = (Text(_plain(value.replace("\n", "?"))) for value in row.values())
        style = "red" if any(bad in value for value in row.values() for bad in BAD) else ""
        style += " reverse" if at == sight.selected else ""
        table.add_row(*cells, style=style)
    return Group(*notes, table)


def _help(sight: Sight) -> Text:
    """What keys do here; what is typed while a filter is."""
    if sight.typing:
        line = Text(f"/{_plain(sight.wanted)}_  ", style="bold", no_wrap=True, overflow="ellipsis")
        return line.append("Enter keeps it  Esc shows all", style="not bold dim")
    keys = "f freeze  +/- pace  arrows scroll  q quit"
    if sight.view is not None:
        explains = "Enter explain  " if sight.view.question is not None else ""
        keys = f"{numbers_of(sight.rows)} rows  {explains}/ filter  Esc close  {keys}"
    return Text(keys, style="dim", no_wrap=True, overflow="ellipsis")


def _views(sight: Sight) -> Text:
    foot = Text(no_wrap=True, overflow="ellipsis")
    for key, name in ((OVERVIEW, "overview"), *((view.key, view.name) for view in LISTS)):
        foot.append(f"{key} ", style="bold")
        foot.append(f"{name}  ", style="reverse" if key == sight.key else "dim")
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
                await _ask_why(sight, fleet)
                if not sight.frozen:
                    await _look(sight, fleet, overview, now_s())
                    draw()
                with suppress(TimeoutError):
                    await asyncio.wait_for(pressed.wait(), sight.interval_s)
        finally:
            loop.remove_signal_handler(signal.SIGWINCH)
            loop.remove_reader(fd)


async def _ask_why(sight: Sight, fleet: Fleet) -> None:
    """Once for each pane; an answer to a pane that was closed meanwhile is dropped."""
    asked = sight.question
    if asked is not None and not sight.answer:
        told = await explained(fleet, asked)
        if sight.question is asked:
            sight.answer = told or ("nothing is known of it",)


async def _look(
    sight: Sight, fleet: Fleet, overview: Callable[[], Awaitable[str]], now_s: float
) -> None:
    """Ask for what is shown; what arrives for a view that was left is dropped."""
    key, view = sight.key, sight.view
    try:
        page, text = (Page(), await overview()) if view is None else (
            await view.look(fleet, now_s, sight.wanted), ""
        )  # fmt: skip
    except MainstayError as error:
        page, text = Page(missing=(error.message,)), exits.line_of(error)
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
