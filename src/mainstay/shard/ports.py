"""What the parts of a shard ask of one another. Each part is given only the ports it uses."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from mainstay.inventory.merge import Report
from mainstay.model.batch import MachineBatch
from mainstay.model.calls import (
    Ack,
    Capabilities,
    ConfigureRequest,
    CreateRequest,
    DeleteRequest,
    DrainRequest,
    GetRequest,
    ListRequest,
)
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.machine import Machine
from mainstay.model.need import Requirement
from mainstay.model.notice import Notices
from mainstay.shard.events import Event
from mainstay.shard.orders import Disposed


class ListReport(Report, Protocol):
    """A list as a feed takes it: what `Inventory.merge` reads, where to go on, whose host goes."""

    @property
    def cursor(self) -> bytes:
        """Where the next incremental list starts."""

    @property
    def notices(self) -> Notices:
        """Of the machines that it names."""


Listed = MachineBatch | ListReport


class Link(Protocol):
    """One provider as a shard calls it. Raises only MainstayError."""

    @property
    def capabilities(self) -> Capabilities | None:
        """What it last declared; None if nothing, or if it was never listed."""

    async def create(self, request: CreateRequest) -> Ack:
        """Begin to make hardware of a quota slot."""

    async def configure(self, request: ConfigureRequest) -> Ack:
        """Begin to join an idle machine to a cluster."""

    async def drain(self, request: DrainRequest) -> Ack:
        """Begin to empty a machine and take it out of its cluster."""

    async def delete(self, request: DeleteRequest) -> Ack:
        """Begin to give hardware back."""

    async def get(self, request: GetRequest) -> Machine:
        """One machine."""

    async def listing(self, request: ListRequest) -> Listed:
        """All machines, or all that changed."""


class Clusters(Protocol):
    """The clusters, as far as they are connected. Only `bootstrap` waits."""

    async def bootstrap(
        self,
        cluster: ClusterId,
        requirements: Sequence[Requirement],
        *,
        timeout_s: float,
        machine: str = "",
    ) -> bytes:
        """What makes a machine join. Unavailable: not connected (code `no_session`), or no answer
        in time. Rejected: the cluster says that it cannot.
        """

    def reclaim(
        self,
        machine: Machine,
        *,
        grace_s: int,
        unheard_grace_s: int,
        preemptor_priority: int | None,
    ) -> bool:
        """Tell the machine's cluster that it will be drained; whether anybody is there to hear.

        Then it has the one grace, else the other. Nobody may need it, or somebody take it.
        """

    def tell(self, cluster: ClusterId, machine: Machine) -> None:
        """Tell a cluster how a machine stands that is or was its own; lost if nobody is there."""


class Journal(Protocol):
    """Where everything is told that people, metrics and the audit log should know."""

    def disposed(self, records: Iterable[Disposed]) -> None:
        """What became of orders."""

    def noticed(self, event: Event, *, reason: str = "", count: int = 1, **facts: object) -> None:
        """Something of the table happened, so many times at once; it is one line, counted so."""


class InFlight(Protocol):
    """Which machines are in our own hands."""

    def __contains__(self, machine: MachineId) -> bool: ...

    def touched_since(self, at_s: float) -> frozenset[MachineId]:
        """In flight now, or written to by us at or after this time (of `Clock.elapsed_s`)."""


class Failures(Protocol):
    """Whoever counts what fails, and where: the circuit breaker."""

    def failed(self, machine: Machine, source: str) -> None:
        """A step of a machine of this provider failed."""

    def lost(self, machine: Machine, source: str) -> None:
        """A machine of this provider that served is gone, or one at rest is Failed."""

    def succeeded(self, machine: Machine, source: str) -> None:
        """A step of a machine of this provider ended well."""
