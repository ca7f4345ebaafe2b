"""The bench of a shard runs here once, small: its keys, its fixture, its work; never its times."""

import io
import json
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from mainstay.bench import shard as bench_shard
from mainstay.bench.frame import Bench, FixtureError
from mainstay.bench.shard import ranked, size_of
from mainstay.cli import bench as command
from mainstay.cli import exits
from mainstay.runtime.children import Children
from mainstay.runtime.clock import SystemClock

PARTS = {"reconcile", "snapshot", "decide", "hints", "offer"}
FIGURES = [
    f"{what}_{rank}_ms"
    for what in ("steady_cycle", "changed_1pct_cycle", "demand_to_decision")
    for rank in ("p50", "p99", "max")
]


def test_it_prints_one_object_with_every_key_and_the_work_done() -> None:
    out = io.StringIO()

    with redirect_stdout(out):
        code = exits.run(
            command.app, ["shard", "--machines", "2000", "--cycles", "5", "--json"], name="bench"
        )

    answer = json.loads(out.getvalue())
    assert code == exits.DONE
    assert [key for key in (*FIGURES, "first_decision_s", "rss_mb") if key not in answer] == []
    assert {len(samples) for samples in answer["samples"].values()} == {5}
    assert answer["steady_part_p50_ms"].keys() >= PARTS
    fixture = answer["fixture"]
    assert fixture["by_state"] == {"Speculative": 100, "Idle": 200, "Configured": 1700}
    assert (fixture["clusters"], fixture["needs"], fixture["unmet"]) == (50, 200, 0)
    assert fixture["changed_machines"] >= 5 * 20
    assert fixture["steps_asked_for"] == 5


def test_a_shard_that_does_not_run_stops_the_bench(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_shard, "CONFIG", "[shard]\nno_such_setting = 1\n")
    bench = Bench("shard", {}, SystemClock(), lambda _: None)

    with pytest.raises(FixtureError, match="no_such_setting"), Children(tmp_path) as children:
        bench_shard.measure(bench, size_of(1000, 2), children)


@pytest.mark.parametrize(
    ("share", "sample"), [(0.5, 50.0), (0.99, 99.0), (1.0, 100.0), (0.001, 1.0)]
)
def test_a_rank_is_a_sample(share: float, sample: float) -> None:
    assert ranked([float(number) for number in range(100, 0, -1)], share) == sample


def test_the_budget_is_the_promise() -> None:
    assert bench_shard.BUDGET == {"demand_to_decision_p99_ms": 1_000.0}
    assert size_of(500_000, 100).needs == 5_000
    assert size_of(500_000, 100).racks == 500
