"""How every list is printed: as a table, as data or as names, in an order, once or watched."""

import json
import math
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import typer

from mainstay.cli import exits
from mainstay.cli.options import Option
from mainstay.cli.output import Format
from mainstay.cli.streaming import Column, RowStream, cell
from mainstay.model.errors import MainstayError, Unavailable

WATCH_S: Final = 2.0
WIPED: Final = "\x1b[H\x1b[2J"

OUTPUT: Final = Option("form", Format, "How to print the answer.", Format.TABLE, ("--output", "-o"))
WATCH: Final = Option(
    "watch", bool, "Ask again every two seconds, until Ctrl-C; into a pipe: what changes.",
    False, ("--watch", "-w"),
)  # fmt: skip
SORT: Final = Option(
    "sort_by", str, "By this column of the table; with - before it, the largest first.", "",
    ("--sort-by",),
)  # fmt: skip
PRINTED: Final = (OUTPUT, WATCH, SORT)
"""The options of every list."""

NO_NEWS: Final = frozenset({"place", "age", "at_s"})
"""What changes with every look and is no news."""

_NUMBER: Final = re.compile(r"(-?)\$?([0-9][0-9,]*(?:\.[0-9]+)?)([smhd]?)")
_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows of one kind: how they are shown, and what each is called."""

    columns: tuple[Column, ...]
    name: Callable[[Any], str]
    """As other commands take it."""

    data: Callable[[Any], Mapping[str, object]]
    """What JSON and YAML hold."""

    identity: Callable[[Any], object] | None = None
    """What a row keeps while it changes; without it, its name."""


@dataclass(frozen=True, slots=True)
class Order:
    """By what a column shows: numbers and times by their size, everything else as text."""

    column: Column
    largest_first: bool

    def sorted(self, rows: Sequence[Any]) -> list[Any]:
        """Cells without anything come last."""
        keyed = [(cell(self.column.value(row)), row) for row in rows]
        there = [each for each in keyed if each[0] != "-"]
        there.sort(key=lambda each: _size(each[0]), reverse=self.largest_first)
        return [row for _, row in there] + [row for text, row in keyed if text == "-"]


def order(listing: Listing, said: str) -> Order | None:
    """What `--sort-by` means; a column that there is not is wrong usage."""
    if not said:
        return None
    wanted = _plain(said.removeprefix("-"))
    for column in listing.columns:
        if _plain(column.name) == wanted:
            return Order(column, said.startswith("-"))
    names = ", ".join(_plain(column.name) for column in listing.columns)
    raise typer.BadParameter(f"no such column: {said[:80]} (one of {names})")


def _plain(name: str) -> str:
    return name.lower().replace(" ", "-").replace("_", "-")


def _size(text: str) -> tuple[int, float, str]:
    found = _NUMBER.fullmatch(text)
    if found is None:
        return 1, 0.0, text
    sign, digits, unit = found.groups()
    size = float(digits.replace(",", "")) * _SECONDS[unit]
    return 0, -size if sign else size, text


@dataclass(slots=True)
class Printer:
    """Where a look writes its rows; the same one for all looks of a command that watches."""

    listing: Listing
    form: Format
    sort_by: str = ""
    limit: int = 0
    watch: bool = False
    _order: Order | None = None
    _stream: RowStream | None = None
    _held: list[Any] = field(default_factory=list)
    _seen: int = 0
    _changes: "Changes | None" = None
    _remarked: set[str] = field(default_factory=set)
    _silent: float | None = None
    """How many did not answer the last look, inf if nobody did; None before the first."""

    def __post_init__(self) -> None:
        self._order = order(self.listing, self.sort_by)
        if self.watch and not sys.stdout.isatty():
            self._changes = Changes(self.listing, self.form)

    @classmethod
    def of(cls, listing: Listing, given: Mapping[str, Any]) -> "Printer":
        """By the options of a list."""
        return cls(
            listing, given["form"], given["sort_by"], given.get("limit", 0), given["watch"]
        )  # fmt: skip

    @property
    def asks_all(self) -> bool:
        """Whether the first rows alone would not do: whoever sorts sees all."""
        return self._order is not None

    def write(self, rows: Sequence[Any]) -> None:
        """Some more rows of this look."""
        self._seen += len(rows)
        if self._order is None and self._changes is None:
            self._begun().write(rows, self.listing.data)
            return
        self._held += rows
        if self._order is not None and self.limit and len(self._held) > 10 * self.limit:
            self._held = self._order.sorted(self._held)[: self.limit]

    def close(self) -> None:
        """This look is over."""
        rows, self._held, seen, self._seen = self._held, [], self._seen, 0
        if self._order is not None:
            rows = self._order.sorted(rows)
            rows = rows[: self.limit] if self.limit else rows
        if self._changes is not None:
            self._changes.write(rows)
            return
        if rows:
            self._begun().write(rows, self.listing.data)
        self._begun().close()
        self._stream = None
        if self._order is not None and len(rows) < seen:
            more = f"{seen - len(rows):,} more of {seen:,} are not shown"
            self.remark(f"{more}; raise --limit, 0 shows all.")

    def remark(self, line: str) -> None:
        """What is to be known beside the rows: on stderr; into a pipe each is said once."""
        if self._changes is None or line not in self._remarked:
            self._remarked.add(line)
            sys.stderr.write(line + "\n")

    def missing(self, what: str, names: Sequence[str], seen: Sequence[str], nouns: str) -> int:
        """A name that nothing has is told of; 0 when there is none."""
        unknown = [name for name in dict.fromkeys(names) if name not in set(seen)]
        for name in unknown:
            exits.complain(f"no {what} {name[:80]}", f"`mainstay get {nouns}` lists them")
        return exits.FAILED if unknown else exits.DONE

    def answered(self, missing: Sequence[MainstayError]) -> int:
        """How a look ended in which these did not answer; into a pipe that is told as it begins."""
        if self._changes is None or len(missing) > (self._silent or 0):
            for error in missing:
                exits.tell(error)
        self._silent = len(missing)
        return exits.code_for(missing[0]) if missing else exits.DONE

    def repeat(self, once: Callable[[], int]) -> int:
        """Once, or again and again; a terminal is wiped in between.

        Whoever watches sees an outage through: only the first look fails for it.
        """
        if not self.watch:
            return once()
        try:
            while True:
                if self._changes is None:
                    sys.stdout.write(WIPED)
                self._look(once)
                sys.stdout.flush()
                time.sleep(WATCH_S)
        except KeyboardInterrupt:
            return exits.DONE

    def _look(self, once: Callable[[], int]) -> None:
        try:
            once()
        except Unavailable as error:
            if self._silent is None:
                raise
            self._held, self._seen, self._stream = [], 0, None
            if self._changes is None or self._silent < math.inf:
                exits.tell(error)
            self._silent = math.inf
        else:
            self._silent = 0 if self._silent in {None, math.inf} else self._silent

    def _begun(self) -> RowStream:
        if self._stream is None:
            self._stream = RowStream(self.listing.columns, self.form, self.listing.name)
        return self._stream


class Changes:
    """A watched list as lines: all rows of the first look, then each that is new, changed, gone."""

    def __init__(self, listing: Listing, form: Format) -> None:
        self._listing, self._form = listing, form
        mark = Column("change", lambda each: each[0])
        own = [Column(each.name, _of_changed(each), each.wide) for each in listing.columns]
        self._table = RowStream([*own, mark], form, lambda each: listing.name(each[1]))
        self._known: dict[object, tuple[Any, Mapping[str, object]]] | None = None

    def write(self, rows: Sequence[Any]) -> None:
        """What differs from the look before."""
        identity = self._listing.identity or self._listing.name
        now = {identity(row): (row, _news(self._listing.data(row))) for row in rows}
        told: list[tuple[str, Any]]
        if self._known is None:
            told = [("", row) for row, _ in now.values()]
        else:
            known = self._known
            told = [
                ("changed" if name in known else "new", row)
                for name, (row, news) in now.items()
                if name not in known or known[name][1] != news
            ]
            told += [("gone", row) for name, (row, _) in known.items() if name not in now]
        self._known = now
        self._write(told)

    def _write(self, told: Sequence[tuple[str, Any]]) -> None:
        match self._form:
            case Format.JSON:
                for change, row in told:
                    said = {**self._listing.data(row), "change": change}
                    sys.stdout.write(json.dumps(said) + "\n")
            case Format.YAML:
                import yaml

                for change, row in told:
                    said = {**self._listing.data(row), "change": change}
                    sys.stdout.write(yaml.safe_dump(said, sort_keys=False, explicit_start=True))
            case _:
                self._table.write(told, lambda each: self._listing.data(each[1]))


def _of_changed(column: Column) -> Callable[[tuple[str, Any]], object]:
    return lambda changed: column.value(changed[1])


def _news(data: Mapping[str, object]) -> Mapping[str, object]:
    return {name: value for name, value in data.items() if name not in NO_NEWS}
