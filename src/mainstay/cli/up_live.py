"""The start of `mainstay up` on a terminal: a row for each process, changed in place."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text
from typing_extensions import override

from mainstay.processes.up_told import Progress, Standing

STYLES: Final = {
    Progress.WAITING: "dim",
    Progress.STARTING: "yellow",
    Progress.READY: "green",
}


class OnTerminal(AbstractContextManager["OnTerminal"]):
    """Draws while something starts; when all are ready, the rows stay and lines go below them."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=8)

    @override
    def __enter__(self) -> Self:
        return self

    @override
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def say(self, line: str) -> None:
        """Above the rows while they are drawn."""
        self._console.print(Text(line), soft_wrap=True)

    def show(self, standings: Sequence[Standing]) -> None:
        """All rows as they are now."""
        done = all(each.progress is Progress.READY for each in standings)
        if done and not self._live.is_started:
            return
        self._live.start()
        self._live.update(drawn(standings), refresh=done)
        if done:
            self._live.stop()


def drawn(standings: Sequence[Standing]) -> Table:
    """A row for each."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 2))
    table.add_column(min_width=12)
    table.add_column(min_width=8)
    table.add_column(justify="right", min_width=7)
    for each in standings:
        waits = each.progress is Progress.WAITING
        seconds = "" if waits else f"{each.seconds:.1f} s"
        table.add_row(each.name, Text(each.progress, STYLES[each.progress]), seconds)
    return table


def on_terminal(console: Console) -> OnTerminal | None:
    """None where nothing can be drawn over; with NO_COLOR rows are drawn, without colour."""
    if not console.is_terminal or console.is_dumb_terminal:
        return None
    return OnTerminal(console)
