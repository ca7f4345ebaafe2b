"""The engine on the Go reference's own inputs: the same machines, the same needs, its answers."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pytest

from mainstay.bench import decide as bench_decide
from mainstay.bench import lcg, uber, workloads
from mainstay.bench.frame import Bench
from mainstay.engine import kernels
from mainstay.engine.decide import decide
from mainstay.engine.plan import Memory, Plan
from mainstay.engine.policy import Policy
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.action import Action, ActionKind
from mainstay.runtime.clock import StepClock

SIZE: Final = (50_000, 2_000, 50)

SHRINK_DIGEST: Final = "69b08ea9cceb7046"
PREEMPT_DIGEST: Final = "01844c8970953cac"
"""Of the reference's own lists at this size, one action a line, sorted for the first."""


@pytest.fixture(autouse=True)
def _cool() -> Iterator[None]:
    """A bench warms the compiled loops; the next test begins without."""
    yield
    kernels.cool()


@pytest.fixture(scope="module")
def fleet() -> lcg.Fleet:
    return lcg.generate(*SIZE)


@pytest.fixture(scope="module")
def snapshot(fleet: lcg.Fleet) -> Snapshot:
    return bench_decide.stocked(fleet).snapshot()


@pytest.fixture(scope="module")
def plans(fleet: lcg.Fleet, snapshot: Snapshot) -> dict[str, Plan]:
    return {
        case.name: decide(snapshot, case.demand, Memory.empty(), Policy(), 0.0)
        for case in bench_decide.make_cases(fleet)
    }


def lines(actions: Iterable[Action]) -> list[str]:
    kinds = bench_decide.KINDS
    return [
        f"{kinds[a.kind][0]} {a.machine} {a.cluster} {a.grace_s} {kinds[a.kind][1]}"
        for a in actions
    ]


def digest(text: list[str]) -> str:
    return hashlib.sha256("\n".join(text).encode()).hexdigest()[:16]


def count(plan: Plan, kind: ActionKind) -> int:
    return sum(action.kind is kind for action in plan.actions)


def test_the_inputs_are_those_of_the_reference(fleet: lcg.Fleet) -> None:
    assert lcg.input_hash(fleet) == bench_decide.KNOWN_HASHES[SIZE]


def test_satisfied_demand_asks_for_nothing_and_claims_every_serving_machine(
    plans: dict[str, Plan],
) -> None:
    assert plans["steady"].actions == ()
    assert plans["steady"].unsatisfied == ()
    assert len(plans["steady"].claimed_ids()) == 42_500


def test_a_burst_is_answered_as_by_the_reference_but_no_gang_is_robbed(
    plans: dict[str, Plan],
) -> None:
    """ADR-0013: there, new gangs take 11 machines of old ones, which then get 11 others."""
    burst = plans["burst"]
    acquired = count(burst, ActionKind.BOOTSTRAP) + count(burst, ActionKind.PROVISION)

    assert acquired == 3_546 + 706 - 11
    assert count(burst, ActionKind.RECLAIM) == 0
    assert len(burst.unsatisfied) == 10
    assert len(burst.claimed_ids()) == 46_741


def test_withdrawn_demand_sheds_the_machines_the_reference_sheds(plans: dict[str, Plan]) -> None:
    assert digest(sorted(lines(plans["shrink"].actions))) == SHRINK_DIGEST


def test_preemption_takes_the_victims_of_the_reference_in_its_order(
    snapshot: Snapshot, fleet: lcg.Fleet
) -> None:
    assert digest(lines(bench_decide.preemptions(snapshot, fleet))) == PREEMPT_DIGEST


@pytest.mark.data("go-parity")
def test_the_digests_are_those_of_the_recorded_lists(data_dir: Path) -> None:
    shrink = (data_dir / "go-parity/dump_50000.shrink.txt").read_text().splitlines()
    preempt = (data_dir / "go-parity/dump_50000.phase2.txt").read_text().splitlines()

    assert digest(sorted(shrink)) == SHRINK_DIGEST
    assert digest(preempt) == PREEMPT_DIGEST


def test_the_bench_prints_every_key_and_dumps_every_case(tmp_path: Path) -> None:
    bench = Bench("decide", {}, StepClock(), lambda _: None)

    bench_decide.run(bench, machines=2000, needs=200, racks=9, dump=tmp_path)

    answer = json.loads(json.dumps(bench.answer()))
    keys = ["input_hash", "by_state", "needs", "gangs", "cold_ms", "steady_ms", "delta_ms",
            "phase_ms", "memory", "cases"]  # fmt: skip
    assert [key for key in keys if key not in answer] == []
    assert sorted(path.stem for path in tmp_path.iterdir()) == [
        "burst", "preempt", "shrink", "steady",
    ]  # fmt: skip


@pytest.mark.parametrize("workload", [*workloads.SIZES, *uber.CLUSTERS])
def test_every_workload_runs_small_and_asserts_its_fixture(workload: str) -> None:
    bench = Bench("decide", {}, StepClock(), lambda _: None)

    bench_decide.run_fleet(bench, workload=workload, share=0.02)

    cases = bench.figures["cases"]
    assert isinstance(cases, dict)
    assert cases["acquire"]["bootstrap"] > 0


def test_at_full_size_the_gangs_are_those_of_the_reference() -> None:
    assert [workloads.expected(name, 1.0).gangs for name in workloads.SIZES] == [
        7_500, 50_000, 20_000,
    ]  # fmt: skip
