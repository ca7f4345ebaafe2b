"""Reasons as data: what an explanation claims. docs/explanation/reasons.md defines every field.

Nothing here is prose: each number and each id can be checked against the machines, the demand and
the plan, and tests/oracles/certificate_checker.py does so without any of our code.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from mainstay.engine.plan import Unmet
from mainstay.engine.quota import Place
from mainstay.model.assignment import NeedRef
from mainstay.model.ids import MachineId
from mainstay.model.need import Need, Requirement
from mainstay.model.resources import Units

LISTED_MAX: Final = 20
"""So many ids, refs or holders are named; of the rest only the number is told."""


@dataclass(frozen=True, slots=True)
class Group:
    """Some machines: how many, and the first of them by id."""

    count: int
    ids: tuple[MachineId, ...]


class How(Enum):
    """How a machine counts for a need."""

    CONFIGURED = "configured"
    CONFIGURING = "configuring"
    CREATING = "creating"
    DRAINING = "draining"
    BOOTSTRAP = "bootstrap"
    PROVISION = "provision"
    ASIDE = "set aside"
    LOST = "lost"
    """It serves the need and is preempted for another."""

    RECLAIM = "reclaim"
    """Excess that is drained for it."""

    PREEMPT = "preempt"
    """A victim that is drained for it."""


class Filter(Enum):
    """What keeps machines from a need, in the order of the funnel."""

    FLEET = "fleet"
    """Every machine of the snapshot: what the funnel starts from."""

    SERVING = "serving"
    """It counts for the need already."""

    REQUIREMENT = "requirement"
    MIN_UNIT = "min unit"
    ADDS = "adds"
    """It provides nothing of what is missing."""

    DOMAIN = "domain"
    STATE = "state"
    BARRED = "barred"
    """It must not be acquired now."""

    CLAIMED = "claimed"
    QUOTA = "quota"
    SPREAD = "spread"
    PARKED = "parked"
    """The gang is parked or has no domain, so it does not try."""

    WHOLE = "whole"
    """A gang takes all or nothing."""


CLOSING: Final = frozenset({Filter.PARKED, Filter.WHOLE})
"""Filters that stop every machine: they are about the need, not about a machine."""

LIFTABLE: Final = frozenset(Filter) - CLOSING - {Filter.FLEET, Filter.SERVING, Filter.ADDS}


@dataclass(frozen=True, slots=True)
class Step:
    """One filter of the funnel and what is left behind it."""

    filter: Filter
    requirement: Requirement | None
    left: int
    capacity: Units
    """What those left provide of each missing dimension; as many as the quota leaves room for."""

    lifted: int | None
    """How many pass every other filter that is about machines; None where that means nothing."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds machines that the need could else have, and at what priority."""

    need: NeedRef | None
    """None when nobody claims them."""

    priority: int
    count: int


@dataclass(frozen=True, slots=True)
class Miss:
    """One filter that a machine fails, and by how much."""

    step: int
    """Its place in the funnel."""

    has: tuple[str, ...]
    """The attribute (none when absent), the domain, or the state that it has."""

    lacks: Units
    """What is missing to the min unit."""

    holder: NeedRef | None
    priority: int | None
    """At what priority it is held."""


@dataclass(frozen=True, slots=True)
class NearMiss:
    """The machine that fails the fewest filters."""

    machine: MachineId
    misses: tuple[Miss, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing is asked otherwise; the gang tries again instead of being parked."""


@dataclass(frozen=True, slots=True)
class SoftSpread:
    """Every spread that is to be kept by force is only preferred."""


@dataclass(frozen=True, slots=True)
class Widen:
    """One requirement admits more."""

    old: Requirement
    new: Requirement


@dataclass(frozen=True, slots=True)
class SmallerUnit:
    """Each machine has to hold less on its own."""

    min_unit: Units


@dataclass(frozen=True, slots=True)
class Fewer:
    """Only some of the pieces that the need is made of."""

    pieces: int
    of: int
    refused: int
    """The least number known not to be admitted; one more than `pieces` unless tries ran out."""


@dataclass(frozen=True, slots=True)
class Drop:
    """One requirement is given up."""

    requirement: Requirement


@dataclass(frozen=True, slots=True)
class MoreQuota:
    """So many more than are held."""

    machines: int
    """Of the need's cluster."""

    slots: Mapping[Place, int]


@dataclass(frozen=True, slots=True)
class HigherPriority:
    """The need matters more."""

    priority: int
    refused: int
    """The highest one that is known not to be enough."""


Change = Wait | SoftSpread | Widen | SmallerUnit | Fewer | Drop | MoreQuota | HigherPriority

CHANGES: Final = (
    Wait, SoftSpread, Widen, SmallerUnit, Fewer, Drop, MoreQuota, HigherPriority,
)  # fmt: skip
"""From the smallest change to the largest: first what changes nothing that is asked, then what
keeps the amount, then what gives some of it or a whole requirement up, then what others must grant
or pay for."""


@dataclass(frozen=True, slots=True)
class Relaxation:
    """A change under which the need is admitted, as deciding again has shown."""

    change: Change
    acquired: Group
    """What is bootstrapped or provisioned for it then."""

    drained: Group
    """What is reclaimed or preempted for it then."""

    price_per_hour: float
    """Of all these together."""

    displaced: tuple[NeedRef, ...]
    """Needs that are admitted now and would not be then, the first ones by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedCertificate:
    """Why a need is, or is not, served."""

    place: int
    """In the plan's needs, which are in walk order."""

    need: Need
    gangs: tuple[NeedRef, ...]
    """The gangs that were folded into it."""

    verdict: Unmet | None
    """None when it is satisfied."""

    serving: Mapping[How, Group]
    missing: Units
    """After what is drained for it; empty when it is admitted."""

    domain: tuple[str, ...] | None
    """Of a gang that misses something: where it looks; if it does not, where there is most."""

    funnel: tuple[Step, ...]
    """Empty when nothing is missing, and so is all that follows."""

    blocking: int | None
    """The first step behind which what is left does not cover what is missing."""

    emptied: int | None
    """The first step that leaves nothing."""

    holders: tuple[Holder, ...]
    """Of the machines that pass every step before `CLAIMED` and fail there; most first."""

    nearest: NearMiss | None
    relaxations: tuple[Relaxation, ...]
    """The smallest first."""

    @property
    def smallest(self) -> Relaxation | None:
        """The least change that was found to admit it."""
        return self.relaxations[0] if self.relaxations else None
