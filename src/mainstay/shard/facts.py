"""What a shard tells about itself: frozen values, for the read API and for people."""

from dataclasses import dataclass, field
from enum import StrEnum

from mainstay.engine.plan import Plan
from mainstay.model.ids import ClusterId


class Health(StrEnum):
    """How a provider stands."""

    UNKNOWN = "unknown"
    """Never listed yet."""

    ANSWERING = "answering"
    LOST = "lost"
    """Its last list failed, or it answers no calls: its machines stay as they are, and nothing is
    bought through it.
    """

    FENCED = "fenced"
    """It refuses us: nothing is done through it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderFacts:
    """One provider of a shard."""

    name: str
    health: Health
    machines: int = 0
    why: str = ""
    """Of the last failure."""

    failures_in_a_row: int = 0
    listed_at_s: float = 0.0
    """When its last list was taken in; 0: never."""

    incremental: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFacts:
    """One connected cluster."""

    cluster: ClusterId
    since_s: float
    protocol_version: str = ""
    rollups: int = 0
    waiting_frames: int = 0
    bootstraps_pending: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What the last cycle left for whoever asks. Replaced whole, never changed."""

    cycle: int
    at_s: float
    plan: Plan = field(repr=False)
    seconds: dict[str, float] = field(default_factory=dict)
    """How long each part of the cycle took."""

    unlisted: str = ""
    """Why nothing is acquired yet after a start, in one line; empty once all machines are known."""

    refused: frozenset[str] = frozenset()
    """Providers through which nothing is acquired, for the disk refuses that they were listed."""
