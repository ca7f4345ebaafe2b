"""How long a cluster waits before it dials again."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.model.errors import Rejected
from mainstay.session.reconnect import Pauses, ReconnectOptions

OPTIONS = ReconnectOptions()


@given(st.integers(0, 2**32), st.lists(st.floats(0, 100), min_size=1, max_size=100))
def test_every_pause_is_half_a_second_to_half_a_minute(seed: int, lasted: list[float]) -> None:
    pauses = Pauses(Random(seed), OPTIONS)

    assert all(0.5 <= pauses.after(seconds) <= 30.0 for seconds in lasted)


def longest(attempts: int) -> float:
    """The longest pause that any of a thousand clusters takes after so many failures."""
    found = []
    for seed in range(1000):
        pauses = Pauses(Random(seed), OPTIONS)
        found.append([pauses.after(0.0) for _ in range(attempts)][-1])
    return max(found)


def test_the_ceiling_doubles_up_to_half_a_minute() -> None:
    ceilings = [longest(attempts) for attempts in range(1, 9)]

    assert [round(ceiling) for ceiling in ceilings] == [1, 2, 4, 8, 16, 30, 30, 30]


def test_not_all_come_back_at_the_same_moment() -> None:
    firsts = {Pauses(Random(seed), OPTIONS).after(0.0) for seed in range(1000)}

    assert len(firsts) == 1000
    assert max(firsts) - min(firsts) > 0.45


def test_after_a_session_that_lasted_the_next_pause_is_short_again() -> None:
    pauses = Pauses(Random(1), OPTIONS)
    for _ in range(10):
        pauses.after(0.0)

    assert pauses.after(OPTIONS.steady_s) <= 1.0


def test_a_session_that_was_replaced_at_once_does_not_count_as_one() -> None:
    """Or two processes of one cluster would throw each other out as fast as they can."""
    pauses = Pauses(Random(1), OPTIONS)
    seen = [pauses.after(9.9) for _ in range(20)]

    assert max(seen) > 10.0


@pytest.mark.parametrize(("shortest", "longest_"), [(0.0, 1.0), (2.0, 1.0), (-1.0, 1.0)])
def test_pauses_that_make_no_sense_are_refused(shortest: float, longest_: float) -> None:
    with pytest.raises(Rejected, match="must be positive and grow"):
        ReconnectOptions(shortest_s=shortest, longest_s=longest_)
