"""What the coordinator keeps, one record a key. Nothing here is ever changed in place."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from mainstay.coordinator import codec
from mainstay.coordinator.keys import Kind
from mainstay.coordinator.tiers import Tier
from mainstay.model.coordination import Domain, Handed, Payload, QuotaMoved, Wanted
from mainstay.model.ids import ShardId

FORMAT: Final = 1
"""Of everything below; a store that was written with another is not read."""

NOBODY: Final = ShardId("")


class Stamp(NamedTuple):
    """Which report: they are ordered by the shard's life, then by their number in it."""

    epoch: int
    number: int


NEVER: Final = Stamp(-1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaRecord:
    """What is true of the whole fleet."""

    term_base: int = 0
    """Added to the revision of the leader's key: terms go on growing when a store was lost."""

    format: int = FORMAT


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardRecord:
    """A shard, as far as a new leader must know it."""

    address: str = ""
    epoch: int = 0
    registered_at_ns: int = 0
    last_report: Stamp = NEVER
    """Of the last report that changed anything: an older one that comes late changes nothing."""

    next_sequence: int = 1
    removing: bool = False
    takes_all: bool = False
    """Whether it may still have any machine of its providers."""

    providers: tuple[str, ...] = ()
    hands_over: bool = False
    """Whether it says all that is ours to say: that it has no provider too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRecord:
    """Which shard a cluster is bound to."""

    shard: ShardId
    bound_at_ns: int = 0


class DomainState(StrEnum):
    """Where a domain stands on its way from shard to shard."""

    ARRIVING = "arriving"
    """Its shard was told to take it, and has not said yet that it did."""

    HELD = "held"
    LEAVING = "leaving"
    """Its shard was told to let it go, and has not said yet that it did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainRecord:
    """Who owns a domain."""

    shard: ShardId
    state: DomainState
    to: ShardId = NOBODY
    """Who gets it next, while it is leaving."""


class StrayState(StrEnum):
    """Whether the shard of a stray is known to have it."""

    GRANTED = "granted"
    """It was told to take it, and has not said yet that it did."""

    HELD = "held"
    PARKED = "parked"
    """Nobody has it: the owner of its domain, which is its shard here, would not take it, or is
    about to lose the domain.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class StrayRecord:
    """A machine that another shard has than the owner of its domain."""

    shard: ShardId
    provider: str
    domain: Domain | None
    state: StrayState
    leaving: bool = False
    home: ShardId = NOBODY
    """Who gave it away first: it goes back there when nobody owns its domain."""

    move: str = ""
    """Which move granted it; empty once it is held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaRecord:
    """An entitlement, and how much of it each shard may hold."""

    entitled: int
    granted: Mapping[ShardId, int] = field(default_factory=dict)
    waiting: Mapping[str, int] = field(default_factory=dict)
    """What goes with machines that nobody has, by `key=value` of the domain they lie in; an empty
    text: in some domain. Whoever gets them counts them.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderRecord:
    """A provider that some shard has reported."""

    address: str
    region: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionRecord:
    """An instruction that was not acknowledged yet."""

    id: str
    payload: Payload
    move: str = ""
    created_at_ns: int = 0
    quota: tuple[QuotaMoved, ...] = ()
    """What goes with what is to be taken: granted to its shard, which hears of it afterwards."""


class MoveState(StrEnum):
    """Where a move stands. `mainstay.coordinator.handover.TABLE` says what follows what."""

    ASKED = "asked"
    WITHDRAWN = "withdrawn"
    GIVEN = "given"
    RETURNING = "returning"
    DONE = "done"
    REFUSED = "refused"
    RETURNED = "returned"
    LOST = "lost"


SETTLED: Final = frozenset({MoveState.DONE, MoveState.REFUSED, MoveState.RETURNED, MoveState.LOST})
"""Nothing more happens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveRecord:
    """A planned hand-over of machines from a donor to a recipient."""

    donor: ShardId
    recipient: ShardId
    tier: Tier
    state: MoveState
    wanted: Wanted | None = None
    """None for a return: then the machines are known from the start."""

    machines: tuple[Handed, ...] = ()
    created_at_ns: int = 0
    settled_at_ns: int = 0
    why: str = ""
    fingerprint: str = ""
    """Of the shortfall it is for."""

    instance_types: tuple[str, ...] = ()
    """All that it may take machines of."""


class ConflictKind(StrEnum):
    """What two shards disagree about."""

    CLUSTER = "cluster"
    PROVIDER = "provider"
    DOMAIN = "domain"
    STRAY = "stray"
    TAKES_ALL = "takes_all"
    ADRIFT = "adrift"
    """A shard was told that others have machines of its domains, and nobody has them."""

    PARKED = "parked"
    """The owner of a domain would not take machines of it back."""

    UNOWNED = "unowned"
    """A shard has lost a domain that it should have: nobody has it."""


@dataclass(frozen=True, slots=True, order=True)
class Conflict:
    """Something that a report says and the records do not bear out: a person must look."""

    kind: ConflictKind
    subject: str
    """The cluster, provider, domain or machine."""

    shards: tuple[ShardId, ...]
    what: str
    until: Domain | None = field(default=None, compare=False)
    """It lasts until this domain has an owner, whatever the next report says."""


Record: TypeAlias = (
    MetaRecord
    | ShardRecord
    | ClusterRecord
    | DomainRecord
    | StrayRecord
    | QuotaRecord
    | ProviderRecord
    | InstructionRecord
    | MoveRecord
)

RECORDS: Final[Mapping[Kind, type[Record]]] = {
    Kind.META: MetaRecord,
    Kind.SHARD: ShardRecord,
    Kind.CLUSTER: ClusterRecord,
    Kind.DOMAIN: DomainRecord,
    Kind.STRAY: StrayRecord,
    Kind.QUOTA: QuotaRecord,
    Kind.PROVIDER: ProviderRecord,
    Kind.INSTRUCTION: InstructionRecord,
    Kind.MOVE: MoveRecord,
}


def encode(record: Record) -> bytes:
    """The value of a key."""
    return codec.encode(record)


def decode(kind: Kind, value: bytes, *, key: str) -> Record:
    """The record under a key. Rejected names the key when it cannot be read."""
    return codec.decode(RECORDS[kind], value, key=key)
