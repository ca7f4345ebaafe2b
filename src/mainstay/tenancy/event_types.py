"""What the events say: a type for the payload of each, from which the public document is made.

Later versions may add facts; who reads must not mind ones it does not know. A fact that changes
its meaning needs a new version of the event.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, NotRequired

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
    at: NotRequired[str]
    """When the allocation took the step, RFC 3339."""


class AllocationRequested(OfAllocation):
    """Capacity is reserved; somebody is to provision it."""

    slot_ids: NotRequired[list[str]]
    ssh_key_ids: NotRequired[list[str]]
    image: NotRequired[str | None]


class AllocationActive(OfAllocation):
    """The tenant has it, and pays from `at` on."""

    price_minor: NotRequired[int]
    currency: NotRequired[str]


class AllocationFailed(OfAllocation):
    """It was never given to the tenant."""

    code: NotRequired[str]
    phase: NotRequired[str | None]
    reason: NotRequired[str | None]


class ReleaseRequested(OfAllocation):
    """It is to be cleaned up; nobody pays any more from `at` on."""

    attempt: NotRequired[int]
    initiator: NotRequired[Initiator]


class AllocationReleased(OfAllocation):
    """Clean-up is proved."""

    proof: NotRequired[dict[str, Any]]


class ReleaseFailed(OfAllocation):
    """Clean-up could not be proved; what it held stays held."""

    reason: NotRequired[str | None]
    proof: NotRequired[dict[str, Any] | None]


class OfAccount(TypedDict):
    """What every event about a payer says."""

    account_id: str
    at: NotRequired[str]


class ForceReleaseRequested(OfAccount):
    """Everything active of this payer is to be released."""

    allocation_ids: NotRequired[list[str]]
    cause: NotRequired[str]


class LowBalance(OfAccount):
    """The balance is low; told once until it has recovered."""

    balance_minor: NotRequired[int]
    currency: NotRequired[str]


class ReleasePending(OfAccount):
    """At this rate the balance is used up soon."""

    projected_depletion_at: NotRequired[str]


class BalanceDepleted(OfAccount):
    """The balance is used up."""

    balance_minor: NotRequired[int]
    currency: NotRequired[str]


class BalanceCredited(OfAccount):
    """The balance was topped up."""

    amount_minor: NotRequired[int]
    currency: NotRequired[str]


E = EventType

PAYLOADS: Final[Mapping[EventType, type[Any]]] = MappingProxyType({
    E.REQUESTED: AllocationRequested,
    E.ACTIVE: AllocationActive,
    E.FAILED: AllocationFailed,
    E.RELEASE_REQUESTED: ReleaseRequested,
    E.RELEASED: AllocationReleased,
    E.RELEASE_FAILED: ReleaseFailed,
    E.FORCE_RELEASE_REQUESTED: ForceReleaseRequested,
    E.LOW_BALANCE: LowBalance,
    E.RELEASE_PENDING: ReleasePending,
    E.DEPLETED: BalanceDepleted,
    E.CREDITED: BalanceCredited,
})  # fmt: skip
