"""One cycle: look, decide, limit, act. It never waits for an action to finish."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from mainstay.engine.barred import NOTHING_BARRED, Barred
from mainstay.engine.decide import decide
from mainstay.engine.hints import Hint
from mainstay.engine.plan import Demand, Memory, Plan
from mainstay.engine.policy import Policy
from mainstay.engine.quota import Quota
from mainstay.inventory.inventory import Inventory
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.ids import ClusterId
from mainstay.runtime.aside import Aside
from mainstay.runtime.clock import Clock
from mainstay.shard import rails
from mainstay.shard.controls import Controls
from mainstay.shard.demand import DemandBook
from mainstay.shard.executor import Executor, Offered
from mainstay.shard.facts import Published
from mainstay.shard.figures import Figures, figures
from mainstay.shard.hands.acting import Acting
from mainstay.shard.hands.backoff import BackOff
from mainstay.shard.hands.breaker import Breakers
from mainstay.shard.hands.overdue import Overdue
from mainstay.shard.lists.awaited import Awaited
from mainstay.shard.ports import Journal
from mainstay.shard.rails import Admitted, HeldAs, Restrictions
from mainstay.shard.reconcile import Looked, Reconciler
from mainstay.shard.steady import SteadyClock
from mainstay.shard.stopwatch import Stopwatch


class CycleJournal(Journal, Protocol):
    """Where a cycle tells what became of its plan."""

    def counted(self, counts: Mapping[HeldAs, int], *, cycle: int) -> None:
        """So many more orders were held back than are told one by one; said in every cycle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a cycle passes through."""

    inventory: Inventory
    reconciler: Reconciler
    awaited: Awaited
    demand: DemandBook
    controls: Controls
    acting: Acting
    backoff: BackOff
    breakers: Breakers
    overdue: Overdue
    executor: Executor
    publish: Callable[[tuple[Hint, ...]], None]
    """Tells clusters what else could be had."""

    quota: Callable[[], Quota]
    """The numbers held now."""

    journal: CycleJournal
    clock: Clock
    steady: SteadyClock
    """By which the inventory notes since when machines idle."""

    aside: Aside
    leaving: Callable[[], Barred] = lambda: NOTHING_BARRED
    """What is about to be another shard's."""


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
    reclaimed: Mapping[ClusterId, int] = field(default_factory=dict)
    """Reclaims of each cluster since the last tick."""


async def cycle(
    parts: Parts, carried: Carried, *, number: int, policy: Policy, look_s: float = 0.0
) -> Cycled:
    """Look, decide, limit, act. It waits for lists at most `look_s`."""
    watch = Stopwatch(parts.clock)
    looked = await parts.reconciler.look(patience_s=look_s)
    watch.lap("reconcile")

    given = inputs(parts, carried, number=number, policy=policy)
    watch.lap("snapshot")
    thought = await parts.aside(lambda: think(given))
    watch.lap("decide")

    parts.publish(thought.hints)
    watch.lap("hints")
    parts.journal.disposed(thought.admitted.held)
    parts.journal.counted(thought.admitted.counted_only(), cycle=number)
    offered = parts.executor.offer(thought.admitted.orders, cycle=number)
    watch.lap("offer")

    published = Published(
        cycle=number,
        at_s=given.at_s,
        plan=thought.plan,
        seconds=watch.laps_s,
        unlisted=given.restrictions.unlisted,
    )
    return Cycled(looked, thought, offered, published)


def inputs(parts: Parts, carried: Carried, *, number: int, policy: Policy) -> Inputs:
    """What is known at this moment, frozen."""
    elapsed_s = parts.clock.elapsed_s()
    snapshot = parts.inventory.snapshot()
    parts.breakers.look(snapshot)
    parts.overdue.look(snapshot, elapsed_s)
    silent = parts.reconciler.unreachable | parts.acting.providers.keys()
    return Inputs(
        cycle=number,
        snapshot=snapshot,
        demand=parts.demand.snapshot(parts.quota(), _barred(parts, silent, elapsed_s)),
        memory=carried.memory,
        policy=policy,
        restrictions=_restrictions(parts, carried, silent, elapsed_s),
        now_s=parts.steady.now_s(),
        at_s=parts.clock.now_s(),
        counted=carried.figures,
    )


def _barred(parts: Parts, silent: frozenset[str], elapsed_s: float) -> Barred:
    """What must not be acquired: the decision looks elsewhere."""
    leaving = parts.leaving()
    return Barred(
        sources=silent,
        values=parts.breakers.barred(elapsed_s) | leaving.values,
        machines=frozenset(parts.reconciler.notices) | leaving.machines,
        offers=parts.breakers.offers(elapsed_s),
    )


def _restrictions(
    parts: Parts, carried: Carried, silent: frozenset[str], elapsed_s: float
) -> Restrictions:
    """What holds back whatever is decided."""
    return dataclasses.replace(
        parts.controls.restrictions(),
        backed_off=parts.backoff.backed_off(elapsed_s),
        unreachable=silent,
        unlisted=parts.awaited.why(),
        stopped=parts.acting.why,
        reclaimed=carried.reclaimed,
        room=parts.executor.room,
    )


def think(given: Inputs) -> Thought:
    """Decide, and say what of it may be done now. Pure, so that it can run beside the loop."""
    plan = decide(given.snapshot, given.demand, given.memory, given.policy, given.now_s)
    admitted = rails.admit(plan, cycle=given.cycle, restrictions=given.restrictions)
    return Thought(given, plan, admitted, plan.hints, figures(plan, given.counted))
