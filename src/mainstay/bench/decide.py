"""`mainstay bench decide`: a whole decision on the fleet the Go reference was measured on."""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from mainstay.bench import lcg, uber, workloads
from mainstay.bench.frame import Bench, resident_mb
from mainstay.engine import kernels
from mainstay.engine.allowance import Allowance
from mainstay.engine.asked import ask
from mainstay.engine.cover import Coverage, cover
from mainstay.engine.decide import decide
from mainstay.engine.gangs import Choice, domains_of
from mainstay.engine.normalize import normalize, walk_of
from mainstay.engine.plan import Demand, Memory, Plan
from mainstay.engine.policy import Policy
from mainstay.engine.preempt import graces_s, preempt
from mainstay.engine.quota import NO_QUOTA
from mainstay.engine.release import deletable, reclaimable
from mainstay.engine.rows import Walk
from mainstay.engine.world import World
from mainstay.inventory.inventory import Inventory
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.action import Action, ActionKind
from mainstay.model.batch import batch_of
from mainstay.model.ids import ClusterId
from mainstay.model.machine import Machine
from mainstay.model.metadata import encode
from mainstay.model.need import Need
from mainstay.model.needs import NeedsTable
from mainstay.model.state import State

BUDGET: Final = {"cold_ms": 500, "steady_ms": 5, "delta_ms": 50}
BUDGET_SIZE: Final = (500_000, 5_000, 500)
FLEET_BUDGET: Final = {
    "realistic50k": {"cold_ms": 500},
    "allsame50k": {"cold_ms": 1000},
    "onepool": {"cold_ms": 1000},
}
RUNS: Final = 5
NOW: Final = 0.0

KNOWN_HASHES: Final = {
    (50_000, 2_000, 50): "54cd33f2c52a46e8",
    (100_000, 3_000, 100): "0a11e9a2635c9fc5",
    (500_000, 5_000, 500): "e1b207c7dceae7e8",
}
"""The inputs of the reference, as published with its figures."""

KINDS: Final = {
    ActionKind.BOOTSTRAP: (1, "phase1.idle"),
    ActionKind.PROVISION: (2, "phase1.speculative"),
    ActionKind.RECLAIM: (3, "phase3.excess"),
    ActionKind.PREEMPT: (4, "phase2.inversion"),
    ActionKind.DELETE: (5, "phase3.release"),
}
"""Number and reason of each kind in the reference's dumps."""


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """A demand on the one fleet."""

    name: str
    demand: Demand


def run(bench: Bench, *, machines: int, needs: int, racks: int, dump: Path | None) -> None:
    """Counts first, then times; the cases are those of the reference."""
    size = (machines, needs, racks)
    bench.budget = dict(BUDGET) if size == BUDGET_SIZE else {}
    bench.figures["kernels"] = kernels.warm()
    bench.progress(f"decide: making {machines:,} machines and {needs:,} needs")
    fleet, inventory = _fixture(bench, size)
    snapshot = inventory.snapshot()
    cases = {case.name: case for case in make_cases(fleet)}
    steady = cases["steady"].demand
    bench.figures["needs"] = len(steady.needs)
    bench.figures["gangs"] = sum(bool(need.profile.same_keys) for need in steady.needs)
    counts = {name: _measure_case(bench, snapshot, case, dump) for name, case in cases.items()}
    preempted = preemptions(snapshot, fleet)
    _dump(dump, "preempt", preempted)
    counts["preempt"] = _counts(preempted) | {"claimed": 0, "unsatisfied": 0}
    bench.figures["cases"] = counts
    _measure_times(bench, inventory, steady)


def run_fleet(bench: Bench, *, workload: str, share: float) -> None:
    """Another fleet of the reference: counts first, then one cold decision."""
    bench.figures["kernels"] = kernels.warm()
    bench.progress(f"decide: making {workload}")
    made = uber if workload in uber.CLUSTERS else workloads
    inventory, demand = made.make(workload, share)
    expected = made.expected(workload, share)
    snapshot = inventory.snapshot()
    gangs = sum(bool(need.profile.same_keys) for need in demand.needs)
    counted = {str(state): count for state, count in snapshot.by_state.items()}
    wanted = {str(state): count for state, count in expected.by_state.items() if count}
    bench.expect("by_state", expected=wanted, actual=counted)
    bench.expect("needs", expected=expected.needs, actual=len(demand.needs))
    bench.expect("gangs", expected=expected.gangs, actual=gangs)
    bench.figures |= {"by_state": counted, "needs": len(demand.needs), "gangs": gangs}
    bench.figures["cases"] = {
        "acquire": _measure_case(bench, snapshot, Case("acquire", demand), None)
    }
    bench.budget = dict(FLEET_BUDGET.get(workload, {})) if share == 1.0 else {}
    bench.time_ms("cold_ms", lambda: _fresh(snapshot, demand), prepare=[_nothing] * 3)
    bench.figures["phase_ms"] = _phases(bench, snapshot, demand)
    bench.figures["memory"] = {"rss_mb": resident_mb()}


def _fixture(bench: Bench, size: tuple[int, int, int]) -> tuple[lcg.Fleet, Inventory]:
    fleet = lcg.generate(*size)
    value = lcg.input_hash(fleet)
    bench.figures["input_hash"] = value
    if size in KNOWN_HASHES:
        bench.expect("input_hash", expected=KNOWN_HASHES[size], actual=value)
    inventory = stocked(fleet)
    machines = size[0]
    bench.expect("machines", expected=machines, actual=len(inventory))
    counted = {str(s): n for s, n in inventory.snapshot().by_state.items()}
    idle, configured = machines * 10 // 100, machines * 85 // 100
    expected = {
        "Speculative": machines - idle - configured, "Idle": idle, "Configured": configured,
    }  # fmt: skip
    bench.expect("by_state", expected=expected, actual=counted)
    bench.figures["by_state"] = counted
    return fleet, inventory


def stocked(fleet: lcg.Fleet) -> Inventory:
    """An inventory of the fleet, every serving machine assigned to its need."""
    forms = lcg.Forms()
    machines = [_reported(forms, number, slot) for number, slot in enumerate(fleet.slots)]
    inventory = Inventory()
    inventory.merge(batch_of(machines), now=NOW)
    return inventory


def _reported(forms: lcg.Forms, number: int, slot: lcg.Slot) -> Machine:
    machine = forms.machine(number, slot)
    if slot.wish is None:
        return machine
    return dataclasses.replace(machine, shard_metadata=encode(forms.assignment(slot.wish)))


def make_cases(fleet: lcg.Fleet) -> Iterable[Case]:
    """Steady demand; a burst of half as much again and new gangs; a twentieth withdrawn."""
    forms = lcg.Forms()
    steady = [forms.need(wish) for wish in fleet.wishes]
    burst = [
        forms.need(wish, wish.machines + (wish.machines + 1) // 2)
        if wish.kind != lcg.GANG and number % 5 == 0
        else steady[number]
        for number, wish in enumerate(fleet.wishes)
    ]
    yield Case("steady", demand_of(steady))
    yield Case("burst", demand_of([*burst, *(forms.need(wish) for wish in fleet.new_gangs)]))
    yield Case("shrink", demand_of([need for at, need in enumerate(steady) if at % 20]))


def demand_of(needs: Sequence[Need]) -> Demand:
    """Needs in the order in which a shard holds them; every cluster has been heard."""
    table = NeedsTable()
    clusters = [ClusterId(f"cluster-{number}") for number in range(lcg.CLUSTERS)]
    for cluster in clusters:
        table.replace(cluster, [need for need in needs if need.cluster == cluster])
    return Demand(table.snapshot(), frozenset(clusters))


def _measure_case(
    bench: Bench, snapshot: Snapshot, case: Case, dump: Path | None
) -> dict[str, object]:
    plans: list[Plan] = []
    key = f"{case.name}_ms"
    bench.time_ms(key, lambda: plans.append(_fresh(snapshot, case.demand)), prepare=[_nothing] * 2)
    plan = plans[-1]
    _dump(dump, case.name, plan.actions)
    counts = _counts(plan.actions)
    return counts | {
        "claimed": int(np.count_nonzero(plan.owner >= 0)),
        "unsatisfied": len(plan.unsatisfied),
        "ms": bench.figures.pop(key),
    }


def _fresh(snapshot: Snapshot, demand: Demand) -> Plan:
    """With nothing known of the demand but its needs."""
    unseen = Demand(demand.needs, demand.heard)
    return decide(snapshot, unseen, Memory.empty(), Policy(), NOW)


def _nothing() -> None:
    """No preparation."""


def _counts(actions: Sequence[Action]) -> dict[str, object]:
    counted = Counter(action.kind for action in actions)
    return {str(kind): counted[kind] for kind in ActionKind}


def _dump(folder: Path | None, name: str, actions: Sequence[Action]) -> None:
    """One action a line: kind, machine, cluster, grace, reason, as the reference wrote them."""
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        f"{KINDS[a.kind][0]} {a.machine} {a.cluster or ''} {a.grace_s} {KINDS[a.kind][1]}\n"
        for a in actions
    ]
    (folder / f"{name}.txt").write_text("".join(lines), encoding="utf-8")


def preemptions(snapshot: Snapshot, fleet: lcg.Fleet) -> list[Action]:
    """Phase 2 alone, as the reference was measured: preemptors that have nothing, and no excess."""
    needs = [lcg.Forms().need(wish) for wish in fleet.preemptors]
    world = World(snapshot, ask(needs))
    walk = walk_of(world, np.zeros(len(needs), dtype=np.bool_))
    taken_already = (snapshot.state == State.IDLE) | (snapshot.state == State.SPECULATIVE)
    world.owner[taken_already] = 0
    coverage = Coverage(
        walk,
        parked=np.zeros(len(walk), dtype=np.bool_),
        allowance=Allowance(world, NO_QUOTA, walk),
        missing=walk.aggregate.copy(),
        choice=_in_racks(world, walk, fleet),
    )
    takings = preempt(world, coverage, heard=frozenset())
    victims = takings.victims.rows
    graces = graces_s(world, coverage, victims, takings.victims.places).tolist()
    machines = snapshot.machine_ids(victims)
    return [
        Action(ActionKind.PREEMPT, machine, snapshot.cluster_of(int(row)), None, grace)
        for machine, row, grace in zip(machines, victims, graces, strict=True)
    ]


def _in_racks(world: World, walk: Walk, fleet: lcg.Fleet) -> dict[int, Choice]:
    """Every gang of the preemptors in the rack that the reference gave it."""
    found = {}
    for place in np.flatnonzero(walk.is_gang).tolist():
        rack = fleet.preemptor_racks[int(walk.need[place])]
        domains = domains_of(world, walk.row(place)).values
        found[place] = Choice(domains.index((f"rack-{rack}",)), satisfiable=True)
    return found


def _measure_times(bench: Bench, inventory: Inventory, steady: Demand) -> None:
    snapshot = inventory.snapshot()
    bench.time_ms("cold_ms", lambda: _fresh(snapshot, steady), prepare=[_nothing] * RUNS)
    bench.figures["phase_ms"] = _phases(bench, snapshot, steady)
    plan = decide(snapshot, steady, Memory.empty(), Policy(), NOW)

    def again() -> Plan:
        return decide(snapshot, steady, plan.memory, Policy(), NOW)

    bench.expect("steady_is_the_same_plan", expected=True, actual=again() is plan)
    bench.time_ms("steady_ms", again, prepare=[_nothing] * RUNS)
    _change_some(inventory, snapshot)
    changed = inventory.snapshot()
    bench.time_ms(
        "delta_ms", lambda: decide(changed, steady, plan.memory, Policy(), NOW),
        prepare=[_nothing] * RUNS,
    )  # fmt: skip
    bench.figures["memory"] = {"rss_mb": resident_mb()}


def _phases(bench: Bench, snapshot: Snapshot, demand: Demand) -> dict[str, float]:
    """Where the time of one cold decision goes."""
    clock = bench.clock
    marks = [clock.elapsed_s()]
    asked = ask(demand.needs)
    marks.append(clock.elapsed_s())
    world = World(snapshot, asked)
    marks.append(clock.elapsed_s())
    walk = normalize(world)
    marks.append(clock.elapsed_s())
    coverage = cover(world, walk, np.zeros(len(walk), dtype=np.bool_))
    marks.append(clock.elapsed_s())
    takings = preempt(world, coverage, demand.heard)
    marks.append(clock.elapsed_s())
    reclaimable(world, demand.heard, takings.victims.rows)
    deletable(world, Policy(), NOW)
    marks.append(clock.elapsed_s())
    names = ("demand", "orders", "normalize", "cover", "preempt", "release")
    spans = zip(names, marks, marks[1:], strict=False)
    return {name: round((after - before) * 1000, 3) for name, before, after in spans}


def _change_some(inventory: Inventory, snapshot: Snapshot) -> None:
    """Another price for one machine of a hundred."""
    for machine in snapshot.machine_ids(snapshot.rows_in(State.CONFIGURED)[::100]):
        held = inventory.machine(machine)
        inventory.apply(
            dataclasses.replace(held, price_per_hour=held.price_per_hour + 0.01), now=NOW
        )
