"""Capacity that is waited for, as nodes of a kind: who would share one, and which need of the
cluster stands for it. Pure.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from mainstay.model.assignment import PRIORITY_MAX, PRIORITY_MIN
from mainstay.model.cost import PENALTY_BUCKET_MAX
from mainstay.model.need import NeedProfile, Operator, Requirement
from mainstay.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What a machine of a fleet becomes, from the catalogue."""

    name: str
    region: str
    instance_types: tuple[str, ...]
    sold_as: tuple[str, ...]
    gpus: int
    zones: tuple[str, ...] = ()
    accelerator: str = "nvidia.com/gpu"
    head_room: int = 0
    """So many of them are kept free."""

    def requirements(self) -> tuple[Requirement, ...]:
        """What a machine must be to become one."""
        types = Requirement(INSTANCE_TYPE_KEY, Operator.IN, self.instance_types)
        zones = Requirement(ZONE_KEY, Operator.IN, self.zones)
        return (types, zones) if self.zones else (types,)

    def sells(self, sku: str, region: str, gpus: int) -> bool:
        """Whether a node of this kind could serve such a request."""
        return sku in self.sold_as and region == self.region and gpus <= self.gpus

    def profile(self, rank: "Rank") -> NeedProfile:
        """What is asked of a machine that is to become one for somebody of this rank."""
        return NeedProfile(
            self.requirements(),
            priority=rank.priority,
            interruption_penalty_bucket=rank.interruption_bucket,
            reclamation_penalty_bucket=rank.reclamation_bucket,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Capacity that somebody waits for."""

    sku: str
    region: str
    gpus: int
    priority: int
    whole: bool = False
    interruption_bucket: int = 0
    reclamation_bucket: int = 0
    request: str = ""
    """Its id; it decides nothing."""


@dataclass(frozen=True, slots=True, order=True)
class Rank:
    """What makes two machines of a kind the same demand."""

    priority: int
    interruption_bucket: int
    reclamation_bucket: int


@dataclass(slots=True)
class Wanted:
    """One node that would have to come, and for whom."""

    rank: Rank
    left: int
    requests: list[str] = field(default_factory=list)


class Behind(NamedTuple):
    """The need that a request stands behind."""

    kind: Kind
    profile: NeedProfile


def behind(kinds: Sequence[Kind], waiting: Iterable[Waiting], request: str) -> Behind | None:
    """The need that brings the node of a request; None: no kind is sold so, or nobody waits."""
    asked = by_kind(kinds, waiting)
    for kind in kinds:
        for node in nodes_for(kind, asked[kind.name]):
            if request in node.requests:
                return Behind(kind, kind.profile(node.rank))
    return None


def by_kind(kinds: Sequence[Kind], waiting: Iterable[Waiting]) -> defaultdict[str, list[Waiting]]:
    """Each request with the first kind, by name, that could serve it; others never get one."""
    asked: defaultdict[str, list[Waiting]] = defaultdict(list)
    ordered = sorted(kinds, key=lambda one: one.name)
    for each in waiting:
        for kind in ordered:
            if kind.sells(each.sku, each.region, each.gpus):
                asked[kind.name].append(each)
                break
    return asked


def nodes_for(kind: Kind, waiting: Sequence[Waiting]) -> list[Wanted]:
    """The nodes it takes, for the most important requests first, the larger before others.

    What is left of a node is filled by who is less important: the first with room enough, which
    is found among the first ones with each room, not among all.
    """
    nodes: list[Wanted] = []
    by_room: list[list[int]] = [[] for _ in range(kind.gpus + 1)]
    for each in sorted(waiting, key=lambda one: (-one.priority, -one.gpus)):
        takes = kind.gpus if each.whole else each.gpus
        rank = Rank(
            within(each.priority), _bucket(each.interruption_bucket),
            _bucket(each.reclamation_bucket),
        )  # fmt: skip
        with_room = [places for places in by_room[takes:] if places]
        if with_room:
            place = heappop(min(with_room, key=lambda places: places[0]))
        else:
            place = len(nodes)
            nodes.append(Wanted(rank, kind.gpus))
        node = nodes[place]
        node.left -= takes
        node.rank = _dearer(node.rank, rank)
        node.requests.append(each.request)
        heappush(by_room[node.left], place)
    return nodes


def _dearer(one: Rank, other: Rank) -> Rank:
    return Rank(
        one.priority,
        max(one.interruption_bucket, other.interruption_bucket),
        max(one.reclamation_bucket, other.reclamation_bucket),
    )


def within(priority: int) -> int:
    """A priority that a need can have."""
    return max(PRIORITY_MIN, min(priority, PRIORITY_MAX))


def _bucket(bucket: int) -> int:
    return max(0, min(bucket, PENALTY_BUCKET_MAX))
