"""Choose a node and slots for a request, or say truthfully why there are none.

A refusal always has the code `sku_unavailable`; what differs is its reason. It names the largest
block that is free and the nearest request that would be served now.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from typing import Final

from mainstay.tenancy.placement.rank import outlook_for, ranked
from mainstay.tenancy.placement.shape import Ask, CapacityShape, Catalogue, NodeView, Sku
from mainstay.tenancy.placement.waste import Outlook

SKU_UNAVAILABLE: Final = "sku_unavailable"


class Reason(StrEnum):
    """Why a request is refused."""

    UNKNOWN = "sku_not_found"
    SHAPE = "wrong_shape"
    COUNT = "count_not_allowed"
    REGION = "no_capacity"
    """Nothing of this SKU is free in the region."""

    NO_ROOM = "no_single_node_fit"
    """Something is free, but not enough of it on one node."""

    NOT_READY = "readiness_blocked"
    """A node would fit if all its slots were fit."""


@dataclass(frozen=True, slots=True)
class Placement:
    """What a request gets."""

    node: str
    shape: CapacityShape
    slots: tuple[int, ...]
    """None for a whole node."""

    numa_nodes: int


@dataclass(frozen=True, slots=True)
class Alternative:
    """A request that would be served now."""

    sku: str
    gpus: int
    region: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request gets nothing, and what it could get."""

    reason: Reason
    asked: Ask
    largest_free_block: int
    """GPUs, of this SKU in this region; of an unknown SKU, of any."""

    alternative: Alternative | None

    @property
    def code(self) -> str:
        """The same for every reason, as clients know it."""
        return SKU_UNAVAILABLE

    @property
    def details(self) -> dict[str, object]:
        """What goes into the answer beside the code."""
        other = self.alternative
        return {
            "reason": str(self.reason),
            "sku": self.asked.sku,
            "gpus": self.asked.gpus,
            "region": self.asked.region,
            "largest_free_block": self.largest_free_block,
            "nearest_alternative": other
            and {"sku": other.sku, "gpus": other.gpus, "region": other.region},
        }


def place(
    ask: Ask, catalogue: Catalogue, nodes: Sequence[NodeView], outlook: Outlook | None = None
) -> Placement | Refusal:
    """The best node that can serve the request, or why none can. Without an outlook the catalogue
    is all that is known of what will be asked."""
    sku = catalogue.get(ask.sku)
    fault = _fault(ask, sku)
    if sku is None or fault is not None:
        return _refusal(fault or Reason.UNKNOWN, ask, catalogue, nodes)
    here = list(_sold(sku.name, ask.region, nodes))
    choices = ranked(sku, ask.gpus, here, outlook or outlook_for(sku))
    if not choices:
        return _refusal(_why(sku, ask.gpus, here), ask, catalogue, nodes)
    best = choices[0]
    return Placement(best.node, sku.shape, best.slots, best.numa_nodes)


def _fault(ask: Ask, sku: Sku | None) -> Reason | None:
    if sku is None:
        return Reason.UNKNOWN
    if ask.shape is not None and ask.shape is not sku.shape:
        return Reason.SHAPE
    return None if ask.gpus in sku.allowed_gpu_counts else Reason.COUNT


def _why(sku: Sku, gpus: int, here: Iterable[NodeView]) -> Reason:
    """Of a request that no node can serve."""
    nodes = list(here)
    if ranked(sku, gpus, [node.when_ready() for node in nodes], outlook_for(sku)):
        return Reason.NOT_READY
    return Reason.NO_ROOM if _largest(nodes, sku) else Reason.REGION


def _refusal(reason: Reason, ask: Ask, catalogue: Catalogue, nodes: Sequence[NodeView]) -> Refusal:
    sku = catalogue.get(ask.sku)
    name = None if sku is None else sku.name
    largest = _largest(_sold(name, ask.region, nodes), sku)
    return Refusal(reason, ask, largest, _nearest(ask, catalogue, nodes))


def _sold(sku: str | None, region: str, nodes: Iterable[NodeView]) -> Iterator[NodeView]:
    """Nodes of a region that are sold under a name, or under any."""
    for node in nodes:
        if node.region == region and (sku is None or sku in node.skus):
            yield node


def _largest(nodes: Iterable[NodeView], sku: Sku | None) -> int:
    """GPUs of the largest piece of this shape that is free."""
    if sku is not None and sku.shape is CapacityShape.BAREMETAL:
        return max((len(node.slots) for node in nodes if node.is_whole), default=0)
    return max((node.largest_free_block for node in nodes), default=0)


def _nearest(ask: Ask, catalogue: Catalogue, nodes: Sequence[NodeView]) -> Alternative | None:
    """The same SKU before another, then as many GPUs as asked for, then the same region."""
    for sku in sorted(catalogue.values(), key=lambda sku: _unlike(sku.name, ask.sku)):
        if ask.shape is not None and ask.shape is not sku.shape:
            continue
        regions = sorted({node.region for node in nodes if sku.name in node.skus})
        tries = [
            Alternative(sku.name, gpus, region)
            for gpus in sorted(sku.allowed_gpu_counts, key=lambda n: (abs(n - ask.gpus), -n))
            for region in sorted(regions, key=lambda name: (name != ask.region, name))
        ]
        outlook = outlook_for(sku)
        for other in tries:
            if ranked(sku, other.gpus, _sold(sku.name, other.region, nodes), outlook):
                return other
    return None


def _unlike(name: str, asked: str) -> tuple[bool, float, str]:
    return name != asked, -SequenceMatcher(None, name, asked).ratio(), name
