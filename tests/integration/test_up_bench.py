"""The bench of `up`, small: its fixture and what it tells; whole and in time in `make soak`."""

import json
import os
from typing import Any

import pytest

import outside
from mainstay.bench.tree_memory import pss_mb
from mainstay.bench.up import BUDGET, PROMISED_AT, READY
from tree import BIN


def benched(machines: int, looks: int) -> dict[str, Any]:
    words = ["bench", "up", "--machines", str(machines), "--looks", str(looks), "--json"]
    ended = outside.run([BIN / "mainstay", *words], timeout_s=600.0)
    assert ended.returncode == 0, ended.stderr
    answer: dict[str, Any] = json.loads(ended.stdout)
    return answer


def test_it_prints_the_memory_of_every_process_beside_its_times() -> None:
    answer = benched(120, looks=1)

    weights = answer["pss_mb_by_process"]
    shards = {"shard-a", "shard-b"}
    assert answer["fixture"] == {"ready": READY, "machines": 120, "a machine serves": True}
    assert weights.keys() == {"supervisor", *shards, *READY} - {"shard"}
    assert min(weights.values()) > 1
    assert abs(sum(weights.values()) - answer["pss_mb"]) < 1
    assert answer["page_s"] > 0
    assert answer["first_node_s"] > 0
    assert answer["budget"] == BUDGET
    assert answer["budget"].keys() <= answer.keys()


@pytest.mark.skipif(outside.soak_factor() == 1, reason="2,000 machines: in `make soak`")
def test_two_thousand_machines_keep_the_promise_of_the_first_node_and_of_memory() -> None:
    answer = benched(PROMISED_AT, looks=10)

    assert answer["fixture"]["machines"] == PROMISED_AT
    assert answer["budget"] == BUDGET
    assert answer["over_budget"] == {}


def test_a_process_without_a_name_counts_for_the_one_above_it() -> None:
    us, parent = os.getpid(), os.getppid()

    assert pss_mb(parent, {parent: "parent", us: "us"})["us"] > 1
    assert pss_mb(us, {us: "us"}).keys() == {"us"}
    assert "us" not in pss_mb(parent, {parent: "parent"})


def test_the_budget_is_the_promise() -> None:
    assert (PROMISED_AT, BUDGET) == (2_000, {"first_node_s": 60.0, "pss_mb": 1024.0})
