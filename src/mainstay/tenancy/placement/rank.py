"""The order in which nodes are taken for a request. A pure function: same views, same order."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from mainstay.tenancy.placement.buddy import PartitionTree, span
from mainstay.tenancy.placement.shape import CapacityShape, NodeView, Sku
from mainstay.tenancy.placement.waste import BLOCKS, MILLI, TIDY, Outlook, Want, stranded


class Choice(NamedTuple):
    """A node that can serve a request, with the slots it would give."""

    numa_nodes: int
    """How many the slots are on: the fewer, the better."""

    added_waste: float
    """GPUs that are not expected to be used any more if it is taken."""

    node: str
    slots: tuple[int, ...]
    """None for a whole node."""


@lru_cache(maxsize=1024)
def outlook_for(sku: Sku) -> Outlook:
    """What to expect when nothing is known but the catalogue: every count as often as any other."""
    return Outlook.of((want_of(sku, count), 1.0) for count in sku.allowed_gpu_counts)


def want_of(sku: Sku, gpus: int) -> Want:
    """What a slice of so many GPUs takes from its node."""
    return Want(sku.cpu_milli_per_gpu * gpus, sku.memory_mib_per_gpu * gpus, gpus, MILLI)


def ranked(sku: Sku, gpus: int, nodes: Iterable[NodeView], outlook: Outlook) -> list[Choice]:
    """Every node that can serve the request, best first; a node that is left out cannot.

    One NUMA node before several, then the least waste added, then the fuller node, then by id.
    """
    if sku.shape is CapacityShape.BAREMETAL:
        whole = [node for node in nodes if node.is_whole and len(node.slots) == gpus]
        return sorted(Choice(span(range(gpus), node.numa), 0.0, node.id, ()) for node in whole)
    want = want_of(sku, gpus)
    choices = (_slice(node, want, outlook) for node in nodes)
    return sorted(choice for choice in choices if choice is not None)


def _slice(node: NodeView, want: Want, outlook: Outlook) -> Choice | None:
    room = _Room(node.cpu_milli, node.memory_mib, node.tree, node.numa, node.partitioned)
    cut = _cut(room, want, outlook)
    return None if cut is None else Choice(cut.numa_nodes, cut.added_waste, node.id, cut.slots)


class _Room(NamedTuple):
    """All of a node that says how good it is for a request: many nodes have the same."""

    cpu_milli: int
    memory_mib: int
    tree: PartitionTree
    numa: tuple[int, ...]
    partitioned: bool


class _Cut(NamedTuple):
    """A `Choice` on any node with this room."""

    numa_nodes: int
    added_waste: float
    slots: tuple[int, ...]


@lru_cache(maxsize=8192)
def _cut(room: _Room, want: Want, outlook: Outlook) -> _Cut | None:
    if want.cpu_milli > room.cpu_milli or want.memory_mib > room.memory_mib:
        return None
    slots = _slots(room, want.gpus)
    if slots is None:
        return None
    tree, partitioned = room.tree, room.partitioned
    rest = PartitionTree.of(tree.size, set(_free(tree)) - set(slots))
    had = (room.cpu_milli, room.memory_mib)
    left = (room.cpu_milli - want.cpu_milli, room.memory_mib - want.memory_mib)
    before = _waste(had, tree, outlook, partitioned=partitioned)
    after = _waste(left, rest, outlook, partitioned=partitioned)
    tidy = TIDY * tree.free_count
    return _Cut(span(slots, room.numa), after - before + tidy, slots)


def _waste(
    room: tuple[int, int], tree: PartitionTree, outlook: Outlook, *, partitioned: bool
) -> float:
    values, beside, blocks = outlook.columns
    value = tree.free_count * float(values[MILLI])
    loss = 0.0
    for size, weight in zip(BLOCKS, blocks, strict=True):
        whole = sum(1 for _ in tree.blocks(size)) if partitioned else tree.free_count // size
        loss += float(weight) * (tree.free_count - size * whole) * (size <= tree.size)
    return stranded(room, value, beside) + loss


def _slots(room: _Room, count: int) -> tuple[int, ...] | None:
    if room.partitioned:
        block = room.tree.choose(count, room.numa)
        return None if block is None else block.slots
    free = _free(room.tree)
    return _beside(free, count, room.numa) if len(free) >= count else None


def _free(tree: PartitionTree) -> tuple[int, ...]:
    return tuple(slot for slot in range(tree.size) if tree.free >> slot & 1)


def _beside(free: Sequence[int], count: int, numa: Sequence[int]) -> tuple[int, ...]:
    """The fewest NUMA nodes: the one that fits tightest, or else the fullest ones first."""
    by_node: dict[int, list[int]] = {}
    for slot in free:
        by_node.setdefault(numa[slot], []).append(slot)
    tight = [slots for slots in by_node.values() if len(slots) >= count]
    if tight:
        return tuple(min(tight, key=lambda slots: (len(slots), slots[0]))[:count])
    taken: list[int] = []
    for slots in sorted(by_node.values(), key=lambda slots: (-len(slots), slots[0])):
        taken += slots[: count - len(taken)]
    return tuple(sorted(taken))
