"""Rows on stdout as they come in, for answers that may be long."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mainstay.cli.output import Format

GAP: Final = "   "


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    name: str
    value: Callable[[Any], object]
    wide: bool = False
    """Shown with `-o wide` only."""


class RowStream:
    """Writes rows as a table, or as data. A table is as wide as its first rows make it."""

    def __init__(self, columns: Sequence[Column], form: Format, name: Callable[[Any], str]) -> None:
        """`name` is what a row is called, for whoever wants nothing else of it."""
        self._columns = [each for each in columns if form is Format.WIDE or not each.wide]
        self._form, self._name = form, name
        self._widths: list[int] = []
        self._written = 0

    def write(self, rows: Sequence[Any], data: Callable[[Any], Mapping[str, object]]) -> None:
        """Some more rows; `data` makes of one what JSON and YAML hold."""
        if not rows:
            return
        match self._form:
            case Format.JSON:
                self._write_json([data(row) for row in rows])
            case Format.YAML:
                import yaml

                plain = [dict(data(row)) for row in rows]
                sys.stdout.write(yaml.safe_dump(plain, sort_keys=False))
            case Format.NAME:
                sys.stdout.writelines(cell(self._name(row)) + "\n" for row in rows)
            case Format.TABLE | Format.WIDE:
                self._write_table(rows)
        self._written += len(rows)

    def close(self) -> None:
        """No more rows come."""
        if self._form is Format.JSON:
            sys.stdout.write("\n]\n" if self._written else "[]\n")
        elif not self._written and self._form is not Format.NAME:
            sys.stdout.write("[]\n" if self._form is Format.YAML else "(nothing)\n")

    def _write_json(self, rows: Sequence[Mapping[str, object]]) -> None:
        for place, row in enumerate(rows):
            first = not self._written and not place
            text = json.dumps(dict(row), indent=2).replace("\n", "\n  ")
            sys.stdout.write(("[\n  " if first else ",\n  ") + text)

    def _write_table(self, rows: Sequence[Any]) -> None:
        lines = [[cell(column.value(row)) for column in self._columns] for row in rows]
        if not self._written:
            header = [column.name.upper() for column in self._columns]
            lines = [header, *lines]
            self._widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
        for cells in lines:
            padded = (cell.ljust(width) for cell, width in zip(cells, self._widths, strict=True))
            sys.stdout.write(GAP.join(padded).rstrip() + "\n")


def cell(value: object) -> str:
    """What is shown of a value, in one line that a terminal can take."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = "" if value is None else " ".join(str(value).split())
    return "".join(each if each.isprintable() else "?" for each in text) or "-"
