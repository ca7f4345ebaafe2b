"""Which machines should change shards, and why the others should not. Pure.

A shortfall that its own shard could not end pulls; nothing is ever pushed. Idle machines of other
shards come first, then speculative slots, and machines in use only when there is neither anywhere.
A plan says how many of which types, at most; which machines is for the donor to say, since only the
donor knows what its own demand needs. docs/explanation/rebalancing.md has the rules.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from mainstay.coordinator.donors import Ledger, Obstacle, Offer, Source, unfit
from mainstay.coordinator.standing import (
    Options,
    PastMove,
    ShardStanding,
    Shortfall,
    Standing,
    shortfalls_of,
)
from mainstay.coordinator.tiers import Tier
from mainstay.coordinator.verdicts import UNFIT, Reason, Verdict, few, verdict
from mainstay.model.coordination import Missing, Wanted
from mainstay.model.ids import ShardId
from mainstay.model.need import Operator, Requirement
from mainstay.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY
from mainstay.model.resources import Units, from_units, is_zero

__all__ = [
    "Options", "PastMove", "Planned", "Proposal", "Reason", "ShardStanding", "Standing", "Tier",
    "Verdict", "plan", "render",
]  # fmt: skip

FINGERPRINT_TOLD: Final = 12
"""So many characters of a fingerprint are told to people."""

_NAMES: Final = {
    Tier.IDLE: "idle machine",
    Tier.SPECULATIVE: "speculative slot",
    Tier.PREEMPT: "preempted machine",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """One move that should be made."""

    donor: ShardId
    recipient: ShardId
    tier: Tier
    wanted: Wanted
    why: str
    fingerprint: str
    """Of the shortfall it is for."""

    instance_types: tuple[str, ...]
    """All that it may take machines of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What should move, and why nothing does for the rest; most important shortfall first."""

    proposals: tuple[Proposal, ...] = ()
    verdicts: tuple[Verdict, ...] = ()


def plan(standing: Standing, options: Options | None = None) -> Planned:
    """One pass over all shortfalls, the most important first. What one is promised is gone for the
    next. The same standing gives the same plan.
    """
    planning = _Planning(standing, options or Options())
    for shortfall in shortfalls_of(standing):
        planning.consider(shortfall)
    return Planned(proposals=tuple(planning.proposals), verdicts=tuple(planning.verdicts))


def render(planned: Planned) -> tuple[str, ...]:
    """A line for each move and each shortfall that gets none."""
    moves = [
        f"{each.donor} gives up to {_count(each.wanted.machines_max, each.tier)} to "
        f"{each.recipient} for {_named(each.fingerprint)}: {each.why}"
        for each in planned.proposals
    ]
    waits = [
        f"{each.shard} gets nothing for {_named(each.fingerprint)} "
        f"(priority {each.priority}, {_cycles(each.age_cycles)}): {each.sentence}"
        for each in planned.verdicts
    ]
    return (*moves, *waits) or ("no shard reports a shortfall",)


class _Planning:
    """A plan in the making."""

    def __init__(self, standing: Standing, options: Options) -> None:
        self.proposals: list[Proposal] = []
        self.verdicts: list[Verdict] = []
        self._standing = standing
        self._options = options
        self._ledger = Ledger(standing, options)
        moves = [move for move in standing.moves if move.tier is not Tier.RETURN]
        self._room = options.open_moves_max - sum(move.open for move in moves)
        self._moving = {
            (move.recipient, move.fingerprint)
            for move in moves
            if move.open and not move.called_off
        }
        self._settling = {
            (move.recipient, move.fingerprint) for move in moves
            if not move.open and move.machines and options.is_within(
                options.settle_intervals, standing.now_ns - move.settled_at_ns
            )
        }  # fmt: skip

    def consider(self, shortfall: Shortfall) -> None:
        """Propose moves for it, or say why there are none."""
        if (reason := self._why_not_now(shortfall)) is not None:
            self.verdicts.append(verdict(shortfall, reason, self._options))
            return
        kept: dict[ShardId, Obstacle] = {}
        may_preempt = shortfall.missing.age_cycles > self._options.patient_cycles
        for tier in (Tier.IDLE, Tier.SPECULATIVE, Tier.PREEMPT):
            waits = Obstacle.COOLING in kept.values()
            if tier is Tier.PREEMPT and (waits or not may_preempt):
                break
            if self._serve(shortfall, tier, kept):
                return
        reason = Reason.NO_VICTIM if may_preempt else Reason.NO_SPARE
        if Obstacle.COOLING in kept.values():
            reason = Reason.COOLING
        self.verdicts.append(verdict(shortfall, reason, self._options, kept))

    def _why_not_now(self, shortfall: Shortfall) -> Reason | None:
        """What ends the matter before anybody is asked."""
        recipient, missing = shortfall
        key = (recipient, missing.fingerprint)
        shard = self._standing.shards[recipient]
        obstacle = unfit(shard, self._standing.now_ns, self._options)
        rules = (
            (Reason.TOPOLOGY, missing.topology),
            (Reason.QUOTA, missing.quota),
            (Reason.NOTHING, is_zero(missing.deficit)),
            (Reason.YOUNG, missing.age_cycles <= self._options.young_cycles),
            (Reason.MOVING, key in self._moving),
            (Reason.SETTLING, key in self._settling),
            (Reason.FULL, self._room <= 0),
        )
        if obstacle is not None:
            return UNFIT[obstacle]
        return next((reason for reason, holds in rules if holds), None)

    def _serve(self, shortfall: Shortfall, tier: Tier, kept: dict[ShardId, Obstacle]) -> bool:
        """Whether a tier has anything for it; if so it is proposed, if not the obstacles add up."""
        found = self._ledger.search(shortfall, tier)
        if not found.offers:
            for shard, obstacle in found.obstacles.items():
                kept[shard] = max(obstacle, kept.get(shard, obstacle))
            return False
        amounts = _divided(shortfall, found.offers, self._options, self._room)
        needed, given = shortfall.machines, 0
        for offer, machines in zip(found.offers, amounts, strict=False):
            part = _part(shortfall.missing.deficit, given, given + machines, needed)
            self.proposals.append(_proposal(shortfall, offer, machines, part))
            self._ledger.take(offer, machines, shortfall.recipient)
            given += machines
        self._room -= len(amounts)
        self._moving.add((shortfall.recipient, shortfall.missing.fingerprint))
        return True


def _divided(
    shortfall: Shortfall, offers: Sequence[Offer], options: Options, room: int
) -> list[int]:
    """How many machines of each of the first offers. Only the first gives where nobody can say
    how many are enough.
    """
    needed = shortfall.machines
    donors = 1 if needed is None else min(options.donors_max, room)
    left = options.machines_max if needed is None else needed
    amounts = []
    for offer in offers[:donors]:
        amount = min(left, offer.machines, options.machines_max)
        if amount:
            amounts.append(amount)
        left -= amount
    return amounts


def _part(deficit: Units, before: int, after: int, needed: int | None) -> dict[str, int]:
    """The share of a deficit that falls to some of the machines needed; shares add up to it."""
    if needed is None:
        return dict(deficit)
    shares = {
        name: -(-amount * after // needed) + (-amount * before // needed)
        for name, amount in deficit.items()
    }
    return {name: amount for name, amount in shares.items() if amount > 0}


def _proposal(shortfall: Shortfall, offer: Offer, machines: int, part: Units) -> Proposal:
    recipient, missing = shortfall
    tier = offer.sources[0].tier
    types = sorted({source.instance_type for source in offer.sources})
    return Proposal(
        donor=offer.donor,
        recipient=recipient,
        tier=tier,
        wanted=Wanted(
            requirements=_narrowed(missing.requirements, offer.sources),
            deficit=part,
            min_unit=dict(missing.min_unit),
            priority=missing.priority,
            interruption_penalty_bucket=missing.interruption_penalty_bucket,
            machines_max=machines,
            providers=tuple(sorted({source.provider for source in offer.sources})),
        ),
        why=_why(shortfall, offer, tier),
        fingerprint=missing.fingerprint,
        instance_types=tuple(types),
    )


def _narrowed(
    requirements: Iterable[Requirement], sources: Iterable[Source]
) -> tuple[Requirement, ...]:
    """To the types and zones that are offered: others may be cooling down, or short."""
    types = {source.instance_type for source in sources}
    zones = {source.zone for source in sources}
    kept = {each for each in requirements if each.key != INSTANCE_TYPE_KEY}
    kept.add(Requirement(INSTANCE_TYPE_KEY, Operator.IN, tuple(types)))
    if all(zones):
        kept = {each for each in kept if each.key != ZONE_KEY}
        kept.add(Requirement(ZONE_KEY, Operator.IN, tuple(zones)))
    return tuple(sorted(kept))


def _why(shortfall: Shortfall, offer: Offer, tier: Tier) -> str:
    recipient, missing = shortfall
    types = sorted({source.instance_type for source in offer.sources})
    short = (
        f"{recipient} has missed {', '.join(_amounts(missing))} for "
        f"{_cycles(missing.age_cycles)} at priority {missing.priority}"
    )
    has = f"{offer.donor} has {_count(offer.machines, tier)} to spare"
    if tier is Tier.PREEMPT:
        has = f"nothing is free, and {offer.donor} serves what matters less with {offer.machines}"
    return f"{short}; {has} ({few(types, 'more types')})"


def _amounts(missing: Missing) -> Iterator[str]:
    for name, amount in sorted(missing.deficit.items()):
        if amount > 0:
            yield f"{from_units(name, amount)} {name}"


def _count(machines: int, tier: Tier) -> str:
    return f"{machines} {_NAMES[tier]}{'' if machines == 1 else 's'}"


def _cycles(age: int) -> str:
    return "1 cycle" if age == 1 else f"{age} cycles"


def _named(fingerprint: str) -> str:
    return fingerprint[:FINGERPRINT_TOLD] or "an unnamed kind"
