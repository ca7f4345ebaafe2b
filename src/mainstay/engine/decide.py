"""The whole decision on one screen: normalise, cover, preempt, release."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from mainstay.engine.cover import Coverage, cover
from mainstay.engine.normalize import normalize
from mainstay.engine.plan import Demand, Memory, Plan, Shortfall, Unsatisfied
from mainstay.engine.policy import Policy
from mainstay.engine.preempt import LONGEST_GRACE_S, Takings, grace_s, preempt, victim_priority
from mainstay.engine.release import deletable, reclaimable
from mainstay.engine.world import World
from mainstay.inventory.growing import frozen
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.action import Action, ActionKind
from mainstay.model.assignment import NeedRef
from mainstay.model.ids import Fingerprint, MachineId
from mainstay.model.resources import Units, add
from mainstay.model.state import State
from mainstay.model.texts import Rows

SHORTFALLS_MAX: Final = 100


def decide(snapshot: Snapshot, demand: Demand, memory: Memory, policy: Policy, now: float) -> Plan:
    """What should change, and what to remember. Pure: same inputs, same plan."""
    if memory.last is not None and memory.last.holds(snapshot, demand, policy, now):
        return memory.last

    world = World(snapshot, demand.needs)
    rows = normalize(world, demand.needs)
    parked = [
        row.is_gang and policy.is_parked(memory.gang_ages.get(row.need.ref, 0)) for row in rows
    ]
    coverage = cover(world, rows, parked)
    deficits = [world.units(missing) for missing in coverage.missing]
    takings = preempt(world, coverage, demand.heard)
    deleted, until = deletable(world, policy, now)
    actions = (
        *_acquisitions(world, coverage),
        *_preempts(world, coverage, takings),
        *_reclaims(world, coverage, takings, demand),
        *_deletes(world, deleted),
    )
    unsatisfied = tuple(_unsatisfied(world, coverage, deficits))
    shortfalls = _shortfalls(unsatisfied, memory)
    return Plan(
        actions=actions,
        unsatisfied=unsatisfied,
        shortfalls=shortfalls[:SHORTFALLS_MAX],
        gang_ages=_gang_ages(coverage, deficits, memory),
        shortfall_ages=MappingProxyType({s.fingerprint: s.age for s in shortfalls}),
        snapshot=snapshot,
        demand=demand,
        needs=tuple(row.need for row in rows),
        owner=frozen(world.owner),
        policy=policy,
        until=until,
    )


def _acquisitions(world: World, coverage: Coverage) -> Iterator[Action]:
    for place, rows in coverage.acquired:
        need = coverage.rows[place].need
        idle = (world.snapshot.state[rows] == State.IDLE).tolist()
        for machine, is_idle in zip(world.snapshot.machine_ids(rows), idle, strict=True):
            kind = ActionKind.BOOTSTRAP if is_idle else ActionKind.PROVISION
            yield Action(kind, machine, need.cluster, need.ref)


def _preempts(world: World, coverage: Coverage, takings: Takings) -> Iterator[Action]:
    for row, place in takings.victims:
        need = coverage.rows[place].need
        standing = int(victim_priority(world, coverage, _rows(row))[0])
        cluster = world.snapshot.cluster_of(row)
        grace = grace_s(need.profile.priority - standing)
        yield Action(ActionKind.PREEMPT, _id(world, row), cluster, need.ref, grace)


def _reclaims(
    world: World, coverage: Coverage, takings: Takings, demand: Demand
) -> Iterator[Action]:
    preempted = [row for row, _ in takings.victims]
    for row in reclaimable(world, demand.heard, preempted).tolist():
        place = takings.excess.get(row)
        need = None if place is None else coverage.rows[place].need.ref
        cluster = world.snapshot.cluster_of(row)
        yield Action(ActionKind.RECLAIM, _id(world, row), cluster, need, LONGEST_GRACE_S)


def _deletes(world: World, rows: Rows) -> Iterator[Action]:
    for machine in world.snapshot.machine_ids(rows):
        yield Action(ActionKind.DELETE, machine, None, None)


def _unsatisfied(
    world: World, coverage: Coverage, deficits: list[dict[str, int]]
) -> Iterator[Unsatisfied]:
    for place, row in enumerate(coverage.rows):
        if not deficits[place]:
            continue
        choice = coverage.choice[place]
        domain = None if choice.domain is None else world.domains(row.need).values[choice.domain]
        yield Unsatisfied(
            row.need, deficits[place], domain, choice.satisfiable,
            coverage.parked[place], world.units(coverage.missing[place]),
        )  # fmt: skip


def _shortfalls(unsatisfied: tuple[Unsatisfied, ...], memory: Memory) -> tuple[Shortfall, ...]:
    """Summed per fingerprint, aged once per cycle."""
    deficits: dict[Fingerprint, Units] = {}
    priorities: dict[Fingerprint, int] = {}
    for short in unsatisfied:
        if short.unresolved:
            fingerprint = short.need.profile.fingerprint
            deficits[fingerprint] = add(deficits.get(fingerprint, {}), short.unresolved)
            priorities[fingerprint] = short.need.profile.priority
    shortfalls = [
        Shortfall(f, priorities[f], deficit, memory.shortfall_ages.get(f, 0) + 1)
        for f, deficit in deficits.items()
    ]
    return tuple(sorted(shortfalls, key=lambda s: (-s.priority, -s.age, s.fingerprint)))


def _gang_ages(
    coverage: Coverage, deficits: list[dict[str, int]], memory: Memory
) -> Mapping[NeedRef, int]:
    """A gang without hope grows older; any other is forgotten."""
    return MappingProxyType({
        row.need.ref: memory.gang_ages.get(row.need.ref, 0) + 1
        for place, row in enumerate(coverage.rows)
        if row.is_gang and deficits[place] and not coverage.choice[place].satisfiable
    })  # fmt: skip


def _id(world: World, row: int) -> MachineId:
    return MachineId(world.snapshot.ids[row])


def _rows(row: int) -> Rows:
    return np.array([row], dtype=np.intp)
