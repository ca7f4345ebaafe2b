"""What is missing and for how long: rows for people and for the coordinator. Pure.

A row is one kind of need over all clusters, since whoever looks for supply looks by what a machine
must be. Ages count cycles, not seconds: a shard that is woken often ages faster.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from mainstay.engine.plan import Plan, Unmet, Unsatisfied
from mainstay.model.ids import ClusterId, Fingerprint
from mainstay.model.need import NeedProfile
from mainstay.model.resources import Units

CLUSTERS_TOLD_MAX: Final = 10
"""So many clusters of a row are named."""


class Band(StrEnum):
    """How old a shortfall is, in cycles."""

    NEW = "1-9"
    LASTING = "10-59"
    OLD = "60-299"
    STUCK = "300+"


_BANDS: Final = ((10, Band.NEW), (60, Band.LASTING), (300, Band.OLD))
"""Below how many cycles each ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortfallRow:
    """One kind of need that misses something."""

    profile: NeedProfile
    deficit: Units
    """What is missing over all clusters, after what this plan drains for it."""

    age_cycles: int
    band: Band
    needs: int
    """How many rows of demand it is."""

    clusters: tuple[ClusterId, ...]
    """Who asks for it, in order of ids, the first CLUSTERS_TOLD_MAX."""

    clusters_in_all: int
    reasons: Mapping[Unmet, int]
    """Why, and for how many of the needs; in the order in which reasons are asked for."""

    @property
    def fingerprint(self) -> Fingerprint:
        """Which kind of need it is."""
        return self.profile.fingerprint

    @property
    def priority(self) -> int:
        """Of these needs."""
        return self.profile.priority


def band_of(age_cycles: int) -> Band:
    """The band of an age."""
    return next((band for below, band in _BANDS if age_cycles < below), Band.STUCK)


def rows(plan: Plan) -> tuple[ShortfallRow, ...]:
    """The shortfalls that a plan reports, highest priority first, then oldest, then by kind."""
    short: dict[Fingerprint, list[Unsatisfied]] = {}
    for each in plan.unsatisfied:
        if each.unresolved:
            short.setdefault(each.need.profile.fingerprint, []).append(each)
    return tuple(
        _row(short[shortfall.fingerprint], shortfall.deficit, shortfall.age)
        for shortfall in plan.shortfalls
    )


def by_band(plan: Plan) -> Mapping[Band, int]:
    """How many kinds of need are short, by age; every band is there, and none is left out because
    the report is full.
    """
    counts = dict.fromkeys(Band, 0)
    for age in plan.shortfall_ages.values():
        counts[band_of(age)] += 1
    return MappingProxyType(counts)


def _row(short: list[Unsatisfied], deficit: Units, age: int) -> ShortfallRow:
    clusters = sorted({each.need.cluster for each in short})
    found = [each.reason for each in short]
    return ShortfallRow(
        profile=short[0].need.profile,
        deficit=deficit,
        age_cycles=age,
        band=band_of(age),
        needs=len(short),
        clusters=tuple(clusters[:CLUSTERS_TOLD_MAX]),
        clusters_in_all=len(clusters),
        reasons={reason: found.count(reason) for reason in Unmet if reason in found},
    )
