"""The six calls: what a shard asks of a provider, what it is answered, and how it is refused.

No transport is known here. Text in a request is as it came from outside; whoever serves the call
parses it. `Provider` is what a shard calls, `ProviderCalls` what a provider's server answers: the
same six calls, but a list comes page by page.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Final, Protocol

from mainstay.model.batch import MachineBatch
from mainstay.model.errors import (
    Fenced,
    IllegalTransition,
    MainstayError,
    NoCapacity,
    NotSupported,
    Rejected,
    Unavailable,
    UnknownMachine,
)
from mainstay.model.ids import MachineId
from mainstay.model.machine import Machine
from mainstay.model.notice import Notices
from mainstay.model.profile import CapacityType
from mainstay.model.state import State

ANSWER_BYTES_MAX: Final = 256 * 2**20
"""The largest answer a client accepts."""

BLOB_BYTES_MAX: Final = 3 * 2**20
METADATA_BYTES_MAX: Final = 768 * 2**10
"""Keys and values together. With the largest blob a request stays below 4 MiB, gRPC's default."""

INT64_MAX: Final = 2**63 - 1


class Call(StrEnum):
    """The six calls; the first four change something and are fenced."""

    CREATE = "create"
    CONFIGURE = "configure"
    DRAIN = "drain"
    DELETE = "delete"
    GET = "get"
    LIST = "list"


@dataclass(frozen=True, slots=True)
class Fence:
    """Who calls, in which life of theirs, and the number of the attempt: a new one each time."""

    shard: str = ""
    epoch: int = 0
    sequence: int = 0

    def __bool__(self) -> bool:
        """Whether there is one; the all-zero token is the absence of a fence."""
        return bool(self.shard or self.epoch or self.sequence)

    @property
    def position(self) -> tuple[int, int]:
        """What is compared: the epoch first."""
        return self.epoch, self.sequence


NO_FENCE: Final = Fence()


@dataclass(frozen=True, slots=True)
class CreateRequest:
    """Speculative to Idle, by way of Creating."""

    machine: str
    fence: Fence = NO_FENCE
    attribution: Mapping[str, str] = field(default_factory=dict)
    """Which need it is for, written as metadata is: kept and echoed until the machine is Idle."""


@dataclass(frozen=True, slots=True)
class ConfigureRequest:
    """Idle to Configured, by way of Configuring: join a cluster."""

    machine: str
    cluster: str
    blob: bytes = b""
    """What the machine needs to join; it holds secrets and is never stored or logged."""

    metadata: Mapping[str, str] = field(default_factory=dict)
    """Kept and echoed byte for byte while the machine is bound."""

    fence: Fence = NO_FENCE


@dataclass(frozen=True, slots=True)
class DrainRequest:
    """Configured to Idle, by way of Draining."""

    machine: str
    grace_s: int = 0
    """How long workloads have to leave."""

    fence: Fence = NO_FENCE
    attribution: Mapping[str, str] = field(default_factory=dict)
    """Which need it is drained for, written as metadata is: kept and echoed while it drains."""


@dataclass(frozen=True, slots=True)
class DeleteRequest:
    """Idle to Speculative, by way of Deleting."""

    machine: str
    fence: Fence = NO_FENCE


Mutation = CreateRequest | ConfigureRequest | DrainRequest | DeleteRequest


@dataclass(frozen=True, slots=True)
class GetRequest:
    """One machine as it is now."""

    machine: str


Cursor = bytes
"""Opaque; empty means from the beginning. One that is not known means the same, never an error."""


@dataclass(frozen=True, slots=True)
class ListRequest:
    """All machines, or those that changed after a cursor."""

    states: frozenset[State] = frozenset()
    """Only machines in one of these; empty means all."""

    since: Cursor = b""
    results_max: int = 0
    """At most so many in one answer; 0 means no limit."""


@dataclass(frozen=True, slots=True)
class Ack:
    """A change was accepted, now or before: its operation, and the machine as it stands."""

    operation: str
    """The same for every repetition of one step, new for the next."""

    machine: Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """One answer to List. A machine may be named again by a later page; the later one is true."""

    machines: Sequence[Machine]
    full: bool
    """Whether the list began at the beginning; what neither it nor its next pages name is gone."""

    cursor: Cursor
    """Where to go on: the next page while there is `more`, afterwards the next incremental list."""

    tombstones: tuple[MachineId, ...] = ()
    """Machines that are gone since the cursor that was asked for; their ids never come back."""

    more: bool = False
    notices: Notices = field(default_factory=dict)
    """Of its machines: whose host the provider will take back. Only List tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a provider declares beyond the six calls."""

    deletable: frozenset[CapacityType] = frozenset()
    """Capacity types whose machines Delete takes back; none: Delete is not supported at all."""

    paging: bool = False
    """A list cut at `results_max` has a cursor that goes on behind the cut."""

    incremental: bool = False
    """A list since a cursor names only what changed."""

    tombstones: bool = False
    """An incremental list names what is gone."""

    attribution: bool = False
    """What Create was told of its need is echoed."""

    drain_attribution: bool = False
    """What Drain was told of the need it is for is echoed."""

    notices: bool = False
    """A list tells whose host will be taken back, where the provider knows."""


class Provider(Protocol):
    """What a shard calls. Each call is answered at once; how a step ends is seen by `list`.

    Raises only MainstayError: `STATUS_OF` says which status each stands for.
    """

    async def create(self, request: CreateRequest) -> Ack:
        """Begin to make hardware of a quota slot."""

    async def configure(self, request: ConfigureRequest) -> Ack:
        """Begin to join an idle machine to a cluster."""

    async def drain(self, request: DrainRequest) -> Ack:
        """Begin to empty a machine and take it out of its cluster."""

    async def delete(self, request: DeleteRequest) -> Ack:
        """Begin to give hardware back; a quota slot is left."""

    async def get(self, request: GetRequest) -> Machine:
        """One machine."""

    async def list(self, request: ListRequest) -> MachineBatch:
        """All machines, or all that changed, however many answers that takes."""


class ProviderCalls(Protocol):
    """What a provider's server answers: one message for each call."""

    @property
    def source(self) -> str:
        """The provider's name, as in every host it gives out."""

    @property
    def capabilities(self) -> Capabilities:
        """What it declares."""

    async def create(self, request: CreateRequest) -> Ack:
        """As `Provider.create`."""

    async def configure(self, request: ConfigureRequest) -> Ack:
        """As `Provider.configure`."""

    async def drain(self, request: DrainRequest) -> Ack:
        """As `Provider.drain`."""

    async def delete(self, request: DeleteRequest) -> Ack:
        """As `Provider.delete`."""

    async def get(self, request: GetRequest) -> Machine:
        """As `Provider.get`."""

    async def list(self, request: ListRequest) -> Listing:
        """One answer, of at most `results_max` machines."""


class Status(Enum):
    """How a call ends on the wire: the numbers of gRPC, without gRPC."""

    OK = 0
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


STATUS_OF: Final[Mapping[type[MainstayError], Status]] = MappingProxyType(
    {
        Fenced: Status.FAILED_PRECONDITION,  # and nothing else
        NotSupported: Status.UNIMPLEMENTED,
        UnknownMachine: Status.NOT_FOUND,
        IllegalTransition: Status.INTERNAL,  # as BigFleet's kit answers it
        Rejected: Status.INVALID_ARGUMENT,
        NoCapacity: Status.RESOURCE_EXHAUSTED,
        Unavailable: Status.UNAVAILABLE,
        MainstayError: Status.INTERNAL,
    }
)

ERROR_OF: Final[Mapping[Status, type[MainstayError]]] = MappingProxyType(
    {
        Status.INVALID_ARGUMENT: Rejected,
        Status.DEADLINE_EXCEEDED: Unavailable,
        Status.NOT_FOUND: UnknownMachine,
        Status.RESOURCE_EXHAUSTED: NoCapacity,
        Status.FAILED_PRECONDITION: Fenced,
        Status.UNIMPLEMENTED: NotSupported,
        Status.INTERNAL: Rejected,
        Status.UNAVAILABLE: Unavailable,
    }
)
"""What a client raises for a status. Any other status is Unavailable: the end is not known."""


def status_of(error: MainstayError) -> Status:
    """The status that stands for an error: that of its nearest class in the table."""
    return next(STATUS_OF[kind] for kind in type(error).__mro__ if kind in STATUS_OF)


def error_of(status: Status, message: str) -> MainstayError:
    """The error that a status stands for."""
    return ERROR_OF.get(status, Unavailable)(message)
