"""Demand as this cycle sees it: gangs that fit one machine become plain rows, then walk order."""

import numpy as np

from mainstay.engine.asked import Asked
from mainstay.engine.rows import Mask, Walk
from mainstay.engine.world import World
from mainstay.model.state import State
from mainstay.model.texts import Rows


def normalize(world: World, last: Walk | None = None) -> Walk:
    """Fold what one machine could hold; then highest priority first, else as it was.

    The walk of the last cycle is used again while the same is asked and the same gangs fold.
    """
    foldable = _foldable(world)
    same = last is not None and last.asked is world.asked and last.dimensions == world.dimensions
    if last is not None and same and np.array_equal(last.foldable, foldable):
        return last
    return walk_of(world, foldable)


def walk_of(world: World, foldable: Mask) -> Walk:
    """Walk order with these gangs folded."""
    asked = world.asked
    passed = np.flatnonzero(~foldable)
    members = _folds(asked, np.flatnonzero(foldable))
    first = np.array([gangs[0] for gangs in members], dtype=np.intp)
    counts = np.array([len(gangs) for gangs in members], dtype=np.int64)
    sources = np.concatenate([passed, first])
    number = np.concatenate([passed, -1 - np.arange(len(members))])
    profile = asked.profile[sources]
    is_fold = number < 0
    profile[is_fold] = asked.profiles.without_same[profile[is_fold]]
    min_unit = np.where(is_fold, asked.aggregate[sources], asked.min_unit[sources])
    aggregate = world.amounts[asked.aggregate[sources]]
    aggregate[is_fold] *= counts[:, None]
    order = np.argsort(-asked.profiles.priority[profile], kind="stable")
    return Walk(
        asked=asked,
        dimensions=world.dimensions,
        amounts=world.amounts,
        foldable=foldable,
        members=members,
        need=number[order],
        profile=profile[order],
        cluster=asked.cluster[sources][order],
        aggregate=np.ascontiguousarray(aggregate[order]),
        min_unit=min_unit[order],
    )


def _folds(asked: Asked, gangs: Rows) -> tuple[Rows, ...]:
    """Foldable gangs that are alike, in order of (cluster, profile without Same, amounts)."""
    if not len(gangs):
        return ()
    names = sorted(range(len(asked.clusters)), key=asked.clusters.__getitem__)
    plain = asked.profiles.without_same
    prints = [profile.fingerprint for profile in asked.profiles.values]
    keys = (
        _ranks(names)[asked.cluster[gangs]],
        _ranks(sorted(range(len(prints)), key=prints.__getitem__))[plain[asked.profile[gangs]]],
        _ranks(sorted(range(len(asked.amounts)), key=asked.amounts.__getitem__))[
            asked.aggregate[gangs]
        ],
    )
    order = np.lexsort((gangs, *keys[::-1]))
    sorted_keys = np.stack([key[order] for key in keys], axis=1)
    is_new = np.any(sorted_keys[1:] != sorted_keys[:-1], axis=1)
    return tuple(np.split(gangs[order], np.flatnonzero(is_new) + 1))


def _ranks(order: list[int]) -> Rows:
    """The place of each value in an order."""
    ranks = np.empty(len(order), dtype=np.intp)
    ranks[order] = np.arange(len(order))
    return ranks


def _foldable(world: World) -> Mask:
    """Which needs are gangs that one machine could hold whole."""
    asked = world.asked
    foldable = np.zeros(len(asked.needs), dtype=np.bool_)
    gangs = np.flatnonzero(asked.profiles.is_gang[asked.profile])
    if not len(gangs):
        return foldable
    sets = asked.profiles.requirement_set[asked.profile[gangs]].astype(np.int64)
    packed = sets * len(asked.amounts) + asked.aggregate[gangs]
    order = np.argsort(packed, kind="stable")
    changes = np.flatnonzero(np.diff(packed[order])) + 1
    for alike in np.split(order, changes):
        requirements, amounts = divmod(int(packed[alike[0]]), len(asked.amounts))
        members = gangs[alike]
        if (world.amounts[amounts] > world.largest(requirements)).any():
            continue
        large = world.matching(requirements) & (world.alloc >= world.amounts[amounts]).all(axis=1)
        if (large & world.is_free_shape).any():
            foldable[members] = True
        elif large.any():
            clusters = asked.cluster[members]
            held = [c for c in np.unique(clusters).tolist() if _holds(world, c, large)]
            foldable[members] = np.isin(clusters, held)
    return foldable


def _holds(world: World, cluster: int, large: Mask) -> bool:
    """Whether a cluster has a machine of these classes."""
    name = world.asked.clusters[cluster]
    return any(
        bool(large[world.bound(name, state).shapes].any())
        for state in (State.CONFIGURED, State.CONFIGURING)
    )
