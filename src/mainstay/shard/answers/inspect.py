"""Every need as BigFleet's InspectNeeds tells it (protocols, `shardread.proto`)."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.doings import DRAINS, doings, with_ref
from mainstay.engine.lookup import told_at, wanted
from mainstay.engine.plan import Plan, Unmet, Unsatisfied
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.action import ActionKind
from mainstay.model.need import Need
from mainstay.model.questions import Coverage, InspectedNeed, Inspection, UnmetCode
from mainstay.model.rollup import raw_of
from mainstay.model.state import State
from mainstay.shard.answers.rows import claims, quantities
from mainstay.shard.facts import Published

CANDIDATES_MAX: Final = 5
SUPPLY: Final = (State.IDLE, State.CONFIGURED, State.SPECULATIVE)

CODES: Final[Mapping[Unmet, UnmetCode]] = {
    Unmet.TOPOLOGY: UnmetCode.TOPOLOGY_UNSATISFIABLE,
    Unmet.NO_SUPPLY: UnmetCode.NO_MATCHING_SUPPLY,
    Unmet.IMPOSSIBLE: UnmetCode.NO_MATCHING_SUPPLY,
    Unmet.PREEMPTION_EXHAUSTED: UnmetCode.PREEMPTION_EXHAUSTED,
}
"""Our reasons in BigFleet's four words; every other one is its last, which means: none of these."""

Counts = NDArray[np.int64]


def inspect(published: Published | None, cluster: str, limit: int) -> Inspection:
    """Header and needs: highest priority, then earliest arrival, then cluster."""
    if published is None:
        return Inspection()
    plan = published.plan
    places = [p for p, need in enumerate(plan.needs) if not cluster or need.cluster == cluster]
    places.sort(key=lambda place: _order(plan.needs[place]))
    shown = places[:limit] if limit else places
    return Inspection(
        cycle=published.cycle,
        computed_at_nanos=int(published.at_s * 1e9),
        total=len(places),
        needs=tuple(_inspected(plan, shown)),
    )


def _order(need: Need) -> tuple[int, int, str]:
    return -need.profile.priority, need.arrival_nanos, need.cluster


def _inspected(plan: Plan, places: list[int]) -> Iterator[InspectedNeed]:
    told, claimed, supply = told_at(plan), claims(plan), _Supply(plan.snapshot)
    found = doings(plan)
    begun = {
        kind: np.bincount(found.place[found.are([kind])], minlength=len(plan.needs)).tolist()
        for kind in (ActionKind.BOOTSTRAP, ActionKind.PROVISION)
    }
    for place in places:
        need, short = plan.needs[place], told.get(place)
        served = InspectedNeed(
            need=raw_of(need),
            cluster=need.cluster,
            fingerprint=need.profile.fingerprint,
            arrival_nanos=need.arrival_nanos,
            claimed=claimed[place],
            bootstraps=begun[ActionKind.BOOTSTRAP][place],
            provisions=begun[ActionKind.PROVISION][place],
            domain=_domain(plan, place, short),
            satisfiable=bool(need.profile.same_keys) if short is None else short.satisfiable,
        )
        yield served if short is None else _unmet(plan, served, short, supply)


def _unmet(
    plan: Plan, served: InspectedNeed, short: Unsatisfied, supply: "_Supply"
) -> InspectedNeed:
    """The same with what is told only of a need that is short."""
    need, code = short.need, code_of(short)
    victims, freed = None, {}
    if code is UnmetCode.PREEMPTION_EXHAUSTED:
        rows = doings(plan).for_needs(with_ref(plan, [need.ref]), DRAINS)
        victims, freed = len(rows), quantities(supply.units(rows))
    return replace(
        served,
        satisfied=False,
        missing=quantities(short.unresolved or short.deficit),
        parked=short.parked,
        parked_age=plan.gang_ages.get(need.ref, 0) if short.parked else 0,
        unmet_age=plan.shortfall_ages.get(need.profile.fingerprint, 0),
        reason=code,
        supply=supply.of(need),
        victims=victims,
        freed=freed,
        candidates=supply.candidates(need),
    )


def code_of(short: Unsatisfied) -> UnmetCode:
    """Why a need is short, in BigFleet's words."""
    stuck = not short.satisfiable or short.parked or short.domain is None
    if short.need.profile.same_keys and stuck:
        return UnmetCode.TOPOLOGY_UNSATISFIABLE
    return CODES.get(short.reason, UnmetCode.PRIORITY_STARVED)


def _domain(plan: Plan, place: int, short: Unsatisfied | None) -> str:
    """The domain chosen for a gang; one that is served lies in the domain of its machines."""
    keys = plan.needs[place].profile.same_keys
    if short is not None or not keys:
        return "/".join(short.domain or ()) if short is not None else ""
    rows = np.flatnonzero(plan.owner == place)
    if not len(rows):
        return ""
    profile = plan.snapshot.profile_of(int(rows[0]))
    return "/".join(profile.attribute(key) or "" for key in keys)


class _Supply:
    """How many machines of each class there are by state, counted once."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        size = len(snapshot.shapes.values)
        self._counts = [
            np.bincount(snapshot.shape[snapshot.state == state], minlength=size) for state in SUPPLY
        ]

    def of(self, need: Need) -> tuple[int, int, int]:
        """Idle, Configured and Speculative machines that fulfil every requirement."""
        fits = self._snapshot.shapes.matching(need.profile.requirements)
        idle, configured, speculative = (int(counts[fits].sum()) for counts in self._counts)
        return idle, configured, speculative

    def units(self, rows: NDArray[np.intp]) -> dict[str, int]:
        """What some machines provide together."""
        shapes = self._snapshot.shapes
        total = shapes.allocatable[self._snapshot.shape[rows]].sum(axis=0)
        return dict(zip(shapes.dimensions, map(int, total), strict=True))

    def candidates(self, need: Need) -> tuple[Coverage, ...]:
        """The domains that could hold most of a gang, by their worst dimension; best first."""
        keys, asked = need.profile.same_keys, wanted(need.aggregate)
        if not keys or not asked:
            return ()
        shapes = self._snapshot.shapes
        classes: Counts = np.where(shapes.matching(need.profile.requirements), sum(self._counts), 0)
        totals: dict[str, dict[str, int]] = {}
        for code in np.flatnonzero(classes).tolist():
            shape = shapes.values[code]
            values = [shape.profile.attribute(key) for key in keys]
            if None in values:
                continue
            units = (shape.allocatable or shape.profile.resources).units
            held = totals.setdefault("/".join(filter(None, values)), dict.fromkeys(asked, 0))
            for name in asked:
                held[name] += units.get(name, 0) * int(classes[code])
        found = [
            _coverage(domain, {name: held[name] / asked[name] for name in asked})
            for domain, held in totals.items()
        ]
        found.sort(key=lambda each: (-each.per_mille, each.domain))
        return tuple(found[:CANDIDATES_MAX])


def _coverage(domain: str, shares: Mapping[str, float]) -> Coverage:
    worst = min(shares.values())
    return Coverage(
        domain=domain,
        per_mille=min(1000, math.floor(worst * 1000)),
        satisfiable=worst >= 1.0,
    )
