"""Where time comes in."""

from datetime import UTC, datetime

import pytest

from mainstay.runtime.clock import Clock, StepClock, SystemClock


@pytest.fixture(params=[SystemClock, StepClock])
def clock(request: pytest.FixtureRequest) -> Clock:
    made: Clock = request.param()
    return made


class TestEveryClock:
    """The fake keeps what the real one promises."""

    def test_elapsed_time_never_goes_backwards(self, clock: Clock) -> None:
        readings = [clock.elapsed_s() for _ in range(1000)]

        assert readings == sorted(readings)

    def test_times_are_seconds_as_floats(self, clock: Clock) -> None:
        assert isinstance(clock.now_s(), float)
        assert isinstance(clock.elapsed_s(), float)


class TestSystemClock:
    def test_now_is_seconds_since_the_epoch(self) -> None:
        """A date long past and one far ahead: nothing here depends on today."""
        past, future = (datetime(year, 1, 1, tzinfo=UTC).timestamp() for year in (2024, 2200))

        assert past < SystemClock().now_s() < future


class TestStepClock:
    def test_it_moves_only_when_told_to(self) -> None:
        clock = StepClock(100.0)

        before = clock.now_s()
        clock.advance(2.5)

        assert (before, clock.now_s(), clock.elapsed_s()) == (100.0, 102.5, 102.5)

    def test_it_does_not_move_backwards(self) -> None:
        clock = StepClock(100.0)

        with pytest.raises(ValueError, match="time does not go backwards: -1"):
            clock.advance(-1)

        assert clock.now_s() == 100.0
