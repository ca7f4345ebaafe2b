"""The reconcile bench runs here once, small: its keys, its fixture, its lists; never its times."""

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stdout

import numpy as np
import pytest

from mainstay.bench import reconcile
from mainstay.bench.frame import Bench, FixtureError
from mainstay.cli import bench as command
from mainstay.cli import exits
from mainstay.model.batch import MachineBatch
from mainstay.providers.sim.fleet import FleetSpec, fleet
from mainstay.runtime.clock import StepClock
from mainstay.wire import loops
from mainstay.wire.listing import listing_of
from mainstay.wire.machines import machine_to_wire
from mainstay.wire.pb.bigfleet.v1alpha1 import provider_pb2 as pb

KEYS = [
    "unchanged_ms", "unchanged_shuffled_ms", "changed_1pct_ms", "cold_ms", "bytes", "kernels",
    "cold_work", "unchanged_work", "unchanged_shuffled_work", "changed_1pct_work",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _cool() -> Iterator[None]:
    """A bench warms the compiled loops; the next test begins without."""
    yield
    loops.cool()


@pytest.fixture(scope="module")
def small() -> MachineBatch:
    return fleet(FleetSpec(machines=1000, seed=3))


def written(batch: MachineBatch, orders: int) -> bytes:
    random = np.random.Generator(np.random.PCG64(1))
    return reconcile.written(batch, batch.price_per_hour, orders=orders, random=random)


def test_it_prints_one_object_with_every_key_and_the_work_done() -> None:
    out = io.StringIO()

    with redirect_stdout(out):
        code = exits.run(command.app, ["reconcile", "--machines", "2000", "--json"], name="bench")

    answer = json.loads(out.getvalue())
    assert code == exits.DONE
    assert [key for key in KEYS if key not in answer] == []
    assert answer["cold_work"]["added"] == 2000
    assert answer["unchanged_work"]["unchanged"] == 2000
    assert answer["unchanged_shuffled_work"]["unchanged"] == 2000
    assert answer["changed_1pct_work"]["changed"] == 20
    assert answer["fixture"]["digests_alike_when_shuffled"] == 2000


def test_the_budget_is_the_promise() -> None:
    assert reconcile.BUDGET == {
        "unchanged_ms": 2_000, "unchanged_shuffled_ms": 2_000, "cold_ms": 5_000,
    }  # fmt: skip


def test_its_list_is_the_one_that_protobuf_writes(small: MachineBatch) -> None:
    machines = [machine_to_wire(small.machine(at)) for at in range(len(small))]
    message = pb.MachineList(machines=machines, revision=reconcile.REVISION)

    assert pb.MachineList.FromString(written(small, 1)) == message


def test_the_shuffled_list_says_the_same_in_other_bytes(small: MachineBatch) -> None:
    ordered, shuffled = written(small, 1), written(small, reconcile.ORDERS)

    assert ordered != shuffled
    assert pb.MachineList.FromString(ordered) == pb.MachineList.FromString(shuffled)


def test_the_same_seed_gives_the_same_bytes(small: MachineBatch) -> None:
    assert written(small, 4) == written(small, 4)


def test_a_list_that_is_not_the_fleet_stops_the_bench(small: MachineBatch) -> None:
    loops.warm()
    bench = Bench("reconcile", {}, StepClock(), lambda _: None)
    data = written(small, 1)
    other = reconcile.Lists(data, data.replace(b"rack-1", b"rack-2"), data)
    assert len(listing_of(data)) == 1000

    with pytest.raises(FixtureError, match="samples_agree"):
        reconcile.check_contents(bench, small, other)
