"""Lists over several shards, a page at a time.

Each shard is asked for one page and one row behind its own cursor and no more; what was shown of it
moves its cursor on. Cursors are in the address, so a page is a link like any other.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar
from urllib.parse import parse_qsl, urlencode

from mainstay.dashboard.html import EMPTY, Html, address, h, link
from mainstay.dashboard.told import Told

SIZE: Final = 50
"""Rows of a page."""

ASKED: Final = SIZE + 1
"""So many are asked for: the last says whether there is a next page."""

CURSORS_MAX: Final = 4_000
SHARDS_MAX: Final = 200

RowT = TypeVar("RowT")
Cursors = Mapping[str, str]
"""By shard what was shown last of it."""


def cursors_in(text: str) -> Cursors:
    """From the address; what is none is left out."""
    if len(text) > CURSORS_MAX:
        return {}
    try:
        return dict(parse_qsl(text, max_num_fields=SHARDS_MAX))
    except ValueError:
        return {}


@dataclass(frozen=True, slots=True)
class Paged(Generic[RowT]):
    """What is shown, each with its shard, and where to go on; empty: it is the last page."""

    rows: Sequence[tuple[str, RowT]]
    after: str


def merged(
    told: Iterable[Told[Any]],
    order: Callable[[Told[Any], RowT], Any],
    cursor: Callable[[RowT], object],
    before: Cursors,
) -> Paged[RowT]:
    """The first page of what all shards have sent.

    `order` must agree with the order in which one shard tells its rows.
    """
    found: list[tuple[Any, str, RowT]] = [
        (order(each, row), each.source, row)
        for each in told
        if each.value is not None
        for row in each.value.rows
    ]
    found.sort(key=lambda each: each[:2])
    shown = [(source, row) for _, source, row in found[:SIZE]]
    if len(found) <= SIZE:
        return Paged(shown, "")
    after = {**before, **{source: str(cursor(row)) for source, row in shown}}
    return Paged(shown, urlencode(after))


def merged_by_key(
    told: Iterable[Told[Any]], key: Callable[[RowT], str], size: int = SIZE, *, sole: bool = False
) -> Paged[RowT]:
    """The same where the key of a row orders all shards: one cursor does for all of them.

    What two shards have under one key stays on one page; what one told that is silent now does not
    stand beside what one that answers says of the same, if that is `sole`.
    """
    asked = list(told)
    found: list[tuple[str, str, RowT]] = [
        (key(row), each.source, row)
        for each in asked
        if each.value is not None
        for row in each.value.rows
    ]
    if sole:
        silent = {each.source for each in asked if each.is_stale}
        known = {name for name, source, _ in found if source not in silent}
        found = [each for each in found if each[1] not in silent or each[0] not in known]
    found.sort(key=lambda each: each[:2])
    keys = sorted({each[0] for each in found})
    last = keys[size - 1] if len(keys) > size else ""
    return Paged([(source, row) for name, source, row in found if not last or name <= last], last)


def pager(path: str, query: Mapping[str, str], after: str, name: str = "after") -> Html:
    """Links to the first page and to the next."""
    kept = {key: value for key, value in query.items() if key != name}
    first = link("First page", address(path, **kept), rel="first", id="first-page")
    onward = link("Next page", address(path, **{**kept, name: after}), rel="next", id="next-page")
    shown = [first if query.get(name) else None, onward if after else None]
    if not any(shown):
        return EMPTY
    return h("nav", *shown, class_="pager", aria_label="Pages")
