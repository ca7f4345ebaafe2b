"""An event loop whose time passes only when nothing else can happen: no test waits, none is timed.

For code that lives in one thread. Sleeping an hour costs nothing, and what is due first runs first.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from typing_extensions import override

AnswerT = TypeVar("AnswerT")


class _Selector(selectors.DefaultSelector):
    """Turns waiting into the passing of time."""

    passed_s = 0.0

    @override
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0 if timeout is None or timeout > 0 else timeout)
        if not ready and timeout is None:
            raise AssertionError("everybody waits for somebody: this would never end")
        if not ready and timeout is not None and timeout > 0:
            self.passed_s += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Starts at second 0."""

    def __init__(self) -> None:
        self._passing = _Selector()
        super().__init__(self._passing)

    @override
    def time(self) -> float:
        return self._passing.passed_s


class LoopClock:
    """The clock of the loop that runs."""

    def now_s(self) -> float:
        return asyncio.get_running_loop().time()

    def elapsed_s(self) -> float:
        return asyncio.get_running_loop().time()


def run(scenario: Coroutine[Any, Any, AnswerT]) -> AnswerT:
    """Run to the end, in no time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(scenario)
