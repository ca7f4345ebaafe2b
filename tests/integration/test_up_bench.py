"""The bench of `up` runs here once, small: its fixture and what it tells; never its times."""

import json
import os

import outside
from mainstay.bench.tree_memory import pss_mb
from mainstay.bench.up import BUDGET, PROMISED_AT, READY
from tree import BIN


def test_it_prints_the_memory_of_every_process_beside_its_times() -> None:
    ended = outside.run(
        [BIN / "mainstay", "bench", "up", "--machines", "120", "--looks", "1", "--json"],
        timeout_s=300.0,
    )

    assert ended.returncode == 0, ended.stderr
    answer = json.loads(ended.stdout)
    weights = answer["pss_mb_by_process"]
    shards = {"shard-a", "shard-b"}
    assert answer["fixture"] == {"ready": READY, "machines": 120, "a machine serves": True}
    assert weights.keys() == {"supervisor", *shards, *READY} - {"shard"}
    assert min(weights.values()) > 1
    assert abs(sum(weights.values()) - answer["pss_mb"]) < 1
    assert answer["page_s"] > 0
    assert answer["first_node_s"] > 0


def test_a_process_without_a_name_counts_for_the_one_above_it() -> None:
    us, parent = os.getpid(), os.getppid()

    assert pss_mb(parent, {parent: "parent", us: "us"})["us"] > 1
    assert pss_mb(us, {us: "us"}).keys() == {"us"}
    assert "us" not in pss_mb(parent, {parent: "parent"})


def test_the_budget_is_the_promise() -> None:
    assert (PROMISED_AT, BUDGET) == (2_000, {"first_node_s": 60.0, "pss_mb": 1024.0})
