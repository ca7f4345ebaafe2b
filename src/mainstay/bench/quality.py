"""`mainstay bench quality`: how far decisions are from the best ones.

Small random fleets are compared with the exact optimum, large ones with a bound. The comparison is
for the same coverage, row by row, so that nobody looks cheap by serving less.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, NamedTuple

from mainstay.bench import solver
from mainstay.bench.frame import Bench
from mainstay.bench.optimum import Case, case_of, cheapest, most_satisfied, satisfied
from mainstay.bench.workloads import RACK_KEY, Workload
from mainstay.engine.decide import decide
from mainstay.engine.plan import Demand, Memory, Plan
from mainstay.engine.policy import Policy
from mainstay.inventory.inventory import Inventory
from mainstay.model.action import ActionKind
from mainstay.model.assignment import Assignment
from mainstay.model.batch import batch_of
from mainstay.model.cost import bucket_for, upper_bound
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.machine import Machine
from mainstay.model.metadata import encode
from mainstay.model.need import Need, NeedProfile, Operator, Requirement
from mainstay.model.needs import NeedsTable
from mainstay.model.profile import INSTANCE_TYPE_KEY, CapacityType, HostRef, Profile
from mainstay.model.resources import Resources
from mainstay.model.state import State


class Size(NamedTuple):
    """How large a case is."""

    configured: int
    idle: int
    speculative: int
    needs: int
    clusters: int
    racks: int

    @property
    def machines(self) -> int:
        """Of any state."""
        return self.configured + self.idle + self.speculative


SMALL: Final = Size(configured=12, idle=4, speculative=6, needs=6, clusters=2, racks=3)
LARGE: Final = Size(configured=2_400, idle=600, speculative=1_000, needs=240, clusters=12, racks=30)


TOLERANCE: Final = 1e-6
"""What a solver may be off by."""


@dataclass(slots=True)
class Tally:
    """What the cases seen so far add up to."""

    gaps: dict[str, list[float]] = field(default_factory=dict)
    actions: Counter[ActionKind] = field(default_factory=Counter)
    demanded: Counter[str] = field(default_factory=Counter)
    provided: Counter[str] = field(default_factory=Counter)
    dollars: float = 0.0
    useful_dollars: float = 0.0
    rows: dict[int, float] = field(default_factory=dict)
    """Covered rows by priority, a row being 1 at most; and the most there could be."""

    rows_at_most: dict[int, float] = field(default_factory=dict)
    by_state: Counter[str] = field(default_factory=Counter)
    needs: int = 0
    gangs: int = 0
    undercut: list[str] = field(default_factory=list)
    """Cases in which we are better than the best: then one of both is wrong."""


def run(bench: Bench, *, cases: int, seed: int, large: int) -> None:
    """Counts first; a figure that beats a proof stops the bench."""
    solver.load()
    start = bench.clock.elapsed_s()
    tally = Tally()
    for number in range(cases):
        _small_case(tally, f"small {seed} {number}")
    bench.progress(f"quality: {cases} small cases")
    for number in range(large):
        _large_case(tally, f"large {seed} {number}")
        bench.progress(f"quality: large case {number + 1} of {large}")
    _check(bench, tally, cases, large)
    _tell(bench, tally)
    bench.figures["cases"] = {"small": cases, "large": large}
    bench.figures["seconds"] = round(bench.clock.elapsed_s() - start, 1)


def _small_case(tally: Tally, name: str) -> None:
    case = case_of(_decided(tally, SMALL, name))
    _add(tally, case)
    _add_gap(tally, "cost_gap_pct", name, case.cost(), cheapest(case))
    _add_gap(tally, "kept_cost_gap_pct", name, case.cost(), cheapest(case, keep=True))
    for priority in {need.profile.priority for need in case.needs}:
        ours, most = satisfied(case, priority), most_satisfied(case, priority)
        tally.rows[priority] = tally.rows.get(priority, 0.0) + ours
        tally.rows_at_most[priority] = tally.rows_at_most.get(priority, 0.0) + most
        if ours > most + TOLERANCE:
            tally.undercut.append(f"{name}: priority {priority}: {ours} rows, at most {most}")


def _large_case(tally: Tally, name: str) -> None:
    case = case_of(_decided(tally, LARGE, name), exact=False)
    _add(tally, case)
    bound = cheapest(case, exact=False)
    _add_gap(tally, "lp_gap_pct", name, case.cost(), bound)
    bound = cheapest(case, exact=False, keep=True)
    _add_gap(tally, "kept_lp_gap_pct", name, case.cost(), bound)


def _decided(tally: Tally, size: Size, name: str) -> Plan:
    workload = make(size, Random(name))
    snapshot = workload.inventory.snapshot()
    tally.by_state.update({str(state): count for state, count in snapshot.by_state.items()})
    tally.needs += len(workload.demand.needs)
    tally.gangs += sum(bool(need.profile.same_keys) for need in workload.demand.needs)
    plan = decide(snapshot, workload.demand, Memory.empty(), Policy(), 0.0)
    tally.actions.update(action.kind for action in plan.actions)
    return plan


def _add(tally: Tally, case: Case) -> None:
    """How much of what serves is asked for."""
    costs: dict[int, float] = {}
    for (kind, place), count in case.serving.items():
        if place not in case.incomplete:
            units = case.shapes[kind.shape][1]
            tally.provided.update({name: count * amount for name, amount in units.items()})
            costs[place] = costs.get(place, 0.0) + count * case.cost_of(kind, place)
    for place, dollars in costs.items():
        reached, provided = case.reached[place], case.provided[place]
        tally.demanded.update(reached)
        tally.dollars += dollars
        used = [amount / provided[name] for name, amount in reached.items()]
        tally.useful_dollars += dollars * sum(used) / len(used)


def _add_gap(tally: Tally, key: str, name: str, cost: float, best: float) -> None:
    if cost < best - TOLERANCE * max(1.0, best):
        tally.undercut.append(f"{name}: {key}: costs {cost}, at least {best}")
    tally.gaps.setdefault(key, []).append(100 * (cost / best - 1) if best > 0 else 0.0)


def _check(bench: Bench, tally: Tally, cases: int, large: int) -> None:
    expected = {
        "Speculative": cases * SMALL.speculative + large * LARGE.speculative,
        "Idle": cases * SMALL.idle + large * LARGE.idle,
        "Configured": cases * SMALL.configured + large * LARGE.configured,
    }
    bench.expect("by_state", expected=expected, actual=dict(tally.by_state))
    needs = cases * SMALL.needs + large * LARGE.needs
    bench.expect("needs", expected=needs, actual=tally.needs)
    bench.fixture["gangs"] = tally.gangs
    bench.expect("better_than_the_best", expected=[], actual=tally.undercut)


def _tell(bench: Bench, tally: Tally) -> None:
    for key in ("cost_gap_pct", "kept_cost_gap_pct", "lp_gap_pct", "kept_lp_gap_pct"):
        gaps = sorted(tally.gaps.get(key, []))
        bench.samples[key] = [round(gap, 3) for gap in tally.gaps.get(key, [])]
        bench.figures[key] = {
            "mean": round(math.fsum(gaps) / len(gaps), 3),
            "p95": round(gaps[math.ceil(0.95 * len(gaps)) - 1], 3),
            "max": round(gaps[-1], 3),
        } if gaps else None  # fmt: skip
    used = {name: tally.demanded[name] / tally.provided[name] for name in sorted(tally.provided)}
    used["weighted"] = tally.useful_dollars / tally.dollars
    bench.figures["utilisation_pct"] = {n: round(100 * share, 2) for n, share in used.items()}
    bench.figures["satisfied_pct"] = _satisfied_pct(tally)
    bench.figures["preemptions"] = tally.actions[ActionKind.PREEMPT]
    bench.figures["reclaims"] = tally.actions[ActionKind.RECLAIM]


def _satisfied_pct(tally: Tally) -> dict[str, float]:
    """By priority, the most important first; each with those above it as they are."""
    at_most = tally.rows_at_most
    shares = {"all": sum(tally.rows.values()) / sum(at_most.values())}
    for priority in sorted(at_most, reverse=True):
        shares[str(priority)] = tally.rows[priority] / at_most[priority]
    return {name: round(100 * share, 3) for name, share in shares.items()}


class Type(NamedTuple):
    """A type of machine: what it holds, and its price on demand."""

    name: str
    texts: dict[str, str]
    price: float


# A GiB and a core have no price of their own: larger machines are a little cheaper per core.
TYPES: Final = (
    Type("small", {"cpu": "4", "memory": "16Gi"}, 0.20),
    Type("large", {"cpu": "8", "memory": "32Gi"}, 0.36),
    Type("memory", {"cpu": "8", "memory": "64Gi"}, 0.50),
    Type("gpu", {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "2"}, 2.40),
)
PRICE_OF: Final = {
    CapacityType.BARE_METAL: 0.4, CapacityType.RESERVED: 0.6,
    CapacityType.ON_DEMAND: 1.0, CapacityType.SPOT: 0.35,
}  # fmt: skip
"""As a share of the price on demand."""

MARKETS: Final = (0.9, 1.0, 1.2)
SPOT_PROBABILITY: Final = 0.05
PRIORITIES: Final = (100, 1_000, 10_000)
DOLLARS: Final = (0.5, 1, 4, 16)
GANG_PERCENT: Final = 30
PINNED_PERCENT: Final = 40
TYPE_WEIGHTS: Final = (4, 4, 2, 2)


def make(size: Size, random: Random) -> Workload:
    """A fleet that serves some of its demand already, and has machines and slots to serve more."""
    clusters = [ClusterId(f"cluster-{number}") for number in range(size.clusters)]
    per_need = size.machines / size.needs
    needs = [_need(random, number, clusters, per_need) for number in range(size.needs)]
    states = (
        *[State.CONFIGURED] * size.configured, *[State.IDLE] * size.idle,
        *[State.SPECULATIVE] * size.speculative,
    )  # fmt: skip
    machines = [_machine(random, at, state, needs, size) for at, state in enumerate(states)]
    inventory, table = Inventory(), NeedsTable()
    inventory.merge(batch_of(machines), now=0.0)
    for cluster in clusters:
        table.replace(cluster, [need for need in needs if need.cluster == cluster])
    return Workload(inventory, Demand(table.snapshot(), frozenset(clusters)))


def _need(random: Random, number: int, clusters: Sequence[ClusterId], per_need: float) -> Need:
    kind = random.choices(TYPES, TYPE_WEIGHTS)[0]
    is_gang = random.randrange(100) < GANG_PERCENT
    whole = Resources(kind.texts).units
    quarters = random.choice((4, 4, 3)) * (1 + random.randrange(round(1.5 * per_need)))
    types = [kind.name]
    if random.randrange(100) >= PINNED_PERCENT:
        types = [t.name for t in TYPES if t.texts.keys() == kind.texts.keys()]
    requirements = [Requirement(INSTANCE_TYPE_KEY, Operator.IN, tuple(types))]
    requirements += [Requirement(RACK_KEY, Operator.SAME)] * is_gang
    profile = NeedProfile(
        tuple(requirements),
        priority=random.choice(PRIORITIES),
        interruption_penalty_bucket=bucket_for(random.choice(DOLLARS)),
        reclamation_penalty_bucket=bucket_for(random.choice(DOLLARS)),
    )
    return Need(
        cluster=random.choice(clusters), profile=profile, arrival_nanos=1,
        aggregate={name: -(-amount * quarters // 4) for name, amount in whole.items()},
        min_unit={name: -(-amount // 4) for name, amount in whole.items()},
        group=f"{'gang' if is_gang else 'rows'}-{number}",
    )  # fmt: skip


def _machine(
    random: Random, number: int, state: State, needs: Sequence[Need], size: Size
) -> Machine:
    kind = random.choices(TYPES, TYPE_WEIGHTS)[0]
    capacity = random.choice(tuple(PRICE_OF))
    rack = random.randrange(size.racks)
    need = random.choice(needs) if state is State.CONFIGURED else None
    if need is not None:
        fitting = need.profile.pinned_types
        kind = random.choice([t for t in TYPES if t.name in fitting])
        rack = int(need.group.rpartition("-")[2]) % size.racks  # a gang's machines lie together
    price = kind.price * PRICE_OF[capacity] * random.choice(MARKETS)
    labels = ((RACK_KEY, f"rack-{rack}"),)
    return Machine(
        id=MachineId(f"m-{number:06d}"),
        state=state,
        profile=Profile(kind.name, "zone-a", capacity, Resources(kind.texts), labels),
        host=None if state is State.SPECULATIVE else HostRef("quality", f"h-{number:06d}"),
        cluster=None if need is None else need.cluster,
        price_per_hour=round(price, 4),
        interruption_probability=SPOT_PROBABILITY if capacity is CapacityType.SPOT else 0.0,
        shard_metadata={} if need is None else encode(_commitment(need)),
    )


def _commitment(need: Need) -> Assignment:
    profile, ref = need.profile, need.ref
    return Assignment(
        fingerprint=ref.fingerprint, group=ref.group, cluster=ref.cluster,
        priority=profile.priority,
        interruption_penalty_dollars=upper_bound(profile.interruption_penalty_bucket),
        reclamation_penalty_dollars=upper_bound(profile.reclamation_penalty_bucket),
    )  # fmt: skip
