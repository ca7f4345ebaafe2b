"""Whoever tries one thing after another ends in time."""

from mainstay.runtime.clock import StepClock
from mainstay.runtime.patience import Patience


def tries(*lengths_s: float, before_s: float = 0.0) -> int:
    """How many of these are begun by somebody who has half a second."""
    clock = StepClock()
    patience = Patience(clock, 0.5)
    clock.advance(before_s)
    for done, length_s in enumerate(lengths_s):
        if patience.is_over():
            return done
        clock.advance(length_s)
    return len(lengths_s)


def test_a_try_is_begun_if_one_like_the_longest_ends_in_time() -> None:
    assert tries(0.125, 0.125, 0.125, 0.125, 0.125) == 3


def test_after_a_long_one_there_is_no_other() -> None:
    assert tries(0.3, 0.01) == 1


def test_what_came_before_the_first_counts_but_is_no_try() -> None:
    assert tries(0.1, 0.1, before_s=0.35) == 1


def test_who_is_late_tries_nothing() -> None:
    assert tries(0.1, before_s=0.5) == 0
