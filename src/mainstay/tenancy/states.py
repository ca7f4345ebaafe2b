"""The states of an allocation and the table of its edges: seed of code, database, docs and tests.

The table is the whole truth: an edge that is not in it does not exist, for the functions that move
allocations and for the database, which refuses it too. Each edge says who may ask for it, which
time it stamps and which event it writes, all in one transaction.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from mainstay.model.errors import Rejected


class Status(StrEnum):
    """Where an allocation is in its life."""

    REQUESTED = "requested"
    """Slots or node are reserved; nobody works on it yet."""

    PROVISIONING = "provisioning"
    """The node's agent is at work."""

    ACTIVE = "active"
    """The tenant has it, and pays."""

    RELEASING = "releasing"
    """Clean-up runs. Nobody pays any more."""

    RELEASED = "released"
    """Clean-up is proved."""

    FAILED = "failed"
    """It was never given to the tenant."""

    RELEASE_FAILED = "release_failed"
    """Clean-up could not be proved; what it held stays held."""


class CapacityState(StrEnum):
    """Where a request for capacity that may wait is; all but the first are ends."""

    WAITING = "waiting"
    PLACED = "placed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


REQUEST_PREFIX: Final = "cap"
"""Ids of requests for capacity begin so, and allocations are asked for by them, too."""


class Actor(StrEnum):
    """Who may ask for an edge."""

    TENANT = "tenant"
    WORKER = "worker"
    BILLING = "billing"
    ADMIN = "admin"


class EventType(StrEnum):
    """What is told of it."""

    REQUESTED = "provisioning.requested"
    ACTIVE = "provisioning.active"
    FAILED = "provisioning.failed"
    RELEASE_REQUESTED = "provisioning.releasing.requested"
    RELEASED = "provisioning.releasing.completed"
    RELEASE_FAILED = "provisioning.release_failed"
    RECLAIM_NOTICE = "provisioning.reclaim_notice"
    FORCE_RELEASE_REQUESTED = "provisioning.force_release_requested"
    LOW_BALANCE = "billing.low_balance_warning"
    RELEASE_PENDING = "billing.auto_release_pending"
    DEPLETED = "billing.balance_depleted"
    CREDITED = "payments.balance_credited"


@dataclass(frozen=True, slots=True)
class Edge:
    """One step of an allocation, and what is written with it in the same transaction."""

    name: str
    old: Status | None
    """None: there was no allocation."""

    new: Status
    actors: frozenset[Actor]
    stamps: str
    """The column that gets the wall-clock time of the write."""

    event: EventType | None
    writes: str
    """For people: what else changes with it."""


S, A, E = Status, Actor, EventType

EDGES: Final = (
    Edge("A1", None, S.REQUESTED, frozenset({A.TENANT}), "created_at", E.REQUESTED,
         "slots reserved or node taken, claims"),
    Edge("A2", S.REQUESTED, S.PROVISIONING, frozenset({A.WORKER}), "provisioning_started_at", None,
         "nothing else"),
    Edge("A3", S.PROVISIONING, S.ACTIVE, frozenset({A.WORKER}), "active_at", E.ACTIVE,
         "claims active, slots in use, connection"),
    Edge("A4", S.PROVISIONING, S.FAILED, frozenset({A.WORKER, A.ADMIN}), "failed_at", E.FAILED,
         "phase and reason; claims failed; slots free if the undo was clean, else blocked"),
    Edge("A5", S.ACTIVE, S.RELEASING, frozenset({A.TENANT, A.BILLING, A.ADMIN}), "releasing_at",
         E.RELEASE_REQUESTED, "who and why; claims releasing"),
    Edge("A6", S.RELEASING, S.RELEASED, frozenset({A.WORKER}), "released_at", E.RELEASED,
         "the proof; claims released, slots free"),
    Edge("A7", S.RELEASING, S.RELEASE_FAILED, frozenset({A.WORKER}), "release_failed_at",
         E.RELEASE_FAILED, "the reason; slots blocked"),
    Edge("A8", S.RELEASE_FAILED, S.RELEASING, frozenset({A.TENANT, A.ADMIN}), "release_retried_at",
         E.RELEASE_REQUESTED, "the next attempt; claims releasing; payment ended at A5"),
)  # fmt: skip

NEXT: Final[Mapping[Status | None, Mapping[Status, Edge]]] = MappingProxyType({
    old: MappingProxyType({edge.new: edge for edge in EDGES if edge.old is old})
    for old in (None, *Status)
})  # fmt: skip

TERMINAL: Final = frozenset(status for status in Status if not NEXT[status])
HOLDING: Final = frozenset(Status) - TERMINAL
"""Whose claims nobody else may have: release_failed holds them too."""


class IllegalStep(Rejected):
    """The table has no such edge."""

    code = "allocation_state_conflict"
    what_to_do = "read the allocation first: somebody else may have moved it"


class NotYours(Rejected):
    """The edge is there, but not for this actor."""

    code = "insufficient_permissions"
    what_to_do = "ask somebody who may"


def edge(old: Status | None, new: Status, actor: Actor) -> Edge:
    """The edge, if there is one and this actor may ask for it."""
    found = NEXT[old].get(new)
    if found is None:
        legal = ", ".join(sorted(NEXT[old])) or "nowhere"
        raise IllegalStep(f"an allocation does not go from {old} to {new} ({old} goes to: {legal})")
    if actor not in found.actors:
        may = ", ".join(sorted(found.actors))
        raise NotYours(f"{actor} may not take an allocation from {old} to {new} (may: {may})")
    return found


class SlotStatus(StrEnum):
    """A slot's own states; discovery is advice, only an approved slot is ever given out."""

    DISCOVERED = "discovered"
    AVAILABLE = "available"
    RESERVED = "reserved"
    IN_USE = "in_use"
    RELEASING = "releasing"
    CLEANUP_BLOCKED = "cleanup_blocked"
    DISABLED = "disabled"


SLOT_NEXT: Final[Mapping[SlotStatus, frozenset[SlotStatus]]] = MappingProxyType({
    SlotStatus.DISCOVERED: frozenset({SlotStatus.AVAILABLE, SlotStatus.DISABLED}),
    SlotStatus.AVAILABLE: frozenset(
        {SlotStatus.RESERVED, SlotStatus.CLEANUP_BLOCKED, SlotStatus.DISABLED}
    ),
    SlotStatus.RESERVED: frozenset(
        {SlotStatus.IN_USE, SlotStatus.AVAILABLE, SlotStatus.CLEANUP_BLOCKED}
    ),
    SlotStatus.IN_USE: frozenset({SlotStatus.RELEASING, SlotStatus.CLEANUP_BLOCKED}),
    SlotStatus.RELEASING: frozenset({SlotStatus.AVAILABLE, SlotStatus.CLEANUP_BLOCKED}),
    SlotStatus.CLEANUP_BLOCKED: frozenset({SlotStatus.RELEASING, SlotStatus.AVAILABLE}),
    SlotStatus.DISABLED: frozenset({SlotStatus.AVAILABLE, SlotStatus.DISCOVERED}),
})  # fmt: skip


class NodeStatus(StrEnum):
    """Only an active node gets new allocations; draining never ends running ones."""

    BOOTSTRAP_ISSUED = "bootstrap_issued"
    ENROLLING = "enrolling"
    ACTIVE = "active"
    OFFLINE = "offline"
    QUARANTINED = "quarantined"
    DRAINING = "draining"
    RETIRED = "retired"


class ClaimStatus(StrEnum):
    """Of one slot or one whole node by one allocation."""

    RESERVED = "reserved"
    ACTIVE = "active"
    RELEASING = "releasing"
    BLOCKED = "blocked"
    """Nobody knows that it is clean."""

    RELEASED = "released"
    FAILED = "failed"


LIVE_CLAIMS: Final = frozenset(ClaimStatus) - {ClaimStatus.RELEASED, ClaimStatus.FAILED}


class TaskStatus(StrEnum):
    """Of one piece of work for a node's agent; the last three never change."""

    QUEUED = "queued"
    DISPATCHED = "dispatched"
    COMPLETED = "completed"
    FAILED = "failed"
    EXPIRED = "expired"


class OutboxStatus(StrEnum):
    """Of an event on its way out. It stays until every consumer has committed."""

    PENDING = "pending"
    PUBLISHED = "published"
    DONE = "done"
    FAILED = "failed"
    DISCARDED = "discarded"
