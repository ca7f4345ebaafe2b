"""Boxes and arrows of the diagrams in the reference pages, as SVG."""

from collections.abc import Mapping
from typing import TypeVar

from mainstay.model.state import State
from mainstay.tenancy.states import Status

Drawn = TypeVar("Drawn", State, Status)

WIDTH, HEIGHT = 150, 46


def drawing(title: str, height: int, inside: str) -> str:
    """A picture with our arrow heads on white."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 980 {height}" role="img" '
        'font-family="sans-serif" font-size="15">\n'
        f"<title>{title}</title>\n"
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" '
        'markerHeight="8" orient="auto"><path d="M0 0L10 5L0 10z" fill="#444"/></marker></defs>\n'
        f'<rect width="980" height="{height}" fill="#ffffff"/>\n'
        f"{inside}</svg>\n"
    )


def box(name: str, at: tuple[int, int], fill: str) -> str:
    """One state."""
    x, y = at
    return (
        f'<rect x="{x - WIDTH // 2}" y="{y - HEIGHT // 2}" width="{WIDTH}" height="{HEIGHT}" '
        f'rx="9" fill="{fill}" stroke="#444"/>\n'
        f'<text x="{x}" y="{y + 5}" text-anchor="middle">{name}</text>\n'
    )


def arrow(
    places: Mapping[Drawn, tuple[int, int]],
    edge: tuple[Drawn, Drawn],
    is_pair: bool,
    *,
    dashed: bool,
) -> str:
    """A straight line from border to border; the two ways of a pair lie side by side."""
    (x1, y1), (x2, y2) = places[edge[0]], places[edge[1]]
    if is_pair:
        shift = 12 if edge[0] < edge[1] else -12
        x1, x2, y1, y2 = (
            (x1, x2, y1 + shift, y2 + shift) if y1 == y2 else (x1 + shift, x2 + shift, y1, y2)
        )
    start, end = border(x1, y1, x2, y2), border(x2, y2, x1, y1)
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return (
        f'<line x1="{start[0]:.0f}" y1="{start[1]:.0f}" x2="{end[0]:.0f}" y2="{end[1]:.0f}" '
        f'stroke="#444" stroke-width="1.5"{dash} marker-end="url(#tip)"/>\n'
    )


def border(x: int, y: int, toward_x: int, toward_y: int) -> tuple[float, float]:
    """Where the line to another place leaves the box."""
    dx, dy = toward_x - x, toward_y - y
    scale = min(
        WIDTH / 2 / abs(dx) if dx else float("inf"), HEIGHT / 2 / abs(dy) if dy else float("inf")
    )
    return x + dx * scale, y + dy * scale
