"""The figures of a plan that metrics show, counted over columns. Pure, so that it runs aside."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.asked import Amounts, Asked
from mainstay.engine.plan import Demand, Plan, Unmet
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.cost import PINNED, UPPER_BOUND_DOLLARS
from mainstay.model.profile import CapacityType
from mainstay.model.state import State
from mainstay.shard.shortfalls import Band, by_band

_BOUNDS: Final = np.array(UPPER_BOUND_DOLLARS[1:PINNED])

PENALTY_LABELS: Final = (*(f"{dollars:g}" if dollars < 1 else str(int(dollars))
                           for dollars in UPPER_BOUND_DOLLARS[1:PINNED]), "pinned")  # fmt: skip
"""A penalty bucket by the most it may hold, in dollars."""

Place = tuple[State, CapacityType, str]
"""Of a machine: its state, its capacity type, the penalty of interrupting it."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What one plan is counted as; what is none is left out."""

    machines: Mapping[Place, int]
    demand: Mapping[str, int]
    """Machines that needs would take if each gave the smallest unit, by penalty."""

    unmet: Mapping[Unmet, int]
    shortfalls: int
    """Kinds of need that miss something."""

    shortfalls_aged: Mapping[Band, int]
    snapshot: Snapshot = field(compare=False, repr=False)
    wanted: Demand = field(compare=False, repr=False)


def figures(plan: Plan, last: Figures | None = None) -> Figures:
    """Count a plan; what has not changed since the last one is not counted again."""
    return Figures(
        machines=last.machines
        if last is not None and last.snapshot is plan.snapshot
        else machines_by_place(plan.snapshot),
        demand=last.demand
        if last is not None and last.wanted is plan.demand
        else units_by_penalty(plan.demand.asked),
        unmet=Counter(each.reason for each in plan.unsatisfied),
        shortfalls=len(plan.shortfall_ages),
        shortfalls_aged=by_band(plan),
        snapshot=plan.snapshot,
        wanted=plan.demand,
    )


def machines_by_place(snapshot: Snapshot) -> dict[Place, int]:
    """How many machines are in each place that has any."""
    penalty = np.searchsorted(_BOUNDS, snapshot.assignments.interruption_penalty_dollars)
    capacity = snapshot.shapes.capacity_type.astype(np.int32) * len(PENALTY_LABELS)
    wide = len(CapacityType) * len(PENALTY_LABELS)
    code = snapshot.state.astype(np.int32) * wide
    code += capacity[snapshot.shape]
    code += penalty.astype(np.int32)[snapshot.assignment]
    counts = np.bincount(code, minlength=len(State) * wide)
    counts[:wide] = 0  # rows without a machine
    return {_place(code): int(counts[code]) for code in np.flatnonzero(counts).tolist()}


def _place(code: int) -> Place:
    rest, penalty = divmod(code, len(PENALTY_LABELS))
    state, capacity = divmod(rest, len(CapacityType))
    return State(state), CapacityType(capacity), PENALTY_LABELS[penalty]


def units_by_penalty(asked: Asked) -> dict[str, int]:
    """How many machines all needs would take if each machine gave the smallest unit."""
    units = _units(asked)
    penalty = np.maximum(asked.profiles.interruption[asked.profile] - 1, 0)
    sums = np.bincount(penalty, weights=units, minlength=len(PENALTY_LABELS))
    return {PENALTY_LABELS[place]: int(sums[place]) for place in np.flatnonzero(sums).tolist()}


def _units(asked: Asked) -> NDArray[np.float64]:
    """Per need; needs that ask alike are counted once."""
    pairs = asked.aggregate.astype(np.int64) * len(asked.amounts) + asked.min_unit
    distinct, which = np.unique(pairs, return_inverse=True)
    counts = [
        _smallest_units(*(asked.amounts[code] for code in divmod(pair, len(asked.amounts))))
        for pair in distinct.tolist()
    ]
    return np.array(counts, dtype=np.float64)[which]


def _smallest_units(aggregate: Amounts, unit: Amounts) -> int:
    """How many smallest units hold the total; without a unit in a dimension one will do."""
    each = dict(unit)
    return max((-(-total // each[name]) if each.get(name) else 1 for name, total in aggregate),
               default=0)  # fmt: skip
