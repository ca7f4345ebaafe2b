"""What goes into a decision and what comes out of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.again import ask_again
from mainstay.engine.asked import Asked, ask
from mainstay.engine.barred import NOTHING_BARRED, Barred
from mainstay.engine.hints import Hint, hints
from mainstay.engine.kinds import Kinds
from mainstay.engine.orders import Kept
from mainstay.engine.policy import Policy
from mainstay.engine.quota import NO_QUOTA, Quota
from mainstay.engine.rows import Walk
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.action import Action
from mainstay.model.assignment import NeedRef
from mainstay.model.ids import ClusterId, Fingerprint, MachineId
from mainstay.model.need import Need
from mainstay.model.resources import Units

if TYPE_CHECKING:
    from mainstay.engine.trace import Trace
    from mainstay.engine.world import World


@dataclass(frozen=True)
class Demand:
    """Everything the clusters ask for, and which of them have spoken since this process started."""

    needs: tuple[Need, ...]
    """In the order of mainstay.model.needs.NeedsTable.snapshot."""

    heard: frozenset[ClusterId]
    """Silence is not zero: a machine of a cluster that is not in here is never excess."""

    quota: Quota = NO_QUOTA
    """The numbers this shard holds."""

    barred: Barred = NOTHING_BARRED
    """What must not be acquired now."""

    before: Asked | None = field(default=None, compare=False, repr=False)
    """The columns of an earlier demand, to go on from where most of it is still asked for."""

    @cached_property
    def asked(self) -> Asked:
        """The same in columns."""
        again = None if self.before is None else ask_again(self.needs, self.before)
        return ask(self.needs) if again is None else again


class Unmet(Enum):
    """Why a need is not satisfied (docs/explanation/decision.md, section 5)."""

    WAITING = "waiting"
    IMPOSSIBLE = "impossible"
    QUOTA = "quota"
    BARRED = "barred"
    TOPOLOGY = "topology"
    NO_SUPPLY = "no supply"
    PREEMPTION_EXHAUSTED = "preemption exhausted"
    STARVED = "starved"


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The most one domain could ever give a gang."""

    domain: tuple[str, ...]
    capacity: Units
    """What all machines there that fit provide together."""


@dataclass(frozen=True, slots=True)
class Unsatisfied:
    """A need that phase 1 could not cover."""

    need: Need
    """The row as normalised."""

    deficit: Units
    """What phase 1 left missing."""

    domain: tuple[str, ...] | None
    satisfiable: bool
    """Whether some domain could have held all of a gang; false for a plain need."""

    parked: bool
    unresolved: Units
    """What is missing after phase 2."""

    reason: Unmet = Unmet.STARVED
    ceiling: Ceiling | None = None
    """Of a hopeless gang."""


@dataclass(frozen=True, slots=True)
class Shortfall:
    """What is missing for one kind of need over all clusters, and for how many cycles."""

    fingerprint: Fingerprint
    priority: int
    deficit: Units
    age: int


@dataclass(frozen=True, slots=True)
class Memory:
    """What the next decision has to know of this one. Losing it costs time, never correctness."""

    gang_ages: Mapping[NeedRef, int]
    shortfall_ages: Mapping[Fingerprint, int]
    last: "Plan | None" = field(default=None, compare=False, repr=False)
    """The plan that may simply be given again while nothing changes."""

    @staticmethod
    def empty() -> "Memory":
        """A legal start."""
        return Memory(MappingProxyType({}), MappingProxyType({}))


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What should change. Actions: acquisitions, preempts, reclaims, deletes, each in its order."""

    actions: Sequence[Action]
    unsatisfied: tuple[Unsatisfied, ...]
    shortfalls: tuple[Shortfall, ...]
    gang_ages: Mapping[NeedRef, int]
    shortfall_ages: Mapping[Fingerprint, int]

    snapshot: Snapshot = field(repr=False)
    demand: Demand = field(repr=False)
    walk: Walk = field(repr=False)
    kept: Kept = field(repr=False)
    kinds: Kinds | None = field(repr=False)
    owner: NDArray[np.int32] = field(repr=False)
    """Per row of the snapshot: the place in `needs` of the need that claims it, or -1."""

    world: "World | None" = field(default=None, repr=False, compare=False)
    """The machines as this decision saw them: for the next one, and for nobody else."""

    trace: "Trace | None" = field(default=None, repr=False, compare=False)
    """How phase 1 went, for those who try changes; while some need is short and no quota is in
    force."""

    policy: Policy
    steady: bool
    """Whether nothing ages: no need is short, no gang was parked."""

    since: float
    until: float
    """When it was made, and before when no further idle machine will have idled long enough."""

    @cached_property
    def needs(self) -> tuple[Need, ...]:
        """The demand as this cycle saw it, in walk order."""
        return tuple(self.walk.need_at(place) for place in range(len(self.walk)))

    @cached_property
    def hints(self) -> tuple[Hint, ...]:
        """What else could be had, for each kind of need of each cluster."""
        return hints(self.snapshot, self.walk.asked, self.demand.barred)

    @property
    def memory(self) -> Memory:
        """The value to pass to the next decision."""
        return Memory(self.gang_ages, self.shortfall_ages, self)

    def holds(self, snapshot: Snapshot, demand: Demand, policy: Policy, now: float) -> bool:
        """Whether it is still the plan: the same inputs, nothing that ages, no hold run out."""
        same = self.snapshot is snapshot and self.demand is demand and self.policy == policy
        return same and self.steady and self.since <= now < self.until

    def claimed_ids(self) -> list[MachineId]:
        """Every machine that counts for a need, in order of ids."""
        order = self.snapshot.order.astype(np.intp)
        return self.snapshot.machine_ids(order[self.owner[order] >= 0])
