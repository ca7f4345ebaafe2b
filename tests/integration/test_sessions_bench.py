"""The bench of sessions runs here once, small: its fixture and what it tells; never its times."""

import json

import outside
from mainstay.bench.sessions import BUDGET, PROMISED_AT
from tree import BIN


def test_it_tells_when_each_cluster_was_acknowledged_and_told_of_its_machine() -> None:
    words = ["bench", "sessions", "--clients", "12", "--json"]
    ended = outside.run([BIN / "mainstay", *words], timeout_s=300.0)

    assert ended.returncode == 0, ended.stderr
    answer = json.loads(ended.stdout)
    counted = ("machines_serving", "connected", "reconnected", "still_serving")
    assert answer["fixture"] == dict.fromkeys(counted, 12)
    for name in ("acknowledged", "replayed"):
        samples = answer["samples"][f"{name}_ms"]
        assert len(samples) == 12
        assert min(samples) > 0
        assert answer[f"{name}_max_ms"] == max(samples)
        assert answer[f"{name}_p50_ms"] <= answer[f"{name}_p99_ms"] <= max(samples)
    assert answer["budget"] == {}


def test_the_budget_is_the_promise() -> None:
    assert (PROMISED_AT, BUDGET) == (2_000, {"acknowledged_max_ms": 30_000.0})
