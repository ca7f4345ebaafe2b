"""The pieces that pages are made of: tables, cards, forms, pagers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mainstay.dashboard.html import Attribute, Child, Html, h, link, together
from mainstay.dashboard.told import Told
from mainstay.dashboard.words import clock_time, lasting
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
    named = caption if isinstance(caption, str) else "table"
    return h("div", made, class_="scroll", tabindex=0, role="region", aria_label=named)


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


def told_by(told: Told[Any], now_s: float) -> Html:
    """Above what one source tells as a whole: who that is, and of when it is."""
    return h("p", f"As {told.source} tells it: ", age_mark(told, now_s), class_="note")


@dataclass(frozen=True, slots=True)
class Choice:
    """What may be chosen in a field of a form."""

    value: str
    label: str


def select(
    name: str, label: str, choices: Iterable[Choice], chosen: str = "", *, of: str = "field"
) -> Html:
    """A field with a few choices. `of` tells fields of two forms on one page apart."""
    options = [
        h("option", each.label, value=each.value, selected=each.value == chosen) for each in choices
    ]
    made = h("select", *options, name=name, id=f"{of}-{name}")
    return _labelled(f"{of}-{name}", label, made)


def field(name: str, label: str, value: str = "", **attributes: Attribute) -> Html:
    """A field for one line."""
    given: dict[str, Attribute] = {"type": "text", "autocomplete": "off", **attributes}
    made = h("input", name=name, id=f"field-{name}", value=value, **given)
    return _labelled(f"field-{name}", label, made)


def check(name: str, label: str, *, checked: bool) -> Html:
    """A field for yes or no."""
    box = h("input", type="checkbox", name=name, id=f"field-{name}", value="1", checked=checked)
    return h("div", box, h("label", label, for_=f"field-{name}"), class_="field check")


def _labelled(identity: str, label: str, control: Html) -> Html:
    return h("div", h("label", label, for_=identity), control, class_="field")


def filters(path: str, *fields: Html, button: str = "Filter") -> Html:
    """A form whose fields end up in the address."""
    again = link("Clear", path, class_="quiet")
    ends = h("div", h("button", button, type="submit"), again, class_="ends")
    return h(
        "form", *fields, ends,
        method="get", action=path, class_="filters", role="search", aria_label=button,
    )  # fmt: skip


def tabs(label: str, present: str, choices: Iterable[tuple[str, str, str]]) -> Html:
    """Views of the same thing: value, name and address of each."""
    made = (
        h("li", link(name, to, aria_current="true" if value == present else None))
        for value, name, to in choices
    )
    return h("nav", h("ul", *made), class_="tabs", aria_label=label)


def order(path: str, csrf: str, *fields: Html, button: str, **attributes: Attribute) -> Html:
    """A form that changes something. `attributes` are those of its button."""
    hidden = h("input", type="hidden", name="csrf", value=csrf)
    pressed = h("button", button, type="submit", **attributes)
    return h("form", hidden, *fields, pressed, method="post", action=path, class_="order")


def facts(*rows: tuple[str, Child]) -> Html:
    """Names with values."""
    return h("dl", *(together(h("dt", name), h("dd", value)) for name, value in rows if value),
             class_="facts")  # fmt: skip


def sentences(told: Iterable[str]) -> Html:
    """An explanation."""
    return h("ul", *(h("li", each) for each in told), class_="sentences")
