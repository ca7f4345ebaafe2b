"""What holds actions back in one cycle, as values: stances, limits, and what would be in vain."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from mainstay.model.errors import Rejected
from mainstay.model.ids import ClusterId


class Stance(IntEnum):
    """How far a shard or a cluster may go. The greater one wins."""

    ACT = 0
    SHADOW = 1
    """Tell what would be done."""

    PAUSE = 2
    """Do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much of a plan may be begun in one cycle. Zero means no limit."""

    reclaim_fraction_max: float = 0.05
    """Largest share of a cluster's Configured machines that is reclaimed, at least one machine."""

    actions_per_cycle_max: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.reclaim_fraction_max <= 1:
            raise Rejected(
                f"reclaim_fraction_max must be between 0 and 1: {self.reclaim_fraction_max}"
            )
        if self.actions_per_cycle_max < 0:
            raise Rejected(
                f"actions_per_cycle_max must not be negative: {self.actions_per_cycle_max}"
            )

    def tightened(self, other: "Limits") -> "Limits":
        """The tighter of each."""
        return Limits(
            reclaim_fraction_max=_tighter(self.reclaim_fraction_max, other.reclaim_fraction_max),
            actions_per_cycle_max=int(
                _tighter(self.actions_per_cycle_max, other.actions_per_cycle_max)
            ),
        )


def _tighter(one: float, other: float) -> float:
    return min(one, other) if one and other else one or other


NO_LIMITS: Final = Limits(reclaim_fraction_max=0.0)


def unkept_text(source: str) -> str:
    """Why nothing is acquired through a provider of which a later life would not know."""
    return f"that provider {source} was listed is not on disk yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restrictions:
    """All that holds actions back in one cycle. The default is the default configuration."""

    shard: Stance = Stance.ACT
    clusters: Mapping[ClusterId, Stance] = field(default_factory=dict)
    """Only what goes further than the shard's counts."""

    limits: Limits = Limits()
    cluster_limits: Mapping[ClusterId, Limits] = field(default_factory=dict)
    """The same, for what is given to a cluster or taken from it; the tighter counts."""

    backed_off: frozenset[ClusterId] = frozenset()
    """Clusters that failed to say how a machine joins them, and wait before the next try."""

    unreachable: frozenset[str] = frozenset()
    """Providers through which nothing is done."""

    unlisted: str = ""
    """Why nothing may be acquired yet: the machines of a provider are not known again, and may
    serve what would be bought. Empty once they are.
    """

    unkept: frozenset[str] = frozenset()
    """Providers through which nothing is acquired: it is not on disk yet that they were listed."""

    silent_on_drains: frozenset[str] = frozenset()
    """Providers that do not say what a machine is drained for."""

    reclaimed: Mapping[ClusterId, int] = field(default_factory=dict)
    """Reclaims that the cap has let through already since the last tick: a wake-up gets the rest.
    """

    stopped: str = ""
    """Why the shard acts no more; empty while it does."""

    room: int = 0
    """How many orders through one provider are worth making; 0: any number."""
