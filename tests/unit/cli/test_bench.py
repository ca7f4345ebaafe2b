"""How a bench ends: memory over its budget fails it, time is told."""

import json
from collections.abc import Mapping

import pytest

from mainstay.bench import inventory
from mainstay.cli import bench, exits

Captured = pytest.CaptureFixture[str]


def ended(budget: Mapping[str, float], patch: pytest.MonkeyPatch) -> int:
    patch.setattr(inventory, "BUDGET", budget)
    patch.setattr(inventory, "BUDGET_FROM", 1_000)
    return exits.run(bench.app, ["inventory", "--machines", "1000", "--json"], name="bench")


@pytest.mark.parametrize(
    ("figure", "code", "rest"),
    [
        ("snapshot_ms", exits.DONE, "; a time fails nothing, for machines are shared"),
        ("bytes_per_machine", exits.FAILED, ""),
    ],
)
def test_what_is_over_its_budget_is_told_and_only_memory_fails(
    figure: str, code: int, rest: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    assert ended({figure: 0.0}, monkeypatch) == code

    told = capsys.readouterr()
    answer = json.loads(told.out)
    assert answer["over_budget"] == {figure: answer[figure]}
    lines = [line for line in told.err.splitlines() if "over budget" in line]
    assert lines == [
        f"mainstay: over budget: {figure} is {answer[figure]}, the budget is 0.0{rest}"
    ]


def test_what_keeps_its_budget_is_told_in_the_answer_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    assert ended({"snapshot_ms": 1e9}, monkeypatch) == exits.DONE

    told = capsys.readouterr()
    assert json.loads(told.out)["over_budget"] == {}
    assert "over budget" not in told.err
