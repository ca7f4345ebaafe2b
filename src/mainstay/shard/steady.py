"""A wall clock that nobody can set: how long something has lasted is measured on it."""

from mainstay.runtime.clock import Clock


class SteadyClock:
    """The wall clock as it stood when this life began, and from there on only what has passed.

    A machine's clock is set forward and back; what a machine has idled for must not be. For people
    it reads like the time of day, and is off by whatever the clock was set since the start.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_s = clock.now_s() - clock.elapsed_s()

    def now_s(self) -> float:
        """Never goes backwards, and never jumps."""
        return self._began_s + self._clock.elapsed_s()

    def elapsed_s(self) -> float:
        """As the clock has it."""
        return self._clock.elapsed_s()
