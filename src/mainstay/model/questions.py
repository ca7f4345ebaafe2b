"""Questions to a shard beyond its rows: why, what if, do this; and the calls that carry them.

Fields are named as in proto/mainstay/v1/shard.proto; those of BigFleet's ShardRead are ours.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, Protocol

from mainstay.model.group_views import GroupQuery, GroupRows
from mainstay.model.money_views import MoneyQuery, MoneyRows
from mainstay.model.rollup import RawNeed
from mainstay.model.state import State
from mainstay.model.views import (
    ActionQuery,
    ActionRows,
    ClusterQuery,
    ClusterRows,
    ControlQuery,
    ControlRow,
    ControlRows,
    MachineQuery,
    MachineRows,
    NeedQuery,
    NeedRows,
    ProviderQuery,
    ProviderRows,
    ShortfallQuery,
    ShortfallRows,
    Stamp,
    Summary,
    SummaryQuery,
)

LISTED_MAX: Final = 100
"""So many entries of a what-if's lists are told; of the rest only the number."""


class About(IntEnum):
    """What is asked about. The numbers are those of the wire."""

    UNSPECIFIED = 0
    NEED = 1
    GANG = 2
    MACHINE = 3
    CLUSTER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Why does this stand as it does?"""

    about: About
    name: str
    """Of a machine or a cluster; of a need or gang its cluster."""

    fingerprint: str = ""
    """The beginning will do."""

    group: str = ""
    quick: bool = False
    """Leave out what takes further decisions."""

    patience_s: float = 0.0
    """Begin no further decision after so many seconds; 0: as long as the shard allows."""


class When(IntEnum):
    """When what is asked about will be so. The numbers are those of the wire."""

    UNSPECIFIED = 0
    NOW = 1
    """It is so already."""

    ABOUT = 2
    """All of it is on its way."""

    NOT_BEFORE = 3
    """Something has to end first that ends by itself."""

    NEVER = 4
    """As things are; somebody has to change something."""

    UNKNOWN = 5
    """It is on its way, and nothing was measured that says how long that takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """When, and why then."""

    when: When = When.UNSPECIFIED
    seconds: float = 0.0
    """From now; only of ABOUT and NOT_BEFORE."""

    because: tuple[str, ...] = ()


NOTHING_EXPECTED: Final = Expected()


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The answer: for people, and as data."""

    stamp: Stamp
    subject: str = ""
    sentences: tuple[str, ...] = ()
    document: str = "{}"
    """JSON; the names are those of the certificate or report."""

    expected: Expected = NOTHING_EXPECTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """An attribute has one of these values."""

    key: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Machines that fulfil all of it."""

    matches: tuple[Match, ...] = ()
    capacity_types: tuple[str, ...] = ()
    states: tuple[State, ...] = ()
    providers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceChange:
    """Some machines cost so many times as much."""

    selection: Selection
    factor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """A cluster asks for more."""

    cluster: str
    need: RawNeed


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaChange:
    """A cluster, or a provider in a region, may hold so many; None is any number."""

    cluster: str = ""
    provider: str = ""
    region: str = ""
    held: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfQuery:
    """Everything at once: losses, then prices, demand, quota."""

    lost_zones: tuple[str, ...] = ()
    lost: tuple[Selection, ...] = ()
    prices: tuple[PriceChange, ...] = ()
    additions: tuple[Addition, ...] = ()
    quotas: tuple[QuotaChange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedChange:
    """What a need misses, before and after."""

    cluster: str
    fingerprint: str
    group: str = ""
    before: Mapping[str, str] = field(default_factory=dict)
    after: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfAnswer:
    """Two plans side by side."""

    stamp: Stamp
    actions_before: Mapping[str, int] = field(default_factory=dict)
    actions_after: Mapping[str, int] = field(default_factory=dict)
    cost_before: float = 0.0
    """Dollars per hour of all that serves or is on its way, the plan carried out."""

    cost_after: float = 0.0
    satisfied: tuple[NeedChange, ...] = ()
    unsatisfied: tuple[NeedChange, ...] = ()
    moved: tuple[NeedChange, ...] = ()
    drained: tuple[str, ...] = ()
    spared: tuple[str, ...] = ()
    satisfied_count: int = 0
    unsatisfied_count: int = 0
    moved_count: int = 0
    drained_count: int = 0
    spared_count: int = 0
    unmatched: tuple[str, ...] = ()
    """What changes were about and no machine of this shard has, in words: they were left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetControlRequest:
    """Restrict what the shard does."""

    kind: str
    cluster: str = ""
    value: float = 0.0
    reason: str = ""
    for_s: float = 0.0
    by: str = ""
    """Who asks, where no certificate says so."""

    even_if_unknown: bool = False
    """Without it, a cluster that the shard knows nothing of is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiftControlRequest:
    """End a live control before its time."""

    kind: str
    cluster: str = ""
    reason: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetireRequest:
    """Give up the record of a Failed machine."""

    machine: str
    reason: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retired:
    """It is no longer known; what its provider reports next is admitted again."""

    stamp: Stamp
    machine: str = ""
    last_error: str = ""
    """What it had failed of."""


class UnmetCode(IntEnum):
    """BigFleet's words for why a need is short. The numbers are those of the wire."""

    NONE = 0
    PRIORITY_STARVED = 1
    NO_MATCHING_SUPPLY = 2
    TOPOLOGY_UNSATISFIABLE = 3
    PREEMPTION_EXHAUSTED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How much of a gang one domain could hold."""

    domain: str
    per_mille: int
    """Of the dimension that is covered worst."""

    satisfiable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedNeed:
    """One need as ShardRead tells it."""

    need: RawNeed
    cluster: str
    fingerprint: str
    arrival_nanos: int = 0
    satisfied: bool = True
    missing: Mapping[str, str] = field(default_factory=dict)
    claimed: int = 0
    bootstraps: int = 0
    provisions: int = 0
    domain: str = ""
    satisfiable: bool = False
    parked: bool = False
    parked_age: int = 0
    unmet_age: int = 0
    reason: UnmetCode = UnmetCode.NONE
    supply: tuple[int, int, int] | None = None
    """Idle, Configured and Speculative machines that match; only for what is not met."""

    victims: int | None = None
    """How many are drained for it; only where preemption fell short."""

    freed: Mapping[str, str] = field(default_factory=dict)
    candidates: tuple[Coverage, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What a shard made of each need in its last cycle."""

    cycle: int = 0
    """Zero: nothing was computed yet, which is not the same as no demand."""

    computed_at_nanos: int = 0
    total: int = 0
    """Before the limit."""

    needs: tuple[InspectedNeed, ...] = ()


class ShardViewCalls(Protocol):
    """What may be asked of a shard. Raises only MainstayError."""

    def machines(self, query: MachineQuery) -> AsyncIterator[MachineRows]:
        """Machines in order of their ids, in chunks; one chunk at least."""

    async def needs(self, query: NeedQuery) -> NeedRows:
        """Demand, and what became of it."""

    async def clusters(self, query: ClusterQuery) -> ClusterRows:
        """Who is served."""

    async def actions(self, query: ActionQuery) -> ActionRows:
        """What was done and what was not."""

    async def shortfalls(self, query: ShortfallQuery) -> ShortfallRows:
        """What is missing."""

    async def providers(self, query: ProviderQuery) -> ProviderRows:
        """Through whom the shard acts."""

    async def controls(self, query: ControlQuery) -> ControlRows:
        """What restricts it."""

    async def summary(self, query: SummaryQuery) -> Summary:
        """All of it in a few numbers."""

    async def money(self, query: MoneyQuery) -> MoneyRows:
        """What it costs and has cost."""

    async def explain(self, question: Question) -> Explanation:
        """Why."""

    async def what_if(self, query: WhatIfQuery) -> WhatIfAnswer:
        """What would change if."""

    async def groups(self, query: GroupQuery) -> GroupRows:
        """Machines counted by the values of an attribute."""

    async def inspect(self, cluster: str, limit: int) -> Inspection:
        """Every need, as BigFleet's tools read it."""


class ShardControlCalls(Protocol):
    """What may be told to a shard."""

    async def set_control(self, request: SetControlRequest) -> ControlRow:
        """Restrict it."""

    async def lift_control(self, request: LiftControlRequest) -> ControlRow:
        """Lift a restriction; the one that was in force."""

    async def retire(self, request: RetireRequest) -> Retired:
        """Give up a Failed machine."""
