"""When a machine that a full list misses is gone, and when the list is doubted."""

import pytest

from mainstay.model.errors import Rejected
from mainstay.model.ids import MachineId
from mainstay.shard.lists.absence import NOTHING_HELD, AbsenceOptions, Judged, judge


def names(count: int, *, start: int = 0) -> list[MachineId]:
    return [MachineId(f"m-{number:03d}") for number in range(start, start + count)]


def judged(
    missing: list[MachineId], machines: int, held: frozenset[MachineId] = NOTHING_HELD
) -> Judged:
    return judge(missing, held, machines=machines, options=AbsenceOptions())


@pytest.mark.parametrize(
    ("missing", "machines", "believed"),
    [
        (0, 0, True),
        (9, 9, True),  # a small provider may empty itself
        (10, 10, False),
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
def test_a_list_is_doubted_from_ten_machines_and_a_tenth_on(
    missing: int, machines: int, believed: bool
) -> None:
    gone = names(missing)

    result = judged(gone, machines)

    assert result == (
        Judged(tuple(gone), NOTHING_HELD) if believed else Judged((), frozenset(gone))
    )


def test_what_two_lists_miss_is_gone() -> None:
    missing = names(50)

    assert judged(missing, 100, frozenset(missing)) == Judged(tuple(missing), NOTHING_HELD)


def test_only_what_both_miss_is_gone_and_the_rest_is_held() -> None:
    first, second = frozenset(names(50)), names(50, start=10)

    result = judged(second, 100, first)

    assert result.gone == tuple(names(40, start=10))
    assert result.held == frozenset(names(10, start=50))


def test_a_list_that_misses_few_is_believed_after_one_that_missed_many() -> None:
    assert judged(names(3, start=60), 100, frozenset(names(50))).gone == tuple(names(3, start=60))


def test_what_came_back_is_no_longer_held() -> None:
    assert judged([], 100, frozenset(names(50))) == Judged((), NOTHING_HELD)


def test_two_lists_that_contradict_each_other_take_nothing_away() -> None:
    """A line that loses a fifth of every list would else cost a twenty-fifth of the fleet."""
    first, second = frozenset(names(20)), names(20, start=11)

    assert judged(second, 100, first) == Judged((), frozenset(second))


def test_half_in_common_is_agreement() -> None:
    first, second = frozenset(names(20)), names(20, start=10)

    assert judged(second, 100, first).gone == tuple(names(10, start=10))


def test_the_limits_can_be_set() -> None:
    options = AbsenceOptions(missing_min=1, missing_percent=50)

    assert judge(names(1), NOTHING_HELD, machines=2, options=options).held == set(names(1))
    assert judge(names(1), NOTHING_HELD, machines=3, options=options).gone == tuple(names(1))


@pytest.mark.parametrize("settings", [{"missing_min": 0}, {"missing_percent": 101}])
def test_limits_that_make_no_sense_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(Rejected, match="doubted"):
        AbsenceOptions(**settings)
