"""What a cycle passes on: what is known, what was thought of it, and what the next one is left."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mainstay.engine.hints import Hint
from mainstay.engine.plan import Demand, Memory, Plan
from mainstay.engine.policy import Policy
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.ids import ClusterId
from mainstay.shard.admitted import Admitted
from mainstay.shard.executor import Offered
from mainstay.shard.facts import Published
from mainstay.shard.figures import Figures
from mainstay.shard.lists.looked import Looked
from mainstay.shard.restrictions import Restrictions


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Everything one decision is made from."""

    cycle: int
    snapshot: Snapshot
    demand: Demand
    memory: Memory
    policy: Policy
    restrictions: Restrictions
    now_s: float
    """Of `SteadyClock`."""

    at_s: float
    """Wall-clock time, for people."""

    counted: Figures | None = None
    """The figures of the plan before."""


@dataclass(frozen=True, slots=True)
class Thought:
    """What comes of it."""

    given: Inputs
    plan: Plan
    admitted: Admitted
    hints: tuple[Hint, ...]
    figures: Figures


@dataclass(frozen=True, slots=True)
class Cycled:
    """What one cycle saw, thought and began."""

    looked: Looked
    thought: Thought
    offered: Offered
    published: Published


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """What one cycle leaves to the next."""

    memory: Memory
    figures: Figures | None = None
    reclaimed: Callable[[], Mapping[ClusterId, int]] = dict
    """Reclaims of each cluster since the last tick, asked together with the snapshot: what began in
    between would be in neither.
    """
