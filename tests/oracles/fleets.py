"""Small worlds to decide on, made by picking: by Hypothesis, or by a seeded generator.

Everything comes from small pools of small numbers, so that prices, totals and coverages tie, needs
compete, and machines in flight meet the needs they are for.
"""

import dataclasses
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from hypothesis import strategies as st

from mainstay.engine.barred import NOTHING_BARRED, Barred, Offer
from mainstay.engine.plan import Demand, Memory
from mainstay.engine.quota import NO_QUOTA, REGION_KEY, Quota
from mainstay.inventory.inventory import Inventory
from mainstay.model.assignment import NO_ASSIGNMENT, Assignment, NeedRef
from mainstay.model.ids import ClusterId, Fingerprint, MachineId
from mainstay.model.machine import Machine
from mainstay.model.need import (
    Need,
    NeedProfile,
    Operator,
    Requirement,
    Spread,
    WhenUnsatisfiable,
)
from mainstay.model.needs import NeedsTable
from mainstay.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY, CapacityType, HostRef, Profile
from mainstay.model.resources import NO_RESOURCES, Resources
from mainstay.model.state import State
from oracles.plain_engine import Entry
from oracles.records import Pick

T = TypeVar("T")
Shapes = Sequence[tuple[str, Resources]]

NOW: Final = 10_000.0

IDLE_FOR: Final = (0.0, 59.0, 60.0, 61.0, 599.0, 600.0, 601.0)
AGES: Final = ((0,), (0,), (0, 7, 8, 31, 32, 33))
"""How often gangs of a whole world were in vain; it is remembered in one world of three."""

HEARS: Final = ((True,), (True, True, False), (True, False), (False,))
"""Whether a cluster of a world has been heard from; what is not, is a victim but no excess."""

CLUSTERS: Final = tuple(map(ClusterId, ("ant", "bee", "cat")))
# Chosen so that the order of ids is not the order of numbers or of length.
IDS: Final = tuple(
    MachineId(text)
    for text in (
        "m-1", "m-10", "m-2", "M-3", "m-1a", "~z", "#a", "m-20", "k", "kk", "m-3", "A", "m-", "n",
    )
)  # fmt: skip

SOURCES: Final = ("sim", "ec2")
REGIONS: Final = (None, "r-1", "r-1", "r-2")
LIMITS: Final = (None, None, 0, 1, 2, 3, 4, 4)
"""Most machines that a cluster, or a provider in a region, may hold."""

RACK: Final = "rack"
BARS: Final = (False, False, False, True)
"""Whether anything is barred in a world."""
BARRED_VALUES: Final = (
    (RACK, "1"), (RACK, "2"), (ZONE_KEY, "z-1"), (ZONE_KEY, "z-2"), (ZONE_KEY, ""),
    (INSTANCE_TYPE_KEY, "small"), (INSTANCE_TYPE_KEY, "gpu"), (REGION_KEY, "r-1"), ("none", "x"),
)  # fmt: skip
BARRED_OFFERS: Final = tuple(
    Offer(source, kind, zone, capacity)
    for source in SOURCES
    for kind in ("small", "gpu")
    for zone in ("z-1", "z-2")
    for capacity in (CapacityType.SPOT, CapacityType.ON_DEMAND)
)
DEAD: Final = Fingerprint("0" * 32)

SMALL: Final = Resources({"cpu": "4", "memory": "8Gi"})
LARGE: Final = Resources({"cpu": "8", "memory": "8Gi", "gpu": "0"})
GPU: Final = Resources({"cpu": "4", "gpu": "2"})
SHAPES: Final = (
    (("small", SMALL),), (("gpu", GPU),),
    (("small", SMALL), ("small", SMALL), ("gpu", GPU)),
    (("small", SMALL), ("large", LARGE), ("gpu", GPU)),
)  # fmt: skip
"""The types of a whole world; one type in two worlds of four, since ties are where rules differ."""
ALLOCATABLES: Final = (
    NO_RESOURCES, NO_RESOURCES, NO_RESOURCES, NO_RESOURCES,
    Resources({"cpu": "3", "memory": "6Gi"}), Resources({"cpu": "9", "gpu": "3"}),
)  # fmt: skip

EVERY_STATE: Final = tuple(state for state in State if state is not State.UNSPECIFIED)
STATES: Final = (
    (State.CONFIGURED, State.IDLE, State.SPECULATIVE, State.IDLE, *EVERY_STATE),
    (*(State.CONFIGURED,) * 9, State.IDLE, State.SPECULATIVE, State.DRAINING),
    (*(State.CONFIGURED,) * 9, State.CONFIGURING),
    (*(State.IDLE,) * 5, *(State.SPECULATIVE,) * 4, State.CONFIGURED, State.CREATING),
)  # fmt: skip
"""Those of the machines of a whole world: of every kind, mostly taken, all taken, free."""

HOSTLESS: Final = (State.SPECULATIVE, State.CREATING)
COMMITTED: Final = (State.CONFIGURING, State.CONFIGURED, State.DRAINING)

PRICES: Final = (1.0, 1.0, 0.0, 2.0, 5.0)
PROBABILITIES: Final = (0.0, 0.0, 0.125, 0.5)
PENALTIES: Final = (None, 0.0, 0.5, 1.0, 0.01, 64.0, math.inf, -1.0)
PRIORITIES: Final = (
    (10,), (10, 5), (10, 5, 0), (1_000_010, 500_010, 10),
    (10, 0, 5, 11, -5, 600_000, 1_000_010),
)  # fmt: skip
"""Those of the needs of a whole world."""

ASSIGNED_PRIORITIES: Final = (None, None, 0, 0, 5, 5, 9, 10, 11, -5, 100_010, 600_000)
BUCKETS: Final = (0, 0, 2, 5, 27)
GROUPS: Final = ("", "g-1", "g-2")

CPU: Final = 4_000
GIB: Final = 1 << 20
PLAIN_TOTALS: Final[tuple[Mapping[str, int], ...]] = (
    {"cpu": CPU}, {"cpu": 2 * CPU}, {"cpu": 3 * CPU}, {"cpu": 4 * CPU}, {"cpu": 5 * CPU},
    {"cpu": 2 * CPU + 1}, {"gpu": 4}, {"cpu": 2 * CPU, "gpu": 2}, {"memory": 20 * GIB, "gpu": 0},
    {"cpu": 2 * CPU, "memory": 8 * GIB}, {"cpu": 0}, {"tpu": 1},
)  # fmt: skip
SMALL_TOTALS: Final[tuple[Mapping[str, int], ...]] = (
    {"cpu": 3_000}, {"cpu": 3_000, "gpu": 0}, {"cpu": 1_000},
)  # fmt: skip
"""One machine holds several of these."""

GANG_TOTALS: Final[tuple[Mapping[str, int], ...]] = (
    {"cpu": 3 * CPU}, {"cpu": 3 * CPU}, {"cpu": 2 * CPU + 2_000}, {"cpu": 4 * CPU}, {"gpu": 4},
    {"cpu": 3 * CPU, "gpu": 2}, {"cpu": 2 * CPU + 2_000, "memory": 16 * GIB}, {"cpu": 2 * CPU},
    {"cpu": CPU}, {"gpu": 1}, {}, *SMALL_TOTALS, {"cpu": 99 * CPU, "gpu": 1},
)  # fmt: skip
"""The last one is more than any domain has."""

MIN_UNITS: Final[tuple[Mapping[str, int], ...]] = (
    {}, {}, {}, {"cpu": 1_000}, {"cpu": 1_000}, {"cpu": CPU}, {"cpu": CPU}, {"gpu": 2}, {"gpu": 0},
    {"cpu": 2 * CPU},
)  # fmt: skip

O = Operator  # noqa: E741 - the tables below are read, not written

SELECTORS: Final[tuple[tuple[Requirement, ...], ...]] = (
    (), (), (), (), (), (), (), (), (), (),
    (Requirement(INSTANCE_TYPE_KEY, O.IN, ("small",)),),
    (Requirement(INSTANCE_TYPE_KEY, O.IN, ("small", "gpu")),),
    (Requirement(INSTANCE_TYPE_KEY, O.IN, ("large", "gpu")),),
    (Requirement(INSTANCE_TYPE_KEY, O.NOT_IN, ("large",)),),
    (Requirement(ZONE_KEY, O.IN, ("z-1",)),),
    (Requirement(RACK, O.EXISTS),),
    (Requirement(RACK, O.DOES_NOT_EXIST),),
    (Requirement(RACK, O.GT, ("1",)),),
)  # fmt: skip
SAMES: Final[tuple[tuple[Requirement, ...], ...]] = (
    (Requirement(ZONE_KEY, O.SAME),), (Requirement(ZONE_KEY, O.SAME),),
    (Requirement(RACK, O.SAME),),
    (Requirement(ZONE_KEY, O.SAME), Requirement(RACK, O.SAME)),
    (Requirement(ZONE_KEY, O.SAME, ("z-2",)),),
)  # fmt: skip

W = WhenUnsatisfiable

SPREADS: Final[tuple[tuple[Spread, ...], ...]] = (
    (Spread(ZONE_KEY, 1, W.DO_NOT_SCHEDULE),),
    (Spread(RACK, 1, W.DO_NOT_SCHEDULE),),
    (Spread(RACK, 2, W.DO_NOT_SCHEDULE), Spread(ZONE_KEY, 1, W.DO_NOT_SCHEDULE)),
    (Spread(RACK, 1, W.SCHEDULE_ANYWAY), Spread(ZONE_KEY, 0, W.DO_NOT_SCHEDULE)),
)  # fmt: skip


class Kinds(NamedTuple):
    """What the machines of one world may be."""

    states: Sequence[State]
    shapes: Shapes
    clusters: Sequence[ClusterId]
    refs: Sequence[NeedRef]
    regions: Sequence[str | None] = (None,)


@dataclass(frozen=True)
class World:
    """All that a decision is made from."""

    machines: Mapping[MachineId, Entry]
    demand: Demand
    memory: Memory
    now: float = NOW

    def inventory(self, order: Iterable[MachineId] | None = None) -> Inventory:
        """The machines, added in this order; in that of their ids if none is given."""
        inventory = Inventory()
        for machine in sorted(self.machines) if order is None else order:
            self.add_to(inventory, machine)
        return inventory

    def add_to(self, inventory: Inventory, machine: MachineId) -> None:
        record, idle_since, source = self.machines[machine]
        inventory.add(record, now=0.0 if idle_since is None else idle_since, source=source)


def world_of(
    machines: Iterable[Machine],
    needs: Iterable[Need] = (),
    heard: Iterable[str] | None = None,
    *,
    memory: Memory | None = None,
    idle_for: float = 0.0,
    quota: Quota = NO_QUOTA,
    barred: Barred = NOTHING_BARRED,
) -> World:
    """Machines and needs as a world; every cluster is heard from unless said otherwise."""
    entries = {
        m.id: Entry(m, NOW - idle_for if m.state is State.IDLE else None, SOURCES[0])
        for m in machines
    }
    rows = demand_rows(needs)
    clusters = {m.cluster for m, *_ in entries.values() if m.cluster} | {n.cluster for n in rows}
    names = frozenset(clusters if heard is None else map(ClusterId, heard))
    demand = Demand(rows, names, quota, barred)
    return World(entries, demand, Memory.empty() if memory is None else memory)


def demand_rows(needs: Iterable[Need]) -> tuple[Need, ...]:
    """Needs in the order in which the engine gets them."""
    table, rows = NeedsTable(), list(needs)
    for cluster in dict.fromkeys(need.cluster for need in rows):
        table.replace(cluster, [need for need in rows if need.cluster == cluster])
    return table.snapshot()


def a_world(pick: Pick, times: int = 1) -> World:
    """Up to fourteen machines, up to six needs (so many times), and what is remembered of them."""
    clusters = CLUSTERS[: pick((1, 2, 2, 3))]
    count = pick((1, 2, 3, 4, 5, 6, 6, 6)) * times
    needs = some_needs(pick, count, clusters, pick(PRIORITIES))
    ages = pick(AGES)
    limited = pick((False, False, True))
    refs = refs_of(needs, clusters)
    kinds = Kinds(pick(STATES), pick(SHAPES), clusters, refs, REGIONS if limited else (None,))
    more = [MachineId(f"x-{number}") for number in range(len(IDS) * (times - 1))]
    ids = [*IDS[: pick((*range(3, len(IDS) + 1), len(IDS), len(IDS)))], *more]
    machines = [a_fleet_machine(pick, id_, kinds) for id_ in ids]
    sources = SOURCES if limited else SOURCES[:1]
    entries = {
        m.id: Entry(m, NOW - pick(IDLE_FOR) if m.state is State.IDLE else None, pick(sources))
        for m in machines
    }
    hears = pick(HEARS)
    heard = frozenset(c for c in clusters if pick(hears))
    memory = Memory(
        gang_ages={n.ref: age for n in needs if n.profile.same_keys if (age := pick(ages))},
        shortfall_ages={n.profile.fingerprint: age for n in needs if (age := pick((0, 1, 7)))},
    )
    quota = a_quota(pick, clusters) if limited else NO_QUOTA
    barred = a_bar(pick, ids) if pick(BARS) else NOTHING_BARRED
    return World(entries, Demand(demand_rows(needs), heard, quota, barred), memory)


def a_quota(pick: Pick, clusters: Sequence[ClusterId]) -> Quota:
    """Small numbers for most clusters and places, none at all for the others."""
    places = sorted({(source, region or "") for source in SOURCES for region in REGIONS})
    machines = {cluster: held for cluster in clusters if (held := pick(LIMITS)) is not None}
    slots = {place: held for place in places if (held := pick(LIMITS)) is not None}
    return Quota(machines, slots)


def a_bar(pick: Pick, ids: Sequence[MachineId]) -> Barred:
    """A provider, some racks, zones and types, some machines; now and then nobody's."""
    return Barred(
        sources=pick((frozenset(), frozenset(), frozenset({SOURCES[1]}), frozenset(SOURCES))),
        values=frozenset(pick(BARRED_VALUES) for _ in range(pick((0, 0, 1, 2)))),
        machines=frozenset(pick((*ids, MachineId("nobody"))) for _ in range(pick((0, 1, 1, 3)))),
        offers=frozenset(pick(BARRED_OFFERS) for _ in range(pick((0, 0, 1, 3)))),
    )


def some_needs(
    pick: Pick, count: int, clusters: Sequence[ClusterId], priorities: Sequence[int]
) -> list[Need]:
    """Now and then two rows of one ref: nothing forbids a cluster to send them."""
    needs: list[Need] = []
    for _ in range(count):
        again = bool(needs) and pick((False, False, True))
        if again:
            needs.append(a_sibling(pick, clusters, pick(needs)))
        else:
            needs.append(a_fleet_need(pick, clusters, priorities))
    return needs


def a_sibling(pick: Pick, clusters: Sequence[ClusterId], need: Need) -> Need:
    """The same demand from another gang or another cluster."""
    return dataclasses.replace(
        need,
        cluster=pick((need.cluster, *clusters)),
        group=pick(GROUPS),
        arrival_nanos=pick((0, 1)),
    )


def a_fleet_need(pick: Pick, clusters: Sequence[ClusterId], priorities: Sequence[int]) -> Need:
    kind = pick(("plain", "gang", "plain", "gang", "gang", "spread"))
    profile = NeedProfile(
        requirements=(*pick(SELECTORS), *(pick(SAMES) if kind == "gang" else ())),
        spread=pick(SPREADS) if kind == "spread" or pick((False,) * 7 + (True,)) else (),
        priority=pick(priorities),
        interruption_penalty_bucket=pick(BUCKETS),
        reclamation_penalty_bucket=pick(BUCKETS),
    )
    return Need(
        cluster=pick(clusters),
        profile=profile,
        aggregate=pick(GANG_TOTALS if kind == "gang" else PLAIN_TOTALS),
        min_unit=pick(MIN_UNITS),
        arrival_nanos=pick((0, 1, 2)),
        group=pick(GROUPS) if kind == "gang" else pick(("", "", "", "g-1")),
    )


def refs_of(needs: Iterable[Need], clusters: Sequence[ClusterId]) -> tuple[NeedRef, ...]:
    """What machines in flight may be for: these needs, mostly; some that look like them."""
    refs = [NeedRef(clusters[0], DEAD)]
    for need in needs:
        requirements = need.profile.requirements
        kept = tuple(r for r in requirements if r.operator is not Operator.SAME)
        stripped = dataclasses.replace(need.profile, requirements=kept).fingerprint
        refs += [need.ref, need.ref, need.ref]
        refs += [NeedRef(need.cluster, stripped, ""), NeedRef(need.cluster, stripped, need.group)]
        refs += [NeedRef(cluster, need.ref.fingerprint, need.group) for cluster in clusters]
    return tuple(refs)


def a_fleet_machine(pick: Pick, id_: MachineId, kinds: Kinds) -> Machine:
    state, cluster, ref = pick(kinds.states), pick(kinds.clusters), pick(kinds.refs)
    if state in COMMITTED and pick((True, True, False)):
        cluster = ref.cluster
    bound = state in COMMITTED and not (state is State.CONFIGURING and pick((False,) * 5 + (True,)))
    return Machine(
        id=id_,
        state=state,
        profile=a_fleet_profile(pick, kinds),
        host=None if state in HOSTLESS else HostRef("sim", id_),
        cluster=cluster if bound else None,
        allocatable=pick(ALLOCATABLES),
        price_per_hour=pick(PRICES),
        interruption_probability=pick(PROBABILITIES),
        assignment=a_fleet_assignment(pick, state, ref, kinds.refs),
        last_error="gone" if state is State.FAILED else "",
    )


def a_fleet_profile(pick: Pick, kinds: Kinds) -> Profile:
    kind, resources = pick(kinds.shapes)
    zone, rack = pick(("z-1", "z-1", "z-2", "z-2", "")), pick(("1", "1", "2", "2", None))
    labels = {RACK: rack, REGION_KEY: pick(kinds.regions)}
    return Profile(
        instance_type=kind,
        zone=zone,
        capacity_type=pick(tuple(CapacityType)),
        resources=resources,
        labels=tuple((key, value) for key, value in labels.items() if value is not None),
    )


def a_fleet_assignment(
    pick: Pick, state: State, ref: NeedRef, refs: Sequence[NeedRef]
) -> Assignment:
    parts: dict[str, Any] = {}
    if state in COMMITTED or state is State.CREATING:
        how = pick(("all", "all", "all", "no group", "no cluster", "nothing"))
        named = {"cluster": ref.cluster, "fingerprint": ref.fingerprint, "group": ref.group}
        left_out = {"nothing": named.keys(), "all": ()}.get(how, (how.removeprefix("no "),))
        parts |= {name: value for name, value in named.items() if name not in left_out}
    if state in COMMITTED:
        parts["priority"] = pick(ASSIGNED_PRIORITIES)
        parts["interruption_penalty_dollars"] = pick(PENALTIES)
        parts["reclamation_penalty_dollars"] = pick(PENALTIES)
    if state is State.DRAINING:
        parts["drained_for"] = pick((None, *refs))
    return Assignment(**parts) if parts else NO_ASSIGNMENT


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Worlds that Hypothesis can make smaller: the first of each pool is the plainest."""

    def pick(options: Sequence[T], /) -> T:
        return draw(st.sampled_from(options))

    return a_world(pick)


def seeded_world(seed: int, times: int = 1) -> World:
    """Always the same world for the same seed, so many times the size."""
    return a_world(random.Random(seed).choice, times)
