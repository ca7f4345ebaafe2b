"""What the author of a provider writes: what touches hardware, and nothing of the protocol."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from mainstay.model.calls import Call
from mainstay.model.errors import NotSupported
from mainstay.model.ids import ClusterId
from mainstay.model.machine import Machine
from mainstay.model.notice import InterruptionNotice
from mainstay.model.profile import CapacityType, Profile
from mainstay.model.resources import NO_RESOURCES, Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One thing a backend has: hardware, or the right to get it."""

    name: str
    """Stable; with the first machine in it, the machine's id."""

    profile: Profile
    host: str = ""
    """What the hardware is called; empty for a quota slot."""

    cluster: str = ""
    """Whom the hardware itself says it serves; read only if nobody remembers the machine."""

    shard_metadata: Mapping[str, str] = field(default_factory=dict)
    allocatable: Resources = NO_RESOURCES
    price_per_hour: float = 0.0
    interruption_probability: float = 0.0
    notice: InterruptionNotice | None = None
    """That this host will be taken back; without it any earlier word is withdrawn."""


@dataclass(frozen=True, slots=True)
class Job:
    """One step of one machine."""

    operation: str
    """The same for every attempt at this step: fit for a cloud's idempotency token."""

    machine: Machine
    slot: str


@dataclass(frozen=True, slots=True)
class Host:
    """What a step made."""

    name: str
    allocatable: Resources = NO_RESOURCES
    """When it turned out other than declared."""


def _nobody() -> None:
    pass


class Backend(ABC):
    """Hardware. Steps may take long, run side by side, and be cancelled when time is up.

    Raise Unavailable and the kit tries again, with back-off, until the step's time is up; raise
    anything else and the machine fails with that message as its diagnosis.
    """

    name: str
    """In every host; constant over the provider's life."""

    deletable: frozenset[CapacityType] = frozenset()
    """Which machines can be given back; none means that there is no Delete."""

    gives_notice: bool = False
    """Whether slots tell, where that is known, that their host will be taken back."""

    resumable: ClassVar[frozenset[Call]] = frozenset()
    """Steps that may be done again after a restart, by their operation, instead of failing.

    Never Configure: what it joins with is not kept.
    """

    changed: Callable[[], None] = staticmethod(_nobody)
    """Call it when hardware was lost or won: the kit then looks at once."""

    @abstractmethod
    async def slots(self) -> Sequence[Slot]:
        """All there is."""

    @abstractmethod
    async def describe(self, job: Job) -> bool:
        """Whether this very slot, and its host if it has one, is there: asked before it is lost."""

    @abstractmethod
    async def create(self, job: Job) -> Host:
        """Make hardware for a quota slot."""

    @abstractmethod
    async def configure(self, job: Job, cluster: ClusterId, blob: bytes) -> Host | None:
        """Join the host to a cluster; if that takes another host, say which."""

    @abstractmethod
    async def drain(self, job: Job, grace_s: int) -> Host | None:
        """Empty the host, wipe it, and take it out of its cluster; another host may come of it."""

    async def delete(self, job: Job) -> None:
        """Give the hardware back."""
        raise NotSupported(f"provider {self.name} deletes no machines: {job.machine.id}")

    async def ready(self, job: Job) -> bool:  # noqa: ARG002 - for those who can tell
        """Whether the node has joined and can take work; asked until it says so."""
        return True

    def admit(self, call: Call, job: Job) -> None:  # noqa: B027 - most refuse nothing
        """Refuse a step before it is accepted (no operation yet): out of stock, too many calls."""

    def admit_binding(  # noqa: B027 - most carry anything
        self, job: Job, blob: bytes, metadata: Mapping[str, str]
    ) -> None:
        """Refuse a Configure before it is accepted: more than the hardware can carry."""

    async def adopt(self, known: Sequence[Job]) -> None:  # noqa: B027 - most know themselves
        """Told once, before anything else, which machines the store remembers; no operations."""
