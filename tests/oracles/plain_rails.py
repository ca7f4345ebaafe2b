"""The rails said plainly: one action after the other, no columns. Slow on purpose."""

from collections import Counter
from collections.abc import Sequence

from mainstay.engine.plan import Plan
from mainstay.model.action import Action, ActionKind
from mainstay.model.ids import ClusterId
from mainstay.model.profile import Profile
from mainstay.model.resources import Resources
from mainstay.model.state import State
from mainstay.shard.restrictions import Restrictions, Stance

ACQUIRING = {ActionKind.BOOTSTRAP, ActionKind.PROVISION}
RELEASING = {ActionKind.RECLAIM, ActionKind.DELETE}


def reasons(plan: Plan, cycle: int, given: Restrictions) -> list[str]:
    """Why each action of a plan is held back; empty for those that may run."""
    actions = list(plan.actions)
    sources = _sources(plan)
    found = [_at_first(action, sources[action.machine], given) for action in actions]
    _await_drains(found, plan, given)
    _cap(found, actions, _configured(plan), given)
    for cluster, limits in given.cluster_limits.items():
        mine = [action.cluster == cluster for action in actions]
        _limit(found, actions, mine, limits.actions_per_cycle_max, cycle)
    everything = [True] * len(actions)
    _limit(found, actions, everything, given.limits.actions_per_cycle_max, cycle)
    for source in set(sources.values()):
        mine = [sources[action.machine] == source for action in actions]
        _limit(found, actions, mine, given.room, cycle, why="queue_full")
    return found


def _at_first(action: Action, source: str, given: Restrictions) -> str:
    if given.stopped:
        return "fenced"
    stance = _stance(action, given)
    if stance is Stance.PAUSE:
        return "pause"
    if stance is Stance.SHADOW:
        return "shadow"
    if source in given.unreachable:
        return "unreachable"
    if given.unlisted and action.kind in ACQUIRING | {ActionKind.PREEMPT}:
        return "unlisted"
    if source in given.unkept and action.kind in ACQUIRING:
        return "unlisted"
    is_waited_for = action.kind is ActionKind.BOOTSTRAP and action.cluster in given.backed_off
    return "back_off" if is_waited_for else ""


def _await_drains(found: list[str], plan: Plan, given: Restrictions) -> None:
    """Every machine that drains for nobody knows whom keeps one like it from being preempted."""
    snapshot = plan.snapshot
    row_of = {snapshot.ids[row]: row for row in snapshot.order.tolist()}
    sources = _sources(plan)
    for row in snapshot.rows_in(State.DRAINING).tolist():
        is_silent = sources[snapshot.ids[row]] in given.silent_on_drains
        if not is_silent or snapshot.assignment_of(row).drained_for is not None:
            continue
        for at, action in enumerate(plan.actions):
            is_alike = _kind(plan, row) == _kind(plan, row_of[action.machine])
            if action.kind is ActionKind.PREEMPT and not found[at] and is_alike:
                found[at] = "draining"
                break


def _kind(plan: Plan, row: int) -> tuple[Profile, Resources]:
    return plan.snapshot.profile_of(row), plan.snapshot.allocatable_of(row)


def _stance(action: Action, given: Restrictions) -> Stance:
    stances = [given.shard]
    if action.cluster is not None:
        stances.append(given.clusters.get(action.cluster, Stance.ACT))
    if action.kind is ActionKind.PREEMPT and action.need is not None:
        stances.append(given.clusters.get(action.need.cluster, Stance.ACT))
    return max(stances)


def _cap(
    found: list[str],
    actions: Sequence[Action],
    configured: Counter[ClusterId | None],
    given: Restrictions,
) -> None:
    run: Counter[ClusterId] = Counter(given.reclaimed)
    for at, action in enumerate(actions):
        if action.kind is not ActionKind.RECLAIM or found[at] or action.cluster is None:
            continue
        fractions = [given.limits.reclaim_fraction_max]
        if action.cluster in given.cluster_limits:
            fractions.append(given.cluster_limits[action.cluster].reclaim_fraction_max)
        fraction = min((each for each in fractions if each), default=None)
        run[action.cluster] += 1
        if fraction is not None:
            most = max(1, int(fraction * configured[action.cluster]))
            if run[action.cluster] > most:
                found[at] = "cap"


def _limit(
    found: list[str],
    actions: Sequence[Action],
    mine: Sequence[bool],
    limit: int,
    cycle: int,
    why: str = "limit",
) -> None:
    """Seats are given one at a time; who has no seat when they are gone waits."""
    waiting: list[list[int]] = [[], [], []]
    for at, action in enumerate(actions):
        if mine[at] and not found[at]:
            waiting[_group(action)].append(at)
    if not limit or sum(map(len, waiting)) <= limit:
        return
    if limit < 3:
        first = [(cycle + step) % 3 for step in range(3)]
    else:
        quarter = max(1, limit // 4)
        first = [1] * quarter + [2] * quarter + [0] * (limit - 2 * quarter)
    for group in [*first, *[0] * limit, *[1] * limit, *[2] * limit]:
        if limit and waiting[group]:
            waiting[group].pop(0)
            limit -= 1
    for at in (at for group in waiting for at in group):
        found[at] = why


def _group(action: Action) -> int:
    if action.kind in ACQUIRING:
        return 0
    return 2 if action.kind in RELEASING else 1


def _configured(plan: Plan) -> Counter[ClusterId | None]:
    snapshot = plan.snapshot
    return Counter(snapshot.cluster_of(int(row)) for row in snapshot.rows_in(State.CONFIGURED))


def _sources(plan: Plan) -> dict[str, str]:
    snapshot = plan.snapshot
    return {
        snapshot.ids[row]: snapshot.sources[int(snapshot.source[row])]
        for row in snapshot.order.tolist()
    }
