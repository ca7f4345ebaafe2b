"""The slots of one node as a tree of partitions: 8, 4, 2, 1.

GPUs behind NVSwitches can only be joined along fixed partitions: aligned runs of a power of two. A
block is free when all its slots are, so freed neighbours are one larger block at once, and nothing
is refused while a legal block exists.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

from mainstay.model.errors import Rejected


class Block(NamedTuple):
    """An aligned run of slots."""

    start: int
    size: int

    @property
    def mask(self) -> int:
        """Its slots as bits."""
        return ((1 << self.size) - 1) << self.start

    @property
    def slots(self) -> tuple[int, ...]:
        """Its slots, in order."""
        return tuple(range(self.start, self.start + self.size))


@dataclass(frozen=True, slots=True)
class PartitionTree:
    """Which slots of a node are free, and along which lines they may be joined."""

    size: int
    """Slots at the root: a power of two."""

    free: int
    """A bit per free slot."""

    def __post_init__(self) -> None:
        if not is_power_of_two(self.size):
            raise Rejected(f"not a size of a partition tree: {self.size} (a power of two)")
        if self.free < 0 or self.free >> self.size:
            raise Rejected(f"free slots outside of a tree of {self.size}: {self.free:#b}")

    @classmethod
    def of(cls, slots: int, free: Iterable[int]) -> Self:
        """A tree over `slots` slots; what is missing to a power of two is never free."""
        size = 1 << max(0, slots - 1).bit_length()
        bits = 0
        for slot in free:
            if not 0 <= slot < slots:
                raise Rejected(f"no such slot: {slot} (0 to {slots - 1})")
            bits |= 1 << slot
        return cls(size, bits)

    @property
    def free_count(self) -> int:
        """How many slots are free, in whatever pieces."""
        return self.free.bit_count()

    @property
    def largest(self) -> int:
        """The size of the largest free block; 0 when nothing is free."""
        size = self.size
        while size and next(self.blocks(size), None) is None:
            size //= 2
        return size

    def blocks(self, size: int) -> Iterator[Block]:
        """The free blocks of one size, in order; none of a size that no partition has."""
        if is_power_of_two(size):
            for start in range(0, self.size, size):
                block = Block(start, size)
                if self.is_free(block):
                    yield block

    def is_free(self, block: Block) -> bool:
        """Whether all its slots are free."""
        return self.free & block.mask == block.mask

    def enclosing(self, block: Block) -> Block:
        """The largest free block that a free block is part of: what taking it breaks up."""
        while block.size < self.size:
            size = 2 * block.size
            parent = Block(block.start // size * size, size)
            if not self.is_free(parent):
                break
            block = parent
        return block

    def choose(self, size: int, numa: Sequence[int] = ()) -> Block | None:
        """The block to take: on the fewest NUMA nodes, breaking up the least. None: there is none.

        `numa` says which NUMA node a slot is on; slots beyond it are on one.
        """
        return min(
            self.blocks(size),
            key=lambda block: (
                span(block.slots, numa),
                self.enclosing(block).size,
                block.start,
            ),
            default=None,
        )

    def take(self, block: Block) -> Self:
        """The tree without a free block."""
        if block not in self.blocks(block.size):
            raise Rejected(f"not a free block: {block.size} slots from {block.start}")
        return replace(self, free=self.free & ~block.mask)

    def give_back(self, block: Block) -> Self:
        """The tree with a block that was taken; its free neighbours join it by themselves."""
        legal = is_power_of_two(block.size) and block.start >= 0 and block.start % block.size == 0
        if not legal or block.start + block.size > self.size or self.free & block.mask:
            raise Rejected(f"not a taken block: {block.size} slots from {block.start}")
        return replace(self, free=self.free | block.mask)


def is_power_of_two(number: int) -> bool:
    """1, 2, 4, 8 and so on."""
    return number > 0 and number & (number - 1) == 0


def span(slots: Iterable[int], numa: Sequence[int]) -> int:
    """How many NUMA nodes some slots are on."""
    return len({numa[slot] if slot < len(numa) else -1 for slot in slots})
