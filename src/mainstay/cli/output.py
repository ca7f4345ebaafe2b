"""Rows on stdout, as the reader asked for them: `-o table|wide|json|yaml`."""

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


OutputOption = Annotated[Format, typer.Option("--output", "-o", help="How to print the answer.")]

Row = Mapping[str, object]


def write(rows: Sequence[Row], output: Format) -> None:
    """Print `rows`; the keys of the first are the columns of the table."""
    match output:
        case Format.TABLE | Format.WIDE:
            _write_table(rows)
        case Format.JSON:
            sys.stdout.write(json.dumps([dict(row) for row in rows], indent=2) + "\n")
        case Format.YAML:
            import yaml

            sys.stdout.write(yaml.safe_dump([dict(row) for row in rows], sort_keys=False))


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
