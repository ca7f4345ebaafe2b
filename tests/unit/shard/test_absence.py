"""When a machine that a full list misses is gone, and when the list is doubted."""

import math
from collections.abc import Callable
from typing import Final

import pytest

from mainstay.model.errors import Rejected
from mainstay.model.ids import MachineId
from mainstay.shard.lists.absence import (
    NOTHING_HELD,
    AbsenceOptions,
    Held,
    Judged,
    Missing,
    judge,
)

NOW_S: Final = 100.0
NEVER: Final = -math.inf


def names(count: int, *, start: int = 0) -> list[MachineId]:
    return [MachineId(f"m-{number:03d}") for number in range(start, start + count)]


def since(at_s: float, machines: list[MachineId]) -> Held:
    return dict.fromkeys(machines, at_s)


def long_held(machines: list[MachineId]) -> Held:
    return since(NOW_S - 10.0, machines)


def judged(
    missing: list[MachineId],
    machines: int,
    held: Held = NOTHING_HELD,
    *,
    back_at_s: float = NEVER,
    options: AbsenceOptions | None = None,
) -> Judged:
    found = Missing(machines=missing, known=machines, asked_at_s=NOW_S, back_at_s=back_at_s)
    return judge(found, held, options or AbsenceOptions())


@pytest.mark.parametrize(
    ("missing", "machines", "believed"),
    [
        (0, 0, True),
        (0, 1, True),
        (1, 1, False),  # a list that names nothing we know, however little that is
        (2, 2, False),
        (5, 5, False),
        (9, 9, False),
        (10, 10, False),
        (1, 2, True),  # one of several is gone at once
        (2, 3, False),
        (2, 4, False),  # half of them
        (2, 5, True),
        (9, 18, False),
        (9, 19, True),
        (9, 90, True),
        (9, 100, True),
        (10, 100, False),  # a tenth of them
        (10, 101, True),
        (11, 110, False),
        (118, 1190, True),
        (119, 1190, False),
        (50_000, 500_000, False),
        (49_999, 500_000, True),
    ],
)
def test_a_list_is_doubted_that_misses_ten_and_a_tenth_or_two_and_half_or_all(
    missing: int, machines: int, believed: bool
) -> None:
    gone = names(missing)

    result = judged(gone, machines)

    assert result == (
        Judged(tuple(gone), NOTHING_HELD) if believed else Judged((), since(NOW_S, gone))
    )


def test_what_two_lists_miss_is_gone() -> None:
    missing = names(50)

    assert judged(missing, 100, long_held(missing)) == Judged(tuple(missing), NOTHING_HELD)


def test_only_what_both_miss_is_gone_and_the_rest_is_held() -> None:
    first, second = long_held(names(50)), names(50, start=10)

    result = judged(second, 100, first)

    assert result.gone == tuple(names(40, start=10))
    assert result.held == since(NOW_S, names(10, start=50))


def test_a_list_that_misses_few_is_believed_after_one_that_missed_many() -> None:
    assert judged(names(3, start=60), 100, long_held(names(50))).gone == tuple(names(3, start=60))


def test_what_came_back_is_no_longer_held() -> None:
    assert judged([], 100, long_held(names(50))) == Judged((), NOTHING_HELD)


def test_two_lists_that_contradict_each_other_take_nothing_away() -> None:
    """A line that loses a fifth of every list would else cost a twenty-fifth of the fleet."""
    first, second = long_held(names(20)), names(20, start=11)

    assert judged(second, 100, first) == Judged((), since(NOW_S, second))


def test_half_in_common_is_agreement() -> None:
    first, second = long_held(names(20)), names(20, start=10)

    assert judged(second, 100, first).gone == tuple(names(10, start=10))


def test_the_limits_can_be_set() -> None:
    options = AbsenceOptions(missing_min=1, missing_fraction=0.5)

    assert set(judged(names(1), 2, options=options).held) == set(names(1))
    assert judged(names(1), 3, options=options).gone == tuple(names(1))


def test_however_the_limits_are_set_a_list_that_misses_half_is_doubted() -> None:
    options = AbsenceOptions(missing_min=1000, missing_fraction=1.0)

    assert set(judged(names(50), 100, options=options).held) == set(names(50))
    assert judged(names(49), 100, options=options).gone == tuple(names(49))


@pytest.mark.parametrize(
    ("fraction", "known", "believed"), [(0.004, 5_000, 19), (0.105, 1_000, 104), (0.1, 1_190, 118)]
)
def test_a_share_is_taken_as_it_is_written(fraction: float, known: int, believed: int) -> None:
    options = AbsenceOptions(missing_fraction=fraction)

    assert judged(names(believed), known, options=options).held == {}
    assert judged(names(believed + 1), known, options=options).gone == ()


def test_a_list_that_was_asked_for_too_soon_confirms_nothing_and_the_first_one_counts() -> None:
    missing = names(50)
    early = since(NOW_S - 9.9, missing)

    assert judged(missing, 100, early) == Judged((), early)


def test_a_provider_that_is_just_back_confirms_nothing() -> None:
    missing = names(50)
    held = long_held(missing)

    assert judged(missing, 100, held, back_at_s=NOW_S - 59.0) == Judged((), held)
    assert judged(missing, 100, held, back_at_s=NOW_S - 60.0).gone == tuple(missing)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (lambda: AbsenceOptions(missing_min=0), "doubted"),
        (lambda: AbsenceOptions(missing_fraction=1.01), "doubted"),
        (lambda: AbsenceOptions(confirm_s=-1.0), "below 0"),
        (lambda: AbsenceOptions(settle_s=-1.0), "below 0"),
    ],
)
def test_limits_that_make_no_sense_are_refused(
    options: Callable[[], AbsenceOptions], why: str
) -> None:
    with pytest.raises(Rejected, match=why):
        options()
