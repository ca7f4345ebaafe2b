"""What the shard and its provider do with a plan: begin, wait, complete."""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from mainstay.model.action import Action, ActionKind
from mainstay.model.assignment import NO_ASSIGNMENT, Assignment, NeedRef, overlay
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.machine import Machine
from mainstay.model.need import Need
from mainstay.model.state import State
from mainstay.sim.scene import commitment, full_commitment, host
from mainstay.sim.spec import LoopSpec
from mainstay.sim.world import PROVIDER, Loop, Operation

RECLAIM_SHARE_MAX: Final = 0.05
DELETE_DWELL: Final = 1
FAILED_REST: Final = 3
"""So many cycles after a Create failed its record is gone and its slot is back."""


def capped(
    actions: Iterable[Action], configured: Mapping[ClusterId | None, int]
) -> tuple[list[Action], int]:
    """The actions without the reclaims above each cluster's cap, and how many those are."""
    kept: list[Action] = []
    reclaimed: Counter[ClusterId | None] = Counter()
    deferred = 0
    for action in actions:
        if action.kind is ActionKind.RECLAIM:
            most = max(1, int(configured[action.cluster] * RECLAIM_SHARE_MAX))
            if reclaimed[action.cluster] >= most:
                deferred += 1
                continue
            reclaimed[action.cluster] += 1
        kept.append(action)
    return kept, deferred


def begin(loop: Loop, action: Action, needs: Mapping[NeedRef, Need]) -> None:
    """Move the machine into its transitional state and let the provider work on it."""
    work = _work(action, loop.inventory.machine(action.machine), needs, loop.spec)
    loop.inventory.apply(work.during, now=loop.now)
    due = loop.cycle + 1 + work.dwell + loop.random.randint(0, loop.spec.list_lag)
    loop.operations.append(Operation(due, work.during.state, work.after))


class _Work(NamedTuple):
    """What an action does to a machine, and for how long the provider is at it."""

    during: Machine
    after: Machine
    dwell: int


def _work(action: Action, machine: Machine, needs: Mapping[NeedRef, Need], spec: LoopSpec) -> _Work:
    match action.kind:
        case ActionKind.PROVISION:
            meant = commitment(_need(action, needs))
            during = _moved(machine, State.CREATING, assignment=meant)
            return _Work(during, _idle(machine), spec.create_dwell)
        case ActionKind.BOOTSTRAP:
            need = _need(action, needs)
            bound = dataclasses.replace(machine, cluster=action.cluster)
            during = _moved(bound, State.CONFIGURING, assignment=commitment(need))
            after = _moved(bound, State.CONFIGURED, assignment=full_commitment(need))
            return _Work(during, after, spec.configure_dwell)
        case ActionKind.PREEMPT | ActionKind.RECLAIM:
            meant = overlay(machine.assignment, Assignment(drained_for=action.need))
            during = _moved(machine, State.DRAINING, assignment=meant)
            return _Work(during, _idle(machine), spec.drain_dwell)
        case ActionKind.DELETE:
            slot = dataclasses.replace(_moved(machine, State.SPECULATIVE), host=None)
            return _Work(_moved(machine, State.DELETING), slot, DELETE_DWELL)


def complete(loop: Loop) -> None:
    """Take in whatever is done by now, in any order."""
    due = [operation for operation in loop.operations if operation.due <= loop.cycle]
    loop.operations = [operation for operation in loop.operations if operation.due > loop.cycle]
    loop.random.shuffle(due)
    for operation in due:
        if operation.begun is State.FAILED:
            loop.inventory.remove(operation.record.id)
            add_slot(loop, operation.record)
        elif operation.begun is State.CREATING and loop.creates_to_fail:
            _fail(loop, operation.record)
        else:
            loop.inventory.apply(operation.record, now=loop.now)


def add_slot(loop: Loop, gone: Machine) -> None:
    """A slot with an id of its own, for a machine that is gone."""
    loop.slots_added += 1
    name = MachineId(f"{gone.id.partition('+')[0]}+{loop.slots_added:03d}")
    slot = dataclasses.replace(_moved(gone, State.SPECULATIVE), id=name, host=None, cluster=None)
    loop.inventory.add(slot, now=loop.now, source=PROVIDER)


def _fail(loop: Loop, record: Machine) -> None:
    loop.creates_to_fail -= 1
    loop.failed += 1
    failed = dataclasses.replace(record, state=State.FAILED, host=None, last_error="out of stock")
    loop.inventory.apply(failed, now=loop.now)
    loop.operations.append(Operation(loop.cycle + FAILED_REST, State.FAILED, record))


def _need(action: Action, needs: Mapping[NeedRef, Need]) -> Need:
    if action.need is None:
        raise AssertionError(f"acquired for nobody: {action}")
    return needs[action.need]


def _moved(machine: Machine, state: State, *, assignment: Assignment = NO_ASSIGNMENT) -> Machine:
    return dataclasses.replace(machine, state=state, assignment=assignment)


def _idle(machine: Machine) -> Machine:
    idle = _moved(machine, State.IDLE)
    return dataclasses.replace(idle, cluster=None, host=host(machine.id))
