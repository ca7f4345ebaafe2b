"""What tenants need, as needs of a cluster: whole machines by kind and priority. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from mainstay.model.assignment import PRIORITY_MAX, PRIORITY_MIN
from mainstay.model.cost import PENALTY_BUCKET_MAX, PINNED
from mainstay.model.ids import ClusterId
from mainstay.model.need import Need, NeedProfile, Operator, Requirement
from mainstay.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY
from mainstay.model.resources import scale

HEAD_ROOM_PRIORITY: Final = 0
"""Of machines that nobody waits for."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A machine that the shard counts as ours."""

    machine: str
    kind: str
    priority: int | None
    """Of the most important project that holds a part of it; None: nobody does."""

    usable: bool = True
    """Whether it is or will be given out."""

    price_per_hour: float | None = None
    reclamation_penalty_dollars: float = 0.0


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


@dataclass(frozen=True, slots=True, order=True)
class _Row:
    """What makes two machines of a kind the same demand."""

    priority: int
    interruption_bucket: int
    reclamation_bucket: int


def needs(
    cluster: ClusterId,
    kinds: Sequence[Kind],
    standing: Iterable[Standing],
    waiting: Iterable[Waiting],
) -> tuple[Need, ...]:
    """For each kind and priority the machines that are held, and those that are waited for.

    A machine that is held is needed with a pinned penalty. All needs of a kind ask for the same
    machines, so the shard keeps the first so many of them; no fewer are asked for than reach to
    the last one that is held.
    """
    ours: defaultdict[str, list[Standing]] = defaultdict(list)
    for each in standing:
        ours[each.kind].append(each)
    asked = _by_kind(kinds, waiting)
    found: list[Need] = []
    for kind in sorted(kinds, key=lambda one: one.name):
        counts = _counts(kind, ours[kind.name], asked[kind.name])
        found += [_need(cluster, kind, row, counts[row]) for row in sorted(counts, reverse=True)]
    return tuple(found)


def _by_kind(kinds: Sequence[Kind], waiting: Iterable[Waiting]) -> defaultdict[str, list[Waiting]]:
    """Each request with the first kind, by name, that could serve it; others never get one."""
    asked: defaultdict[str, list[Waiting]] = defaultdict(list)
    ordered = sorted(kinds, key=lambda one: one.name)
    for each in waiting:
        for kind in ordered:
            if kind.sells(each.sku, each.region, each.gpus):
                asked[kind.name].append(each)
                break
    return asked


def _counts(kind: Kind, ours: Sequence[Standing], waiting: Sequence[Waiting]) -> Counter[_Row]:
    counts: Counter[_Row] = Counter()
    for each in ours:
        if each.priority is not None:
            counts[_Row(_within(each.priority), PINNED, PINNED)] += 1
    counts.update(_nodes_for(kind, waiting))
    spare = _Row(HEAD_ROOM_PRIORITY, 0, 0)
    counts[spare] += kind.head_room
    wanted, usable = counts.total(), sum(each.usable for each in ours)
    if wanted > usable:  # those that serve nobody are counted by the shard all the same
        counts[spare] += len(ours) - usable
    counts[spare] += max(0, reach(ours, wanted) - counts.total())
    return +counts


def reach(ours: Sequence[Standing], wanted: int) -> int:
    """How many machines the shard must keep so that every held one is among them, and as many
    usable ones as are wanted: else it would keep one that serves nobody and give back the one that
    came in its place.

    It keeps the cheapest, then those with the highest penalty, then the first by id. One whose
    price is not known may come anywhere: all are kept if it is held, or if those with a price are
    not enough; else it may take the place of another.
    """
    if not wanted:
        return 0
    unpriced = [each for each in ours if each.price_per_hour is None]
    kept = sorted(
        (each for each in ours if each.price_per_hour is not None),
        key=lambda one: (one.price_per_hour, -one.reclamation_penalty_dollars, one.machine),
    )
    held = [place for place, one in enumerate(kept, start=1) if one.priority is not None]
    usable = [place for place, one in enumerate(kept, start=1) if one.usable][:wanted]
    if unpriced and len(usable) < wanted:
        return len(ours)
    if any(each.priority is not None for each in unpriced):
        return len(ours)
    last_held = held[-1] + len(unpriced) if held else 0
    last_usable = usable[-1] + sum(not each.usable for each in unpriced) if usable else 0
    return max(last_held, last_usable)


def _nodes_for(kind: Kind, waiting: Sequence[Waiting]) -> Iterator[_Row]:
    """A row for each node it takes, the most important requests first, the larger before others.

    What is left of a node is filled by who is less important.
    """
    left: list[int] = []
    rows: list[_Row] = []
    for each in sorted(waiting, key=lambda one: (-one.priority, -one.gpus)):
        takes = kind.gpus if each.whole else each.gpus
        at = next((place for place, room in enumerate(left) if room >= takes), None)
        row = _Row(
            _within(each.priority), _bucket(each.interruption_bucket),
            _bucket(each.reclamation_bucket),
        )  # fmt: skip
        if at is None:
            left.append(kind.gpus - takes)
            rows.append(row)
            continue
        left[at] -= takes
        rows[at] = _dearer(rows[at], row)
    return iter(rows)


def _dearer(one: _Row, other: _Row) -> _Row:
    return _Row(
        one.priority,
        max(one.interruption_bucket, other.interruption_bucket),
        max(one.reclamation_bucket, other.reclamation_bucket),
    )


def _need(cluster: ClusterId, kind: Kind, row: _Row, nodes: int) -> Need:
    unit = {kind.accelerator: kind.gpus}
    return Need(
        cluster=cluster,
        profile=NeedProfile(
            kind.requirements(),
            priority=row.priority,
            interruption_penalty_bucket=row.interruption_bucket,
            reclamation_penalty_bucket=row.reclamation_bucket,
        ),
        aggregate=scale(unit, nodes),
        min_unit=unit,
    )


def _within(priority: int) -> int:
    return max(PRIORITY_MIN, min(priority, PRIORITY_MAX))


def _bucket(bucket: int) -> int:
    return max(0, min(bucket, PENALTY_BUCKET_MAX))
