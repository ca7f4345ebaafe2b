"""What came of a plan at the rails: which rule holds what back, and how it is told and counted."""

from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.actions import KINDS, NO_NEED, Actions
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.action import ActionKind
from mainstay.model.ids import ClusterId
from mainstay.model.state import State
from mainstay.model.texts import Rows
from mainstay.shard.money.risk import at_risk
from mainstay.shard.orders import Disposed, Order
from mainstay.shard.outcomes import Disposition
from mainstay.shard.restrictions import Restrictions, Stance, unkept_text
from mainstay.shard.sharing import GROUP_OF

HELD_TOLD_MAX: Final = 1_000
"""So many held actions of each disposition are told one by one; the rest is counted."""

Mask = NDArray[np.bool_]
Rules = NDArray[np.uint8]
"""Per action the rule that holds it back."""


class Rule(IntEnum):
    """Which rule holds an action back, in the order in which they are asked."""

    NONE = 0
    FENCED = 1
    PAUSED = 2
    SHADOWED = 3
    UNREACHABLE = 4
    UNLISTED = 5
    BACKED_OFF = 6
    DRAINING = 7
    CAPPED = 8
    LIMITED = 9
    CROWDED = 10


LABELS: Final[Mapping[Rule, tuple[Disposition, str]]] = {
    Rule.FENCED: (Disposition.SUPPRESSED, "fenced"),
    Rule.PAUSED: (Disposition.SUPPRESSED, "pause"),
    Rule.SHADOWED: (Disposition.SHADOWED, "shadow"),
    Rule.UNREACHABLE: (Disposition.DEFERRED, "unreachable"),
    Rule.UNLISTED: (Disposition.DEFERRED, "unlisted"),
    Rule.BACKED_OFF: (Disposition.DEFERRED, "back_off"),
    Rule.DRAINING: (Disposition.DEFERRED, "draining"),
    Rule.CAPPED: (Disposition.CAPPED, "cap"),
    Rule.LIMITED: (Disposition.DEFERRED, "limit"),
    Rule.CROWDED: (Disposition.DROPPED, "queue_full"),
}

HELD_BY: Final = {Stance.SHADOW: LABELS[Rule.SHADOWED], Stance.PAUSE: LABELS[Rule.PAUSED]}
"""Under which labels a stance holds an action back."""


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

_GROUP: Final = np.array([GROUP_OF[kind] for kind in KINDS], dtype=np.intp)
"""Per number of a kind its group."""


class PlanView:
    """The actions of a plan as the rules ask about them."""

    def __init__(self, actions: Actions) -> None:
        self.actions = actions
        self.snapshot: Snapshot = actions.snapshot
        self.group = _GROUP[actions.kind]
        self.bound = self.snapshot.cluster[actions.row]
        """Code of the cluster that each machine is bound to."""

        self.shape = self.snapshot.shape[actions.row]
        """The shape class of each machine."""

    def is_kind(self, *kinds: ActionKind) -> Mask:
        """Which are of one of these kinds."""
        found: Mask = np.isin(self.actions.kind, [KINDS.index(kind) for kind in kinds])
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

    def drains_for_nobody_knows_whom(self, sources: Container[str]) -> list[int]:
        """The shape class of each machine that drains through one of these providers, if we do not
        know ourselves for which need.
        """
        snapshot = self.snapshot
        through = [name in sources for name in snapshot.sources]
        return [
            int(snapshot.shape[row])
            for row in snapshot.rows_in(State.DRAINING).tolist()
            if through[snapshot.source[row]] and snapshot.assignment_of(row).drained_for is None
        ]


def told(rule: Rules, view: PlanView, cycle: int, restrictions: Restrictions) -> Admitted:
    """Objects of what may run and of the first that may not; numbers of the rest."""
    orders = _orders(view, np.flatnonzero(rule == Rule.NONE), cycle)
    if len(orders) == len(rule):
        return Admitted(orders=orders)
    first = _first_of_each(rule)
    held = []
    for order, number in zip(_orders(view, first, cycle), rule[first].tolist(), strict=True):
        disposition, reason = LABELS[Rule(number)]
        held.append(
            Disposed(
                order=order,
                disposition=disposition,
                reason=reason,
                cycle=cycle,
                detail=_detail(Rule(number), order, restrictions),
            )
        )
    return Admitted(
        orders=orders,
        held=tuple(held),
        held_counts=_counts(rule, view),
        again=bool((rule == Rule.LIMITED).any()),
    )


def _detail(rule: Rule, order: Order, restrictions: Restrictions) -> str:
    if rule is Rule.FENCED:
        return restrictions.stopped
    if rule is Rule.UNLISTED:
        return restrictions.unlisted or unkept_text(order.source)
    return ""


def _first_of_each(rule: Rules) -> Rows:
    """The first of each disposition, in the plan's order."""
    found: list[Rows] = []
    for disposition in dict.fromkeys(which for which, _ in LABELS.values()):
        numbers = [number for number, (which, _) in LABELS.items() if which is disposition]
        found.append(np.flatnonzero(np.isin(rule, numbers))[:HELD_TOLD_MAX])
    return np.sort(np.concatenate(found))


def _counts(rule: Rules, view: PlanView) -> dict[HeldAs, int]:
    together = np.bincount(rule.astype(np.intp) * len(KINDS) + view.actions.kind)
    counts = {}
    for at in np.flatnonzero(together).tolist():
        number, kind = divmod(at, len(KINDS))
        if number != Rule.NONE:
            disposition, reason = LABELS[Rule(number)]
            counts[HeldAs(disposition, reason, KINDS[kind])] = int(together[at])
    return counts


def _orders(view: PlanView, at: Rows, cycle: int) -> tuple[Order, ...]:
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
