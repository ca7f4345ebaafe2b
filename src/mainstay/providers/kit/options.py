"""How patient a provider's server is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from mainstay.model.calls import Call
from mainstay.providers.kit.retry import Backoff

STEP_TIMEOUTS_S: Final[Mapping[Call, float]] = MappingProxyType(
    {
        Call.CREATE: 300.0,
        Call.CONFIGURE: 300.0,
        Call.DRAIN: 600.0,
        Call.DELETE: 300.0,
    }
)

STEP_TIMEOUT_S_MAX: Final = 7 * 86_400.0
"""No grace period makes a drain longer than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Times of one server, in seconds."""

    step_timeouts_s: Mapping[Call, float] = field(default_factory=lambda: STEP_TIMEOUTS_S)
    """A step that takes longer has failed. A drain's grace period is added to its own."""

    backoff: Backoff = field(default_factory=Backoff)
    ready_poll_s: float = 2.0
    """How often a configured host is asked whether its node has joined."""

    start_timeout_s: float = 30.0
    """How long the backend may take for the first list."""

    reconcile_interval_s: float = 30.0
    """How often the hardware is looked at when nothing has happened."""

    def step_timeout_s(self, call: Call, *, grace_s: int = 0) -> float:
        """How long a step may take."""
        return min(self.step_timeouts_s[call] + grace_s, STEP_TIMEOUT_S_MAX)
