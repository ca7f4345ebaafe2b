"""Which shards could give what for a shortfall, and what stands against the others.

The ledger is that of one plan. It begins with what every shard has above its margin, less what open
moves may still take, and goes down with each proposal. So no machine is promised twice, and a
donor's margin holds over the whole plan.
"""

from collections import Counter
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from mainstay.coordinator.standing import (
    Options,
    PastMove,
    ShardStanding,
    Shortfall,
    Standing,
    resources_of,
)
from mainstay.coordinator.tiers import Tier
from mainstay.model.coordination import Missing
from mainstay.model.ids import ShardId
from mainstay.model.need import Requirement
from mainstay.model.profile import INSTANCE_TYPE_KEY
from mainstay.model.resources import is_zero


class Source(NamedTuple):
    """A row of machines of one shard, as far as one tier is concerned."""

    donor: ShardId
    tier: Tier
    provider: str
    instance_type: str
    zone: str
    priority: int = 0
    interruption_penalty_bucket: int = 0


class Obstacle(IntEnum):
    """Why a row gives nothing. They are asked in this order: the greater, the nearer it came."""

    REMOVING = 1
    CANNOT_HAND_OVER = 2
    TAKES_ALL = 3
    SILENT = 4
    NOT_SHARED = 5
    SHORT_ITSELF = 6
    MARGIN = 7
    REFUSED = 8
    PROMISED = 9
    COOLING = 10


class Offer(NamedTuple):
    """What a donor could give for a shortfall."""

    donor: ShardId
    sources: tuple[Source, ...]
    machines: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one tier has for a shortfall."""

    offers: tuple[Offer, ...]
    """The donor with the most first, then by id."""

    obstacles: Mapping[ShardId, Obstacle]
    """Of each shard that has rows of its kind, the one it came nearest with."""


class _Place(NamedTuple):
    instance_type: str
    zone: str


class _Way(NamedTuple):
    """Machines of a type, from one shard to another."""

    donor: ShardId
    recipient: ShardId
    instance_type: str


class _Survey(NamedTuple):
    """What of a tier no step of a plan can change, for shortfalls that ask the same."""

    open: tuple[Source, ...]
    obstacles: Mapping[ShardId, Obstacle]


class Ledger:
    """What is left to give. Only `take` changes it."""

    def __init__(self, standing: Standing, options: Options) -> None:
        self._shards = standing.shards
        self._now_ns = standing.now_ns
        self._options = options
        self._spare = dict(_rows(standing, options))
        self._left = dict(self._spare)
        self._at: dict[tuple[Tier, _Place], list[Source]] = {}
        self._of: dict[tuple[ShardId, Tier], list[Source]] = {}
        for source in sorted(self._spare):
            place = _Place(source.instance_type, source.zone)
            self._at.setdefault((source.tier, place), []).append(source)
            self._of.setdefault((source.donor, source.tier), []).append(source)
        self._unfit = {
            shard: unfit(each, standing.now_ns, options) for shard, each in standing.shards.items()
        }
        self._closed: set[_Way] = set()
        self._refused: dict[tuple[ShardId, Tier, str], set[ShardId]] = {}
        self._surveys: dict[Hashable, _Survey] = {}
        self._kinds = {shard: _kinds(shard, each) for shard, each in standing.shards.items()}
        self._own: dict[tuple[ShardId, _Place], list[frozenset[str]]] = {}
        for move in sorted(standing.moves, key=_move_order):
            if move.tier is not Tier.RETURN:
                self._remember(move)

    def search(self, shortfall: Shortfall, tier: Tier) -> Found:
        """Who could give for it, and why the others could not. Its own shard is short of it."""
        survey = self._survey(shortfall, tier)
        obstacles = dict(survey.obstacles)
        obstacles.pop(shortfall.recipient, None)
        refused = self._refused.get(_refusal(shortfall, tier), set())
        rows: dict[ShardId, list[Source]] = {}
        for source in survey.open:
            obstacle = self._obstacle(source, shortfall.recipient, refused)
            if obstacle is None:
                rows.setdefault(source.donor, []).append(source)
            else:
                _note(obstacles, source.donor, obstacle)
        offers = [
            Offer(donor, tuple(mine), sum(self._left[row] for row in mine))
            for donor, mine in rows.items()
        ]
        offers.sort(key=lambda offer: (-offer.machines, offer.donor))
        return Found(offers=tuple(offers), obstacles=obstacles)

    def take(self, offer: Offer, machines: int, recipient: ShardId) -> None:
        """Promise so many machines of an offer to a shard. Nothing goes back in the same plan."""
        self._charge(offer.sources, machines)
        for source in offer.sources:
            self._closed.add(_Way(recipient, offer.donor, source.instance_type))

    def _obstacle(
        self, source: Source, recipient: ShardId, refused: Container[ShardId]
    ) -> Obstacle | None:
        """What may come up in the course of a plan, or differs between kinds."""
        if source.donor in refused:
            return Obstacle.REFUSED
        if not self._left[source]:
            return Obstacle.PROMISED
        if _Way(source.donor, recipient, source.instance_type) in self._closed:
            return Obstacle.COOLING
        return None

    def _survey(self, shortfall: Shortfall, tier: Tier) -> _Survey:
        """Made once for all shortfalls that ask the same: a fleet has many rows."""
        missing = shortfall.missing
        providers = self._shards[shortfall.recipient].providers
        key: Hashable = (tier, shortfall.pins, resources_of(missing), providers)
        if tier is Tier.PREEMPT:
            key = (key, missing.priority, missing.interruption_penalty_bucket)
        if key not in self._surveys:
            self._surveys[key] = self._surveyed(shortfall, tier)
        return self._surveys[key]

    def _surveyed(self, shortfall: Shortfall, tier: Tier) -> _Survey:
        recipient, missing = shortfall
        wanted, providers = resources_of(missing), self._shards[recipient].providers
        found: list[Source] = []
        obstacles: dict[ShardId, Obstacle] = {}
        for (of, place), sources in self._at.items():
            if of is not tier or not admits(shortfall.pins, *place):
                continue
            for source in sources:
                if not yields(source, missing):
                    continue
                obstacle = self._standing_obstacle(source, place, wanted, providers)
                if obstacle is None:
                    found.append(source)
                else:
                    _note(obstacles, source.donor, obstacle)
        return _Survey(tuple(found), obstacles)

    def _standing_obstacle(
        self, source: Source, place: _Place, wanted: frozenset[str], providers: Container[str]
    ) -> Obstacle | None:
        if (found := self._unfit[source.donor]) is not None:
            return found
        if source.provider not in providers:
            return Obstacle.NOT_SHARED
        if any(own <= wanted for own in self._own_wants(source.donor, place)):
            return Obstacle.SHORT_ITSELF
        return None if self._spare[source] else Obstacle.MARGIN

    def _own_wants(self, donor: ShardId, place: _Place) -> list[frozenset[str]]:
        """The resources of each need of a donor that machines of a type and zone could serve. A
        donor is short of the same if one of these names nothing that is not wanted elsewhere.
        """
        if (donor, place) not in self._own:
            self._own[donor, place] = [
                resources for pins, resources in self._kinds[donor] if admits(pins, *place)
            ]
        return self._own[donor, place]

    def _remember(self, move: PastMove) -> None:
        ago_ns = self._now_ns - move.settled_at_ns
        if move.open:
            self._charge(self._touched(move), move.machines)
        elif not move.machines:
            if self._options.is_within(self._options.refusal_intervals, ago_ns):
                key = (move.recipient, move.tier, move.fingerprint)
                self._refused.setdefault(key, set()).add(move.donor)
            return
        if move.open or self._options.is_within(self._options.cool_down_intervals, ago_ns):
            for name in move.instance_types:
                self._closed.add(_Way(move.donor, move.recipient, name))
                self._closed.add(_Way(move.recipient, move.donor, name))

    def _touched(self, move: PastMove) -> list[Source]:
        mine = self._of.get((move.donor, move.tier), [])
        return [source for source in mine if source.instance_type in move.instance_types]

    def _charge(self, sources: Iterable[Source], machines: int) -> None:
        """From the row with the most left first. Which it will be is for the donor to say."""
        for source in sorted(sources, key=lambda row: (-self._left[row], row)):
            taken = min(machines, self._left[source])
            self._left[source] -= taken
            machines -= taken


def _note(obstacles: dict[ShardId, Obstacle], shard: ShardId, obstacle: Obstacle) -> None:
    """Of several obstacles the one that came nearest counts."""
    obstacles[shard] = max(obstacle, obstacles.get(shard, obstacle))


def _refusal(shortfall: Shortfall, tier: Tier) -> tuple[ShardId, Tier, str]:
    return (shortfall.recipient, tier, shortfall.missing.fingerprint)


def unfit(shard: ShardStanding, now_ns: int, options: Options) -> Obstacle | None:
    """Why a shard can neither give nor get."""
    if shard.removing:
        return Obstacle.REMOVING
    if not shard.can_hand_over:
        return Obstacle.CANNOT_HAND_OVER
    if shard.takes_all:
        return Obstacle.TAKES_ALL
    if now_ns - shard.reported_at_ns > options.fresh_intervals * options.report_interval_ns:
        return Obstacle.SILENT
    return None


def admits(pins: Sequence[Requirement], instance_type: str, zone: str) -> bool:
    """Whether machines of this type and zone may serve what asks for these."""
    return all(
        pin.admits(instance_type if pin.key == INSTANCE_TYPE_KEY else zone or None) for pin in pins
    )


def yields(source: Source, missing: Missing) -> bool:
    """Whether what a row serves, if anything, matters less in both respects."""
    return source.tier is not Tier.PREEMPT or (
        source.priority < missing.priority
        and source.interruption_penalty_bucket < missing.interruption_penalty_bucket
    )


def _kinds(
    shard: ShardId, standing: ShardStanding
) -> set[tuple[tuple[Requirement, ...], frozenset[str]]]:
    """What a shard is short of, as far as it matters here. Quota is not met with machines."""
    own = [each for each in standing.missing if not each.quota and not is_zero(each.deficit)]
    return {(Shortfall(shard, missing).pins, resources_of(missing)) for missing in own}


def _rows(standing: Standing, options: Options) -> Iterator[tuple[Source, int]]:
    """What each row has above its margin. One without a type cannot be asked for."""
    counts: Counter[Source] = Counter()
    for shard, each in standing.shards.items():
        for row in each.summary.free:
            counts[Source(shard, Tier.IDLE, *row[:3])] += row.idle
            counts[Source(shard, Tier.SPECULATIVE, *row[:3])] += row.speculative
        for serving in each.summary.serving:
            counts[Source(shard, Tier.PREEMPT, *serving[:5])] += serving.machines
    for source, machines in counts.items():
        if machines > 0 and source.instance_type:
            yield source, machines if source.tier is Tier.PREEMPT else options.spare(machines)


def _move_order(move: PastMove) -> tuple[str, str, int, str, tuple[str, ...], int]:
    of = (move.donor, move.recipient, int(move.tier), move.fingerprint)
    return (*of, move.instance_types, move.machines)
