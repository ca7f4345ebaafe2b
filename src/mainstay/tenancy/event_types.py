"""What the events say: a type for the payload of each, from which the public document is made.

Later versions may add facts; who reads must not mind ones it does not know. A fact that changes
its meaning needs a new version of the event.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

from typing_extensions import TypedDict  # the one that pydantic reads on Python 3.11

from mainstay.tenancy.states import EventType

Initiator = Literal["tenant", "billing", "admin"]


class OfAllocation(TypedDict):
    """What every event about an allocation says."""

    allocation_id: str
    project_id: str
    account_id: str
    sku: str
    gpus: int
    capacity_shape: Literal["gpu_slice", "baremetal"]
    node_id: str
    at: str
    """When the allocation took the step, RFC 3339."""


class AllocationRequested(OfAllocation):
    """Capacity is reserved; somebody is to provision it."""

    slots: list[int]
    ssh_key_ids: list[str]
    image: str | None


class AllocationActive(OfAllocation):
    """The tenant has it, and pays from `at` on."""

    price_minor: int
    currency: str


class AllocationFailed(OfAllocation):
    """It was never given to the tenant."""

    code: str
    phase: str | None
    reason: str | None
    clean: bool
    """Whether what it held is known to be clean, and free."""


class ReleaseRequested(OfAllocation):
    """It is to be cleaned up; nobody pays any more from the first such event on."""

    attempt: int
    initiator: Initiator


class AllocationReleased(OfAllocation):
    """Clean-up is proved."""

    proof: dict[str, Any]
    hard_stopped: bool
    attempt: int


class ReleaseFailed(OfAllocation):
    """Clean-up could not be proved; what it held stays held."""

    reason: str | None
    proof: dict[str, Any] | None
    attempt: int


class ReclaimNotice(OfAllocation):
    """The machine under it is taken back; what is held then is released."""

    reason: str
    release_at: str
    """From then on it is released, RFC 3339."""

    preemptor_priority: int | None
    """Of whoever takes the machine; none: nobody does, it is gone or no longer needed."""


class OfAccount(TypedDict):
    """What every event about a payer says."""

    account_id: str
    balance_minor: int
    currency: str
    at: str


class OfEpisode(OfAccount):
    """Told once until the balance has recovered."""

    low_balance_minor: int
    hour_minor: int
    """What everything active costs in an hour."""

    episode_began_at: str


class LowBalance(OfEpisode):
    """The balance is low."""


class ReleasePending(OfEpisode):
    """At this rate the balance is used up soon."""

    projected_depletion_at: str


class BalanceDepleted(OfEpisode):
    """The balance is used up."""


class ForceReleaseRequested(OfEpisode):
    """Everything active of this payer is to be released."""

    allocation_ids: list[str]
    cause: str


class BalanceCredited(OfAccount):
    """The balance was topped up."""

    amount_minor: int
    ledger_id: int


E = EventType

PAYLOADS: Final[Mapping[EventType, type[Any]]] = MappingProxyType({
    E.REQUESTED: AllocationRequested,
    E.ACTIVE: AllocationActive,
    E.FAILED: AllocationFailed,
    E.RELEASE_REQUESTED: ReleaseRequested,
    E.RELEASED: AllocationReleased,
    E.RELEASE_FAILED: ReleaseFailed,
    E.RECLAIM_NOTICE: ReclaimNotice,
    E.FORCE_RELEASE_REQUESTED: ForceReleaseRequested,
    E.LOW_BALANCE: LowBalance,
    E.RELEASE_PENDING: ReleasePending,
    E.DEPLETED: BalanceDepleted,
    E.CREDITED: BalanceCredited,
})  # fmt: skip
