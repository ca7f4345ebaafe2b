"""A bucket per caller, refilled steadily."""

import pytest

from mainstay.runtime.clock import StepClock
from mainstay.tenancy.http import limits
from mainstay.tenancy.http.limits import RateLimit, TooMany


def taken(rate: RateLimit, caller: str, times: int) -> int:
    count = 0
    for _ in range(times):
        try:
            rate.take(caller)
        except TooMany:
            continue
        count += 1
    return count


def test_a_burst_is_taken_and_then_so_many_a_second() -> None:
    clock = StepClock()
    rate = RateLimit(clock, per_s=2.0, burst=5)

    assert taken(rate, "a", 10) == 5
    clock.advance(1.0)
    assert taken(rate, "a", 10) == 2
    clock.advance(100.0)
    assert taken(rate, "a", 10) == 5


def test_being_refused_costs_nothing_and_says_how_long_to_wait() -> None:
    clock = StepClock()
    rate = RateLimit(clock, per_s=0.25, burst=1)
    rate.take("a")

    for _ in range(3):
        with pytest.raises(TooMany) as refused:
            rate.take("a")
        assert refused.value.retry_after_s == 4

    clock.advance(4.0)
    rate.take("a")


def test_callers_do_not_share_a_bucket() -> None:
    rate = RateLimit(StepClock(), per_s=1.0, burst=1)

    assert [taken(rate, caller, 3) for caller in ("a", "b")] == [1, 1]


def test_the_bucket_unused_for_longest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CALLERS_MAX", 2)
    rate = RateLimit(StepClock(), per_s=1.0, burst=1)

    for caller in ("a", "b", "c"):
        rate.take(caller)

    assert taken(rate, "c", 1) == 0
    assert taken(rate, "a", 1) == 1
