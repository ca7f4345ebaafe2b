"""The allocations bench runs here once, small: keys, fixture, checks; never its times."""

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Final

import pytest

from mainstay.bench import allocation_ground as ground
from mainstay.bench import allocations
from mainstay.bench.allocation_clients import Call, Clients, Ended
from mainstay.bench.allocations import Size, Stage
from mainstay.bench.frame import Bench, FixtureError
from mainstay.cli import bench as command
from mainstay.cli import exits
from mainstay.model.errors import Rejected
from mainstay.runtime.clock import StepClock
from mainstay.tenancy.database.embedded import Server
from postgres import database_on, database_url, server  # noqa: F401 - fixtures

REQUESTS: Final = 300
NODES: Final = 40
KEYS: Final = [
    "create_per_s", "create_p50_ms", "create_p99_ms", "create_max_ms", "create_cpu", "created",
    "refused", "refuse_p50_ms", "busy", "release_per_s", "release_p50_ms", "release_p99_ms",
    "release_max_ms", "release_cpu", "released", "relay_per_s", "deliver_per_s", "paced_per_s",
    "commit_to_consumer_p50_ms", "commit_to_consumer_p99_ms", "commit_to_consumer_max_ms",
    "round_trip_ms", "commit_ms",
]  # fmt: skip


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench") / "raw.json"


@pytest.fixture(scope="module")
def answer(server: Server, raw: Path) -> Any:  # noqa: F811
    out = io.StringIO()
    with database_on(server) as url, redirect_stdout(out):
        given = [
            "allocations", "--requests", str(REQUESTS), "--nodes", str(NODES), "--clients", "12",
            "--processes", "2", "--database", url, "--dump", str(raw), "--json",
        ]  # fmt: skip
        assert exits.run(command.app, given, name="bench") == exits.DONE
    return json.loads(out.getvalue())


def test_it_prints_every_key_and_the_work_done(answer: Any) -> None:
    assert [key for key in KEYS if key not in answer] == []
    assert answer["created"] + answer["refused"] + answer["busy"] == REQUESTS
    assert answer["released"] == answer["created"]
    assert answer["fixture"]["gpus_free"] == NODES * ground.SLOTS
    assert answer["fixture"]["allocations"] == answer["created"] + answer["fixture"]["events_paced"]
    assert answer["fixture"]["events_delivered"] == 4 * answer["fixture"]["events_relayed"]
    assert answer["fixture"]["claimed_twice"] == 0
    assert len(answer["samples"]["create_per_s"]) == 2


def test_more_is_asked_for_than_there_is(answer: Any) -> None:
    assert answer["refused"] > 0
    assert answer["refuse_max_ms"] > 0


def test_percentiles_are_of_every_single_call(answer: Any, raw: Path) -> None:
    samples = json.loads(raw.read_text(encoding="utf-8"))

    assert len(samples["create_ms"]) == answer["created"]
    assert len(samples["release_ms"]) == answer["released"]
    assert answer["create_max_ms"] == round(max(samples["create_ms"]), 3)
    assert answer["create_p99_ms"] == allocations.percentile(samples["create_ms"], 99)


def test_a_percentile_is_one_of_the_samples() -> None:
    samples = [float(number) for number in range(200, 0, -1)]

    assert [allocations.percentile(samples, share) for share in (50, 99, 100)] == [100, 198, 200]
    assert allocations.percentile([7.0], 50) == 7.0


def test_the_same_seed_asks_for_the_same() -> None:
    first, again, other = (list(ground.rounds(500, nodes=40, seed=seed)) for seed in (1, 1, 2))

    assert first == again
    assert first != other
    assert sum(map(len, first)) == 500
    assert all(sum(order.gpus for order in orders) >= 320 for orders in first[:-1])


@pytest.fixture
def stage(database_url: str) -> Iterator[Stage]:  # noqa: F811
    """Two nodes, and slot 0 of the first held by one allocation."""
    size = Size(requests=1, nodes=2, clients=1, processes=1, seed=1)
    with ground.connected(database_url) as database:
        ground.furnish(database, nodes=2)
        for name in ("alc_one", "alc_two"):
            database.execute(
                """insert into allocations (id, project_id, account_id, requested_by, sku, gpus,
                       region, capacity_shape, node_id, price_minor, currency, status,
                       correlation_id, created_at)
                   values (%s, 'prj_1', 'acc_1', 'usr', %s, 1, %s, 'gpu_slice', 'node-00001', 450,
                           'USD', 'requested', 'cor', clock_timestamp())""",
                [name, ground.SLICE, ground.REGION],
            )
        claim(database, "alc_one", 0)
        yield Stage(Bench("allocations", {}, StepClock(), lambda _: None), size, database, None,
                    Clients([]))  # fmt: skip


def claim(database: ground.Database, allocation: str, slot: int) -> None:
    node = "node-00001"
    database.execute(
        """insert into claims (allocation_id, kind, node_id, slot_id, status)
           values (%s, 'slot', %s, %s, 'reserved')""",
        [allocation, node, f"{node}/{slot}"],
    )
    database.execute("update slots set status = 'reserved' where id = %s", [f"{node}/{slot}"])


def refused(gpus: int) -> Call:
    return Call(0.1, Ended.REFUSED, None, ground.ordered(ground.SLICE, gpus, 0))


def test_a_gpu_that_two_have_at_once_is_found(stage: Stage) -> None:
    assert ground.found(stage.database, ground.CLAIMED_TWICE) == 0
    stage.database.execute("drop index claims_one_live_per_slot")
    claim(stage.database, "alc_two", 0)

    assert ground.found(stage.database, ground.CLAIMED_TWICE) == 1


def test_a_gpu_that_two_had_at_once_is_found_when_both_have_given_it_back(stage: Stage) -> None:
    stage.database.execute("drop index claims_one_live_per_slot")
    claim(stage.database, "alc_two", 0)
    stage.database.execute("update claims set status = 'released', ended_at = clock_timestamp()")

    assert ground.found(stage.database, ground.CLAIMED_TWICE) == 1


def test_a_gpu_that_one_has_after_the_other_is_no_fault(stage: Stage) -> None:
    stage.database.execute("update claims set status = 'released', ended_at = clock_timestamp()")
    claim(stage.database, "alc_two", 0)

    assert ground.found(stage.database, ground.CLAIMED_TWICE) == 0


def test_an_allocation_without_what_it_asked_for_is_found(stage: Stage) -> None:
    assert ground.found(stage.database, ground.HELD_OTHERWISE) == 1
    claim(stage.database, "alc_two", 1)

    assert ground.found(stage.database, ground.HELD_OTHERWISE) == 0


def test_a_refusal_of_what_is_free_stops_the_bench(stage: Stage) -> None:
    with pytest.raises(FixtureError, match="free_blocks_of_8_that_were_refused is 1"):
        allocations.check_refusals(stage, [refused(8)])


def test_a_refusal_of_what_is_not_free_in_one_piece_is_right(stage: Stage) -> None:
    stage.database.execute("update slots set status = 'disabled' where slot_index = 5")

    allocations.check_refusals(stage, [refused(8)])


def test_a_database_that_somebody_uses_is_refused(stage: Stage) -> None:
    with pytest.raises(Rejected, match="give the bench an empty one"):
        ground.furnish(stage.database, nodes=2)
