"""How often a shard cycles, and how long a cycle waits."""

from dataclasses import dataclass, field

from mainstay.engine.policy import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardOptions:
    """How often."""

    cycle_interval_s: float = 10.0
    """Between ticks."""

    settle_s: float = 0.02
    """After a wake-up: what else arrives meanwhile is of the same cycle."""

    look_s: float = 1.0
    """How long a tick waits for lists of what changed; a wake-up waits for none."""

    peek_interval_s: float = 1.0
    """How often to look for the end of steps while there are any; a change wakes the loop."""

    audit_every: int = 60
    """Cycles between full passes that must agree with the plan; 0: never."""

    first_list_s: float = 130.0
    """How long the first cycle waits for a first list."""

    other_lists_s: float = 2.0
    """How long it waits for those of other providers, where one is there."""

    policy: Policy = field(default_factory=Policy)
