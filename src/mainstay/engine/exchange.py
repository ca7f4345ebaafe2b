"""Exchange: a need that is short is given a machine that another of its cluster can do without.

Credit goes by priority and takes what serves before what is on its way. So a need may be credited a
machine that served a less important one, while another that was got for itself is left over. To
buy for the one and drain the other would serve nobody: they exchange.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.cover import Coverage, Settled
from mainstay.engine.lanes import is_short
from mainstay.engine.market import NOT_FOR_EXCHANGE, Deal, Market
from mainstay.engine.rows import Mask, Walk
from mainstay.engine.world import NO_ROWS, World
from mainstay.model.ids import ClusterId
from mainstay.model.texts import Rows

REFUSALS_MAX: Final = 1_000
"""So many hand-overs may be in vain, over all clusters; whoever is short then has to acquire."""


NO_DEALS: Final[Mapping[int, Deal]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Survey:
    """Who would gain by an exchange, and what is there for it."""

    wanting: Mask
    """The plain needs that what they were credited did not cover."""

    spare: Rows
    """What is bound, and nobody claims, and no gang keeps."""


@dataclass(frozen=True, slots=True)
class Exchanged:
    """What came of the exchange."""

    survey: Survey
    deals: Mapping[int, Deal]
    """By the demand's code of the cluster; only where there was something to look for."""

    settled: Settled | None
    """What every plain need is credited in the clusters where something moved."""


def survey(world: World, coverage: Coverage) -> Survey:
    """What an exchange would be about."""
    wanting = _wanting(coverage)
    if not wanting.any():
        return Survey(wanting, NO_ROWS)
    kept = world.kept.rows
    spare = kept[world.owner[kept] < 0]
    return Survey(wanting, spare[world.gang_of(spare) < 0])


def exchanged(
    world: World, coverage: Coverage, about: Survey, known: Mapping[int, Deal] = NO_DEALS
) -> Exchanged:
    """Let the needs of every cluster exchange; of some it may be known what comes of it."""
    walk = coverage.walk
    wanting = np.flatnonzero(about.wanting)
    if not len(wanting):
        return Exchanged(about, NO_DEALS, None)
    left = _clusters_with_left_overs(world, about.spare)
    names = world.asked.clusters
    codes = [code for code in np.unique(walk.cluster[wanting]).tolist() if names[code] in left]
    flying = _left_over(world) if codes else {}
    owner = world.owner.copy()
    deals: dict[int, Deal] = {}
    refusals = REFUSALS_MAX
    for number, code in enumerate(codes):
        share = -(-refusals // (len(codes) - number))
        deal = known.get(code)
        if deal is None or not deal.is_same_with(share):
            market = Market(world, walk, code, flying.get(names[code], NO_ROWS))
            deal = market.deal(wanting[walk.cluster[wanting] == code], share)
        deals[code] = deal
        refusals = max(0, refusals - deal.in_vain)
        if deal.holder is not None:
            is_fixed = deal.holder == NOT_FOR_EXCHANGE
            owner[deal.rows] = np.where(is_fixed, owner[deal.rows], deal.holder)
    changed = np.zeros(len(names), dtype=np.bool_)
    changed[[code for code, deal in deals.items() if deal.holder is not None]] = True
    settled = _settled(world, walk, owner, changed) if changed.any() else None
    return Exchanged(about, deals, settled)


def _wanting(coverage: Coverage) -> Mask:
    """The plain needs that what they were credited did not cover."""
    wanting = is_short(coverage.missing)
    for _, places in coverage.acquired:
        wanting[places] = True
    wanting &= ~(coverage.walk.is_gang | coverage.walk.is_spread)
    return wanting


def _clusters_with_left_overs(world: World, spare: Rows) -> set[ClusterId]:
    """Where something is bound and spare, or in flight for a need and claimed by none."""
    codes = np.unique(world.snapshot.cluster[spare]).tolist()
    found = {world.snapshot.clusters[code] for code in codes}
    for flying in (world.creating, world.draining):
        found.update(ref.cluster for ref, rows in flying.items() if (world.owner[rows] < 0).any())
    return found


def _settled(world: World, walk: Walk, owner: NDArray[np.int32], changed: Mask) -> Settled:
    """All that counts for the plain needs of these clusters; what is only protected does not."""
    rows = world.countable
    rows = rows[owner[rows] >= 0]
    rows = rows[(changed[walk.cluster] & ~walk.is_gang)[owner[rows]]]
    places = owner[rows].astype(np.intp)
    size = len(world.asked.amounts)
    kinds = (walk.requirement_set.astype(np.int64) * size + walk.min_unit)[places]
    fits = np.zeros(len(rows), dtype=np.bool_)
    for kind in np.unique(kinds).tolist():
        alike = kinds == kind
        fits[alike] = world.fitting(*divmod(kind, size))[world.snapshot.shape[rows[alike]]]
    return Settled(rows[fits], places[fits])


def _left_over(world: World) -> dict[ClusterId, Rows]:
    """What is being created, then what is drained, for the needs of each cluster and claimed by
    none, in order of ids.
    """
    found: dict[ClusterId, list[Rows]] = {}
    for flying in (world.creating, world.draining):
        named: dict[ClusterId, list[int]] = {}
        for ref, rows in flying.items():
            named.setdefault(ref.cluster, []).extend(rows)
        for cluster, each in named.items():
            at = np.array(each, dtype=np.intp)
            at = at[world.owner[at] < 0]
            found.setdefault(cluster, []).append(at[np.argsort(world.snapshot.rank[at])])
    return {cluster: np.concatenate(parts) for cluster, parts in found.items()}
