"""What changed over the last minutes, as small lines with their numbers beside them."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from mainstay.dashboard.history import EVERY_S, Line
from mainstay.dashboard.html import Html, h
from mainstay.dashboard.parts import section
from mainstay.dashboard.words import clock_time, lasting

WIDTH: Final = 360
HEIGHT: Final = 48
EDGE: Final = 3
GAP_S: Final = 3 * EVERY_S
"""What is farther apart is not joined: nobody looked in between."""


def history_part(lines: Sequence[Line]) -> Html:
    """All of them, and since when there is something to tell."""
    at_s = lines[0].at_s if lines else ()
    known = [line for line in lines if any(value is not None for value in line.values)]
    if not known:
        return section("The last half hour", h("p", "Nothing is recorded yet.", class_="note"))
    since = (
        f"Recorded by this page since {clock_time(at_s[0])} UTC ({lasting(at_s[-1] - at_s[0])}),"
        f" every {EVERY_S:g} s, for at most half an hour. A gap: not every shard answered."
    )
    drawn = h("div", *map(_drawn, known), class_="lines")
    return section("The last half hour", drawn, h("p", since, class_="note"))


def _drawn(line: Line) -> Html:
    told = line.measure.told
    values = [value for value in line.values if value is not None]
    last = line.values[-1]
    now = told(last) if last is not None else "not told"
    range_ = f"least {told(min(values))}, most {told(max(values))}"
    label = f"{line.measure.name} since {clock_time(line.at_s[0])} UTC: now {now}, {range_}"
    pieces = [
        h("polyline", points=" ".join(f"{x:.0f},{y:.1f}" for x, y in piece), class_="trend")
        for piece in _pieces(line)
    ]
    picture = h(
        "svg", h("title", label), *pieces, role="img", viewBox=f"0 0 {WIDTH} {HEIGHT}",
        preserveAspectRatio="none", class_="trend",
    )  # fmt: skip
    words = h("figcaption", h("span", line.measure.name), h("b", now), h("small", range_))
    return h("figure", words, picture)


def _pieces(line: Line) -> Iterator[list[tuple[float, float]]]:
    """Points that belong together, from the first to the last."""
    begins, lasts = line.at_s[0], (line.at_s[-1] - line.at_s[0]) or 1.0
    values = [value for value in line.values if value is not None]
    low, high = min(values), max(values)
    room = HEIGHT - 2 * EDGE
    points = [
        (at_s, None if value is None else (
            WIDTH * (at_s - begins) / lasts,
            HEIGHT / 2 if high == low else HEIGHT - EDGE - room * (value - low) / (high - low),
        ))
        for at_s, value in zip(line.at_s, line.values, strict=True)
    ]  # fmt: skip
    piece = [point for _, point in points[:1] if point is not None]
    for (before_s, _), (at_s, point) in pairwise(points):
        if point is None or at_s - before_s > GAP_S:
            if piece:
                yield _seen(piece)
            piece = []
        if point is not None:
            piece.append(point)
    if piece:
        yield _seen(piece)


def _seen(piece: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """A single point is a short dash."""
    return piece if len(piece) > 1 else [piece[0], (piece[0][0] + 2, piece[0][1])]
