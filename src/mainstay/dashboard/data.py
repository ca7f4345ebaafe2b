"""The rows of a list as data: those that the page shows, for whoever may see the page."""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from enum import IntEnum
from typing import Any, Final

from mainstay.dashboard.html import Html, address, h, link

AS: Final = "as"
KINDS: Final[Mapping[str, str]] = {
    "json": "application/json", "csv": "text/csv; charset=utf-8",
}  # fmt: skip

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""How a cell begins that a spreadsheet would compute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """A page of rows."""

    rows: Sequence[Mapping[str, Any]]
    after: str = ""
    """Where it goes on, as the address says it; empty: it is the last page."""


def data_of(rows: Iterable[tuple[str, Any]], after: str) -> Data:
    """Rows of shards, each with the shard that told it."""
    return Data(rows=[{"shard": shard, **_fields(row)} for shard, row in rows], after=after)


def _fields(row: Any) -> dict[str, Any]:
    assert is_dataclass(row)
    assert not isinstance(row, type)
    return {
        name: str(value) if isinstance(value, IntEnum) else value
        for name, value in asdict(row).items()
    }


def written(data: Data, kind: str, stale: Mapping[str, str]) -> str:
    """As JSON with what is stale and why, or as CSV."""
    if kind == "json":
        told = {"rows": data.rows, "after": data.after, "stale": stale}
        return json.dumps(told, indent=1, default=str) + "\n"
    text = io.StringIO()
    names = list(data.rows[0]) if data.rows else []
    lines = csv.writer(text)
    lines.writerow(names)
    lines.writerows([_cell(row[name]) for name in names] for row in data.rows)
    return text.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(value, default=str)
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value


def ways(path: str, query: Mapping[str, str]) -> Html:
    """Links to the same rows as data."""
    made = [
        link(f"as {kind.upper()}", address(path, **{**query, AS: kind}), id=f"as-{kind}")
        for kind in KINDS
    ]
    return h("p", "The same rows ", *(child for each in made for child in (each, " ")),
             class_="note")  # fmt: skip
