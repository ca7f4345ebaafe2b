"""The bench of sessions, small: its fixture and what it tells; whole and in time in `make soak`."""

import json
from typing import Any

import pytest

import outside
from mainstay.bench.sessions import BUDGET, PROMISED_AT
from tree import BIN


def benched(clients: int) -> dict[str, Any]:
    words = ["bench", "sessions", "--clients", str(clients), "--json"]
    ended = outside.run([BIN / "mainstay", *words], timeout_s=600.0)
    assert ended.returncode == 0, ended.stderr
    answer: dict[str, Any] = json.loads(ended.stdout)
    return answer


def test_it_tells_when_each_cluster_was_acknowledged_and_told_of_its_machine() -> None:
    answer = benched(12)

    counted = ("machines_serving", "connected", "reconnected", "still_serving")
    assert answer["fixture"] == dict.fromkeys(counted, 12)
    for name in ("acknowledged", "replayed"):
        samples = answer["samples"][f"{name}_ms"]
        assert len(samples) == 12
        assert min(samples) > 0
        assert answer[f"{name}_max_ms"] == max(samples)
        assert answer[f"{name}_p50_ms"] <= answer[f"{name}_p99_ms"] <= max(samples)
    assert answer["budget"] == {}


@pytest.mark.skipif(outside.soak_factor() == 1, reason="2,000 clusters: in `make soak`")
def test_two_thousand_clusters_that_dial_at_once_are_acknowledged_in_half_a_minute() -> None:
    answer = benched(PROMISED_AT)

    assert answer["fixture"]["reconnected"] == PROMISED_AT
    assert answer["budget"] == BUDGET
    assert answer["over_budget"] == {}, answer["acknowledged_max_ms"]


def test_the_budget_is_the_promise() -> None:
    assert (PROMISED_AT, BUDGET) == (2_000, {"acknowledged_max_ms": 30_000.0})
