"""Every open node, those that are alike kept together: a request is ranked on kinds of nodes.

A fleet has thousands of nodes and some dozens of kinds at one moment, for what a node is like is
its shape and what of it is free. So the best nodes of all, and a refusal, cost some microseconds
for each kind.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import groupby, islice
from typing import Final

from mainstay.tenancy.placement.place import Refusal, place
from mainstay.tenancy.placement.rank import Choice, outlook_for, ranked
from mainstay.tenancy.placement.shape import Ask, Catalogue, NodeView, Sku

REFUSALS_MAX: Final = 1024
"""So many are remembered: anybody can ask for what does not exist, in ever other words."""


@dataclass(slots=True)
class _Kind:
    """Nodes that differ by their names only."""

    like: NodeView
    ids: list[str] = field(default_factory=list)
    """In order."""

    choices: dict[tuple[str, int], Choice | None] = field(default_factory=dict)
    """How good one of them is for a SKU and a count, as far as was asked."""

    def choice(self, sku: Sku, gpus: int) -> Choice | None:
        key = (sku.name, gpus)
        if key not in self.choices:
            found = ranked(sku, gpus, [self.like], outlook_for(sku))
            self.choices[key] = found[0] if found else None
        return self.choices[key]


class Board:
    """What is open at one moment, and what is sold."""

    def __init__(self, catalogue: Catalogue, nodes: Iterable[NodeView]) -> None:
        self.catalogue = catalogue
        self._kinds: dict[NodeView, _Kind] = {}
        self._kind_of: dict[str, _Kind] = {}
        self._refusals: dict[Ask, Refusal] = {}
        for node in nodes:
            self.put(node)

    def put(self, node: NodeView) -> None:
        """A node that is new, or not what it was."""
        like = replace(node, id="")
        kind = self._kind_of.get(node.id)
        if kind is not None and kind.like == like:
            return
        self.drop(node.id)
        kind = self._kinds.setdefault(like, _Kind(like))
        insort(kind.ids, node.id)
        self._kind_of[node.id] = kind
        self._refusals.clear()

    def drop(self, node: str) -> None:
        """A node that is not open any more, if it was."""
        kind = self._kind_of.pop(node, None)
        if kind is None:
            return
        del kind.ids[bisect_left(kind.ids, node)]
        if not kind.ids:
            del self._kinds[kind.like]
        self._refusals.clear()

    def best(self, ask: Ask, at_most: int) -> list[Choice]:
        """What `ranked` says of all nodes, as far as the first so many."""
        sku = self.catalogue.get(ask.sku)
        if sku is None or ask.gpus not in sku.allowed_gpu_counts:
            return []
        found = [
            (choice.numa_nodes, choice.added_waste, kind.ids, choice)
            for kind in self._kinds.values()
            if kind.like.region == ask.region
            and ask.sku in kind.like.skus
            and (choice := kind.choice(sku, ask.gpus)) is not None
        ]
        found.sort(key=_goodness)
        equals = (merge(*map(_named, same)) for _, same in groupby(found, key=_goodness))
        return list(islice((choice for group in equals for choice in group), at_most))

    def refusal(self, ask: Ask) -> Refusal:
        """Why nothing can be had of what was asked; only if `best` has none."""
        if ask not in self._refusals:
            found = place(ask, self.catalogue, [kind.like for kind in self._kinds.values()])
            assert isinstance(found, Refusal)
            if len(self._refusals) >= REFUSALS_MAX:
                self._refusals.clear()
            self._refusals[ask] = found
        return self._refusals[ask]


_Found = tuple[int, float, list[str], Choice]


def _goodness(found: _Found) -> tuple[int, float]:
    return found[:2]


def _named(found: _Found) -> Iterable[Choice]:
    return (found[3]._replace(node=node) for node in found[2])
