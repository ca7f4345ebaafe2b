"""What a cluster and its shard say to each other in a session, as values. No transport is known.

Frames with a key may be superseded: of two that wait to be sent with the same key, the newer one
is sent and the older one is not.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.need import Requirement
from mainstay.model.resources import NO_RESOURCES, Resources
from mainstay.model.state import State

PROTOCOL_VERSION = "v1alpha1"


@dataclass(frozen=True, slots=True)
class Hello:
    """A cluster's first word."""

    cluster: str
    protocol_version: str = PROTOCOL_VERSION


@dataclass(frozen=True, slots=True)
class BootstrapAnswer:
    """What makes a machine join, or why it cannot be had."""

    request: str
    blob: bytes = b""
    ttl_s: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class ReclaimAck:
    """A cluster has begun to empty nodes."""

    instruction: str
    nodes_started: int = 0


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A shard has heard."""

    echo: str
    """`hello` or `rollup`."""

    coordinator_term: int = 0
    shard_epoch: int = 0


@dataclass(frozen=True, slots=True)
class BootstrapAsked:
    """A shard asks for what makes one machine join."""

    request: str
    cluster: ClusterId
    requirements: tuple[Requirement, ...] = ()
    machine: str = ""
    """Which one; a shard that is not ours does not say it."""


@dataclass(frozen=True, slots=True)
class ReclaimTold:
    """Nodes will be drained."""

    instruction: str
    nodes: tuple[str, ...]
    grace_s: int
    preemptor_priority: int = 0
    """0: nobody took it, nobody needed it."""


@dataclass(frozen=True, slots=True)
class Drain:
    """What is known of a drain that is under way."""

    grace_left_s: float
    """When this was said: nobody compares clocks."""

    preemptor_priority: int | None = None
    """None: nobody took it, nobody needed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """How a machine stands that is or was the cluster's own."""

    machine: MachineId
    cluster: ClusterId
    state: State
    provider_id: str = ""
    """The host, as `provider://ref`; empty while there is none."""

    last_error: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    """With the instance type and the zone among them."""

    allocatable: Resources = NO_RESOURCES
    price_per_hour: float | None = None
    """With the next one: what decides which machine is kept. None: the shard does not say."""

    reclamation_penalty_dollars: float = 0.0
    drain: Drain | None = None
    """Of a machine that is Draining, as far as the shard knows."""

    @property
    def key(self) -> str:
        """A newer frame of this machine supersedes it."""
        return f"node:{self.machine}"


class HintConfidence(IntEnum):
    """As on the wire."""

    NONE = 1
    LOW = 2
    MEDIUM = 3
    HIGH = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityHint:
    """What else could be had for one kind of need."""

    fingerprint: str
    requirements: tuple[Requirement, ...]
    count: int
    confidence: HintConfidence
    cost_per_hour: float

    @property
    def key(self) -> str:
        """A newer frame of this kind of need supersedes it."""
        return f"available:{self.fingerprint}"


ClusterFrame = Hello | BootstrapAnswer | ReclaimAck
"""What a cluster says besides roll-ups."""

ShardFrame = Acknowledged | BootstrapAsked | ReclaimTold | NodeState | CapacityHint
"""What a shard says."""
