"""Where heavy work goes that must not stop an event loop."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

AnswerT = TypeVar("AnswerT")


class Aside(Protocol):
    """Runs heavy pure work beside the event loop: `asyncio.to_thread`, or in a test at once."""

    def __call__(self, work: Callable[[], AnswerT], /) -> Awaitable[AnswerT]:
        """What the work returns or raises, when it is done."""
