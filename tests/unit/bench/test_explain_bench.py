"""The bench of explanations, small: what it prints, and that it asks about what is unmet."""

from collections.abc import Iterator
from typing import Final

import pytest

from mainstay.bench import explain as bench_explain
from mainstay.bench import in_vain, uber
from mainstay.bench.frame import Bench, FixtureError
from mainstay.engine import kernels
from mainstay.runtime.clock import StepClock

SIZE: Final = 2_000
TIMES: Final = {"questions", "p50_ms", "p99_ms", "max_ms"}
KEYS: Final = {*TIMES, "cut", "helped", "all_helped", "all_cpu_p50_ms", "all_cpu_max_ms"}


@pytest.fixture(autouse=True)
def _cool() -> Iterator[None]:
    """A bench warms the compiled loops; the next test begins without."""
    yield
    kernels.cool()


def test_it_tells_the_times_of_every_kind_of_question_on_both_fleets() -> None:
    bench = Bench("explain", {}, StepClock(), lambda _: None)

    bench_explain.run(bench, machines=SIZE, questions=2)

    answer = bench.answer()
    for fleet, kinds in bench_explain.KINDS.items():
        told = answer[fleet]
        assert isinstance(told, dict)
        assert list(told) == [kind.name.lower() for kind in kinds]
        assert all(set(times) == KEYS for times in told.values())
    assert bench.fixture["crowded machines"] == SIZE
    assert bench.fixture["crowded asks about a gang"] is True
    assert answer["budget"] == {}
    assert answer.keys() >= {*bench_explain.BUDGET, "command_cpu_ms"}
    vain = answer["in_vain"]
    assert isinstance(vain, dict)
    assert vain.keys() == {*TIMES, "cut", "all_cpu_p50_ms", "all_cpu_max_ms"}
    assert vain["questions"] == 2
    what_if = answer["what_if"]
    assert isinstance(what_if, dict)
    assert what_if.keys() == bench_explain.KINDS.keys()
    assert all(told.keys() == {*TIMES, "cpu_p50_ms", "cpu_max_ms"} for told in what_if.values())


def test_whoever_misses_something_is_told_of_a_change_that_helps() -> None:
    bench = Bench("explain", {}, StepClock(), lambda _: None)

    bench_explain.run(bench, machines=SIZE, questions=2)

    for fleet in bench_explain.KINDS:
        told = bench.figures[fleet]
        assert isinstance(told, dict)
        need = told["need"]
        assert need["helped"] == need["all_helped"] == need["questions"]
        assert need["cut"] == 0


def test_a_need_that_something_helps_is_not_asked_about_in_vain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With so much quota that only what is left stops it, more priority helps."""
    monkeypatch.setattr(in_vain, "ROOM", 1_000)
    bench = Bench("explain", {}, StepClock(), lambda _: None)

    with pytest.raises(FixtureError, match="helped in vain"):
        bench_explain.run(bench, machines=SIZE, questions=2)


def test_a_need_in_fifty_asks_for_more_than_before() -> None:
    needs = list(uber.make("uber5k", 0.05).demand.needs)

    grown = [a is not b for a, b in zip(needs, bench_explain.hungry(needs), strict=True)]

    gangs = sum(bool(need.profile.same_keys) for need in needs)
    plain = len(needs) - gangs
    assert sum(grown) == -(-gangs // bench_explain.EVERY) + -(-plain // bench_explain.EVERY)


def test_the_median_and_the_slowest_are_told() -> None:
    summary = bench_explain.summary([5.0, 1.0, 3.0])

    assert summary == {"questions": 3.0, "p50_ms": 3.0, "p99_ms": 5.0, "max_ms": 5.0}
