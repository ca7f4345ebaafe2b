"""Trying again, with pauses that grow up to a ceiling."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from mainstay.model.errors import Unavailable

AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """How pauses grow."""

    first_s: float = 0.5
    factor: float = 2.0
    longest_s: float = 30.0

    def pauses(self, random: Random) -> Iterator[float]:
        """One pause after another, each between half of its ceiling and all of it."""
        ceiling = self.first_s
        while True:
            yield ceiling * random.uniform(0.5, 1.0)
            ceiling = min(ceiling * self.factor, self.longest_s)


async def until_available(
    attempt: Callable[[], Awaitable[AnswerT]],
    pauses: Iterator[float],
    retried: Callable[[Unavailable], None],
) -> AnswerT:
    """Repeat while Unavailable is raised and there are pauses; the limit is the caller's."""
    while True:
        try:
            return await attempt()
        except Unavailable as error:
            pause_s = next(pauses, None)
            if pause_s is None:
                raise
            retried(error)
        await asyncio.sleep(pause_s)
