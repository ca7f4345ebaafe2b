"""Long work on a terminal: a bar, the time, and what was done last; elsewhere nothing is drawn."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from mainstay.runtime.clock import Clock, SystemClock

WIDTH: Final = 20
TEXT_MAX: Final = 60


class Bar:
    """One line that is drawn again with each thing that is done."""

    def __init__(self, stream: TextIO, clock: Clock, total: int = 0) -> None:
        """`total` is how many things there are to do; 0: nobody knows."""
        self._stream, self._clock, self._total = stream, clock, total
        self._begun_s = clock.elapsed_s()
        self._done = 0

    def done(self, line: str) -> None:
        """One more of them."""
        self._done += 1
        self.say(line)

    def say(self, line: str) -> None:
        """What goes on now."""
        self._stream.write(f"\r\x1b[2K{self.drawn(line)}")
        self._stream.flush()

    def drawn(self, line: str) -> str:
        """The line as it is shown."""
        seconds = int(self._clock.elapsed_s() - self._begun_s)
        time = f"{seconds // 60}:{seconds % 60:02}"
        said = "".join(each if each.isprintable() else "?" for each in line)[:TEXT_MAX]
        if not self._total:
            return f"{time}  {said}"
        done = min(self._done, self._total)
        filled = WIDTH * done // self._total
        bar = "#" * filled + "." * (WIDTH - filled)
        return f"[{bar}] {done}/{self._total}  {time}  {said}"

    def close(self) -> None:
        """Leave the line to whoever writes next."""
        self._stream.write("\r\x1b[2K")
        self._stream.flush()


class Lines:
    """The same as plain lines, for files, pipes and whoever wants no drawing."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def done(self, line: str) -> None:
        """One more of them."""
        self.say(line)

    def say(self, line: str) -> None:
        """What goes on now."""
        self._stream.write(line + "\n")

    def close(self) -> None:
        """Nothing is left open."""


def draws(stream: TextIO) -> bool:
    """Whether a line may be drawn over: on a terminal that can. NO_COLOR is about colour alone."""
    from rich.console import Console

    console = Console(file=stream)
    return console.is_terminal and not console.is_dumb_terminal


def begun(total: int = 0) -> Bar | Lines:
    """On stderr; whoever begins it closes it."""
    stream = sys.stderr
    return Bar(stream, SystemClock(), total) if draws(stream) else Lines(stream)


@contextmanager
def progress(total: int = 0) -> Iterator[Bar | Lines]:
    """On stderr, for as long as the work lasts."""
    shown = begun(total)
    try:
        yield shown
    finally:
        shown.close()
