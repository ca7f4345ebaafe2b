"""Pictures as SVG: the fleet as a bar, the life of a machine, the slots of a node.

Colours come from classes, so that both themes and the content policy hold. Each is told in words.
"""

from collections.abc import Mapping, Sequence
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


def bar(label: str, shares: Sequence[Share], *, key: bool = True) -> Html:
    """A bar of shares, with its key below it where the words do not stand beside it."""
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
    words = h("figcaption", *map(_key, shares), class_="key") if key else None
    return h("figure", drawn, words)


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


CELL: Final = 18
"""Width and height of a box of a grid, with the gap."""


def grid(name: str, counts: Mapping[str, int], cells_max: int, *, across: int = 14) -> Html:
    """A group of machines as boxes by state; in a large group each box stands for several."""
    total = sum(counts.values())
    each = max(1, -(-total // cells_max))
    cells = [
        str(state).lower() for state in STATES for _ in range(-(-counts.get(str(state), 0) // each))
    ]
    boxes = [
        h("rect", x=CELL * (place % across) + 1, y=CELL * (place // across) + 1, width=CELL - 3,
          height=CELL - 3, rx=3, class_=f"cell fill-{state}")
        for place, state in enumerate(cells)
    ]  # fmt: skip
    told = ", ".join(f"{s} {counts[str(s)]:,}" for s in STATES if counts.get(str(s))) or "nothing"
    scale = f"; a box stands for {each:,}" if each > 1 else ""
    wide, high = CELL * across, CELL * max(1, -(-len(cells) // across))
    return h(
        "svg", h("title", f"{name}: {told}{scale}"), *boxes, role="img",
        viewBox=f"0 0 {wide} {high}", width=wide, height=high, class_="grid",
    )  # fmt: skip
