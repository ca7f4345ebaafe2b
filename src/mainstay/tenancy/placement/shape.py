"""What is asked for, what the catalogue sells, and what a node has."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from mainstay.model.errors import Rejected
from mainstay.tenancy.placement.buddy import PartitionTree


class CapacityShape(StrEnum):
    """The two things a tenant can hold."""

    BAREMETAL = "baremetal"
    GPU_SLICE = "gpu_slice"


class SlotState(StrEnum):
    """Whether a slot can be given to somebody."""

    FREE = "free"
    USED = "used"
    UNFIT = "unfit"
    """Nobody's, and not to be given out: disabled, being cleaned, or not ready."""


@dataclass(frozen=True, slots=True)
class Sku:
    """A line of the catalogue."""

    name: str
    shape: CapacityShape
    allowed_gpu_counts: tuple[int, ...]
    cpu_milli_per_gpu: int = 0
    """Of a slice; 0 is not counted."""

    memory_mib_per_gpu: int = 0


Catalogue = Mapping[str, Sku]


@dataclass(frozen=True, slots=True)
class Ask:
    """A request for capacity, as a tenant makes it."""

    sku: str
    gpus: int
    region: str
    shape: CapacityShape | None = None
    """None: whatever the SKU is."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A GPU of a node with all that belongs to it."""

    state: SlotState
    numa: int = 0


@dataclass(frozen=True)
class NodeView:
    """A node as placement sees it: one that may be given out, at one moment."""

    id: str
    region: str
    skus: frozenset[str]
    """Under which names it is sold."""

    slots: tuple[Slot, ...]
    """By index."""

    cpu_milli: int = 0
    """Not in use by slices."""

    memory_mib: int = 0
    partitioned: bool = True
    """Whether NVSwitches join its GPUs: then a slice is a partition. Else any GPUs will do."""

    claimed: bool = False
    """Whether somebody has it whole."""

    def __post_init__(self) -> None:
        if not self.slots:
            raise Rejected(f"a node without slots cannot be placed on: {self.id}")

    @cached_property
    def tree(self) -> PartitionTree:
        """The slots that can be given out now; none of a node that somebody has whole."""
        free = [] if self.claimed else self._in(SlotState.FREE)
        return PartitionTree.of(len(self.slots), free)

    @property
    def numa(self) -> tuple[int, ...]:
        """The NUMA node of each slot."""
        return tuple(slot.numa for slot in self.slots)

    @property
    def is_whole(self) -> bool:
        """Whether nobody has any part of it, and no part is unfit."""
        return self.tree.free_count == len(self.slots)

    @property
    def largest_free_block(self) -> int:
        """GPUs of the largest slice that could be cut now."""
        return self.tree.largest if self.partitioned else self.tree.free_count

    def when_ready(self) -> "NodeView":
        """The same node once its unfit slots are fit again."""
        slots = tuple(
            Slot(SlotState.FREE, slot.numa) if slot.state is SlotState.UNFIT else slot
            for slot in self.slots
        )
        return NodeView(
            self.id, self.region, self.skus, slots, self.cpu_milli, self.memory_mib,
            self.partitioned, self.claimed,
        )  # fmt: skip

    def _in(self, state: SlotState) -> list[int]:
        return [index for index, slot in enumerate(self.slots) if slot.state is state]
