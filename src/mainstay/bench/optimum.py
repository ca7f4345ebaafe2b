"""The best that could have been decided: exact by whole numbers, or a bound by fractions.

Machines that nothing tells apart are one kind, and a variable says how many of a kind serve a row
of demand. Whatever the engine may do within one cycle is open to the optimum as well, and more: it
may let go of a machine that serves for a cheaper one, and it looks at all needs at once.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from mainstay.bench.solver import Model
from mainstay.engine.plan import Plan
from mainstay.model.action import ActionKind
from mainstay.model.cost import effective_cost, upper_bound
from mainstay.model.ids import ClusterId
from mainstay.model.need import Need
from mainstay.model.profile import Profile
from mainstay.model.resources import Units, covers, scale
from mainstay.model.state import State

NOBODY: Final = -1
TOLERANCE: Final = 1e-6
DRAINS: Final = (ActionKind.PREEMPT, ActionKind.RECLAIM)
BOUND: Final = (State.CONFIGURED, State.CONFIGURING)
FREE: Final = (State.IDLE, State.SPECULATIVE)


class Kind(NamedTuple):
    """What machines have in common that nothing tells apart."""

    state: State
    cluster: ClusterId | None
    shape: int
    price_per_hour: float
    interruption_probability: float
    standing: int
    """The priority it was assigned for: who may take it."""

    is_excess: bool
    """Nobody claims it, and its cluster has been heard from."""

    only: int
    """The one row a machine in flight counts for; -1 for any other machine."""


@dataclass(frozen=True)
class Case:
    """A plan as numbers: what serves which row once everything it asks for is done."""

    plan: Plan
    counts: Counter[Kind] = field(default_factory=Counter)
    serving: Counter[tuple[Kind, int]] = field(default_factory=Counter)

    @property
    def needs(self) -> tuple[Need, ...]:
        """The rows of demand."""
        return self.plan.needs

    @cached_property
    def folded(self) -> list[bool]:
        """Which rows stand for gangs that share machines: a machine holds whole gangs of them."""
        asked = {(need.ref, tuple(need.aggregate.items())) for need in self.plan.demand.needs}
        return [(n.ref, tuple(n.aggregate.items())) not in asked for n in self.needs]

    @cached_property
    def shapes(self) -> list[tuple[Profile, Units]]:
        """What the machines of each shape are and provide."""
        return [
            (shape.profile, (shape.allocatable or shape.profile.resources).units)
            for shape in self.plan.snapshot.shapes.values
        ]

    @cached_property
    def short(self) -> frozenset[int]:
        """The rows for which machines may have been drained."""
        refs = {row.need.ref for row in self.plan.unsatisfied}
        return frozenset(place for place, need in enumerate(self.needs) if need.ref in refs)

    @cached_property
    def provided(self) -> list[dict[str, int]]:
        """What serves each row, of the dimensions it wants."""
        totals: list[dict[str, int]] = [dict.fromkeys(wanted(need), 0) for need in self.needs]
        for (kind, place), count in self.serving.items():
            adds = self.adds(kind, place)
            for name in totals[place]:
                totals[place][name] += count * adds.get(name, 0)
        return totals

    @cached_property
    def incomplete(self) -> frozenset[int]:
        """The gangs that no domain covers. What they hold is held by rule, not by choice."""
        by_domain: dict[int, dict[tuple[str, ...], Counter[str]]] = {}
        for (kind, place), count in self.serving.items():
            totals = by_domain.setdefault(place, {})
            total = totals.setdefault(self.domain(kind, place), Counter())
            total.update(scale(self.adds(kind, place), count))
        return frozenset(
            place
            for place, need in enumerate(self.needs)
            if need.profile.same_keys
            and not any(covers(t, need.aggregate) for t in by_domain.get(place, {}).values())
        )

    @cached_property
    def reached(self) -> list[dict[str, int]]:
        """How much of each row is covered; nothing of a gang that is incomplete."""
        return [
            {}
            if place in self.incomplete
            else {d: min(want, have[d]) for d, want in wanted(need).items() if have[d]}
            for place, (need, have) in enumerate(zip(self.needs, self.provided, strict=True))
        ]

    def cost_of(self, kind: Kind, place: int) -> float:
        """Dollars per hour: a slot at its effective cost, any other machine at its price."""
        if kind.state is not State.SPECULATIVE:
            return kind.price_per_hour
        bucket = self.needs[place].profile.interruption_penalty_bucket
        return effective_cost(
            kind.price_per_hour, kind.interruption_probability, upper_bound(bucket)
        )

    def cost(self) -> float:
        """What all machines cost that serve a row which counts."""
        return sum(
            count * self.cost_of(kind, place)
            for (kind, place), count in self.serving.items()
            if place not in self.incomplete
        )

    def adds(self, kind: Kind, place: int) -> Units:
        """What one machine gives a row."""
        have, unit = self.shapes[kind.shape][1], positive(self.needs[place].min_unit)
        if not self.folded[place] or not unit:
            return have
        return scale(unit, min(have.get(name, 0) // amount for name, amount in unit.items()))

    def domain(self, kind: Kind, place: int) -> tuple[str, ...]:
        """Where a machine lies, for a gang."""
        profile = self.shapes[kind.shape][0]
        return tuple(profile.attribute(k) or "" for k in self.needs[place].profile.same_keys)

    @cached_property
    def _fits(self) -> list[list[bool]]:
        return [
            [need.profile.matches(profile) and covers(units, need.min_unit) for need in self.needs]
            for profile, units in self.shapes
        ]

    def alike(self) -> list[int]:
        """For each shape the first one that provides the same and fits the same rows."""
        first: dict[tuple[object, ...], int] = {}
        return [
            first.setdefault((*sorted(units.items()), *fits), number)
            for number, ((_, units), fits) in enumerate(zip(self.shapes, self._fits, strict=True))
        ]

    def may_serve(self, kind: Kind, place: int, drains: frozenset[int]) -> bool:
        """Whether one cycle could give a machine of this kind to a row; `drains` may take it."""
        if kind.only != NOBODY:
            return kind.only == place
        if not self._fits[kind.shape][place]:
            return False
        need = self.needs[place]
        if kind.state in FREE or kind.cluster == need.cluster:
            return True
        drainable = kind.state is State.CONFIGURED and place in drains
        return drainable and (kind.is_excess or kind.standing < need.profile.priority)


def case_of(plan: Plan, *, exact: bool = True) -> Case:
    """A plan as numbers. Not exact, machines that fit the same rows are alike wherever they lie."""
    case = Case(plan)
    shape_of = range(len(case.shapes)) if exact else case.alike()
    snapshot, place_of = plan.snapshot, {need.ref: at for at, need in enumerate(plan.needs)}
    drained = {a.machine: a.need for a in plan.actions if a.kind in DRAINS}
    ids = snapshot.machine_ids(snapshot.order.astype(np.intp))
    for row, machine in zip(snapshot.order.tolist(), ids, strict=True):
        owner = int(plan.owner[row])
        kind = _kind(plan, row, owner, shape_of)
        if kind.state not in (*FREE, *BOUND) and owner == NOBODY:
            continue
        serves = owner
        if machine in drained:
            ref = drained[machine]
            serves = NOBODY if ref is None else place_of[ref]
        case.counts[kind] += 1
        if serves != NOBODY:
            case.serving[kind, serves] += 1
    return case


def _kind(plan: Plan, row: int, owner: int, shape_of: Sequence[int]) -> Kind:
    snapshot = plan.snapshot
    state, cluster = State(snapshot.state[row]), snapshot.cluster_of(row)
    unclaimed = state is State.CONFIGURED and owner == NOBODY
    return Kind(
        state=state,
        cluster=cluster,
        shape=shape_of[int(snapshot.shape[row])],
        price_per_hour=float(snapshot.price_per_hour[row]),
        interruption_probability=float(snapshot.interruption_probability[row]),
        standing=snapshot.assignment_of(row).priority or 0,
        is_excess=unclaimed and cluster in plan.demand.heard,
        only=NOBODY if state in (*FREE, *BOUND) else owner,
    )


def wanted(need: Need) -> dict[str, int]:
    """What a row asks for, without zeros."""
    return positive(need.aggregate)


def positive(units: Units) -> dict[str, int]:
    """Amounts without zeros."""
    return {name: amount for name, amount in units.items() if amount > 0}


def cheapest(case: Case, *, exact: bool = True, keep: bool = False) -> float:
    """The least it costs to cover every row as far as the plan does.

    Not exact, machines may be split and gangs torn over domains: a bound that large fleets allow.
    With `keep`, all that serves before the plan and after it stays, and only the rest is chosen.
    """
    rows = [place for place, reached in enumerate(case.reached) if reached]
    free = case.counts.copy()
    for (kind, place), count in case.serving.items():
        if place in case.incomplete:
            free[kind] -= count
    model = Model()
    offer = Offer(rows, free, case.short, is_priced=True, keeps=keep)
    serves = _variables(case, model, offer, is_whole=exact)
    for place in rows:
        if exact and case.needs[place].profile.same_keys:
            homes = _homes(case, model, place, serves[place])
            model.at_least(1.0, dict.fromkeys(homes, 1.0))
            continue
        for name, amount in case.reached[place].items():
            model.at_least(1.0, _shares(case, place, name, amount, serves[place]))
    return model.minimum()


def most_satisfied(case: Case, priority: int) -> float:
    """The most rows of a priority, each from 0 to 1, with all above it as the plan has them."""
    rows = [at for at, need in enumerate(case.needs) if need.profile.priority >= priority]
    rows = [place for place in rows if wanted(case.needs[place])]
    model = Model()
    offer = Offer(rows, case.counts, frozenset(rows), is_priced=False)
    serves = _variables(case, model, offer, is_whole=True)
    gains: dict[int, dict[int, float]] = {}
    for place in rows:
        level = case.needs[place].profile.priority
        cost = -1.0 if level == priority else 0.0
        gain = _gains(case, model, place, serves[place], cost)
        gains.setdefault(level, {}).update(gain)
    for level, gain in gains.items():
        if level > priority:
            model.at_least(satisfied(case, level) - TOLERANCE, gain)
    return -model.minimum()


def satisfied(case: Case, priority: int) -> float:
    """How many rows of a priority the plan covers: a gang whole or not, any other by its share."""
    total = 0.0
    for need, reached in zip(case.needs, case.reached, strict=True):
        asked = wanted(need)
        if asked and need.profile.priority == priority:
            total += sum(reached.get(name, 0) / amount for name, amount in asked.items()) / len(
                asked
            )
    return total


class Offer(NamedTuple):
    """Which rows are to be covered, from what, and for which of them machines may be drained."""

    rows: list[int]
    counts: Counter[Kind]
    drains: frozenset[int]
    is_priced: bool
    keeps: bool = False


def _variables(
    case: Case, model: Model, offer: Offer, *, is_whole: bool
) -> dict[int, dict[Kind, int]]:
    """By row, how many of each kind serve it. No machine serves twice."""
    serves: dict[int, dict[Kind, int]] = {place: {} for place in offer.rows}
    for kind, count in offer.counts.items():
        open_to = [p for p in offer.rows if count > 0 and case.may_serve(kind, p, offer.drains)]
        for place in open_to:
            cost = case.cost_of(kind, place) if offer.is_priced else 0.0
            stays = case.serving[kind, place] if offer.keeps and kind.state not in FREE else None
            lower, upper = (0, count) if stays is None else (stays, stays)
            serves[place][kind] = model.variable(
                cost=cost, lower=lower, upper=upper, is_whole=is_whole
            )
        if len(open_to) > 1:
            model.at_most(count, {serves[place][kind]: 1.0 for place in open_to})
    return serves


def _shares(
    case: Case, place: int, name: str, amount: int, serves: Mapping[Kind, int]
) -> dict[int, float]:
    """What each kind gives of an amount, 1 being all: more than all is of no use."""
    return {
        variable: min(case.adds(kind, place).get(name, 0), amount) / amount
        for kind, variable in serves.items()
    }


def _homes(case: Case, model: Model, place: int, serves: Mapping[Kind, int]) -> list[int]:
    """A variable per domain that is 1 only if the whole gang is covered there; one is at most."""
    by_domain: dict[tuple[str, ...], dict[Kind, int]] = {}
    for kind, variable in serves.items():
        by_domain.setdefault(case.domain(kind, place), {})[kind] = variable
    homes = []
    for near in by_domain.values():
        home = model.variable()
        homes.append(home)
        for name, amount in wanted(case.needs[place]).items():
            model.at_least(0.0, _shares(case, place, name, amount, near) | {home: -1.0})
    model.at_most(1.0, dict.fromkeys(homes, 1.0))
    return homes


def _gains(
    case: Case, model: Model, place: int, serves: Mapping[Kind, int], cost: float
) -> dict[int, float]:
    """The variables that add up to how far a row is covered, with their factors."""
    asked = wanted(case.needs[place])
    if case.needs[place].profile.same_keys:
        homes = _homes(case, model, place, serves)
        model.charge(dict.fromkeys(homes, cost))
        return dict.fromkeys(homes, 1.0)
    gains = {}
    for name, amount in asked.items():
        covered = model.variable(cost=cost / len(asked), is_whole=False)
        parts = _shares(case, place, name, amount, serves)
        model.at_least(0.0, parts | {covered: -1.0})
        gains[covered] = 1.0 / len(asked)
    return gains
