"""What may be asked of a coordinator and told to it, and the calls that carry it.

Fields are named as in proto/mainstay/v1/coordinator.proto. The last ones, without a stamp, are what
BigFleet's own tools list.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from mainstay.model.coordination import Domain, Missing, Summary
from mainstay.model.coordinator_views import (
    ClusterBindingQuery,
    ClusterBindingRows,
    ConflictQuery,
    ConflictRows,
    CoordinatorStamp,
    DomainQuery,
    DomainRows,
    InstructionQuery,
    InstructionRows,
    MoveQuery,
    MoveRows,
    PlanQuery,
    PlanRow,
    ProviderRegistryQuery,
    ProviderRegistryRows,
    QuotaQuery,
    QuotaRows,
    ShardQuery,
    ShardRows,
    StandingQuery,
    StandingRow,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveDomainRequest:
    """Give a domain to another shard, with all its machines."""

    key: str
    value: str
    to: str
    reason: str = ""
    by: str = ""
    """Who asks, where no certificate says so; here and below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetQuotaRequest:
    """Entitle a cluster, or a provider in a region."""

    kind: str
    name: str
    region: str = ""
    entitled: int = 0
    reason: str = ""
    by: str = ""
    forget_waiting: bool = False
    """Whether what waits for machines that nobody has is free again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearQuotaRequest:
    """Limit it no longer."""

    kind: str
    name: str
    region: str = ""
    reason: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnbindClusterRequest:
    """Forget which shard serves a cluster; the next report that names it binds it anew."""

    cluster: str
    reason: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelMoveRequest:
    """Take back a move; what was given already goes back to the donor."""

    move: str
    reason: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnMachinesRequest:
    """Give a shard back what it was told is away and no shard has; no machines: all of that."""

    shard: str
    machines: tuple[str, ...] = ()
    reason: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorDone:
    """It is stored; `sentence` says what follows from it."""

    stamp: CoordinatorStamp
    sentence: str = ""


class Leads(Protocol):
    """Whoever may lead or not."""

    def require_leading(self) -> None:
        """NotLeading, with the address of the one that leads, when this one does not."""


class CoordinatorViewCalls(Leads, Protocol):
    """What may be asked of a coordinator. Raises only MainstayError; only the leader answers, but
    for `standing`.
    """

    async def shards(self, query: ShardQuery) -> ShardRows:
        """Who reports."""

    async def domains(self, query: DomainQuery) -> DomainRows:
        """Who has which domain."""

    async def clusters(self, query: ClusterBindingQuery) -> ClusterBindingRows:
        """Who serves which cluster."""

    async def quotas(self, query: QuotaQuery) -> QuotaRows:
        """Who holds how much of what."""

    async def providers(self, query: ProviderRegistryQuery) -> ProviderRegistryRows:
        """Providers that shards have told of."""

    async def instructions(self, query: InstructionQuery) -> InstructionRows:
        """What shards were told and have not done."""

    async def moves(self, query: MoveQuery) -> MoveRows:
        """Hand-overs, under way and past."""

    async def conflicts(self, query: ConflictQuery) -> ConflictRows:
        """What two claim."""

    async def plan(self, query: PlanQuery) -> PlanRow:
        """What the planner would do now, and why not more."""

    async def standing(self, query: StandingQuery) -> StandingRow:
        """Who this one is, and who leads."""


class CoordinatorControlCalls(Leads, Protocol):
    """What may be told to a coordinator. `by` is the caller's certificate where there is one."""

    async def move_domain(self, request: MoveDomainRequest) -> CoordinatorDone:
        """Give a domain to another shard."""

    async def set_quota(self, request: SetQuotaRequest) -> CoordinatorDone:
        """Entitle."""

    async def clear_quota(self, request: ClearQuotaRequest) -> CoordinatorDone:
        """Limit no longer."""

    async def unbind_cluster(self, request: UnbindClusterRequest) -> CoordinatorDone:
        """Forget a binding."""

    async def cancel_move(self, request: CancelMoveRequest) -> CoordinatorDone:
        """Take back a move."""

    async def return_machines(self, request: ReturnMachinesRequest) -> CoordinatorDone:
        """Give a shard back what no shard has."""


class RegisteredShard(NamedTuple):
    """A row of BigFleet's ListShards."""

    shard: str
    address: str
    registered_at_ns: int
    last_heartbeat_ns: int


class AssignedDomain(NamedTuple):
    """A row of ListDomainAssignments."""

    domain: Domain
    shard: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenReport:
    """A row of ListShardReports; of shortfalls, requirements are not told."""

    shard: str
    number: int = 0
    received_at_ns: int = 0
    summary: Summary = field(default_factory=Summary)
    missing: tuple[Missing, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaAllocation:
    """A row of ListQuotas, which knows quotas of places only."""

    provider: str
    region: str = ""
    per_shard: Mapping[str, int] = field(default_factory=dict)


class RegisteredProvider(NamedTuple):
    """A row of ListProviders."""

    name: str
    address: str
    region: str


class Snapshot(NamedTuple):
    """The whole state as SnapshotSave sends it."""

    meta_json: bytes
    data: bytes
