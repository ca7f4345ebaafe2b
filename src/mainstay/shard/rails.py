"""What of a plan may be done now. A rail changes how much is done, never what was decided.

The rules are asked in this order, and the first that holds an action back is the one it is counted
under:

1. the shard has stopped acting: `fenced`
2. actuation is paused, for the shard or a cluster: `pause`
3. shadow mode, for the shard or a cluster: `shadow`
4. its provider does not answer: `unreachable`
5. a bootstrap for a cluster that has just failed to answer one: `back_off`
6. a reclaim above its cluster's share of this cycle: `cap`
7. more than may be begun in one cycle: `limit`
8. more than its provider's queue can take: `queue_full`

What 1 to 5 hold back takes no place in 6 and 7. So under a pause there is nothing to limit, and no
cycle follows another because of it. Pure: the same plan and restrictions give the same answer.
"""

from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.actions import KINDS, NO_NEED, Actions
from mainstay.engine.plan import Plan
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.action import ActionKind
from mainstay.model.errors import Rejected
from mainstay.model.ids import ClusterId
from mainstay.model.state import State
from mainstay.model.texts import Rows
from mainstay.shard.money.risk import at_risk
from mainstay.shard.orders import Disposed, Order
from mainstay.shard.outcomes import Disposition
from mainstay.shard.sharing import GROUPS, shares

HELD_TOLD_MAX: Final = 1_000
"""So many held actions of each disposition are told one by one; the rest is counted."""

Mask = NDArray[np.bool_]


class Stance(IntEnum):
    """How far a shard or a cluster may go. The greater one wins."""

    ACT = 0
    SHADOW = 1
    """Tell what would be done."""

    PAUSE = 2
    """Do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much of a plan may be begun in one cycle. Zero means no limit."""

    reclaim_fraction_max: float = 0.05
    """Largest share of a cluster's Configured machines that is reclaimed, at least one machine."""

    actions_per_cycle_max: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.reclaim_fraction_max <= 1:
            raise Rejected(
                f"reclaim_fraction_max must be between 0 and 1: {self.reclaim_fraction_max}"
            )
        if self.actions_per_cycle_max < 0:
            raise Rejected(
                f"actions_per_cycle_max must not be negative: {self.actions_per_cycle_max}"
            )

    def tightened(self, other: "Limits") -> "Limits":
        """The tighter of each."""
        return Limits(
            reclaim_fraction_max=_tighter(self.reclaim_fraction_max, other.reclaim_fraction_max),
            actions_per_cycle_max=int(
                _tighter(self.actions_per_cycle_max, other.actions_per_cycle_max)
            ),
        )


def _tighter(one: float, other: float) -> float:
    return min(one, other) if one and other else one or other


NO_LIMITS: Final = Limits(reclaim_fraction_max=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Restrictions:
    """All that holds actions back in one cycle. The default is the default configuration."""

    shard: Stance = Stance.ACT
    clusters: Mapping[ClusterId, Stance] = field(default_factory=dict)
    """Only what goes further than the shard's counts."""

    limits: Limits = Limits()
    cluster_limits: Mapping[ClusterId, Limits] = field(default_factory=dict)
    """The same, for what is given to a cluster or taken from it; the tighter counts."""

    backed_off: frozenset[ClusterId] = frozenset()
    """Clusters that failed to say how a machine joins them, and wait before the next try."""

    unreachable: frozenset[str] = frozenset()
    """Providers through which nothing is done."""

    reclaimed: Mapping[ClusterId, int] = field(default_factory=dict)
    """Reclaims that the cap has let through already since the last tick: a wake-up gets the rest.
    """

    stopped: str = ""
    """Why the shard acts no more; empty while it does."""

    room: int = 0
    """How many orders through one provider are worth making; 0: any number."""


class HeldAs(NamedTuple):
    """Under which labels a held action is counted."""

    disposition: Disposition
    reason: str
    kind: ActionKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """What may be done now, and what became of the rest."""

    orders: tuple[Order, ...] = ()
    """In the plan's order."""

    held: tuple[Disposed, ...] = ()
    """In the plan's order, of each disposition the first HELD_TOLD_MAX."""

    held_counts: Mapping[HeldAs, int] = field(default_factory=dict)
    """All that is held back, those that are told one by one too."""

    again: bool = False
    """Whether the limit alone holds something back: a cycle may follow as soon as there is room."""

    def counted_only(self) -> dict[HeldAs, int]:
        """How many are held beyond those in `held`."""
        told = Counter(
            HeldAs(each.disposition, each.reason, each.order.action.kind) for each in self.held
        )
        left = {key: count - told[key] for key, count in self.held_counts.items()}
        return {key: count for key, count in left.items() if count}


NOTHING: Final = Admitted()
"""Of a plan without actions."""


def admit(plan: Plan, *, cycle: int, restrictions: Restrictions) -> Admitted:
    """What of a plan may be done now."""
    actions = plan.actions
    if not actions:
        return NOTHING
    if not isinstance(actions, Actions):
        raise TypeError(f"actions of a plan must be columns: {type(actions).__name__}")
    view = _View(actions)
    rule = np.full(len(actions), _Rule.NONE, dtype=np.uint8)
    _stand(rule, view, restrictions)
    _defer(rule, view, restrictions)
    _cap(rule, view, restrictions)
    _limit(rule, view, restrictions, cycle)
    _fit(rule, view, restrictions)
    return _told(rule, view, cycle, restrictions)


def reclaim_cap(fraction: float, configured: int) -> int:
    """How many reclaims of a cluster with so many Configured machines run in one cycle."""
    return max(1, int(fraction * configured))


def stance_of(order: Order, restrictions: Restrictions) -> Stance:
    """How far one order may go, as `admit` says it of a whole plan."""
    concerned = {order.action.cluster, order.need.cluster if order.need else None}
    stances = [restrictions.clusters.get(name, Stance.ACT) for name in concerned if name]
    return max(restrictions.shard, *stances, Stance.ACT)


class _Rule(IntEnum):
    """Which rule holds an action back."""

    NONE = 0
    FENCED = 1
    PAUSED = 2
    SHADOWED = 3
    UNREACHABLE = 4
    BACKED_OFF = 5
    CAPPED = 6
    LIMITED = 7
    CROWDED = 8


_LABELS: Final[Mapping[_Rule, tuple[Disposition, str]]] = {
    _Rule.FENCED: (Disposition.SUPPRESSED, "fenced"),
    _Rule.PAUSED: (Disposition.SUPPRESSED, "pause"),
    _Rule.SHADOWED: (Disposition.SHADOWED, "shadow"),
    _Rule.UNREACHABLE: (Disposition.DEFERRED, "unreachable"),
    _Rule.BACKED_OFF: (Disposition.DEFERRED, "back_off"),
    _Rule.CAPPED: (Disposition.CAPPED, "cap"),
    _Rule.LIMITED: (Disposition.DEFERRED, "limit"),
    _Rule.CROWDED: (Disposition.DROPPED, "queue_full"),
}

HELD_BY: Final = {Stance.SHADOW: _LABELS[_Rule.SHADOWED], Stance.PAUSE: _LABELS[_Rule.PAUSED]}
"""Under which labels a stance holds an action back."""

_Rules = NDArray[np.uint8]
"""Per action the rule that holds it back."""

_GROUP: Final = np.array(
    [next(n for n, kinds in enumerate(GROUPS) if kind in kinds) for kind in KINDS], dtype=np.intp
)
"""Per number of a kind its group."""


class _View:
    """The actions of a plan as the rules ask about them."""

    def __init__(self, actions: Actions) -> None:
        self.actions = actions
        self.snapshot: Snapshot = actions.snapshot
        self.group = _GROUP[actions.kind]
        self.bound = self.snapshot.cluster[actions.row]
        """Code of the cluster that each machine is bound to."""

    def is_kind(self, kind: ActionKind) -> Mask:
        found: Mask = self.actions.kind == KINDS.index(kind)
        return found

    @cached_property
    def _asking(self) -> NDArray[np.int64]:
        """Code of the cluster whose need each is for, -1 without one."""
        clusters = np.append(self.actions.walk.cluster, -1)
        return np.where(self.actions.place == NO_NEED, -1, clusters[self.actions.place])

    def asked_by(self, clusters: Container[ClusterId]) -> Mask:
        """Which are for a need of one of these clusters."""
        names = self.actions.walk.asked.clusters
        chosen = np.array([*(name in clusters for name in names), False], dtype=np.bool_)
        return chosen[self._asking]

    def of(self, clusters: Container[ClusterId]) -> Mask:
        """Which give a machine to one of these clusters or take one from it."""
        names = self.snapshot.clusters
        chosen = np.array([bool(name) and name in clusters for name in names], dtype=np.bool_)
        found: Mask = np.where(self.group == 0, self.asked_by(clusters), chosen[self.bound])
        return found

    def through(self, sources: Container[str]) -> Mask:
        """Which go through one of these providers."""
        chosen = np.array([name in sources for name in self.snapshot.sources], dtype=np.bool_)
        return chosen[self.snapshot.source[self.actions.row]]


def _stand(rule: _Rules, view: _View, restrictions: Restrictions) -> None:
    """Stopped, paused, shadowed; pause comes last and wins. A preempt concerns the cluster that
    loses the machine and the one that it is for.
    """
    if restrictions.stopped:
        rule[:] = _Rule.FENCED
        return
    for stance, verdict in (Stance.SHADOW, _Rule.SHADOWED), (Stance.PAUSE, _Rule.PAUSED):
        named = {name for name, mine in restrictions.clusters.items() if mine is stance}
        if restrictions.shard is stance:
            rule[:] = verdict
        elif named:
            taken_for = view.is_kind(ActionKind.PREEMPT) & view.asked_by(named)
            rule[view.of(named) | taken_for] = verdict


def _defer(rule: _Rules, view: _View, restrictions: Restrictions) -> None:
    """What would be in vain now."""
    if restrictions.unreachable:
        away = view.through(restrictions.unreachable)
        rule[away & (rule == _Rule.NONE)] = _Rule.UNREACHABLE
    if restrictions.backed_off:
        waits = view.is_kind(ActionKind.BOOTSTRAP) & view.asked_by(restrictions.backed_off)
        rule[waits & (rule == _Rule.NONE)] = _Rule.BACKED_OFF


def _cap(rule: _Rules, view: _View, restrictions: Restrictions) -> None:
    """Of each cluster's reclaims the first few, in the plan's order."""
    reclaims = np.flatnonzero((rule == _Rule.NONE) & view.is_kind(ActionKind.RECLAIM))
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
            rule[mine[left:]] = _Rule.CAPPED


def _limit(rule: _Rules, view: _View, restrictions: Restrictions, cycle: int) -> None:
    """Each cluster's limit first, then the shard's over what is left."""
    for cluster, further in restrictions.cluster_limits.items():
        if further.actions_per_cycle_max:
            left = np.flatnonzero((rule == _Rule.NONE) & view.of((cluster,)))
            _share(rule, view, left, further.actions_per_cycle_max, cycle)
    if restrictions.limits.actions_per_cycle_max:
        left = np.flatnonzero(rule == _Rule.NONE)
        _share(rule, view, left, restrictions.limits.actions_per_cycle_max, cycle)


def _fit(rule: _Rules, view: _View, restrictions: Restrictions) -> None:
    """What a queue cannot take is not even looked at one by one."""
    left = np.flatnonzero(rule == _Rule.NONE)
    through = view.snapshot.source[view.actions.row[left]]
    for source in np.unique(through) if restrictions.room else ():
        rule[left[through == source][restrictions.room :]] = _Rule.CROWDED


def _share(rule: _Rules, view: _View, left: Rows, limit: int, cycle: int) -> None:
    if len(left) <= limit:
        return
    group = view.group[left]
    wanted = np.bincount(group, minlength=len(GROUPS)).tolist()
    for number, kept in enumerate(shares(limit, wanted, cycle)):
        rule[left[group == number][kept:]] = _Rule.LIMITED


def _told(rule: _Rules, view: _View, cycle: int, restrictions: Restrictions) -> Admitted:
    """Objects of what may run and of the first that may not; numbers of the rest."""
    orders = _orders(view, np.flatnonzero(rule == _Rule.NONE), cycle)
    if len(orders) == len(rule):
        return Admitted(orders=orders)
    told = _first_of_each(rule)
    held = []
    for order, number in zip(_orders(view, told, cycle), rule[told].tolist(), strict=True):
        disposition, reason = _LABELS[_Rule(number)]
        detail = restrictions.stopped if number == _Rule.FENCED else ""
        held.append(
            Disposed(
                order=order, disposition=disposition, reason=reason, cycle=cycle, detail=detail
            )
        )
    return Admitted(
        orders=orders,
        held=tuple(held),
        held_counts=_counts(rule, view),
        again=bool((rule == _Rule.LIMITED).any()),
    )


def _first_of_each(rule: _Rules) -> Rows:
    """The first of each disposition, in the plan's order."""
    found: list[Rows] = []
    for disposition in dict.fromkeys(which for which, _ in _LABELS.values()):
        numbers = [number for number, (which, _) in _LABELS.items() if which is disposition]
        found.append(np.flatnonzero(np.isin(rule, numbers))[:HELD_TOLD_MAX])
    return np.sort(np.concatenate(found))


def _counts(rule: _Rules, view: _View) -> dict[HeldAs, int]:
    together = np.bincount(rule.astype(np.intp) * len(KINDS) + view.actions.kind)
    counts = {}
    for at in np.flatnonzero(together).tolist():
        number, kind = divmod(at, len(KINDS))
        if number != _Rule.NONE:
            disposition, reason = _LABELS[_Rule(number)]
            counts[HeldAs(disposition, reason, KINDS[kind])] = int(together[at])
    return counts


def _orders(view: _View, at: Rows, cycle: int) -> tuple[Order, ...]:
    actions, snapshot = view.actions, view.snapshot
    rows = actions.row[at]
    prices, risks = snapshot.price_per_hour[rows], at_risk(snapshot, rows)
    columns = at, actions.place[at], snapshot.source[rows], prices, risks
    return tuple(
        Order(
            action=actions[number],
            need=None if place == NO_NEED else actions.walk.need_at(place),
            cycle=cycle,
            source=snapshot.sources[source],
            price_per_hour=price,
            at_risk_dollars=risk,
        )
        for number, place, source, price, risk in zip(*(c.tolist() for c in columns), strict=True)
    )
