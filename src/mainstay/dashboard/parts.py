"""The pieces that pages are made of: tables, cards, forms, pagers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mainstay.dashboard.html import (
    EMPTY,
    Attribute,
    Child,
    Html,
    address,
    h,
    link,
    together,
)
from mainstay.dashboard.told import Told
from mainstay.dashboard.words import clock_time, lasting, number
from mainstay.model.state import State

SHORT_MAX: Final = 24


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its heading, and whether it holds numbers."""

    name: str
    numeric: bool = False


def table(
    caption: Child, columns: Sequence[Column | str], rows: Iterable[Sequence[Child]], none: str
) -> Html:
    """A table with a caption; `none` is said when it has no rows."""
    heads = [each if isinstance(each, Column) else Column(each) for each in columns]
    body = [h("tr", *_cells(heads, row)) for row in rows]
    if not body:
        body = [h("tr", h("td", none, colspan=len(heads), class_="none"))]
    head = h("tr", *(h("th", c.name, scope="col", class_=_class(c)) for c in heads))
    made = h("table", h("caption", caption), h("thead", head), h("tbody", *body))
    # Whoever scrolls by keyboard must be able to stand on it.
    return h("div", made, class_="scroll", tabindex=0, role="region", aria_label="table")


def _cells(heads: Sequence[Column], row: Sequence[Child]) -> Iterable[Html]:
    for place, (head, value) in enumerate(zip(heads, row, strict=True)):
        if place == 0:
            yield h("th", value, scope="row", class_=_class(head))
        else:
            yield h("td", value, class_=_class(head) or _short(value))


def _short(value: Child) -> str | None:
    """What is short stays on one line."""
    return "short" if isinstance(value, str) and len(value) <= SHORT_MAX else None


def _class(column: Column) -> str | None:
    return "number" if column.numeric else None


def card(title: str, value: Child, note: Child = None, *, warns: bool = False) -> Html:
    """One number with its name."""
    shown = [h("dt", title), h("dd", value), note and h("dd", note, class_="note")]
    return h("div", *shown, class_="card warns" if warns else "card")


def cards(*made: Html) -> Html:
    """Several of them."""
    return h("dl", *made, class_="cards")


def section(title: str, *children: Child) -> Html:
    """A part of a page with a heading."""
    return h("section", h("h2", title), *children)


def state_mark(state: State | str) -> Html:
    """A state with its colour; the word is what counts."""
    name = str(state)
    return h("span", name, class_=f"state state-{_token(name)}")


def mark(text: str, kind: str = "plain") -> Html:
    """A small word in a box."""
    return h("span", text, class_=f"mark mark-{_token(kind)}")


def _token(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum() or c in "-_")


def age_mark(told: Told[Any], now_s: float) -> Html:
    """Whether numbers are of now or of before."""
    if not told.is_stale:
        return h("span", "live", class_="mark mark-good")
    since = f"stale since {clock_time(told.since_s)} UTC ({lasting(now_s - told.since_s)})"
    return h("span", since, class_="mark mark-stale", title=told.error)


@dataclass(frozen=True, slots=True)
class Choice:
    """What may be chosen in a field of a form."""

    value: str
    label: str


def select(name: str, label: str, choices: Iterable[Choice], chosen: str = "") -> Html:
    """A field with a few choices."""
    options = [
        h("option", each.label, value=each.value, selected=each.value == chosen) for each in choices
    ]
    return _labelled(name, label, h("select", *options, name=name, id=f"field-{name}"))


def field(name: str, label: str, value: str = "", **attributes: Attribute) -> Html:
    """A field for one line."""
    given: dict[str, Attribute] = {"type": "text", "autocomplete": "off", **attributes}
    return _labelled(name, label, h("input", name=name, id=f"field-{name}", value=value, **given))


def check(name: str, label: str, *, checked: bool) -> Html:
    """A field for yes or no."""
    box = h("input", type="checkbox", name=name, id=f"field-{name}", value="1", checked=checked)
    return h("div", box, h("label", label, for_=f"field-{name}"), class_="field check")


def _labelled(name: str, label: str, control: Html) -> Html:
    return h("div", h("label", label, for_=f"field-{name}"), control, class_="field")


def filters(path: str, *fields: Html) -> Html:
    """A form whose fields end up in the address."""
    again = link("Clear", path, class_="quiet")
    return h(
        "form", *fields, h("button", "Filter", type="submit"), again,
        method="get", action=path, class_="filters", role="search", aria_label="Filter",
    )  # fmt: skip


def order(path: str, csrf: str, *fields: Html, button: str, **attributes: Attribute) -> Html:
    """A form that changes something. `attributes` are those of its button."""
    hidden = h("input", type="hidden", name="csrf", value=csrf)
    pressed = h("button", button, type="submit", **attributes)
    return h("form", hidden, *fields, pressed, method="post", action=path, class_="order")


def pager(path: str, query: Mapping[str, str], page: int, more: bool) -> Html:
    """Links to the pages before and behind."""
    kept = {name: value for name, value in query.items() if name != "page"}
    before = link("Previous", address(path, **kept, page=page - 1), rel="prev", id="previous")
    after = link("Next", address(path, **kept, page=page + 1), rel="next", id="next")
    if page == 1 and not more:
        return EMPTY
    shown = [
        before if page > 1 else None,
        h("span", f"Page {number(page)}"),
        after if more else None,
    ]
    return h("nav", *shown, class_="pager", aria_label="Pages")


def facts(*rows: tuple[str, Child]) -> Html:
    """Names with values."""
    return h("dl", *(together(h("dt", name), h("dd", value)) for name, value in rows if value),
             class_="facts")  # fmt: skip


def sentences(told: Iterable[str]) -> Html:
    """An explanation."""
    return h("ul", *(h("li", each) for each in told), class_="sentences")
