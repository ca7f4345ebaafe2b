"""One cycle: look, decide, limit, act. It never waits for an action to finish."""

import dataclasses

from mainstay.engine.barred import Barred
from mainstay.engine.decide import decide
from mainstay.engine.policy import Policy
from mainstay.shard import rails
from mainstay.shard.facts import Published
from mainstay.shard.figures import figures
from mainstay.shard.parts import Parts
from mainstay.shard.restrictions import Restrictions
from mainstay.shard.stopwatch import Stopwatch
from mainstay.shard.thought import Carried, Cycled, Inputs, Thought


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

    held, barred = given.restrictions, given.demand.barred.sources
    published = Published(
        cycle=number,
        at_s=given.at_s,
        plan=thought.plan,
        seconds=watch.laps_s,
        unlisted=held.unlisted,
        refused=held.unkept & (barred - held.unreachable),
    )
    return Cycled(looked, thought, offered, published)


def inputs(parts: Parts, carried: Carried, *, number: int, policy: Policy) -> Inputs:
    """What is known at this moment, frozen."""
    elapsed_s = parts.clock.elapsed_s()
    snapshot = parts.inventory.snapshot()
    parts.executor.look()
    parts.breakers.look(snapshot)
    parts.overdue.look(snapshot, elapsed_s, silent=parts.reconciler.heard.unreachable)
    silent = parts.reconciler.heard.unreachable | parts.unanswered.barred()
    silent |= parts.acting.providers.keys()
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
        sources=silent | parts.awaited.ever.refused(),
        values=parts.breakers.barred(elapsed_s) | leaving.values,
        machines=frozenset(parts.reconciler.heard.notices) | leaving.machines,
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
        unkept=parts.awaited.ever.unkept(),
        silent_on_drains=parts.reconciler.heard.silent_on_drains,
        stopped=parts.acting.why,
        reclaimed=carried.reclaimed(),
        room=parts.executor.room,
    )


def think(given: Inputs) -> Thought:
    """Decide, and say what of it may be done now. Pure, so that it can run beside the loop."""
    plan = decide(given.snapshot, given.demand, given.memory, given.policy, given.now_s)
    admitted = rails.admit(plan, cycle=given.cycle, restrictions=given.restrictions)
    return Thought(given, plan, admitted, plan.hints, figures(plan, given.counted))
