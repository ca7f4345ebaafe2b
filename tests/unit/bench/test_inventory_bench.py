"""Benches run here once, small, to prove their keys and their fixture; never their times."""

import io
import json
from contextlib import redirect_stdout

import pytest

from mainstay.bench import inventory as bench_inventory
from mainstay.bench.frame import Bench, FixtureError, deep_bytes
from mainstay.cli import bench as command
from mainstay.cli import exits
from mainstay.runtime.clock import StepClock

FRAME = ["bench", "version", "commit", "machine", "args", "fixture"]
FIGURES = [
    "machines", "by_state", "build_ms", "snapshot_ms", "apply_us", "merge_ms",
    "bytes_per_machine", "hot_bytes_per_machine", "rss_mb",
]  # fmt: skip


def a_bench() -> Bench:
    return Bench("inventory", {}, StepClock(), lambda _: None)


def test_the_inventory_bench_prints_one_object_with_every_key() -> None:
    out = io.StringIO()

    with redirect_stdout(out):
        code = exits.run(command.app, ["inventory", "--machines", "2000", "--json"], name="bench")

    answer = json.loads(out.getvalue())
    assert code == exits.DONE
    assert [key for key in (*FRAME, *FIGURES) if key not in answer] == []
    assert answer["machines"] == 2000
    assert sum(answer["by_state"].values()) == 2000


def test_the_hot_columns_keep_their_budget_at_any_size() -> None:
    bench = a_bench()

    bench_inventory.run(bench, machines=2000, seed=1)

    assert bench.figures["hot_bytes_per_machine"] == 43
    assert bench_inventory.BUDGET["hot_bytes_per_machine"] == 55


def test_memory_keeps_its_budget_from_the_size_it_is_promised_for() -> None:
    bench = a_bench()

    bench_inventory.run(bench, machines=bench_inventory.BUDGET_FROM, seed=1)

    assert "bytes_per_machine" not in bench.over_budget()


def test_a_fixture_that_is_not_what_it_says_stops_the_bench() -> None:
    with pytest.raises(FixtureError, match="machines is 7, not 8"):
        a_bench().expect("machines", expected=8, actual=7)


def test_a_figure_above_its_budget_is_told() -> None:
    bench = a_bench()
    bench.budget, bench.figures = {"bytes_per_machine": 300}, {"bytes_per_machine": 301.5}

    assert bench.over_budget() == {"bytes_per_machine": 301.5}


def test_objects_are_counted_once_however_often_they_are_named() -> None:
    shared = "x" * 1000

    assert deep_bytes([shared, shared]) < deep_bytes([shared]) + 100
