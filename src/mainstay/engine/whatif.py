"""What would change if: pure edits of a snapshot and a demand, and the plans before and after.

Nothing that is passed in is written to: a changed snapshot has new columns where they differ and
shares the others.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.decide import decide
from mainstay.engine.doings import ACQUISITIONS, DRAINS, doings
from mainstay.engine.lookup import rows_of
from mainstay.engine.plan import Demand, Memory, Plan
from mainstay.engine.policy import Policy
from mainstay.engine.quota import Place, Quota
from mainstay.engine.trial import in_order, memory_before
from mainstay.inventory.changes import LogView
from mainstay.inventory.columns import HOT
from mainstay.inventory.growing import frozen
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.action import ActionKind
from mainstay.model.assignment import NeedRef
from mainstay.model.errors import Rejected, Unknown
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.need import Need, Operator, Requirement, aggregate
from mainstay.model.profile import ZONE_KEY, CapacityType
from mainstay.model.resources import Units, add, is_zero, subtract
from mainstay.model.state import State
from mainstay.model.texts import Rows

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """Some machines: those that fulfil all of it. What is empty is not asked."""

    requirements: tuple[Requirement, ...] = ()
    capacity_types: frozenset[CapacityType] = frozenset()
    states: frozenset[State] = frozenset()
    sources: frozenset[str] = frozenset()

    @property
    def told(self) -> str:
        """In words, for a refusal."""
        parts = [
            f"{each.key} {each.operator.name} {' or '.join(each.values)}"
            for each in self.requirements
        ]
        for name, values in (
            ("capacity type", self.capacity_types), ("state", self.states),
            ("provider", self.sources),
        ):  # fmt: skip
            if values:
                parts.append(f"{name} {' or '.join(sorted(map(str, values)))}")
        return " and ".join(parts) or "anything"


@dataclass(frozen=True, slots=True)
class ZoneLost:
    """Every machine of a zone is gone, slots too."""

    zone: str

    @property
    def which(self) -> Selector:
        """Its machines."""
        return Selector(requirements=(Requirement(ZONE_KEY, Operator.IN, (self.zone,)),))


@dataclass(frozen=True, slots=True)
class MachinesLost:
    """Some machines are gone."""

    which: Selector | tuple[MachineId, ...]


@dataclass(frozen=True, slots=True)
class PriceTimes:
    """Some machines cost so many times as much."""

    which: Selector
    factor: float


@dataclass(frozen=True, slots=True)
class MoreNeed:
    """Somebody asks for more; a need that is there already grows."""

    need: Need


@dataclass(frozen=True, slots=True)
class LessNeed:
    """A need is smaller by so much; without anything left it is gone."""

    need: NeedRef
    less: Units


@dataclass(frozen=True, slots=True)
class QuotaSet:
    """A cluster, or a provider in a region, may hold so many; None is any number."""

    of: ClusterId | Place
    held: int | None


WhatIf = ZoneLost | MachinesLost | PriceTimes | MoreNeed | LessNeed | QuotaSet
Inputs = tuple[Snapshot, Demand]


@dataclass(frozen=True, slots=True)
class NeedChange:
    """What a need misses after phase 2, all rows of its name together."""

    need: NeedRef
    before: Units
    after: Units


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Two plans side by side."""

    actions_before: Mapping[ActionKind, int]
    actions_after: Mapping[ActionKind, int]
    satisfied: tuple[NeedChange, ...]
    """Needs that missed something and no longer do, by name."""

    unsatisfied: tuple[NeedChange, ...]
    """Needs that missed nothing and now do, by name."""

    moved: tuple[NeedChange, ...]
    """Needs that miss something before and after, but not the same."""

    cost_before: float
    """Dollars per hour of all machines that serve or are on their way, the plan carried out."""

    cost_after: float
    drained: tuple[MachineId, ...]
    """Machines that only the plan after drains, by id."""

    spared: tuple[MachineId, ...]
    """Machines that only the plan before drains, by id."""

    unmatched: tuple[Selector, ...] = ()
    """What changes were about and no machine has: they changed nothing."""


def whatif(
    snapshot: Snapshot,
    demand: Demand,
    memory: Memory,
    policy: Policy,
    now: float,
    *,
    changes: Sequence[WhatIf],
) -> Difference:
    """Decide as things are and as they would be, and compare. Takes two decisions.

    A change about machines of which there is none is left out and told of; Unknown if all are.
    """
    nothing = _changes_nothing(snapshot, changes)
    before = decide(snapshot, demand, memory, policy, now)
    return replace(difference(before, _after(before, memory, changes)), unmatched=nothing)


def whatif_of(plan: Plan, *, changes: Sequence[WhatIf]) -> Difference:
    """The same from a plan that was made: that is how things are. Takes one decision."""
    nothing = _changes_nothing(plan.snapshot, changes)
    after = _after(plan, memory_before(plan), changes)
    return replace(difference(plan, after), unmatched=nothing)


def _after(before: Plan, memory: Memory, changes: Sequence[WhatIf]) -> Plan:
    forgetful = replace(memory, last=None)  # the last plan is about another snapshot
    inputs = changed((before.snapshot, before.demand), changes)
    return decide(*inputs, forgetful, before.policy, before.since)


def _changes_nothing(snapshot: Snapshot, changes: Sequence[WhatIf]) -> tuple[Selector, ...]:
    """What was named and no machine has; Unknown if that is all."""
    nothing = unmatched(snapshot, changes)
    if nothing and len(nothing) == len(changes):
        raise Unknown(f"no machine has {nothing[0].told}; name values that machines have")
    return nothing


def unmatched(snapshot: Snapshot, changes: Sequence[WhatIf]) -> tuple[Selector, ...]:
    """What changes are about and no machine has, as things are."""
    about = [c.which for c in changes if isinstance(c, ZoneLost | MachinesLost | PriceTimes)]
    return tuple(
        which
        for which in about
        if isinstance(which, Selector) and not len(_selected(snapshot, which))
    )


def changed(inputs: Inputs, changes: Sequence[WhatIf]) -> Inputs:
    """Snapshot and demand with every change made, one after the other."""
    return reduce(_change, changes, inputs)


def _change(inputs: Inputs, change: WhatIf) -> Inputs:
    snapshot, demand = inputs
    match change:
        case ZoneLost() | MachinesLost():
            which = change.which
            rows = (
                _selected(snapshot, which)
                if isinstance(which, Selector)
                else rows_of(snapshot, which)
            )
            return without(snapshot, rows), demand
        case PriceTimes(which, factor):
            return _repriced(snapshot, _selected(snapshot, which), factor), demand
        case MoreNeed(need):
            return snapshot, _with_more(demand, need)
        case LessNeed(ref, less):
            return snapshot, _with_less(demand, ref, less)
        case QuotaSet(of, held):
            return snapshot, replace(demand, quota=_quota_with(demand.quota, of, held))


def _selected(snapshot: Snapshot, which: Selector) -> Rows:
    chosen: Mask = snapshot.shapes.matching(which.requirements)[snapshot.shape]
    if which.capacity_types:
        kinds = snapshot.shapes.capacity_type[snapshot.shape]
        chosen = chosen & np.isin(kinds, list(which.capacity_types))
    if which.states:
        chosen = chosen & np.isin(snapshot.state, list(which.states))
    if which.sources:
        named = np.array([source in which.sources for source in snapshot.sources])
        chosen = chosen & named[snapshot.source]
    return np.flatnonzero(chosen & (snapshot.state != State.UNSPECIFIED))


def without(snapshot: Snapshot, rows: Rows) -> Snapshot:
    """The same machines without some: their rows are empty, as after a removal."""
    columns = {name: getattr(snapshot, name).copy() for name in HOT}
    for name, column in HOT.items():
        columns[name][rows] = column.empty
    live = columns["state"] != State.UNSPECIFIED
    order = snapshot.order[live[snapshot.order]]
    columns["rank"][order] = np.arange(len(order), dtype=np.int32)
    copied: dict[str, Any] = {name: frozen(column) for name, column in columns.items()}
    gone = np.bincount(snapshot.shape[rows], minlength=len(snapshot.machines_of_shape))
    return replace(
        snapshot,
        order=frozen(order),
        machines_of_shape=frozen(snapshot.machines_of_shape - gone),
        log=_forgotten(snapshot),
        **copied,
    )


def _repriced(snapshot: Snapshot, rows: Rows, factor: float) -> Snapshot:
    if not 0.0 <= factor < math.inf:
        raise Rejected(f"a price cannot be multiplied by {factor} (zero or more, and finite)")
    price = snapshot.price_per_hour.copy()
    if math.isinf(float(price[rows].max(initial=0.0)) * factor):
        raise Rejected(f"times {factor} some price is no longer finite; take a smaller factor")
    price[rows] *= factor
    return replace(snapshot, price_per_hour=frozen(price), log=_forgotten(snapshot))


def _forgotten(snapshot: Snapshot) -> LogView:
    """No history leads here, so that nobody takes the little that changed for all of it."""
    log = snapshot.log
    nothing = slice(0, 0)
    return LogView(
        snapshot.revision + 1,
        log.rows[nothing],
        log.cluster_before[nothing],
        log.shape_before[nothing],
    )


def _with_more(demand: Demand, need: Need) -> Demand:
    rows, joined = [], False
    for row in demand.needs:
        same = not joined and row.ref == need.ref
        rows.append(aggregate([row, need])[0] if same else row)
        joined = joined or same
    return replace(demand, needs=in_order(rows if joined else [*rows, need]))


def _with_less(demand: Demand, ref: NeedRef, less: Units) -> Demand:
    rows, left = [], less
    for row in demand.needs:
        if row.ref != ref or is_zero(left):
            rows.append(row)
            continue
        rest = subtract(row.aggregate, left)
        left = subtract(left, row.aggregate)
        if not is_zero(rest):
            rows.append(replace(row, aggregate=rest))
    if left == less and not is_zero(less):
        named = "/".join(filter(None, (ref.cluster, ref.fingerprint, ref.group)))
        raise Rejected(f"need {named} has nothing of what is to be taken away")
    return replace(demand, needs=tuple(rows))


def _quota_with(quota: Quota, of: ClusterId | Place, held: int | None) -> Quota:
    machines, slots = dict(quota.machines), dict(quota.slots)
    if isinstance(of, tuple):
        slots.pop(of, None)
        slots |= {} if held is None else {of: held}
    else:
        machines.pop(of, None)
        machines |= {} if held is None else {of: held}
    return Quota(machines, slots)


def difference(before: Plan, after: Plan) -> Difference:
    """What differs between two plans."""
    missed, misses = _missing(before), _missing(after)
    refs = sorted(missed.keys() | misses.keys(), key=lambda r: (r.cluster, r.fingerprint, r.group))
    needs = [NeedChange(ref, missed.get(ref, {}), misses.get(ref, {})) for ref in refs]
    was, is_now = _drained(before), _drained(after)
    return Difference(
        actions_before=doings(before).counts(),
        actions_after=doings(after).counts(),
        satisfied=tuple(n for n in needs if n.before and not n.after),
        unsatisfied=tuple(n for n in needs if n.after and not n.before),
        moved=tuple(n for n in needs if n.before and n.after and n.before != n.after),
        cost_before=cost_per_hour(before),
        cost_after=cost_per_hour(after),
        drained=tuple(sorted(is_now - was)),
        spared=tuple(sorted(was - is_now)),
    )


def _missing(plan: Plan) -> dict[NeedRef, Units]:
    found: dict[NeedRef, Units] = {}
    for told in plan.unsatisfied:
        if told.unresolved:
            ref = told.need.ref
            found[ref] = add(found.get(ref, {}), told.unresolved)
    return found


def _drained(plan: Plan) -> set[MachineId]:
    return set(plan.snapshot.machine_ids(doings(plan).rows(DRAINS)))


def cost_per_hour(plan: Plan) -> float:
    """Of every machine that is Configured, Configuring or Creating once the plan is carried out."""
    snapshot = plan.snapshot
    bound = np.isin(snapshot.state, (State.CONFIGURED, State.CONFIGURING, State.CREATING))
    found = doings(plan)
    bound[found.rows(DRAINS)] = False
    bound[found.rows(ACQUISITIONS)] = True
    return math.fsum(snapshot.price_per_hour[bound].tolist())
