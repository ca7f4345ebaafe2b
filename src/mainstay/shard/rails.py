"""What of a plan may be done now. A rail changes how much is done, never what was decided.

The rules are asked in this order, and the first that holds an action back is the one it is counted
under:

1. the shard has stopped acting: `fenced`
2. actuation is paused, for the shard or a cluster: `pause`
3. shadow mode, for the shard or a cluster: `shadow`
4. its provider does not answer: `unreachable`
5. an acquisition or a preempt while the machines of a provider are not known again, and an
   acquisition through one that a next life would not wait for: `unlisted`
6. a bootstrap for a cluster that has just failed to answer one: `back_off`
7. a preempt of a machine while one like it drains, and its provider does not say for whom:
   `draining`
8. a reclaim above its cluster's share of this cycle: `cap`
9. more than may be begun in one cycle: `limit`
10. more than its provider's queue can take: `queue_full`

What 1 to 7 hold back takes no place in 8 and 9. So under a pause there is nothing to limit, and no
cycle follows another because of it. Pure: the same plan and restrictions give the same answer.
"""

from collections import Counter
from fractions import Fraction

import numpy as np

from mainstay.engine.actions import Actions
from mainstay.engine.plan import Plan
from mainstay.model.action import ActionKind
from mainstay.model.state import State
from mainstay.model.texts import Rows
from mainstay.shard.admitted import NOTHING, Admitted, PlanView, Rule, Rules, told
from mainstay.shard.orders import Order
from mainstay.shard.restrictions import NO_LIMITS, Restrictions, Stance
from mainstay.shard.sharing import ACQUISITIONS, GROUPS, shares

_FOR_ITS_NEED = (ActionKind.BOOTSTRAP, ActionKind.PROVISION, ActionKind.PREEMPT)
"""What is done because a need misses something, which may only be out of sight. A reclaim may name
who gets the machine next; its cluster does not need it any more, whoever that is.
"""


def admit(plan: Plan, *, cycle: int, restrictions: Restrictions) -> Admitted:
    """What of a plan may be done now."""
    actions = plan.actions
    if not actions:
        return NOTHING
    if not isinstance(actions, Actions):
        raise TypeError(f"actions of a plan must be columns: {type(actions).__name__}")
    view = PlanView(actions)
    rule = np.full(len(actions), Rule.NONE, dtype=np.uint8)
    _stand(rule, view, restrictions)
    _defer(rule, view, restrictions)
    _await_drains(rule, view, restrictions)
    _cap(rule, view, restrictions)
    _limit(rule, view, restrictions, cycle)
    _fit(rule, view, restrictions, cycle)
    return told(rule, view, cycle, restrictions)


def reclaim_cap(fraction: float, configured: int) -> int:
    """How many reclaims of a cluster with so many Configured machines run in one cycle."""
    return max(1, int(Fraction(str(fraction)) * configured))  # as people wrote it


def stance_of(order: Order, restrictions: Restrictions) -> Stance:
    """How far one order may go, as `admit` says it of a whole plan."""
    concerned = {order.action.cluster}
    if order.need is not None and order.action.kind in _FOR_ITS_NEED:
        concerned.add(order.need.cluster)
    stances = [restrictions.clusters.get(name, Stance.ACT) for name in concerned if name]
    return max(restrictions.shard, *stances, Stance.ACT)


def _stand(rule: Rules, view: PlanView, restrictions: Restrictions) -> None:
    """Stopped, paused, shadowed; pause comes last and wins. A preempt concerns the cluster that
    loses the machine and the one that it is for.
    """
    if restrictions.stopped:
        rule[:] = Rule.FENCED
        return
    for stance, verdict in (Stance.SHADOW, Rule.SHADOWED), (Stance.PAUSE, Rule.PAUSED):
        named = {name for name, mine in restrictions.clusters.items() if mine is stance}
        if restrictions.shard is stance:
            rule[:] = verdict
        elif named:
            done_for = view.is_kind(*_FOR_ITS_NEED) & view.asked_by(named)
            rule[view.of(named) | done_for] = verdict


def _defer(rule: Rules, view: PlanView, restrictions: Restrictions) -> None:
    """What would be in vain now, or may turn out not to be needed."""
    if restrictions.unreachable:
        away = view.through(restrictions.unreachable)
        rule[away & (rule == Rule.NONE)] = Rule.UNREACHABLE
    if restrictions.unlisted:
        rule[view.is_kind(*_FOR_ITS_NEED) & (rule == Rule.NONE)] = Rule.UNLISTED
    if restrictions.unkept:
        acquired = view.is_kind(*ACQUISITIONS) & view.through(restrictions.unkept)
        rule[acquired & (rule == Rule.NONE)] = Rule.UNLISTED
    if restrictions.backed_off:
        waits = view.is_kind(ActionKind.BOOTSTRAP) & view.asked_by(restrictions.backed_off)
        rule[waits & (rule == Rule.NONE)] = Rule.BACKED_OFF


def _await_drains(rule: Rules, view: PlanView, restrictions: Restrictions) -> None:
    """As many preempts of each shape class as machines of it drain for nobody knows whom: those
    may drain for these very needs, and will serve them as well as the victims would.
    """
    preempts = np.flatnonzero((rule == Rule.NONE) & view.is_kind(ActionKind.PREEMPT))
    if not len(preempts) or not restrictions.silent_on_drains:
        return
    left = Counter(view.drains_for_nobody_knows_whom(restrictions.silent_on_drains))
    for at, shape in zip(preempts.tolist(), view.shape[preempts].tolist(), strict=True):
        if left[shape] > 0:
            left[shape] -= 1
            rule[at] = Rule.DRAINING


def _cap(rule: Rules, view: PlanView, restrictions: Restrictions) -> None:
    """Of each cluster's reclaims the first few, in the plan's order."""
    reclaims = np.flatnonzero((rule == Rule.NONE) & view.is_kind(ActionKind.RECLAIM))
    if not len(reclaims):
        return
    snapshot = view.snapshot
    serving = snapshot.cluster[snapshot.state == State.CONFIGURED]
    configured = np.bincount(serving, minlength=len(snapshot.clusters))
    codes = view.bound[reclaims]
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order])) + 1
    for mine in np.split(reclaims[order], starts):
        code = int(view.bound[mine[0]])
        further = restrictions.cluster_limits.get(snapshot.clusters[code], NO_LIMITS)
        fraction = restrictions.limits.tightened(further).reclaim_fraction_max
        if fraction:
            spent = restrictions.reclaimed.get(snapshot.clusters[code], 0)
            left = max(0, reclaim_cap(fraction, int(configured[code])) - spent)
            rule[mine[left:]] = Rule.CAPPED


def _limit(rule: Rules, view: PlanView, restrictions: Restrictions, cycle: int) -> None:
    """Each cluster's limit first, then the shard's over what is left."""
    for cluster, further in restrictions.cluster_limits.items():
        if further.actions_per_cycle_max:
            left = np.flatnonzero((rule == Rule.NONE) & view.of((cluster,)))
            limit = further.actions_per_cycle_max
            rule[_beyond(left, view, limit, cycle)] = Rule.LIMITED
    if restrictions.limits.actions_per_cycle_max:
        left = np.flatnonzero(rule == Rule.NONE)
        limit = restrictions.limits.actions_per_cycle_max
        rule[_beyond(left, view, limit, cycle)] = Rule.LIMITED


def _fit(rule: Rules, view: PlanView, restrictions: Restrictions, cycle: int) -> None:
    """What a queue cannot take is not even looked at one by one."""
    left = np.flatnonzero(rule == Rule.NONE)
    through = view.snapshot.source[view.actions.row[left]]
    for source in np.unique(through) if restrictions.room else ():
        mine = left[through == source]
        rule[_beyond(mine, view, restrictions.room, cycle)] = Rule.CROWDED


def _beyond(left: Rows, view: PlanView, limit: int, cycle: int) -> Rows:
    """Those of `left` that have no place under a limit: each group has a share of it."""
    if len(left) <= limit:
        return left[:0]
    group = view.group[left]
    wanted = np.bincount(group, minlength=len(GROUPS)).tolist()
    kept = shares(limit, wanted, cycle)
    return np.concatenate([left[group == at][count:] for at, count in enumerate(kept)])
