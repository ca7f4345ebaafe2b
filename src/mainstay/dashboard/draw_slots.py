"""The slots of a node as the tree of partitions that they can be given out in: 8, 4, 2, 1.

The lowest row is the slots themselves. Above it each box is the block of those below it, and is
free only when all of them are: what is free at the top is what can be given out in one piece.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mainstay.dashboard.html import Html, h
from mainstay.tenancy.placement.buddy import Block, PartitionTree
from mainstay.tenancy.states import SlotStatus

LOOKS: Final[Mapping[str, str]] = {
    SlotStatus.AVAILABLE: "free", SlotStatus.RESERVED: "held", SlotStatus.IN_USE: "held",
    SlotStatus.RELEASING: "cleaning", SlotStatus.CLEANUP_BLOCKED: "blocked",
    SlotStatus.DISCOVERED: "closed", SlotStatus.DISABLED: "closed",
}  # fmt: skip
"""What a status means for who wants a slot."""

KEY: Final[Mapping[str, str]] = {
    "free": "free", "held": "held by a tenant", "cleaning": "being cleaned",
    "blocked": "blocked: clean-up not proved", "closed": "not approved, or taken out",
    "part": "partly free",
}  # fmt: skip

SLOT: Final = 52
GAP: Final = 6
ROW: Final = 24
LOWEST: Final = 42
LEFT: Final = 34
SLOTS_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class Slot:
    """One slot of a node."""

    index: int
    status: str
    numa: int

    @property
    def looks(self) -> str:
        """What it means for who wants it."""
        return LOOKS.get(self.status, "closed")


def slot_tree(node: str, found: Iterable[Slot]) -> Html:
    """The tree, root above; told in words as well."""
    slots = sorted(found, key=lambda each: each.index)[:SLOTS_MAX]
    if not slots:
        return h("p", "Its slots are not known yet.", class_="none")
    count = min(max(slot.index for slot in slots) + 1, SLOTS_MAX)
    looks = {slot.index: slot.looks for slot in slots}
    tree = PartitionTree.of(count, [index for index, look in looks.items() if look == "free"])
    rows, y, size = [], 4, tree.size
    while size > 1:
        rows += [_level(tree, looks, size, y)]
        y, size = y + ROW + GAP, size // 2
    boxes = [_slot(slot, y) for slot in slots]
    told = ", ".join(f"{slot.index} {slot.status.replace('_', ' ')}" for slot in slots)
    can = f"a block of {tree.largest} can be given out" if tree.largest else "nothing is free"
    wide, high = LEFT + tree.size * (SLOT + GAP), y + LOWEST + 4
    return h(
        "svg", h("title", f"Slots of {node}: {told}; {can}"), *rows, _size("1", y + 27), *boxes,
        role="img", viewBox=f"0 0 {wide} {high}", class_="slots",
    )  # fmt: skip


def _level(tree: PartitionTree, looks: Mapping[int, str], size: int, y: int) -> Html:
    """The blocks of one size."""
    boxes = []
    for start in range(0, tree.size, size):
        under = [looks[slot] for slot in Block(start, size).slots if slot in looks]
        if under:
            boxes.append(
                h("rect", x=_x(start), y=y, width=size * (SLOT + GAP) - GAP, height=ROW, rx=5,
                  class_=f"slot slot-{_block(under)}")
            )  # fmt: skip
    return h("g", _size(str(size), y + 17), *boxes)


def _block(under: Sequence[str]) -> str:
    """How a block stands: as all of it stands, or partly."""
    if len(set(under)) == 1:
        return under[0]
    return "part" if "free" in under else "held"


def _slot(slot: Slot, y: int) -> Html:
    said = f"Slot {slot.index}, NUMA node {slot.numa}: {slot.status.replace('_', ' ')}"
    return h(
        "g", h("title", said),
        h("rect", x=_x(slot.index), y=y, width=SLOT, height=LOWEST, rx=5,
          class_=f"slot slot-{slot.looks}"),
        h("text", str(slot.index), x=_x(slot.index) + SLOT // 2, y=y + 27,
          class_=f"slot-text-{slot.looks}"),
    )  # fmt: skip


def _size(text: str, y: int) -> Html:
    return h("text", text, x=LEFT // 2 - 4, y=y, class_="size", aria_hidden="true")


def _x(slot: int) -> int:
    return LEFT + slot * (SLOT + GAP)


def slot_key() -> Html:
    """Which colour is which."""
    keys = [
        h("span", h("span", class_=f"swatch slot-{look}", aria_hidden="true"), said)
        for look, said in KEY.items()
    ]
    return h("p", "Rows are blocks of 8, 4, 2 and 1 GPUs. ", *keys, class_="key")
