"""From names to rows of a snapshot and places in a plan, for those who explain."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from mainstay.engine.asked import without_same
from mainstay.engine.certificate import LISTED_MAX, Group
from mainstay.engine.plan import Plan, Unsatisfied
from mainstay.engine.rows import Mask, Walk
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.assignment import NeedRef
from mainstay.model.errors import Rejected, UnknownMachine
from mainstay.model.ids import MachineId, is_id
from mainstay.model.need import Need
from mainstay.model.resources import Units
from mainstay.model.texts import Rows, texts_of

_FEW: Final = 1_000
"""So many ids are looked up one by one; for more of them all ids are hashed."""


def row_of(snapshot: Snapshot, machine: MachineId) -> int:
    """The row of a machine, by halving: a snapshot has no index."""
    order = snapshot.order
    place = bisect_left(order, str(machine), key=lambda row: snapshot.ids[int(row)])
    if place < len(order) and snapshot.ids[int(order[place])] == machine:
        return int(order[place])
    shown = machine if is_id(machine) else repr(machine[:80])
    raise UnknownMachine(f"no machine {shown} in the snapshot")


def rows_of(snapshot: Snapshot, machines: Sequence[MachineId]) -> Rows:
    """The rows of many machines."""
    live = snapshot.order.astype(np.intp)
    if len(machines) <= _FEW or not len(live):
        return np.array([row_of(snapshot, machine) for machine in machines], dtype=np.intp)
    known, wanted = snapshot.ids.take(live), texts_of(machines)
    hashes = known.hashes()
    by_hash = np.argsort(hashes)
    at = np.searchsorted(hashes[by_hash], wanted.hashes()).clip(max=len(live) - 1)
    rows: Rows = live[by_hash[at]]
    for place in np.flatnonzero(~snapshot.ids.take(rows).equals(wanted)).tolist():
        rows[place] = row_of(snapshot, machines[place])
    return rows


def group_of(snapshot: Snapshot, rows: Rows) -> Group:
    """How many, and the first by id."""
    first = rows
    if len(rows) > LISTED_MAX:
        first = rows[np.argpartition(snapshot.rank[rows], LISTED_MAX - 1)[:LISTED_MAX]]
    first = first[np.argsort(snapshot.rank[first])]
    return Group(len(rows), tuple(snapshot.machine_ids(first)))


@dataclass(frozen=True, slots=True)
class Topic:
    """One row of a plan that somebody asks about, with the rows of demand that it came from."""

    plan: Plan
    place: int
    told: Unsatisfied | None
    """What the plan says of it, when phase 1 left something missing."""

    gangs: tuple[Need, ...]
    """The gangs folded into it; none when it is as it was asked."""

    @property
    def need(self) -> Need:
        """The row as this cycle saw it."""
        return self.plan.needs[self.place]

    @property
    def sources(self) -> tuple[Need, ...]:
        """The rows of demand behind it."""
        return self.gangs or (self.need,)

    @property
    def missing(self) -> Units:
        """What is missing after phase 2."""
        return {} if self.told is None else self.told.unresolved


def topic_of(plan: Plan, which: int | NeedRef) -> Topic:
    """A row by its place, or by the name of a need; of several the first that misses something."""
    if isinstance(which, int):
        if not 0 <= which < len(plan.needs):
            raise Rejected(f"no need at place {which} (the plan has {len(plan.needs)} needs)")
        return _topic_at(plan, which)
    places = _places_of_ref(plan, which)
    if not places:
        raise Rejected(f"no need {_shown(which)} in the plan; check cluster, fingerprint and group")
    found = [_topic_at(plan, place) for place in places]
    return next((one for one in found if one.missing), found[0])


def _shown(ref: NeedRef) -> str:
    return "/".join(filter(None, (ref.cluster, ref.fingerprint, ref.group)))


def _places_of_ref(plan: Plan, ref: NeedRef) -> list[int]:
    places = np.flatnonzero(named_by(plan.walk, [ref])).tolist()
    return places or sorted(places_of(plan, [n for n in plan.demand.needs if n.ref == ref]))


def _topic_at(plan: Plan, place: int) -> Topic:
    walk, at = plan.walk, int(plan.walk.need[place])
    members = [] if at >= 0 else walk.members[-1 - at].tolist()
    gangs = tuple(walk.asked.needs[member] for member in members)
    return Topic(plan, place, told_at(plan).get(place), gangs)


def _made(gang: Need, folded: Need) -> bool:
    """Whether this folded row is made of gangs like this one."""
    return (
        gang.cluster == folded.cluster
        and wanted(gang.aggregate) == wanted(folded.min_unit)
        and without_same(gang.profile) == folded.profile
    )


def places_of(plan: Plan, sources: Iterable[Need]) -> set[int]:
    """Where these very rows of demand are in the plan, as they are or folded."""
    passed = {id(need): place for place, need in enumerate(plan.needs)}
    sent = {id(need) for need in plan.demand.needs}
    folded = [(place, need) for place, need in enumerate(plan.needs) if id(need) not in sent]
    found = set()
    for source in sources:
        if id(source) in passed:
            found.add(passed[id(source)])
        else:
            found.update(place for place, need in folded if _made(source, need))
    return found


def named_by(walk: Walk, refs: Iterable[NeedRef]) -> Mask:
    """Which needs of a walk, by place, have one of these names."""
    names = set(refs)
    prints = {ref.fingerprint for ref in names}
    profiles = walk.asked.profiles.values
    alike = np.array([profile.fingerprint in prints for profile in profiles], dtype=np.bool_)
    found: Mask = alike[walk.profile]
    for place in np.flatnonzero(found).tolist():
        found[place] = walk.need_at(place).ref in names
    return found


def told_at(plan: Plan) -> dict[int, Unsatisfied]:
    """What a plan tells of its unsatisfied rows, by place; both lists are in walk order."""
    left = list(plan.unsatisfied)
    found: dict[int, Unsatisfied] = {}
    for place in range(len(plan.needs) - 1, -1, -1):
        if left and left[-1].need is plan.needs[place]:
            found[place] = left.pop()
    return found


def wanted(units: Units) -> dict[str, int]:
    """Without zeros, sorted by name."""
    return {name: amount for name, amount in sorted(units.items()) if amount > 0}
