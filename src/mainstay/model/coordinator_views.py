"""What a coordinator tells people and tools, as values.

Field names are those of proto/mainstay/v1/coordinator.proto, so that one rule carries them all.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorStamp:
    """Whose answer it is, and in which term of leadership it was given."""

    coordinator: str
    term: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardQuery:
    """Which shards. What is empty is not asked, here and below."""

    shard: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardRow:
    """One shard, as the coordinator knows it."""

    id: str
    address: str = ""
    epoch: int = 0
    registered_at_ns: int = 0
    last_heartbeat_ns: int = 0
    """Zero: this leader has not heard it yet."""

    machines: int = 0
    free: int = 0
    domains: int = 0
    clusters: int = 0
    strays: int = 0
    takes_all: bool = False
    """Whether it was never assigned a domain, and so takes every machine."""

    can_hand_over: bool = False
    """Whether machines can be moved to and from it."""

    instructions: int = 0
    """Pending."""

    conflicts: int = 0
    shortfalls: int = 0
    removing: bool = False
    """Whether it is being removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardRows:
    """By id."""

    stamp: CoordinatorStamp
    rows: tuple[ShardRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainQuery:
    """Which domains. A limit of zero is none."""

    shard: str = ""
    key: str = ""
    value: str = ""
    limit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainRow:
    """One domain, and who has it."""

    key: str
    value: str
    shard: str = ""
    to: str = ""
    """Where it goes, while it is leaving for another shard."""

    state: str = ""
    """held, arriving or leaving."""

    strays: int = 0
    """Machines of it that another shard has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainRows:
    """By key and value."""

    stamp: CoordinatorStamp
    matched: int = 0
    """Before the limit."""

    rows: tuple[DomainRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterBindingQuery:
    """Which bindings."""

    cluster: str = ""
    shard: str = ""
    limit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterBindingRow:
    """A cluster, and the shard that serves it for good."""

    cluster: str
    shard: str = ""
    bound_at_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterBindingRows:
    """By cluster."""

    stamp: CoordinatorStamp
    matched: int = 0
    rows: tuple[ClusterBindingRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaQuery:
    """Which quotas."""

    kind: str = ""
    name: str = ""
    region: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaShare:
    """What one shard has of a quota; all but `granted` by its last report, -1 before the first."""

    shard: str
    """Or in parentheses a domain: so much waits there for machines that nobody has."""

    granted: int = 0
    held: int = -1
    used: int = -1
    wanted: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaRow:
    """One entitlement, and who has how much of it."""

    kind: str
    """cluster or place."""

    name: str
    region: str = ""
    entitled: int = 0
    granted: int = 0
    """Of all shards together, with what waits; above `entitled` only after state was lost."""

    shares: tuple[QuotaShare, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaRows:
    """By kind, name and region."""

    stamp: CoordinatorStamp
    rows: tuple[QuotaRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderRegistryQuery:
    """All of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderRegistryRow:
    """A provider, and through which shards it was heard of."""

    name: str
    address: str = ""
    region: str = ""
    shards: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderRegistryRows:
    """By name."""

    stamp: CoordinatorStamp
    rows: tuple[ProviderRegistryRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionQuery:
    """Which pending instructions."""

    shard: str = ""
    limit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionRow:
    """An instruction that its shard has not done yet."""

    shard: str
    sequence: int
    id: str
    kind: str = ""
    """The name of its payload."""

    what: str = ""
    """The payload, for people."""

    move: str = ""
    """The move it is a step of."""

    created_at_ns: int = 0
    attempts: int = 0
    """Answers that did not end it, as this leader has heard them."""

    last_outcome: str = ""
    last_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionRows:
    """By shard and number."""

    stamp: CoordinatorStamp
    matched: int = 0
    rows: tuple[InstructionRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveQuery:
    """Which moves."""

    shard: str = ""
    """Donor or recipient."""

    unsettled: bool = False
    """Only those that are still under way."""

    limit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveRow:
    """A hand-over of machines from one shard to another."""

    id: str
    donor: str = ""
    recipient: str = ""
    tier: int = 0
    state: str = ""
    wanted: str = ""
    """For people."""

    machines: tuple[str, ...] = ()
    created_at_ns: int = 0
    settled_at_ns: int = 0
    """Zero: under way."""

    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveRows:
    """The newest first."""

    stamp: CoordinatorStamp
    matched: int = 0
    rows: tuple[MoveRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictQuery:
    """Which conflicts."""

    shard: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictRow:
    """Two claim the same; the first one keeps it."""

    kind: str
    """cluster, domain, machine, provider or address."""

    subject: str
    holder: str = ""
    claimant: str = ""
    first_seen_ns: int = 0
    last_seen_ns: int = 0
    times: int = 0
    what_to_do: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictRows:
    """Those that were seen in the last report of their claimant."""

    stamp: CoordinatorStamp
    rows: tuple[ConflictRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanQuery:
    """What the planner would do now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalRow:
    """A move that the planner proposes."""

    donor: str
    recipient: str
    tier: int = 0
    wanted: str = ""
    """For people."""

    machines_max: int = 0
    priority: int = 0
    fingerprint: str = ""
    """Of the kind of need that it is for."""

    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRow:
    """A shortfall that leads to no proposal, and why."""

    shard: str
    fingerprint: str = ""
    priority: int = 0
    age: int = 0
    sentence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """The whole plan; nothing of it is done by asking."""

    stamp: CoordinatorStamp
    at_ns: int = 0
    acts: bool = False
    """Whether the coordinator carries such plans out by itself."""

    proposals: tuple[ProposalRow, ...] = ()
    verdicts: tuple[VerdictRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingQuery:
    """Who leads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingRow:
    """One coordinator; the only answer that one gives that does not lead."""

    id: str
    leads: bool = False
    term: int = 0
    leader: str = ""
    """The address of the one that leads; empty when nobody is known to."""

    store: str = ""
    """Which engine, and whether it is replicated."""
