"""`mainstay bench inventory`: what half a million machines cost in memory and time."""

import dataclasses
from typing import Final

import numpy as np

from mainstay.bench.frame import Bench, deep_bytes, resident_mb
from mainstay.inventory.columns import HOT, HOT_BYTES_PER_MACHINE
from mainstay.inventory.inventory import Inventory
from mainstay.model.assignment import Assignment
from mainstay.model.batch import MachineBatch, with_digests
from mainstay.model.ids import ClusterId, Fingerprint
from mainstay.model.machine import Machine
from mainstay.model.state import State
from mainstay.providers.sim.fleet import FleetSpec, by_state, fleet

BUDGET: Final = {
    "bytes_per_machine": 300,
    "hot_bytes_per_machine": 55,
    "snapshot_ms": 30,
    "apply_us": 20,
}

BUDGET_FROM: Final = 100_000
"""A small fleet pays for its tables almost alone; the budget is for fleets from here on."""

RUNS: Final = 5
APPLIES_PER_RUN: Final = 2_000
NOW: Final = 1.0


def run(bench: Bench, *, machines: int, seed: int) -> None:
    """Build, then snapshot, apply and merge; counts come before times."""
    bench.budget = dict(BUDGET) if machines >= BUDGET_FROM else {}
    batch = _fixture(bench, machines, seed)
    inventory = Inventory()
    before_mb = resident_mb()
    bench.time_ms("build_ms", lambda: inventory.merge(batch, now=NOW))
    _check_built(bench, inventory, machines)
    _measure_memory(bench, inventory, before_mb)
    _measure_snapshot(bench, inventory, batch)
    _measure_merge(bench, inventory, batch)
    _measure_apply(bench, inventory)


def _fixture(bench: Bench, machines: int, seed: int) -> MachineBatch:
    bench.progress(f"inventory: making a fleet of {machines:,}")
    batch = fleet(FleetSpec(machines=machines, seed=seed))
    bench.expect("machines", expected=machines, actual=len(batch))
    bench.fixture["shape_classes"] = len(batch.shapes)
    bench.fixture["clusters"] = len(batch.clusters) - 1
    bench.fixture["needs"] = len(batch.metadatas) - 1
    bench.fixture["digest"] = f"{int(np.bitwise_xor.reduce(batch.digest)):016x}"
    return batch


def _check_built(bench: Bench, inventory: Inventory, machines: int) -> None:
    snapshot = inventory.snapshot()
    counted = {str(state): count for state, count in snapshot.by_state.items()}
    expected = {str(s): n for s, n in sorted(by_state(machines).items())}
    bench.expect("by_state", expected=expected, actual=counted)
    bench.figures["machines"] = len(inventory)
    bench.figures["by_state"] = counted


def _measure_memory(bench: Bench, inventory: Inventory, before_mb: float) -> None:
    snapshot = inventory.snapshot()
    size = len(inventory)
    everything = inventory.nbytes() + deep_bytes(inventory.values())
    hot = sum(int(getattr(snapshot, name).nbytes) for name in HOT)
    bench.expect("hot_columns", expected=HOT_BYTES_PER_MACHINE * len(snapshot.state), actual=hot)
    bench.figures["bytes_per_machine"] = round(everything / size, 1)
    bench.figures["hot_bytes_per_machine"] = round(hot / size, 1)
    bench.figures["rss_mb"] = resident_mb()
    bench.figures["rss_grown_mb"] = round(resident_mb() - before_mb, 1)


def _measure_snapshot(bench: Bench, inventory: Inventory, batch: MachineBatch) -> None:
    """Of an inventory in which one machine of a hundred has changed."""
    drifts = [_drifted(batch, number) for number in range(RUNS)]
    prepare = [lambda drift=drift: inventory.merge(drift, now=NOW) for drift in drifts]
    revision = inventory.revision
    bench.time_ms("snapshot_ms", inventory.snapshot, prepare=prepare)
    hundredths = [len(_hundredth(batch, number)) for number in range(RUNS)]
    drifted = sum(hundredths) + sum(hundredths[:-1])  # each drift also takes back the one before
    bench.expect("drifted", expected=drifted, actual=inventory.revision - revision)
    inventory.merge(batch, now=NOW)


def _measure_merge(bench: Bench, inventory: Inventory, batch: MachineBatch) -> None:
    revision = inventory.revision
    again = [lambda: None] * RUNS
    bench.time_ms("merge_ms", lambda: inventory.merge(batch, now=NOW), prepare=again)
    bench.expect("merge_changed", expected=0, actual=inventory.revision - revision)
    drift = _drifted(batch, 7)
    bench.time_ms("merge_changed_1pct_ms", lambda: inventory.merge(drift, now=NOW))
    moved = inventory.revision - revision
    bench.expect("merge_1pct_changed", expected=len(_hundredth(batch, 7)), actual=moved)


def _measure_apply(bench: Bench, inventory: Inventory) -> None:
    """Idle machines are taken into use: an edge, a binding and an assignment each."""
    before = inventory.snapshot()
    per_run = min(APPLIES_PER_RUN, before.by_state[State.IDLE] // RUNS)
    idle = before.machine_ids(before.rows_in(State.IDLE)[: per_run * RUNS])
    records = [_taken(inventory.machine(machine)) for machine in idle]
    runs = [records[start : start + per_run] for start in range(0, len(records), per_run)]
    bench.time_us_each("apply_us", lambda record: inventory.apply(record, now=NOW), runs)
    taken = inventory.snapshot().by_state[State.CONFIGURING] - before.by_state[State.CONFIGURING]
    bench.expect("applied", expected=len(records), actual=taken)


def _taken(machine: Machine) -> Machine:
    cluster = ClusterId("cluster-001")
    assignment = Assignment(fingerprint=Fingerprint("f" * 32), group="", cluster=cluster)
    return dataclasses.replace(
        machine, state=State.CONFIGURING, cluster=cluster, assignment=assignment
    )


def _drifted(batch: MachineBatch, offset: int) -> MachineBatch:
    """The same fleet with another price for one machine of a hundred."""
    price = batch.price_per_hour.copy()
    price[_hundredth(batch, offset)] += 0.01
    return with_digests(dataclasses.replace(batch, price_per_hour=price))


def _hundredth(batch: MachineBatch, offset: int) -> range:
    return range(offset, len(batch), 100)
