"""The loop of one shard: complete, strike, list, decide, act. The same spec, the same run."""

from collections import Counter
from collections.abc import Callable
from random import Random

from mainstay.engine.decide import decide
from mainstay.engine.plan import Plan
from mainstay.engine.policy import Policy
from mainstay.model.action import Action, ActionKind
from mainstay.model.ids import ClusterId
from mainstay.model.needs import NeedsTable
from mainstay.model.state import State
from mainstay.sim import laws
from mainstay.sim.execute import capped, carry_out, reconcile
from mainstay.sim.faults import report, restart, scheduled, strike
from mainstay.sim.scene import scene
from mainstay.sim.spec import LoopSpec
from mainstay.sim.world import Loop, Stats, listed, machines


def run(spec: LoopSpec, done: Callable[[Stats], None] = lambda _: None) -> Loop:
    """All cycles of a run; what it broke is in `broken`. Whoever waits is told of each."""
    loop = start(spec)
    for _ in range(spec.cycles):
        done(step(loop))
    return loop


def start(spec: LoopSpec) -> Loop:
    """A loop before its first cycle."""
    random = Random(spec.seed)
    stage = scene(spec.scene, random)
    events = scheduled(spec, stage, random)
    inventory = listed(list(stage.machines), now=0.0)
    for machine in stage.machines:
        inventory.assign(machine.id, machine.assignment)
    return Loop(spec, stage, random, events, inventory, NeedsTable())


def step(loop: Loop) -> Stats:
    """One cycle."""
    loop.dropped = 0
    loop.failed = loop.provider.complete(loop.cycle, loop.random)
    strike(loop)
    if loop.cycle == loop.spec.restart_at:
        restart(loop)
    broken = reconcile(loop)
    report(loop)

    snapshot = loop.inventory.snapshot()
    plan = decide(snapshot, loop.demand, loop.memory, Policy(), loop.now)
    loop.memory = plan.memory
    broken += laws.plan_faults(plan, loop.demand, loop.inventory)

    actions, deferred = list(plan.actions), 0
    configured = _configured(loop) if loop.spec.reclaim_cap else None
    if configured is not None:
        actions, deferred = capped(actions, configured)
    begun = carry_out(loop, actions, {need.ref: need for need in plan.needs})
    broken += laws.step_faults(begun, configured)

    if loop.inventory.snapshot() is not loop.checked:
        held = machines(loop.inventory)
        broken += laws.machine_faults(held, size=len(loop.scene.machines))
        broken += laws.owner_faults(held, loop.provider)
        loop.checked = loop.inventory.snapshot()
    loop.broken += [f"cycle {loop.cycle}: {law}" for law in broken]
    stats = _stats(loop, plan, begun, deferred)
    loop.history.append(stats)
    loop.cycle += 1
    return stats


def _configured(loop: Loop) -> Counter[ClusterId | None]:
    found = machines(loop.inventory)
    return Counter(machine.cluster for machine in found if machine.state is State.CONFIGURED)


def _stats(loop: Loop, plan: Plan, actions: list[Action], deferred: int) -> Stats:
    kinds = Counter(action.kind for action in actions)
    by_state = loop.inventory.snapshot().by_state
    return Stats(
        cycle=loop.cycle,
        bootstraps=kinds[ActionKind.BOOTSTRAP],
        provisions=kinds[ActionKind.PROVISION],
        preempts=kinds[ActionKind.PREEMPT],
        reclaims=kinds[ActionKind.RECLAIM],
        deletes=kinds[ActionKind.DELETE],
        planned=len(plan.actions),
        deferred=deferred,
        dropped=loop.dropped,
        lost=loop.lost,
        failed=loop.failed,
        creating=by_state.get(State.CREATING, 0),
        configured=by_state.get(State.CONFIGURED, 0),
        unsatisfied=len(plan.unsatisfied),
        shortfalls=len(plan.shortfalls),
    )
