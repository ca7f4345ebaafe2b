"""HTML from values: whatever is not `Html` is text, and is escaped on its way in.

There is no other way to make markup here, so that no name of a machine or a tenant can become some.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Final
from urllib.parse import quote, urlencode

_VOID: Final = frozenset({"input", "br", "hr", "meta", "link"})
_ADDRESSES: Final = frozenset({"href", "action", "src"})


@dataclass(frozen=True, slots=True)
class Html:
    """Markup that was made by this module."""

    text: str


Child = Html | str | int | None | Iterable["Child"]
Attribute = str | int | float | bool | None

EMPTY: Final = Html("")


def h(tag: str, *children: Child, **attributes: Attribute) -> Html:
    """One element. `class_` and `for_` are written with the underscore, `aria_label` with a dash.

    An attribute that is None or False is left out; one that is True has no value.
    """
    opened = f"<{tag}{''.join(_attribute(n, v) for n, v in attributes.items())}>"
    if tag in _VOID:
        return Html(opened)
    return Html(f"{opened}{together(*children).text}</{tag}>")


def together(*children: Child) -> Html:
    """Some of them, one after the other."""
    return Html("".join(map(_written, children)))


def _written(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return child.text
    if isinstance(child, str | int):
        return escape(str(child))
    return "".join(map(_written, child))


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    written = name.rstrip("_").replace("_", "-")
    if value is True:
        return f" {written}"
    text = str(value)
    if written in _ADDRESSES and not is_own(text):
        text = "#"
    return f' {written}="{escape(text)}"'


def is_own(address: str) -> bool:
    """Whether it leads to a page of ours and nowhere else."""
    if address.startswith("#"):
        return True
    plain = address.isprintable() and "\\" not in address
    return plain and address.startswith("/") and not address.startswith("//")


def address(*parts: str, **query: object) -> str:
    """A path of ours with a query; what is empty is not asked."""
    return "/" + "/".join(quote(part, safe="") for part in parts) + written_query(query)


def written_query(query: Mapping[str, object]) -> str:
    """With its question mark, or nothing."""
    given = {name: value for name, value in query.items() if value not in {"", None, False}}
    return f"?{urlencode(given)}" if given else ""


def link(text: Child, to: str, **attributes: Attribute) -> Html:
    """A link to a page of ours."""
    return h("a", text, href=to, **attributes)
