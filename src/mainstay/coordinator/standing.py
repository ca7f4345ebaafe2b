"""What a plan is made of: how every shard stands, which moves there were, and the numbers. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mainstay.coordinator.tiers import Tier
from mainstay.model.coordination import Missing, Summary
from mainstay.model.errors import Rejected
from mainstay.model.ids import ShardId
from mainstay.model.need import Requirement
from mainstay.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY

SECOND_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Every number of the rules. Intervals are those between two reports of a shard."""

    report_interval_ns: int = 30 * SECOND_NS
    young_cycles: int = 5
    """A shortfall this old or younger is its own shard's business."""

    patient_cycles: int = 12
    """Nobody is preempted for a shortfall this old or younger."""

    fresh_intervals: int = 3
    """A shard that was last heard of longer ago neither gives nor gets."""

    cool_down_intervals: int = 8
    """So long after a move no machine of its types moves between its two shards, either way."""

    settle_intervals: int = 2
    """So long after it got machines a shortfall is not looked at: its report may not show them."""

    refusal_intervals: int = 40
    """So long a donor that had nothing for a shortfall is not asked for it again."""

    margin_percent: int = 10
    """So much of each row of free machines its shard keeps."""

    margin_least: int = 1
    """And at least so many of each."""

    machines_max: int = 50
    """Of one move."""

    donors_max: int = 3
    """For one shortfall, in one plan."""

    open_moves_max: int = 200
    """Of the whole fleet, those of the plan counted too."""

    def __post_init__(self) -> None:
        for name in ("report_interval_ns", "machines_max", "donors_max"):
            self._check(name, at_least=1)
        for name in self.__dataclass_fields__:
            self._check(name, at_least=0)
        if self.margin_percent > 100:
            raise Rejected(f"margin_percent must be 0 to 100: {self.margin_percent}")

    def _check(self, name: str, *, at_least: int) -> None:
        if getattr(self, name) < at_least:
            raise Rejected(f"{name} must be {at_least} or more: {getattr(self, name)}")

    @property
    def memory_ns(self) -> int:
        """How long a settled move must be remembered for the rules to hold."""
        intervals = max(self.cool_down_intervals, self.settle_intervals, self.refusal_intervals)
        return intervals * self.report_interval_ns

    def is_within(self, intervals: int, elapsed_ns: int) -> bool:
        """Whether less than so many intervals have passed."""
        return elapsed_ns < intervals * self.report_interval_ns

    def spare(self, machines: int) -> int:
        """What of a row of free machines may be given away."""
        share = -(-machines * self.margin_percent // 100)
        return max(0, machines - max(self.margin_least, share))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardStanding:
    """A shard as its last report tells of it."""

    summary: Summary = field(default_factory=Summary)
    missing: tuple[Missing, ...] = ()
    providers: frozenset[str] = frozenset()
    """Names of those it can see machines of."""

    reported_at_ns: int = 0
    can_hand_over: bool = True
    removing: bool = False
    takes_all: bool = False
    """Whether it has no domain yet and takes every machine: nobody can say where one lies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastMove:
    """A move that is under way, or was not long ago."""

    donor: ShardId
    recipient: ShardId
    tier: Tier
    fingerprint: str
    instance_types: tuple[str, ...]
    """Of which its machines are: all that it could take, where the donor has yet to choose."""

    machines: int
    """How many changed hands; while it is open, how many may."""

    open: bool = True
    called_off: bool = False
    """Whether it brings its recipient nothing any more, although it is open: its donor may yet
    give, and then gets back what it gave.
    """

    settled_at_ns: int = 0
    """When it ended; means nothing while it is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The fleet at one instant."""

    now_ns: int
    shards: Mapping[ShardId, ShardStanding] = field(default_factory=dict)
    moves: tuple[PastMove, ...] = ()


class Shortfall(NamedTuple):
    """What one shard misses of one kind."""

    recipient: ShardId
    missing: Missing

    @property
    def pins(self) -> tuple[Requirement, ...]:
        """What it asks of type and zone. Only the donor can judge the rest."""
        keys = (INSTANCE_TYPE_KEY, ZONE_KEY)
        return tuple(each for each in self.missing.requirements if each.key in keys)

    @property
    def machines(self) -> int | None:
        """How many machines would surely do: one for each smallest unit; None where nobody said."""
        units = self.missing.min_unit
        counts = [
            -(-amount // units[name])
            for name, amount in self.missing.deficit.items()
            if amount > 0 and units.get(name, 0) > 0
        ]
        return max(counts, default=None)


def resources_of(missing: Missing) -> frozenset[str]:
    """The dimensions that a machine for it must have."""
    both = (*missing.deficit.items(), *missing.min_unit.items())
    return frozenset(name for name, amount in both if amount > 0)


def shortfalls_of(standing: Standing) -> list[Shortfall]:
    """In the order in which they are served: by priority, then by age, then by name."""
    found = [
        Shortfall(shard, missing) for shard, each in standing.shards.items()
        for missing in each.missing
    ]  # fmt: skip
    return sorted(found, key=_precedence)


def _precedence(shortfall: Shortfall) -> tuple[int, int, str, str, str]:
    recipient, missing = shortfall
    last = repr((missing.requirements, sorted(missing.deficit.items())))
    return (-missing.priority, -missing.age_cycles, recipient, missing.fingerprint, last)
