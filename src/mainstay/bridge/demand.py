"""What tenants need, as needs of a cluster: whole machines by kind and priority. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from mainstay.model.cost import PINNED
from mainstay.model.ids import ClusterId
from mainstay.model.need import Need
from mainstay.model.resources import scale
from mainstay.tenancy.wanted import Kind, Rank, Waiting, by_kind, nodes_for, within

HEAD_ROOM_PRIORITY: Final = 0
"""Of machines that nobody waits for."""


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
    asked = by_kind(kinds, waiting)
    found: list[Need] = []
    for kind in sorted(kinds, key=lambda one: one.name):
        counts = _counts(kind, ours[kind.name], asked[kind.name])
        found += [_need(cluster, kind, rank, counts[rank]) for rank in sorted(counts, reverse=True)]
    return tuple(found)


def _counts(kind: Kind, ours: Sequence[Standing], waiting: Sequence[Waiting]) -> Counter[Rank]:
    counts: Counter[Rank] = Counter()
    for each in ours:
        if each.priority is not None:
            counts[Rank(within(each.priority), PINNED, PINNED)] += 1
    counts.update(node.rank for node in nodes_for(kind, waiting))
    spare = Rank(HEAD_ROOM_PRIORITY, 0, 0)
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


def _need(cluster: ClusterId, kind: Kind, rank: Rank, nodes: int) -> Need:
    unit = {kind.accelerator: kind.gpus}
    return Need(
        cluster=cluster,
        profile=kind.profile(rank),
        aggregate=scale(unit, nodes),
        min_unit=unit,
    )
