"""Rows on stdout, as the reader asked for them: `-o table|wide|json|yaml|name`."""

import json
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated

import typer


class Format(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    WIDE = "wide"
    """A table with every column there is."""

    JSON = "json"
    YAML = "yaml"
    NAME = "name"
    """One a line: what other commands take for it."""


OutputOption = Annotated[Format, typer.Option("--output", "-o", help="How to print the answer.")]

Row = Mapping[str, object]


def write(rows: Sequence[Row], output: Format) -> None:
    """Print `rows`; the keys of the first are the columns, its first value is its name."""
    match output:
        case Format.TABLE | Format.WIDE:
            _write_table(rows)
        case Format.JSON:
            sys.stdout.write(json.dumps([dict(row) for row in rows], indent=2) + "\n")
        case Format.YAML:
            import yaml

            sys.stdout.write(yaml.safe_dump([dict(row) for row in rows], sort_keys=False))
        case Format.NAME:
            sys.stdout.writelines(f"{next(iter(row.values()), '')}\n" for row in rows)


def tell(found: Row, line: str, output: Format) -> None:
    """What a verb has made or changed: one line, unless data was asked for."""
    if output in {Format.JSON, Format.YAML}:
        write([found], output)
    else:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def tell_each(found: Sequence[tuple[Row, str]], output: Format) -> None:
    """The same of several: a sentence each, unless data or names were asked for."""
    if output in {Format.TABLE, Format.WIDE}:
        sys.stdout.writelines(f"{sentence}\n" for _, sentence in found)
    else:
        write([row for row, _ in found], output)


def not_by_name(form: Format) -> None:
    """Refuse `-o name` for what is no list of things."""
    if form is Format.NAME:
        raise typer.BadParameter("this answer is no list of names: take -o table, json or yaml")


def _write_table(rows: Sequence[Row]) -> None:
    if not rows:
        sys.stdout.write("(nothing)\n")
        return
    header = [name.upper().replace("_", " ") for name in rows[0]]
    body = [[_cell(value) for value in row.values()] for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *body, strict=True)]
    for cells in [header, *body]:
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        sys.stdout.write("   ".join(padded).rstrip() + "\n")


def _cell(value: object) -> str:
    return "-" if value is None or value == "" else str(value)
