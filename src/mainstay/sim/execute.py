"""What the shard does with a plan: begin what can be begun, and take in what the provider lists."""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from mainstay.model.action import Action, ActionKind
from mainstay.model.assignment import NO_ASSIGNMENT, Assignment, NeedRef, overlay
from mainstay.model.batch import MachineBatch
from mainstay.model.commitment import commitment, full_commitment
from mainstay.model.ids import ClusterId
from mainstay.model.machine import Machine
from mainstay.model.need import Need
from mainstay.sim.provider import WORK
from mainstay.sim.world import Loop

RECLAIM_SHARE_MAX: Final = 0.05


def reclaims_max(configured: int) -> int:
    """How many of a cluster's machines one cycle may reclaim."""
    return max(1, int(configured * RECLAIM_SHARE_MAX))


def capped(
    actions: Iterable[Action], configured: Mapping[ClusterId | None, int]
) -> tuple[list[Action], int]:
    """The actions without the reclaims above each cluster's cap, and how many those are."""
    kept: list[Action] = []
    reclaimed: Counter[ClusterId | None] = Counter()
    deferred = 0
    for action in actions:
        if action.kind is ActionKind.RECLAIM:
            if reclaimed[action.cluster] >= reclaims_max(configured[action.cluster]):
                deferred += 1
                continue
            reclaimed[action.cluster] += 1
        kept.append(action)
    return kept, deferred


def carry_out(loop: Loop, actions: Iterable[Action], needs: Mapping[NeedRef, Need]) -> list[Action]:
    """Begin the actions, but for those that get lost; those that were begun.

    Some come twice: at once and again in the next cycle, where nothing may come of them.
    """
    begun = [action for action, meant in loop.repeats if begin(loop, action, meant)]
    loop.repeats = []
    for action in actions:
        if _happens(loop, loop.spec.drop_per_mille) or _is_out_of_reach(loop, action):
            loop.dropped += 1
            continue
        meant = _meant(loop, action, needs)
        again = _happens(loop, loop.spec.repeat_per_mille)
        begun += [action for _ in range(1 + again) if begin(loop, action, meant)]
        if again:
            loop.repeats.append((action, meant))
    return begun


def begin(loop: Loop, action: Action, meant: Assignment) -> bool:
    """Begin the work, if the machine is still where the action found it, here and there."""
    work = WORK[action.kind]
    if action.machine not in loop.inventory:
        return False
    machine = loop.inventory.machine(action.machine)
    if machine.state is not work.before:
        return False
    called = loop.provider.call(
        action.kind, action.machine, action.cluster, meant, cycle=loop.cycle
    )
    if not called:
        return False
    cluster = action.cluster if action.kind is ActionKind.BOOTSTRAP else machine.cluster
    during = dataclasses.replace(machine, state=work.during, cluster=cluster, assignment=meant)
    loop.inventory.apply(during, now=loop.now)
    loop.begun_at[action.machine] = loop.cycle
    return True


def reconcile(loop: Loop) -> list[str]:
    """Take in a list that may be some cycles old; every record of it that was refused.

    Whatever we have begun since it was made it knows nothing of, so that is left alone. No list is
    older than the one before.
    """
    batch = _latest(loop)
    ours = {name for name, cycle in loop.begun_at.items() if cycle >= loop.listed_at}
    if batch is loop.taken_in and loop.inventory.revision == loop.revision and not ours:
        return []
    report = loop.inventory.merge(batch, now=loop.now, skip=ours)
    for name in loop.inventory.snapshot().machine_ids(report.absent):
        loop.inventory.remove(name)
    loop.taken_in, loop.revision = batch, loop.inventory.revision
    return [f"a record of a list was refused: {refusal.message}" for refusal in report.refused]


def _latest(loop: Loop) -> MachineBatch:
    oldest = loop.cycle - loop.spec.list_lag
    lag = loop.random.randint(0, loop.spec.list_lag)
    loop.lists = [(made, batch) for made, batch in loop.lists if made >= oldest]
    loop.lists.append((loop.cycle, loop.provider.listed(loop.random)))
    loop.listed_at = max(loop.listed_at, loop.cycle - lag, loop.lists[0][0])
    return dict(loop.lists)[loop.listed_at]


def _happens(loop: Loop, per_mille: int) -> bool:
    """Drawn even where it never happens, so that the rest of a run follows as it would anyway."""
    return loop.random.randrange(1000) < per_mille


def _is_out_of_reach(loop: Loop, action: Action) -> bool:
    """A machine joins a cluster only with its help."""
    return action.kind is ActionKind.BOOTSTRAP and action.cluster in loop.silent


def _meant(loop: Loop, action: Action, needs: Mapping[NeedRef, Need]) -> Assignment:
    """What the machine carries while the work goes on."""
    match action.kind:
        case ActionKind.PROVISION:
            return commitment(_need(action, needs))
        case ActionKind.BOOTSTRAP:
            return full_commitment(_need(action, needs))
        case ActionKind.PREEMPT | ActionKind.RECLAIM:
            machine: Machine = loop.inventory.machine(action.machine)
            return overlay(machine.assignment, Assignment(drained_for=action.need))
        case ActionKind.DELETE:
            return NO_ASSIGNMENT


def _need(action: Action, needs: Mapping[NeedRef, Need]) -> Need:
    if action.need is None:
        raise AssertionError(f"acquired for nobody: {action}")
    return needs[action.need]
