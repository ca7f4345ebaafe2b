"""The explanation of a need, in its parts: what it asks, the reason, the blocker, the way out.

A shard tells sentences that always begin in the same way, and the certificate they were made from.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from mainstay.dashboard.draw import Share, bar
from mainstay.dashboard.html import EMPTY, Child, Html, h, together
from mainstay.dashboard.parts import Column, table
from mainstay.dashboard.words import amounts, number
from mainstay.model.need import Operator

BEGINNINGS: Final = (
    ("The need ", "What it asks"), ("The gang ", "What it asks"),
    ("It stands for ", "What it asks"),
    ("What counts for it", "What counts for it"), ("It has all", "Standing"),
    ("It misses ", "Reason"), ("It is ", "Reason"),
    ("It looks in ", "Blocker"), ("What blocks it", "Blocker"), ("Were it not ", "Blocker"),
    ("Machines that fit are held", "Who holds what fits"), ("The nearest miss", "Nearest miss"),
    ("The smallest change", "Smallest change"), ("Or: ", "Smallest change"),
    ("When: ", "When"),
)  # fmt: skip
"""How a sentence of mainstay.shard.answers.sentences begins, and which part it belongs to."""

OTHER: Final = "More"

FILTERS: Final[Mapping[str, str]] = {
    "fleet": "The whole fleet", "serving": "Serves it already", "min unit": "Large enough",
    "adds": "Adds what is missing", "domain": "In its domain", "state": "Can be acquired",
    "barred": "May be bought now", "claimed": "Not held by others", "quota": "Within the quota",
    "spread": "Keeps the spread", "parked": "Not parked", "whole": "All or nothing",
}  # fmt: skip
"""By the value of mainstay.engine.certificate.Filter: what a machine passes."""


SIGNS: Final[Mapping[str, str]] = {
    str(int(each)): each.name.lower().replace("_", " ") for each in Operator
} | {str(int(Operator.SAME)): "the same for all"}
"""By the number of a requirement's operator."""


def part_of(sentence: str) -> str:
    """Which part of the explanation a sentence belongs to."""
    return next((part for start, part in BEGINNINGS if sentence.startswith(start)), OTHER)


def explained_parts(sentences: Iterable[str]) -> Html:
    """The sentences under the names of their parts, in the order in which they are told."""
    parts: dict[str, list[str]] = {}
    for each in sentences:
        parts.setdefault(part_of(each), []).append(each)
    made = [
        together(h("dt", name), h("dd", [h("p", _alone(e)) for e in said], class_=_class(name)))
        for name, said in parts.items()
    ]
    return h("dl", *made, class_="reasons")


def _alone(sentence: str) -> str:
    """Without the word that already stands beside it."""
    rest = sentence.removeprefix("When: ")
    return rest[:1].upper() + rest[1:]


def _class(name: str) -> str:
    return f"reason-{name.lower().replace(' ', '-')}"


def funnel(document: str) -> Html:
    """How many machines are left behind each filter; the one that blocks is marked."""
    found = _read(document)
    steps = found.get("funnel")
    if not isinstance(steps, list) or not steps:
        return EMPTY
    blocking = found.get("blocking")
    most = max((int(step.get("left", 0)) for step in steps), default=0)
    rows = [_row(step, place == blocking, most) for place, step in enumerate(steps)]
    columns = ("A machine must be", Column("Left", True), "Share", "With", "")
    return h(
        "section", h("h3", "From the whole fleet to what could serve it"),
        table("Each filter, and how many machines are left behind it", columns, rows, "None."),
    )  # fmt: skip


def _read(document: str) -> Mapping[str, Any]:
    try:
        found = json.loads(document)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _row(step: Mapping[str, Any], blocks: bool, most: int) -> Sequence[Child]:
    left = int(step.get("left", 0))
    name = str(step.get("filter", ""))
    said = _required(step.get("requirement")) or FILTERS.get(name, name)
    capacity = step.get("capacity")
    with_ = amounts({str(k): str(v) for k, v in capacity.items()}) if capacity else ""
    share = Share("left", left, "blocked" if blocks else "configured", number(left))
    rest = Share("gone", most - left, "gone", number(most - left))
    mark = h("span", "blocks it", class_="mark mark-bad") if blocks else ""
    return (said, number(left), bar(said, (share, rest), key=False), with_, mark)


def _required(requirement: Any) -> str:
    if not isinstance(requirement, dict):
        return ""
    values = ", ".join(map(str, requirement.get("values") or ()))
    operator = str(requirement.get("operator", ""))
    sign = SIGNS.get(operator, operator)
    return " ".join(filter(None, (str(requirement.get("key", "")), sign, values)))
