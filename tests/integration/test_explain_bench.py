"""The promise of explanations, whole and in time, in `make soak`; small: tests/unit/bench."""

import json

import pytest

import outside
from mainstay.bench.explain import BUDGET, BUDGET_SIZE
from tree import BIN

QUESTIONS = "5"


@pytest.mark.skipif(outside.soak_factor() == 1, reason="225,000 machines: in `make soak`")
def test_of_225_000_machines_every_answer_is_there_within_a_second() -> None:
    words = ["bench", "explain", "--questions", QUESTIONS, "--json"]
    ended = outside.run([BIN / "mainstay", *words], timeout_s=600.0)

    assert ended.returncode == 0, ended.stderr
    answer = json.loads(ended.stdout)
    assert answer["fixture"]["crowded machines"] == BUDGET_SIZE
    assert answer["budget"] == BUDGET
    assert answer["over_budget"] == {}


def test_the_budget_is_the_promise() -> None:
    assert BUDGET_SIZE == 225_000
    assert set(BUDGET.values()) == {1000.0}
