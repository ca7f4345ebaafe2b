"""What is due, in whole minor units, and how it is written for people."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from mainstay.tenancy.billing.charge import (
    Rate,
    Window,
    elapsed_s,
    formatted,
    month_after,
    windows,
)

BEGAN = datetime(2026, 11, 3, 8, 0, 0, 250_000, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def test_one_gpu_at_450_an_hour_for_two_hours_and_a_half_minute_costs_903() -> None:
    assert Rate(450, 1).due(7230) == 903


@pytest.mark.parametrize(("gpus", "expected"), [(1, 450), (2, 900), (4, 1800), (8, 3600)])
def test_an_hour_in_windows_of_a_minute_costs_the_price_of_an_hour(
    gpus: int, expected: int
) -> None:
    rate = Rate(450, gpus)

    charged = [
        window.amount_minor
        for minute in range(60)
        for window in windows(rate, BEGAN, after(60 * minute), after(60 * minute + 60))
    ]

    assert sum(charged) == expected
    assert max(charged) - min(charged) <= 1


def test_nothing_is_due_before_a_second_is_full() -> None:
    assert elapsed_s(BEGAN, after(0.999_999)) == 0
    assert elapsed_s(BEGAN, after(1)) == 1
    assert Rate(3600, 1).due(0) == 0


def test_no_time_is_no_window_and_time_that_costs_nothing_is_one() -> None:
    assert windows(Rate(450, 1), BEGAN, BEGAN, BEGAN) == ()
    assert windows(Rate(450, 1), BEGAN, after(5), BEGAN) == ()
    assert windows(Rate(0, 8), BEGAN, BEGAN, after(60)) == (Window(BEGAN, after(60), 0),)


def test_a_window_ends_where_a_month_begins() -> None:
    began = datetime(2026, 12, 31, 23, 59, 0, tzinfo=UTC)
    new_year = datetime(2027, 1, 1, tzinfo=UTC)
    february = datetime(2027, 2, 1, tzinfo=UTC)
    end = february + timedelta(seconds=60)

    found = windows(Rate(3600, 1), began, began, end)

    assert [(window.start, window.end) for window in found] == [
        (began, new_year),
        (new_year, february),
        (february, end),
    ]
    assert [window.amount_minor for window in found] == [60, 31 * 86400, 60]


def test_a_month_is_one_of_utc_wherever_the_time_was_written() -> None:
    tokyo = datetime(2026, 12, 1, 5, 0, tzinfo=timezone(timedelta(hours=9)))

    assert month_after(tokyo) == datetime(2026, 12, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("minor", "currency", "expected"),
    [
        (903, "USD", "$9.03"),
        (-5, "USD", "-$0.05"),
        (0, "USD", "$0.00"),
        (123_456_789, "USD", "$1,234,567.89"),
        (903, "EUR", "9.03 EUR"),
        (-903, "JPY", "-903 JPY"),
        (12_345, "KWD", "12.345 KWD"),
    ],
)
def test_money_is_written_as_people_write_it(minor: int, currency: str, expected: str) -> None:
    assert formatted(minor, currency) == expected
