"""What a shard tells people and tools, and what they may ask of it, as values.

Plain words and numbers: whoever reads them knows neither the engine nor the wire. Field names are
those of proto/mainstay/v1/shard.proto, so that one rule carries them all.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mainstay.model.progress import NO_MACHINES, Progress
from mainstay.model.state import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """Whose answer it is, and which cycle it is about."""

    shard: str
    cycle: int = 0
    """Zero: nothing was computed yet, which is not the same as nothing."""

    at_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineQuery:
    """Which machines. What is empty is not asked; a limit of zero is none."""

    states: tuple[State, ...] = ()
    cluster: str = ""
    instance_type: str = ""
    zone: str = ""
    provider: str = ""
    limit: int = 0
    after: str = ""
    """Only ids behind this one; what is matched is counted without it, here and below."""

    attribute: str = ""
    value: str = ""
    """Only those whose `attribute` has this value: a label, or the key of zone or type."""

    ids: tuple[str, ...] = ()
    """Only these."""

    labels: Mapping[str, str] = field(default_factory=dict)
    """Only those that have each of these, as `attribute` and `value` say it of one."""

    capacity_types: tuple[str, ...] = ()
    text: str = ""
    """Only those whose id, state, cluster, type, zone, capacity type or action has this in it,
    whatever its case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineRow:
    """One machine."""

    id: str
    state: State
    cluster: str = ""
    """It is bound to it, or being created for it."""

    instance_type: str = ""
    zone: str = ""
    capacity_type: str = ""
    provider: str = ""
    price_per_hour: float = 0.0
    interruption_probability: float = 0.0
    need: str = ""
    """Fingerprint of the need that claims it."""

    group: str = ""
    action: str = ""
    """What the plan does with it."""

    idle_since_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineRows:
    """A chunk of an answer; `matched` is counted before the limit."""

    stamp: Stamp
    matched: int = 0
    rows: tuple[MachineRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedQuery:
    """Which needs."""

    cluster: str = ""
    unmet: bool = False
    limit: int = 0
    after: int = 0
    """Only those behind this place."""

    fingerprint: str = ""
    """What its fingerprint begins with."""

    group: str = ""
    reason: str = ""
    least_priority: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedRow:
    """One need, as the last cycle saw it."""

    cluster: str
    fingerprint: str
    group: str = ""
    priority: int = 0
    asked: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""
    """Empty when it is satisfied."""

    age: int = 0
    """Cycles for which its kind has been short."""

    machines: int = 0
    parked: bool = False
    domain: str = ""
    asks_for: str = ""
    min_unit: Mapping[str, str] = field(default_factory=dict)
    place: int = 0
    """In the order in which needs are served, from 1."""

    progress: Progress = NO_MACHINES


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedRows:
    """Needs in the order in which they are served."""

    stamp: Stamp
    matched: int = 0
    rows: tuple[NeedRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterQuery:
    """Which clusters."""

    cluster: str = ""
    limit: int = 0
    after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRow:
    """One cluster: connected, or with machines or needs here."""

    cluster: str
    connected: bool = False
    heard: bool = False
    """Whether it has told its demand since the shard started."""

    since_s: float = 0.0
    protocol_version: str = ""
    needs: int = 0
    unmet: int = 0
    machines: Mapping[str, int] = field(default_factory=dict)
    """By name of the state."""

    spend_per_hour: float = 0.0
    held_rollups: int = 0
    waiting_frames: int = 0
    quota: int = 0
    limited: bool = False
    """Whether `quota` means anything."""

    progress: Progress = NO_MACHINES


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRows:
    """Clusters by name."""

    stamp: Stamp
    matched: int = 0
    rows: tuple[ClusterRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionQuery:
    """Which of the last actions."""

    cluster: str = ""
    machine: str = ""
    disposition: str = ""
    limit: int = 0
    after: str = ""
    """Only those that are older than the one with this id."""

    kind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRow:
    """What became of one action."""

    cycle: int
    decided: int
    kind: str
    machine: str
    cluster: str = ""
    need: str = ""
    group: str = ""
    provider: str = ""
    disposition: str = ""
    reason: str = ""
    outcome: str = ""
    detail: str = ""
    seconds: float = 0.0
    price_per_hour: float = 0.0
    saved_per_hour: float = 0.0
    """Dollars; of a reclaim what nobody pays any more, of a preempt what its need need not buy."""

    at_risk_dollars: float = 0.0
    """What its workload loses by being drained."""

    pinned: bool = False
    """No amount is enough: `at_risk_dollars` then says nothing."""

    id: str = ""
    """To go on behind it."""

    at_s: float = 0.0
    need_cluster: str = ""
    """Whose need it was for; a preempt drains another's machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRows:
    """The newest first."""

    stamp: Stamp
    matched: int = 0
    rows: tuple[ActionRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortfallQuery:
    """The first of them."""

    limit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortfallRow:
    """What is missing for one kind of need over all clusters."""

    fingerprint: str
    priority: int = 0
    missing: Mapping[str, str] = field(default_factory=dict)
    age: int = 0
    band: str = ""
    needs: int = 0
    """How many rows of demand it is."""

    clusters: tuple[str, ...] = ()
    """The first of them; `clusters_in_all` counts the rest too."""

    clusters_in_all: int = 0
    reasons: tuple[str, ...] = ()
    asks_for: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortfallRows:
    """The most important first."""

    stamp: Stamp
    matched: int = 0
    rows: tuple[ShortfallRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderQuery:
    """All of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderRow:
    """One provider of a shard."""

    name: str
    health: str = ""
    machines: int = 0
    why: str = ""
    failures: int = 0
    listed_at_s: float = 0.0
    """Zero: never."""

    incremental: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderRows:
    """By name."""

    stamp: Stamp
    rows: tuple[ProviderRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlQuery:
    """All of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRow:
    """Somebody restricts what the shard does for a time; the configuration (`fixed`) has no end."""

    kind: str
    cluster: str = ""
    """Empty: the whole shard."""

    value: float = 0.0
    reason: str = ""
    by: str = ""
    set_at_s: float = 0.0
    expires_at_s: float = 0.0
    fixed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRows:
    """In force now."""

    stamp: Stamp
    rows: tuple[ControlRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MoneyRow:
    """A part, or the whole. All money in billionths of a dollar, so that parts add up exactly."""

    name: str = ""
    hosts: int = 0
    """Machines that are paid for now."""

    spend_per_hour: int = 0
    spent: int = 0
    idle_per_hour: int = 0
    idle: int = 0
    """What was paid for machines that belong to no cluster."""

    unclaimed_per_hour: int = 0
    unclaimed: int = 0
    """What was paid for machines that have a cluster and no need there, or have failed."""

    saving_per_hour: int = 0
    saving: int = 0
    """Against the on-demand price of the same types."""

    unpriced_per_hour: int = 0
    unpriced: int = 0
    """The part of the spending for which no on-demand price is known: no saving is told of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryQuery:
    """Of the whole shard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A shard in a few numbers."""

    stamp: Stamp
    epoch: int = 0
    not_acting: str = ""
    """Why the shard does not act; empty when it does."""

    machines: Mapping[str, int] = field(default_factory=dict)
    spend_per_hour: Mapping[str, float] = field(default_factory=dict)
    """Dollars by state of the machine; a quota slot costs nothing."""

    needs: int = 0
    unmet: int = 0
    parked: int = 0
    clusters: int = 0
    connected: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)
    planned: Mapping[str, int] = field(default_factory=dict)
    queued: int = 0
    in_flight: int = 0
    actions_per_minute: float = 0.0
    controls: int = 0
    held_rollups: int = 0
    providers: tuple[ProviderRow, ...] = ()
    money: MoneyRow = MoneyRow()
    money_since_s: float = 0.0
    progress: Progress = NO_MACHINES
    resting: tuple[ControlRow, ...] = ()
    """What keeps the whole shard from acting: pauses and shadows."""
