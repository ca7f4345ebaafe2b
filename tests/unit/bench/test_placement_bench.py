"""The placement bench runs here on a toy trace: its keys, protocol and bound; never its times."""

import io
import json
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mainstay.bench import openb, placement
from mainstay.bench.frame import Bench, FixtureError
from mainstay.bench.openb import Nodes, Pods
from mainstay.bench.placement_loops import BEST_FIT, FGD, OURS, Run, arrive, compiled, simulate
from mainstay.cli import bench as command
from mainstay.cli import exits
from mainstay.model.errors import Rejected
from mainstay.runtime.clock import StepClock
from mainstay.tenancy.placement.waste import Want

NODES = """\
sn,cpu_milli,memory_mib,gpu,model
n-0,96000,393216,8,G2
n-1,96000,393216,8,G2
n-2,104000,524288,2,T4
n-3,16000,122880,2,P100
"""
PODS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec
p-0,11000,49152,1,1000,
p-1,11000,49152,1,1000,
p-2,3000,12288,1,810,
p-3,8000,30720,1,470,
p-4,8000,30720,1,470,
p-5,4000,10240,1,160,P100|T4
p-6,32000,65536,0,0,
p-7,64000,262144,8,1000,G2
p-8,4000,10240,1,320,
p-9,11000,40960,1,650,
"""
SUMMARY = """\
workload,policy,seeds,alloc_pct_at_100_demand_mean,alloc_pct_at_130_demand_mean
openb_pod_list_default,05-BestFit,10,92.86,93.08
openb_pod_list_default,06-FGD,10,95.23,95.39
"""
KEYS = [
    "ours_pct", "best_fit_pct", "fgd_pct", "published_best_pct", "bound_pct", "seconds",
]  # fmt: skip


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    directory = tmp_path / "openb"
    directory.mkdir()
    (directory / openb.NODES).write_text(NODES)
    (directory / "openb_pod_list_default.csv").write_text(PODS)
    (tmp_path / "derived").mkdir()
    (tmp_path / "derived" / openb.SUMMARY).write_text(SUMMARY)
    return directory


@pytest.fixture
def nodes(trace: Path) -> Nodes:
    return openb.read_nodes(trace)


@pytest.fixture
def pods(trace: Path, nodes: Nodes) -> Pods:
    return openb.read_pods(trace, "default", nodes.bits)


def pods_of(*wants: Want) -> Pods:
    return Pods(wants, np.full(len(wants), openb.ANY_MODEL), np.arange(len(wants)))


def a_bench() -> Bench:
    return Bench("placement", {}, StepClock(), lambda _: None)


def run(*words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = exits.run(command.app, ["placement", *words], name="bench")
    return code, out.getvalue(), err.getvalue()


def test_it_prints_one_object_with_every_key_per_workload_and_demand(trace: Path) -> None:
    code, out, _ = run("--trace", str(trace), "--demand", "1.0,1.3", "--seeds", "2", "--json")

    answer = json.loads(out)
    rows = answer["workloads"]["default"]
    assert code == exits.DONE
    assert list(rows) == ["1.0", "1.3"]
    assert all(set(row) == set(KEYS) for row in rows.values())
    assert (rows["1.0"]["published_best_pct"], rows["1.3"]["published_best_pct"]) == (4.77, 4.61)
    assert all(row["bound_pct"] <= row["ours_pct"] < 100 for row in rows.values())
    assert (answer["fixture"]["nodes"], answer["fixture"]["gpus"]) == (4, 20)
    assert (answer["fixture"]["pods"], answer["seeds"]) == ({"default": 10}, [42, 43])


class TestReading:
    def test_every_list_of_pods_is_a_workload(self, trace: Path) -> None:
        (trace / "openb_pod_list_cpu100.csv").write_text(PODS)

        assert openb.workloads(trace) == ["cpu100", "default"]

    def test_an_unknown_workload_is_refused_with_those_that_there_are(self, trace: Path) -> None:
        code, _, err = run("--trace", str(trace), "--workload", "nosuch")

        assert code == exits.FAILED
        assert "no such workload: nosuch" in err
        assert err.rstrip().endswith("default)")

    def test_a_folder_without_any_workload_is_refused(self, trace: Path) -> None:
        (trace / "openb_pod_list_default.csv").unlink()

        code, _, err = run("--trace", str(trace), "--workload", "all")

        assert (code, "no lists of pods" in err) == (exits.FAILED, True)

    def test_a_folder_without_the_trace_is_refused(self, tmp_path: Path) -> None:
        code, _, err = run("--trace", str(tmp_path))

        assert (code, "no such file" in err) == (exits.FAILED, True)

    @pytest.mark.parametrize("text", ["", "1.0,", "0", "-1", "nan", "1e9", "a"])
    def test_a_demand_that_is_none_is_refused(self, text: str) -> None:
        with pytest.raises(Rejected, match="not a list of demands"):
            placement.demands_of(text)

    @pytest.mark.parametrize(
        ("line", "complaint"),
        [
            ("p,x,1,1,1000,", "cpu_milli of p is no number: 'x'"),
            ("p,1,1,-1,1000,", "num_gpu of p is no number: '-1'"),
            ("p,1,1,2,500,", "p wants parts of several GPUs: 2 x 500"),
        ],
    )
    def test_a_bad_row_is_named(self, trace: Path, line: str, complaint: str) -> None:
        path = trace / "openb_pod_list_default.csv"
        path.write_text(PODS.splitlines()[0] + "\n" + line + "\n")

        with pytest.raises(Rejected, match=complaint):
            openb.read_pods(trace, "default", {})

    @pytest.mark.parametrize("text", ["", "a,b\n1,2\n", NODES.splitlines()[0] + "\n"])
    def test_a_file_that_is_no_list_is_refused(self, trace: Path, text: str) -> None:
        (trace / openb.NODES).write_text(text)

        with pytest.raises(Rejected, match=r"not a list|no rows"):
            openb.read_nodes(trace)

    def test_a_demand_that_nobody_published_has_no_published_figure(self, trace: Path) -> None:
        assert openb.published_best(trace, "default", 1.0) == 4.77
        assert openb.published_best(trace, "default", 1.1) is None
        assert openb.published_best(trace, "cpu100", 1.0) is None

    @pytest.mark.data("alibaba-gpu-v2023-openb")
    def test_the_trace_is_the_one_that_results_are_published_for(self, data_dir: Path) -> None:
        directory = data_dir / "alibaba-gpu-v2023-openb"
        nodes = openb.read_nodes(directory)
        pods = openb.read_pods(directory, "default", nodes.bits)

        assert (len(nodes.cpu_milli), nodes.capacity) == (1213, 6_212_000)
        assert (len(pods.shape), len(pods.wants)) == (8152, 151)
        assert int(pods.gpu_milli[pods.shape].sum()) == 6_086_800


class TestArrivals:
    def test_every_pod_arrives_once_before_any_arrives_again(self, pods: Pods) -> None:
        order = openb.arrivals(pods, 20_000, 3.0, seed=1)

        assert Counter(order[:10].tolist()) == Counter(pods.shape.tolist())
        assert int(pods.gpu_milli[order].sum()) > 2.9 * 20_000

    def test_a_longer_list_loses_pods_until_it_fits(self, pods: Pods) -> None:
        order = openb.arrivals(pods, 20_000, 0.2, seed=1)

        assert int(pods.gpu_milli[order].sum()) <= 4_000
        assert not Counter(order.tolist()) - Counter(pods.shape.tolist())

    def test_a_seed_is_an_order(self, pods: Pods) -> None:
        first, again, other = (openb.arrivals(pods, 20_000, 1.3, seed) for seed in (1, 1, 2))

        assert first.tolist() == again.tolist() != other.tolist()

    def test_a_workload_without_gpus_is_refused(self) -> None:
        with pytest.raises(Rejected, match="without GPUs"):
            openb.arrivals(pods_of(Want(1, 1, 0, 0)), 20_000, 1.3, seed=1)


class TestRuns:
    def test_compiled_and_plain_loops_place_alike(self, nodes: Nodes, pods: Pods) -> None:
        loop = compiled()
        assert loop is not arrive, "numba is part of the lock"
        order = openb.arrivals(pods, nodes.capacity, 1.6, seed=3)

        for policy in (OURS, BEST_FIT, FGD):
            fast = simulate(nodes, pods, order, policy, loop)
            plain = simulate(nodes, pods, order, policy)
            assert fast.placed.tolist() == plain.placed.tolist()
            assert fast.gpu_milli.tolist() == plain.gpu_milli.tolist()

    @pytest.mark.parametrize("policy", [OURS, BEST_FIT, FGD])
    def test_no_node_gives_more_than_it_has(self, nodes: Nodes, pods: Pods, policy: int) -> None:
        ended = simulate(nodes, pods, openb.arrivals(pods, nodes.capacity, 3.0, 1), policy)

        assert placement.is_sound(ended, nodes.capacity)
        assert (np.diff(ended.placed) >= 0).all()

    @pytest.mark.parametrize("policy", [OURS, BEST_FIT, FGD])
    def test_a_pod_runs_only_on_the_models_it_names(
        self, nodes: Nodes, pods: Pods, policy: int
    ) -> None:
        picky = next(at for at, want in enumerate(pods.wants) if want.gpu_milli == 160)

        ended = simulate(nodes, pods, np.full(30, picky), policy)

        assert (ended.gpu_milli[:2] == nodes.gpu_milli[:2]).all()
        assert ended.placed[-1] == 16 * 160  # six on each GPU, but the CPU of n-3 is for four

    @pytest.mark.parametrize("policy", [OURS, BEST_FIT, FGD])
    @pytest.mark.parametrize(
        ("want", "fit"),
        [(Want(96_000, 0, 1, 100), 3), (Want(0, 393_216, 1, 100), 3), (Want(0, 0, 8, 1000), 2)],
    )
    def test_whatever_fits_is_placed_and_nothing_else(
        self, nodes: Nodes, policy: int, want: Want, fit: int
    ) -> None:
        ended = simulate(nodes, pods_of(want), np.zeros(9, np.int64), policy)

        assert ended.placed[-1] == fit * want.gpus * want.gpu_milli

    def test_ours_leaves_less_than_best_fit(self, nodes: Nodes, pods: Pods) -> None:
        small = pods._replace(shape=np.array([at for at in pods.shape if pods.wants[at].gpus < 8]))
        orders = [openb.arrivals(small, nodes.capacity, 1.3, seed) for seed in range(10)]

        ours, best_fit = (
            sum(simulate(nodes, small, order, policy).placed[-1] for order in orders)
            for policy in (OURS, BEST_FIT)
        )

        assert ours > best_fit


class TestFigures:
    def test_what_is_left_is_a_mean_over_the_arrivals_that_round_to_the_demand(self) -> None:
        arrived, placed = np.array([990, 996, 1004, 1010]), np.array([900, 910, 930, 940])
        ended = ended_as(arrived, placed)

        assert placement.left_pct(ended, 1000, 1.0) == pytest.approx(8.0)
        assert placement.left_pct(ended, 1000, 1.3) == pytest.approx(6.0)  # the last there is

    def test_large_parts_alone_bound_what_anyone_can_place(self) -> None:
        pods = pods_of(Want(0, 0, 1, 810))

        assert placement.bound_pct(pods, np.zeros(20, np.int64), 8_000) == pytest.approx(19.0)

    def test_too_few_arrivals_bound_it_too(self) -> None:
        pods = pods_of(Want(0, 0, 2, 1000))

        assert placement.bound_pct(pods, np.zeros(3, np.int64), 8_000) == pytest.approx(25.0)

    def test_small_parts_fill_what_large_ones_leave(self) -> None:
        pods = pods_of(Want(0, 0, 1, 810), Want(0, 0, 1, 190))

        order = np.array([0] * 20 + [1] * 20)
        assert placement.bound_pct(pods, order, 8_000) == pytest.approx(0.0, abs=1e-4)
        assert placement.bound_pct(pods, np.array([0] * 20 + [1] * 4), 8_000) == pytest.approx(
            100 * 4 * 0.19 / 8, abs=1e-4
        )

    def test_no_policy_is_under_the_bound(self, nodes: Nodes, pods: Pods) -> None:
        for seed in range(5):
            order = openb.arrivals(pods, nodes.capacity, 1.3, seed)
            bound = placement.bound_pct(pods, order, nodes.capacity)
            for policy in (OURS, BEST_FIT, FGD):
                ended = simulate(nodes, pods, order, policy)
                assert 100 - 100 * ended.placed[-1] / nodes.capacity >= bound - 1e-6

    def test_a_run_that_hands_out_what_is_not_there_stops_the_bench(
        self, nodes: Nodes, pods: Pods
    ) -> None:
        def cheat(*arguments: Any) -> None:
            arrive(*arguments)
            arguments[0][0][0] = -1

        orders = [openb.arrivals(pods, nodes.capacity, 1.3, 42)]
        with pytest.raises(FixtureError, match="runs_that_overdraw"):
            placement.measured(a_bench(), placement.Trace(nodes, pods, orders, cheat), 1.0)

    def test_a_run_that_beats_the_bound_stops_the_bench(self, nodes: Nodes) -> None:
        """A fleet of which half the GPUs are not counted is fuller than can be."""
        pods = pods_of(Want(0, 0, 1, 810))
        orders = [np.zeros(20, np.int64)]

        def cheat(fleet: Any, demand: Any, book: Any, rule: Any, placed: Any) -> None:
            arrive(fleet, demand, book, rule, placed)
            placed[:] = nodes.capacity
            fleet[2][:] = 0

        with pytest.raises(FixtureError, match="better_than_the_bound"):
            placement.measured(a_bench(), placement.Trace(nodes, pods, orders, cheat), 1.0)


def ended_as(arrived: Any, placed: Any) -> Run:
    nothing = np.zeros(1, np.int64)
    return Run(arrived, placed, nothing, nothing, nothing)
