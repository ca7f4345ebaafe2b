"""The whole decision on one screen: normalise, cover, preempt, release, and what is told of it."""

from typing import Final

import numpy as np

from mainstay.engine.actions import KINDS, NO_NEED, Actions
from mainstay.engine.asked import Asked
from mainstay.engine.cover import Coverage
from mainstay.engine.lockout import Lockout
from mainstay.engine.normalize import normalize
from mainstay.engine.plan import Demand, Memory, Plan
from mainstay.engine.policy import Policy
from mainstay.engine.preempt import LONGEST_GRACE_S, Takings, graces_s, preempt
from mainstay.engine.release import deletable, reclaimable
from mainstay.engine.rows import Mask, Walk
from mainstay.engine.tell import gang_ages, shortfall_ages, shortfalls_of, unsatisfied_of
from mainstay.engine.trace import claim
from mainstay.engine.world import World
from mainstay.inventory.growing import frozen
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.action import ActionKind
from mainstay.model.state import State
from mainstay.model.texts import Rows

SHORTFALLS_MAX: Final = 100


def decide(snapshot: Snapshot, demand: Demand, memory: Memory, policy: Policy, now: float) -> Plan:
    """What should change, and what to remember. Pure: same inputs, same plan."""
    last = memory.last
    if last is not None and last.holds(snapshot, demand, policy, now):
        return last

    walk, kinds = (None, None) if last is None else (last.walk, last.kinds)
    same_needs = walk is not None and walk.asked.needs is demand.needs
    asked = walk.asked if walk is not None and same_needs else demand.asked
    world = _world(snapshot, asked, demand, last)
    walk = normalize(world, walk)
    parked = _parked(walk, memory, policy)
    coverage, trace = claim(world, walk, parked, demand.quota, kinds)
    deficits = coverage.missing.copy()
    takings = preempt(world, coverage, demand.heard)
    reclaimed = reclaimable(world, demand.heard, takings.victims.rows)
    deleted, until = deletable(world, policy, now)

    lockout = Lockout(world, coverage)
    unsatisfied = unsatisfied_of(coverage, deficits, takings, lockout)
    shortfalls = shortfalls_of(unsatisfied, memory)
    return Plan(
        actions=_actions(world, coverage, takings, reclaimed, deleted),
        unsatisfied=unsatisfied,
        shortfalls=shortfalls[:SHORTFALLS_MAX],
        gang_ages=gang_ages(coverage, deficits, memory, lockout),
        shortfall_ages=shortfall_ages(shortfalls),
        snapshot=snapshot,
        demand=demand,
        walk=walk,
        kept=world.kept,
        kinds=coverage.kinds,
        owner=frozen(world.owner),
        trace=trace,
        world=world,
        policy=policy,
        steady=not unsatisfied and not parked.any(),
        since=now,
        until=until,
    )


def _world(snapshot: Snapshot, asked: Asked, demand: Demand, last: Plan | None) -> World:
    """What the phases work on: what the last plan was made from, as far as it is the same."""
    if last is None:
        return World(snapshot, asked, barred=demand.barred)
    if last.world is not None and last.world.is_of(snapshot, asked, demand.barred):
        last.world.begin(asked)
        return last.world
    return World(
        snapshot, asked, kept=last.kept, walk=last.walk, barred=demand.barred, last=last.world
    )


def _parked(walk: Walk, memory: Memory, policy: Policy) -> Mask:
    """The gangs that have been in vain for too long to try again now."""
    parked = np.zeros(len(walk), dtype=np.bool_)
    if memory.gang_ages:
        for place, ref in walk.gang_refs.items():
            parked[place] = policy.is_parked(memory.gang_ages.get(ref, 0))
    return parked


def _actions(
    world: World, coverage: Coverage, takings: Takings, reclaimed: Rows, deleted: Rows
) -> Actions:
    """Acquisitions in the order they were made, preempts, reclaims, deletes."""
    acquired = np.concatenate(
        [np.empty(0, dtype=np.intp), *(rows for rows, _ in coverage.acquired)]
    )
    wanted = [places for _, places in coverage.acquired]
    preempted, preemptors = takings.victims.rows, takings.victims.places
    idle = world.snapshot.state[acquired] == State.IDLE
    kinds = [
        np.where(idle, KINDS.index(ActionKind.BOOTSTRAP), KINDS.index(ActionKind.PROVISION)),
        np.full(len(preempted), KINDS.index(ActionKind.PREEMPT)),
        np.full(len(reclaimed), KINDS.index(ActionKind.RECLAIM)),
        np.full(len(deleted), KINDS.index(ActionKind.DELETE)),
    ]
    graces = [
        np.zeros(len(acquired)),
        graces_s(world, coverage, preempted, preemptors),
        np.full(len(reclaimed), LONGEST_GRACE_S),
        np.zeros(len(deleted)),
    ]
    meant = np.full(len(world.owner), NO_NEED, dtype=np.intp)
    meant[takings.excess.rows] = takings.excess.places
    places = [*wanted, preemptors, meant[reclaimed], np.full(len(deleted), NO_NEED)]
    return Actions(
        world.snapshot,
        coverage.walk,
        kind=np.concatenate(kinds).astype(np.uint8),
        row=np.concatenate([acquired, preempted, reclaimed, deleted]),
        place=np.concatenate(places).astype(np.intp),
        grace_s=np.concatenate(graces).astype(np.intp),
    )
