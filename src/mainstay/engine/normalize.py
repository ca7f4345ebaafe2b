"""Demand as this cycle sees it: gangs that fit one machine become plain rows, then walk order."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mainstay.engine.world import Mask, World, refs_of, without_same
from mainstay.model.assignment import NeedRef
from mainstay.model.ids import Fingerprint
from mainstay.model.need import Need, NeedProfile
from mainstay.model.resources import scale
from mainstay.model.state import State

Amounts = tuple[tuple[str, int], ...]
FoldKey = tuple[str, Fingerprint, Amounts]


@dataclass(frozen=True, slots=True)
class Row:
    """One need as the phases see it."""

    need: Need
    refs: tuple[NeedRef, ...]
    """The names under which machines in flight count for it."""

    is_gang: bool = False
    """Whether its machines must share a domain."""

    folded: bool = False
    """Made of gangs: a machine adds whole min units only."""


def normalize(world: World, needs: tuple[Need, ...]) -> list[Row]:
    """Fold what one machine could hold; then highest priority first, else as it was."""
    passed: list[Row] = []
    folds: dict[FoldKey, list[Need]] = {}
    stripped: dict[Fingerprint, NeedProfile] = {}
    folder = _Folder(world)
    for need in needs:
        is_gang = bool(need.profile.same_keys)
        if not is_gang or not folder.is_foldable(need):
            passed.append(Row(need, refs_of(need) if is_gang else (need.ref,), is_gang))
            continue
        profile = without_same(need)
        stripped[profile.fingerprint] = profile
        key = (need.cluster, profile.fingerprint, _amounts(need.aggregate))
        folds.setdefault(key, []).append(need)
    folded = [_fold(stripped[key[1]], folds[key]) for key in sorted(folds)]
    return sorted([*passed, *folded], key=lambda row: -row.need.profile.priority)


def _amounts(units: Mapping[str, int]) -> Amounts:
    return tuple(sorted((name, amount) for name, amount in units.items() if amount))


def _fold(profile: NeedProfile, gangs: list[Need]) -> Row:
    first = gangs[0]
    arrivals = [gang.arrival_nanos for gang in gangs if gang.arrival_nanos]
    need = Need(
        cluster=first.cluster,
        profile=profile,
        aggregate=scale(first.aggregate, len(gangs)),
        min_unit=first.aggregate,
        arrival_nanos=min(arrivals, default=0),
    )
    refs = (need.ref, *(gang.ref for gang in gangs))
    return Row(need, tuple(dict.fromkeys(refs)), folded=True)


class _Folder:
    """Answers once per kind of gang whether one machine could hold all of it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._large: dict[object, Mask] = {}
        self._anywhere: dict[object, bool] = {}
        self._in_cluster: dict[object, bool] = {}
        snapshot = world.snapshot
        free = (snapshot.state == State.IDLE) | (snapshot.state == State.SPECULATIVE)
        self._free = np.bincount(snapshot.shape[free], minlength=len(snapshot.shapes.values)) > 0

    def is_foldable(self, gang: Need) -> bool:
        key = (gang.profile.requirements, _amounts(gang.aggregate))
        if key not in self._anywhere:
            covers = (self._world.alloc >= self._world.vector(gang.aggregate)).all(axis=1)
            self._large[key] = self._world.matches(gang) & covers
            self._anywhere[key] = bool((self._large[key] & self._free).any())
        if self._anywhere[key] or not self._large[key].any():
            return self._anywhere[key]
        here = (gang.cluster, key)
        if here not in self._in_cluster:
            self._in_cluster[here] = any(
                bool(self._large[key][self._world.bound(gang.cluster, state).shapes].any())
                for state in (State.CONFIGURED, State.CONFIGURING)
            )
        return self._in_cluster[here]
