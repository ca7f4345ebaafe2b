"""How an account stands, and what is told of it: each thing once per episode."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.tenancy.billing.standing import Standing, State, Step, steps

HOUR = 3600


def standing(balance: int, *, low: int = 100, hour: int = 0) -> Standing:
    return Standing(
        account="acc", currency="USD", balance_minor=balance, low_minor=low, hour_minor=hour
    )


@pytest.mark.parametrize(
    ("balance", "hour", "expected"),
    [
        (101, 0, State.HEALTHY),
        (101, 100, State.HEALTHY),
        (101, 101, State.PENDING),
        (100, 0, State.LOW),
        (100, 100, State.PENDING),
        (1, 0, State.LOW),
        (0, 0, State.DEPLETED),
        (-1, 900, State.DEPLETED),
    ],
)
def test_the_state_is_the_worst_that_is_true(balance: int, hour: int, expected: State) -> None:
    assert standing(balance, hour=hour).state(HOUR) is expected


def test_a_balance_lasts_as_long_as_what_is_running_takes_to_use_it_up() -> None:
    assert standing(45, hour=900).lasts_s == 180
    assert standing(-5, hour=900).lasts_s == 0
    assert standing(45).lasts_s is None


def test_a_threshold_below_zero_does_not_hide_a_depletion() -> None:
    assert standing(0, low=-500).is_low
    assert steps(standing(0, low=-500), None, HOUR) == (Step.BEGIN, Step.WARN, Step.DEPLETE)


@pytest.mark.parametrize(
    ("now", "told", "expected"),
    [
        (standing(500), None, ()),
        (standing(500), {Step.WARN}, (Step.END,)),
        (standing(90), None, (Step.BEGIN, Step.WARN)),
        (standing(90), {Step.WARN}, ()),
        (standing(90, hour=90), {Step.WARN}, (Step.PEND,)),
        (standing(500, hour=500), None, (Step.BEGIN, Step.PEND)),
        (standing(500, hour=400), {Step.PEND}, (Step.END,)),
        (standing(0), {Step.WARN}, (Step.DEPLETE,)),
        (standing(0), None, (Step.BEGIN, Step.WARN, Step.DEPLETE)),
        (standing(-9), {Step.WARN, Step.DEPLETE}, ()),
    ],
)
def test_what_is_told(now: Standing, told: set[Step] | None, expected: tuple[Step, ...]) -> None:
    assert steps(now, None if told is None else frozenset(told), HOUR) == expected


def test_a_top_up_that_is_too_small_begins_a_new_episode_so_that_depletion_is_told_again() -> None:
    told = frozenset({Step.WARN, Step.DEPLETE})

    assert steps(standing(50), told, HOUR) == (Step.END, Step.BEGIN, Step.WARN)


def test_a_top_up_above_the_threshold_ends_the_warning_even_while_much_is_running() -> None:
    told = frozenset({Step.WARN, Step.PEND})

    assert steps(standing(200, hour=900), told, HOUR) == (Step.END, Step.BEGIN, Step.PEND)


@given(
    changes=st.lists(
        st.tuples(st.integers(-120, 300), st.sampled_from((0, 60, 400))), min_size=1, max_size=30
    )
)
def test_nothing_is_told_twice_until_it_was_untrue_or_the_episode_ended(
    changes: list[tuple[int, int]],
) -> None:
    told: frozenset[Step] | None = None
    for balance, hour in changes:
        now = standing(balance, hour=hour)
        for step in steps(now, told, HOUR):
            if step is Step.END:
                assert told is not None
                told = None
            elif step is Step.BEGIN:
                assert told is None
                told = frozenset()
            else:
                assert told is not None
                assert step not in told
                told |= {step}
        assert steps(now, told, HOUR) == ()
        assert (told is None) == (now.state(HOUR) is State.HEALTHY)
        assert (told is not None and Step.DEPLETE in told) == now.is_depleted
        assert (told is not None and Step.WARN in told) == now.is_low
