"""What shards and the coordinator say to one another: reports up, instructions back.

The wire is BigFleet's; what only we have travels in fields from 1000 up, so that an old peer reads
the rest. A shard that sends none of ours is one that cannot hand machines over (`can_hand_over`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import NamedTuple, TypeAlias

from mainstay.model.ids import ClusterId, MachineId, ShardId
from mainstay.model.need import Requirement
from mainstay.model.resources import Units


class Domain(NamedTuple):
    """All machines with this value of a label: a zone, a rack, a pool."""

    key: str
    value: str


class Handed(NamedTuple):
    """A machine that changes hands."""

    machine: MachineId
    provider: str
    """Which provider reports it, by the name that shards know it by."""

    domain: Domain | None
    """Where it lies; None where nobody said."""


class Stray(NamedTuple):
    """A machine of a shard that lies outside its domains."""

    machine: MachineId
    provider: str
    domain: Domain | None
    leaving: bool
    """Whether it is let go as soon as it is free: its domain was taken away."""


class Outcome(IntEnum):
    """What became of an instruction. The numbers are those of the wire."""

    UNSPECIFIED = 0
    ACCEPTED = 1
    REJECTED_STALE = 2
    REJECTED_INVALID = 3
    FAILED = 4


class QuotaKind(StrEnum):
    """What a quota limits."""

    CLUSTER = "cluster"
    """Machines that a cluster may hold."""

    PLACE = "place"
    """Machines of a provider in a region that are more than a speculative slot."""


class QuotaOf(NamedTuple):
    """Whose quota: `name` is a cluster, or a provider with its region."""

    kind: QuotaKind
    name: str
    region: str = ""


class QuotaMoved(NamedTuple):
    """How much of a number that a shard held goes with machines that it has let go of."""

    of: QuotaOf
    amount: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructAck:
    """What became of one instruction."""

    instruction: str
    outcome: Outcome
    reason: str = ""
    given: tuple[Handed, ...] = ()
    """What a donor has let go of; it is no longer the donor's."""

    quota: tuple[QuotaMoved, ...] = ()
    """What the shard no longer holds, because it goes with what was let go of: only of places that
    it held a number for. Speculative slots count nothing.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A shortfall as it is reported: one kind of need, over all clusters of a shard."""

    requirements: tuple[Requirement, ...] = ()
    deficit: Units = field(default_factory=dict)
    priority: int = 0
    age_cycles: int = 0
    interruption_penalty_bucket: int = 0
    reclamation_penalty_bucket: int = 0
    min_unit: Units = field(default_factory=dict)
    topology: bool = False
    """Whether its machines must agree on a label: such a need is never met across shards."""

    quota: bool = False
    """Whether quota alone stops it."""

    fingerprint: str = ""


class FreeRow(NamedTuple):
    """How many free machines of one kind a shard has."""

    provider: str
    instance_type: str
    zone: str
    idle: int
    speculative: int


class ServingRow(NamedTuple):
    """How many Configured machines of one kind serve at one priority; for preemption only."""

    provider: str
    instance_type: str
    zone: str
    priority: int
    interruption_penalty_bucket: int
    machines: int


class ProviderLine(NamedTuple):
    """A provider as a shard knows it."""

    name: str
    address: str


class QuotaLine(NamedTuple):
    """One number that a shard holds, and how it stands."""

    of: QuotaOf
    held: int
    """Never more than was granted; None was ever granted: -1."""

    used: int
    wanted: int
    """How much it could use now."""


class Grant(NamedTuple):
    """The coordinator's word about one number."""

    of: QuotaOf
    granted: int
    """The shard may hold as much as this."""

    target: int
    """The shard is asked to come down to this, but never below what it uses; -1: nothing asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A shard in numbers."""

    total_machines: int = 0
    free_machines: int = 0
    by_instance_type: Mapping[str, int] = field(default_factory=dict)
    by_zone: Mapping[str, int] = field(default_factory=dict)
    provider_address: str = ""
    free: tuple[FreeRow, ...] = ()
    serving: tuple[ServingRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardReport:
    """A heartbeat, and all it carries."""

    shard: ShardId
    number: int = 0
    """Counts the reports of one life; grows with every attempt."""

    at_ns: int = 0
    epoch: int = 0
    summary: Summary = Summary()
    missing: tuple[Missing, ...] = ()
    acks: tuple[InstructAck, ...] = ()
    address: str = ""
    can_hand_over: bool = False
    """Whether it knows our fields; then those below mean what they say, empty ones too."""

    term_seen: int = 0
    """The highest term of a coordinator it has heard."""

    clusters: tuple[ClusterId, ...] = ()
    """Which hold a session."""

    takes_all: bool = False
    """Whether it was never assigned a domain, and so takes every machine."""

    domains: tuple[Domain, ...] = ()
    strays: tuple[Stray, ...] = ()
    providers: tuple[ProviderLine, ...] = ()
    quota: tuple[QuotaLine, ...] = ()
    away: tuple[Handed, ...] = ()
    """Machines inside its domains that others have, as it was told; the first 10,000 by id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a donor is asked for; it names the machines itself."""

    requirements: tuple[Requirement, ...] = ()
    deficit: Units = field(default_factory=dict)
    min_unit: Units = field(default_factory=dict)
    priority: int = 0
    interruption_penalty_bucket: int = 0
    machines_max: int = 0
    providers: tuple[str, ...] = ()
    """Only machines of these: the recipient must be able to see them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignDomain:
    """Take in the machines of a domain."""

    domain: Domain
    away: tuple[MachineId, ...] = ()
    """Except these: other shards have them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnassignDomain:
    """Let go of the free machines of a domain, and of each other one when it is free."""

    domain: Domain


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferOwnership:
    """To the donor: let go of Idle machines. To the recipient: take these."""

    from_shard: ShardId
    to_shard: ShardId
    machines: tuple[Handed, ...] = ()
    wanted: Wanted | None = None
    """Set for a donor that is to choose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignSpeculative:
    """The same for speculative slots."""

    from_shard: ShardId
    to_shard: ShardId
    machines: tuple[Handed, ...] = ()
    wanted: Wanted | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossShardDrain:
    """To a donor: empty machines that serve what matters less, then let go of them once Idle."""

    to_shard: ShardId
    wanted: Wanted
    preemptor_priority: int = 0


Payload: TypeAlias = (
    AssignDomain | UnassignDomain | TransferOwnership | ReassignSpeculative | CrossShardDrain
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """Fenced by its term, done at most once by its id, handled in the order of its number."""

    term: int
    sequence: int
    id: str
    payload: Payload | None
    """None: of a kind that we do not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportAck:
    """The coordinator's answer to a report."""

    term: int
    acknowledged: bool = True
    instructions: tuple[Instruction, ...] = ()
    grants: tuple[Grant, ...] = ()
    remarks: tuple[str, ...] = ()
    """For people: a conflict, an address that was not taken over."""
