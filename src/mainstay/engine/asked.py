"""Demand in columns: needs that are alike share a code, so that a cycle reads arrays.

Made once for a demand and kept with it, however many cycles it lasts.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from mainstay.model.assignment import NeedRef
from mainstay.model.ids import ClusterId, Fingerprint
from mainstay.model.need import Need, NeedProfile, Operator, Requirement, WhenUnsatisfiable
from mainstay.model.resources import Units

Amounts = tuple[tuple[str, int], ...]
"""What is asked for by name, sorted; zeros are left out."""

Codes = NDArray[np.int32]
KeyT = TypeVar("KeyT", bound=Hashable)


class Coder(Generic[KeyT]):
    """Numbers for values, in order of first sight."""

    def __init__(self) -> None:
        self._codes: dict[KeyT, int] = {}

    def __call__(self, value: KeyT) -> int:
        """The number of a value."""
        return self._codes.setdefault(value, len(self._codes))

    @property
    def values(self) -> tuple[KeyT, ...]:
        """All of them, by number."""
        return tuple(self._codes)


@dataclass(frozen=True, slots=True)
class Profiles:
    """The distinct profiles of a demand, and for each gang's profile the one without Same."""

    values: tuple[NeedProfile, ...]
    requirements: tuple[tuple[Requirement, ...], ...]
    """The distinct sets of requirements; sets that differ in priority alone are one."""

    requirement_set: Codes
    priority: NDArray[np.int64]
    interruption: NDArray[np.int64]
    reclamation: NDArray[np.int64]
    is_gang: NDArray[np.bool_]
    is_spread: NDArray[np.bool_]
    """Whether its machines must be spread, whatever that costs."""

    without_same: Codes
    """Code of the profile without Same; its own for a plain one."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One entry per need in every column."""

    needs: tuple[Need, ...]
    profiles: Profiles
    profile: Codes
    clusters: tuple[ClusterId, ...]
    cluster: Codes
    amounts: tuple[Amounts, ...]
    """The distinct totals and smallest units."""

    aggregate: Codes
    min_unit: Codes
    names: frozenset[str]
    """Every dimension that is asked for."""

    def goes_on_from(self, last: "Asked") -> bool:
        """Whether every code of another demand means the same in this one."""
        ours, theirs = self.profiles, last.profiles
        return self is last or (
            _begins_with(self.amounts, last.amounts)
            and _begins_with(ours.values, theirs.values)
            and _begins_with(ours.requirements, theirs.requirements)
        )


def _begins_with(whole: tuple[object, ...], part: tuple[object, ...]) -> bool:
    return whole is part or whole[: len(part)] == part


def ask(needs: Sequence[Need]) -> Asked:
    """The columns of a demand."""
    profiles = _ProfileCoder()
    cluster: Coder[ClusterId] = Coder()
    amounts = _AmountCoder()
    return Asked(
        needs=tuple(needs),
        profile=_codes([profiles(need.profile) for need in needs]),
        cluster=_codes([cluster(need.cluster) for need in needs]),
        aggregate=_codes([amounts(need.aggregate) for need in needs]),
        min_unit=_codes([amounts(need.min_unit) for need in needs]),
        profiles=profiles.columns(),
        clusters=cluster.values,
        amounts=amounts.values,
        names=frozenset(name for known in amounts.values for name, _ in known),
    )


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


class _AmountCoder:
    """Numbers for amounts; those that are written alike need not be sorted again."""

    def __init__(self) -> None:
        self._written: dict[Amounts, int] = {}
        self._coder: Coder[Amounts] = Coder()

    def __call__(self, units: Units) -> int:
        written = tuple(units.items())
        code = self._written.get(written)
        if code is None:
            canonical = tuple(sorted(item for item in written if item[1]))
            code = self._written[written] = self._coder(canonical)
        return code

    @property
    def values(self) -> tuple[Amounts, ...]:
        """All of them, by number."""
        return self._coder.values


class _ProfileCoder:
    def __init__(self) -> None:
        self._codes: dict[Fingerprint, int] = {}
        self._values: list[NeedProfile] = []

    def __call__(self, profile: NeedProfile) -> int:
        code = self._codes.get(profile.fingerprint)
        if code is None:
            code = self._codes[profile.fingerprint] = len(self._values)
            self._values.append(profile)
        return code

    def columns(self) -> Profiles:
        """The profiles so far, and those without Same that folded gangs would have."""
        stripped = {
            code: self(without_same(profile))
            for code, profile in enumerate(list(self._values))
            if profile.same_keys
        }
        values = tuple(self._values)
        requirements: Coder[tuple[Requirement, ...]] = Coder()
        return Profiles(
            values=values,
            requirement_set=_codes([requirements(p.requirements) for p in values]),
            requirements=requirements.values,
            priority=_column([p.priority for p in values]),
            interruption=_column([p.interruption_penalty_bucket for p in values]),
            reclamation=_column([p.reclamation_penalty_bucket for p in values]),
            is_gang=np.array([bool(p.same_keys) for p in values], dtype=np.bool_),
            is_spread=np.array([_is_spread(p) for p in values], dtype=np.bool_),
            without_same=_codes([stripped.get(code, code) for code in range(len(values))]),
        )


def _is_spread(profile: NeedProfile) -> bool:
    strict = WhenUnsatisfiable.DO_NOT_SCHEDULE
    return any(spread.when_unsatisfiable is strict for spread in profile.spread)


def ref_of(cluster: ClusterId, profile: NeedProfile, group: str = "") -> NeedRef:
    """The name of a need."""
    return NeedRef(cluster, profile.fingerprint, group)


def _codes(values: Sequence[int]) -> Codes:
    return np.array(values, dtype=np.int32)


def _column(values: Sequence[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)
