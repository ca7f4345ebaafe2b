"""What can become of an action, as bounded labels: of metrics, of the audit log, of answers."""

from enum import StrEnum


class Disposition(StrEnum):
    """What the shard did with an action of a plan."""

    EXECUTED = "executed"
    """It was begun; its outcome says how it ended."""

    SUPPRESSED = "suppressed"
    """Actuation is paused."""

    SHADOWED = "shadowed"
    """Shadow mode: told, not done."""

    CAPPED = "capped"
    """A reclaim above its cluster's share of this cycle."""

    DEFERRED = "deferred"
    """Held back for now: a limit, a back-off, a provider that does not answer."""

    DROPPED = "dropped"
    """The queue of its provider was full; the next cycle decides again."""

    DEDUPLICATED = "deduplicated"
    """Its machine is in our hands already, or no longer where the plan saw it."""


class Outcome(StrEnum):
    """How an executed action ended. The names that BigFleet has too mean what they mean there."""

    SUCCESS = "success"
    """The machine is where the action was to take it."""

    ACCEPTED = "accepted"
    """The provider is at work; a list or a Get finishes it."""

    HELD_BACK = "held_back"
    """A pause came between two attempts: a list or a Get says what became of the first."""

    ALREADY_DONE = "already_done"
    """It was there before we came."""

    ROLLED_BACK = "rolled_back"
    """The cluster did not answer in time: Idle again, the provider was never asked."""

    NO_SESSION = "no_session"
    """The cluster is not connected: Idle again, the provider was never asked."""

    BLOB_ERROR = "blob_error"
    """The cluster answered that it cannot: Idle again, the provider was never asked."""

    RACED_TO_IDLE = "transition_raced_to_idle"
    """The machine went back to Idle under our hands; the next cycle decides again."""

    STALE_STATE = "stale_state"
    """The machine was no longer where the plan saw it."""

    UNKNOWN_MACHINE = "inventory_miss"
    """The machine is gone."""

    NO_CAPACITY = "no_capacity"
    """The provider has none to give; its slot is set aside until it is reported again."""

    PROVIDER_ERROR = "provider_error"
    """The provider refused, or was not to be reached for as long as we try: Failed."""

    NOT_SUPPORTED = "not_supported"
    """The provider does not have this call: Failed, never repeated."""

    REFUSED_ACK = "refused_ack"
    """The provider's answer was no machine that can exist: Failed, never repeated."""

    FENCED = "fenced"
    """A newer life of this shard acts: an incident."""

    TRANSITION_ERROR = "transition_error"
    """A move that the table does not have: a defect, ours or the provider's."""

    CANCELLED = "ctx_canceled"
    """The process was told to stop."""


BENIGN = frozenset({
    Outcome.SUCCESS, Outcome.ACCEPTED, Outcome.ALREADY_DONE, Outcome.ROLLED_BACK,
    Outcome.NO_SESSION, Outcome.RACED_TO_IDLE, Outcome.STALE_STATE, Outcome.CANCELLED,
    Outcome.HELD_BACK,
})  # fmt: skip
"""Nobody needs to look."""
