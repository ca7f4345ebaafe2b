"""Pictures as SVG: the fleet as a bar, the life of a machine, the slots of a node.

Colours come from classes, so that both themes and the content policy hold. Each is told in words.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mainstay.dashboard.html import Child, Html, address, h, link
from mainstay.dashboard.words import number
from mainstay.model.state import EDGES, State

WIDTH: Final = 1000
BAR_HEIGHT: Final = 34

STATES: Final = (
    State.CONFIGURED, State.CONFIGURING, State.CREATING, State.IDLE,
    State.DRAINING, State.DELETING, State.FAILED, State.SPECULATIVE,
)  # fmt: skip
"""From what serves to what is only a promise."""


@dataclass(frozen=True, slots=True)
class Share:
    """A piece of a bar."""

    name: str
    value: float
    class_: str
    told: str
    """The value in words."""

    to: str = ""
    """Where it leads."""


def bar(label: str, shares: Sequence[Share]) -> Html:
    """A bar of shares with its key below it."""
    total = sum(share.value for share in shares)
    pieces, left = [], 0.0
    for share in shares:
        width = WIDTH * share.value / total if total else 0.0
        if width > 0:
            # What is there is seen, however small its share is.
            shown = max(width, 2.0)
            pieces.append(
                h("rect", x=f"{left:.1f}", y=0, width=f"{shown:.1f}", height=BAR_HEIGHT,
                  class_=f"fill-{share.class_}")
            )  # fmt: skip
        left += width
    told = ", ".join(f"{share.name} {share.told}" for share in shares) or "nothing"
    drawn = h(
        "svg", h("title", f"{label}: {told}"), *pieces, role="img",
        viewBox=f"0 0 {WIDTH} {BAR_HEIGHT}", preserveAspectRatio="none", class_="bar",
    )  # fmt: skip
    return h("figure", drawn, h("figcaption", *map(_key, shares), class_="key"))


def _key(share: Share) -> Html:
    name: Child = link(share.name, share.to) if share.to else share.name
    swatch = h("span", class_=f"swatch fill-{share.class_}", aria_hidden="true")
    return h("span", swatch, name, " ", h("b", share.told))


def states_bar(label: str, counts: Mapping[str, int], **also: str) -> Html:
    """Machines by state; each leads to those machines, narrowed by `also`."""
    return bar(label, [
        Share(str(state), counts[str(state)], str(state).lower(), number(counts[str(state)]),
              address("machines", state=str(state), **also))
        for state in STATES if counts.get(str(state))
    ])  # fmt: skip


_PLACES: Final[Mapping[State, tuple[int, int]]] = {
    State.SPECULATIVE: (90, 60), State.CREATING: (270, 60), State.IDLE: (450, 60),
    State.CONFIGURING: (630, 60), State.CONFIGURED: (830, 60),
    State.DELETING: (270, 170), State.DRAINING: (640, 170), State.FAILED: (450, 260),
}  # fmt: skip
_HALF: Final = (68, 20)


def lifecycle(now: str) -> Html:
    """The table of transitions as a picture, the present state marked."""
    edges = [_edge(old, new) for old, new in EDGES if old in _PLACES and new in _PLACES]
    boxes = [_box(state, str(state) == now) for state in _PLACES]
    arrow = h(
        "marker", h("path", d="M0,0 L8,4 L0,8 z", class_="arrow"), id="arrow", viewBox="0 0 8 8",
        refX=8, refY=4, markerWidth=7, markerHeight=7, orient="auto-start-reverse",
    )  # fmt: skip
    return h(
        "figure",
        h("svg", h("title", f"The life of a machine; this one is {now}."), h("defs", arrow),
          *edges, *boxes, viewBox="0 0 930 300", role="img", class_="lifecycle"),
    )  # fmt: skip


def _box(state: State, present: bool) -> Html:
    x, y = _PLACES[state]
    half_x, half_y = _HALF
    name = str(state).lower()
    marked = f"box now fill-{name}" if present else "box"
    rect = h("rect", x=x - half_x, y=y - half_y, width=2 * half_x, height=2 * half_y, rx=8,
             class_=marked)  # fmt: skip
    text = h("text", str(state), x=x, y=y + 5, class_="now" if present else "plain")
    return h("g", rect, text)


def _edge(old: State, new: State) -> Html:
    (x1, y1), (x2, y2) = _PLACES[old], _PLACES[new]
    start, end = _border(x1, y1, x2, y2), _border(x2, y2, x1, y1)
    # Two that go both ways lie beside each other.
    shift = 6 if new < old and y1 == y2 else 0
    failing = " failing" if new is State.FAILED else ""
    return h(
        "line", x1=f"{start[0]:.0f}", y1=f"{start[1] + shift:.0f}", x2=f"{end[0]:.0f}",
        y2=f"{end[1] + shift:.0f}", class_=f"edge{failing}", marker_end="url(#arrow)",
    )  # fmt: skip


def _border(x: float, y: float, to_x: float, to_y: float) -> tuple[float, float]:
    """Where the way from a box to a point leaves the box."""
    dx, dy = to_x - x, to_y - y
    half_x, half_y = _HALF[0] + 2, _HALF[1] + 2
    scale = min(half_x / abs(dx) if dx else 9e9, half_y / abs(dy) if dy else 9e9)
    return x + dx * scale, y + dy * scale


@dataclass(frozen=True, slots=True)
class Slot:
    """One slot of a node."""

    index: int
    status: str
    numa: int


def slots(node: str, found: Iterable[Slot]) -> Html:
    """A node's slots as boxes, those of one NUMA node together."""
    ordered = sorted(found, key=lambda each: (each.numa, each.index))
    boxes, x, last = [], 8, None
    for slot in ordered:
        x += 14 if last is not None and slot.numa != last else 0
        known = "".join(c for c in slot.status if c.isalnum() or c == "_")
        boxes.append(
            h("g", h("title", f"Slot {slot.index}, NUMA node {slot.numa}: {slot.status}"),
              h("rect", x=x, y=8, width=52, height=44, rx=5, class_=f"slot slot-{known}"),
              h("text", str(slot.index), x=x + 26, y=35, class_=f"slot-text-{known}"))
        )  # fmt: skip
        x, last = x + 58, slot.numa
    told = ", ".join(f"{slot.index} {slot.status}" for slot in ordered) or "none"
    return h(
        "svg", h("title", f"Slots of {node}: {told}"), *boxes, role="img",
        viewBox=f"0 0 {max(x + 4, 60)} 60", width=max(x + 4, 60), height=60, class_="slots",
    )  # fmt: skip
