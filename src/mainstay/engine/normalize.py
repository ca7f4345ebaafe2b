"""Demand as this cycle sees it: gangs that fit one machine become plain rows, then walk order."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mainstay.engine.world import Mask, World
from mainstay.model.assignment import NeedRef
from mainstay.model.ids import Fingerprint
from mainstay.model.need import Need, NeedProfile, Operator
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
        if not need.profile.same_keys:
            passed.append(Row(need, (need.ref,)))
            continue
        profile = stripped.get(need.profile.fingerprint)
        if profile is None:
            profile = stripped[need.profile.fingerprint] = without_same(need.profile)
            stripped[profile.fingerprint] = profile
        if not folder.is_foldable(need):
            also = NeedRef(need.cluster, profile.fingerprint)
            passed.append(Row(need, (need.ref, also), is_gang=True))
            continue
        key = (need.cluster, profile.fingerprint, _amounts(need.aggregate))
        folds.setdefault(key, []).append(need)
    folded = [_fold(stripped[key[1]], folds[key]) for key in sorted(folds)]
    return sorted([*passed, *folded], key=lambda row: -row.need.profile.priority)


def without_same(profile: NeedProfile) -> NeedProfile:
    """The profile of a gang that fits one machine: the same without Same."""
    kept = tuple(r for r in profile.requirements if r.operator is not Operator.SAME)
    return NeedProfile(
        kept,
        profile.spread,
        profile.priority,
        profile.interruption_penalty_bucket,
        profile.reclamation_penalty_bucket,
    )


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
