"""Pauses between attempts."""

import pytest

from mainstay.model.errors import Rejected
from mainstay.tenancy.backoff import Backoff


def test_pauses_double_from_one_second_to_sixty() -> None:
    pauses = [Backoff().pause_s(attempt) for attempt in range(1, 11)]

    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]


def test_the_tenth_attempt_is_the_last() -> None:
    assert [attempt for attempt in range(1, 13) if Backoff().is_over(attempt)] == [10, 11, 12]


def test_a_pause_after_very_many_attempts_is_still_the_longest() -> None:
    assert Backoff().pause_s(100_000) == 60


@pytest.mark.parametrize(
    ("first_s", "most_s", "attempts_max"), [(0.0, 1.0, 1), (2.0, 1.0, 1), (1.0, 1.0, 0)]
)
def test_what_is_no_back_off_is_refused(first_s: float, most_s: float, attempts_max: int) -> None:
    with pytest.raises(Rejected, match="not a back-off"):
        Backoff(first_s=first_s, most_s=most_s, attempts_max=attempts_max)
