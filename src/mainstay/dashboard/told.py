"""Answers with their age: the last one is kept, and one that got old says since when."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar
from weakref import WeakValueDictionary

from mainstay.model.errors import MainstayError, Rejected
from mainstay.runtime.clock import Clock

T = TypeVar("T")

FRESH_S: Final = 1.0
"""The same question is not asked again so soon, however many look."""

LONG_AGO_S: Final = float("-inf")
KEPT_MAX: Final = 1_000
REASON_MAX: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Told(Generic[T]):
    """What somebody said, or did not."""

    source: str
    value: T | None = None
    at_s: float = 0.0
    """When it was said; zero: never."""

    error: str = ""
    """Why there is nothing newer; empty: there is nothing newer to have."""

    since_s: float = 0.0
    """Since when there is not: from the last answer on, or from the first question."""

    refused: bool = False
    """It was answered, with no: a matter of the question, not of the moment."""

    @property
    def is_stale(self) -> bool:
        """Whether the numbers are those of another time."""
        return bool(self.error) and not self.refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long one question may take, and for how long its answer will do."""

    deadline_s: float
    fresh_s: float = FRESH_S


class Answers:
    """Asks, each with a deadline, and remembers what was said last."""

    def __init__(self, clock: Clock, *, deadline_s: float, fresh_s: float = FRESH_S) -> None:
        self._clock, self._deadline_s, self._fresh_s = clock, deadline_s, fresh_s
        self._kept: OrderedDict[tuple[str, Hashable], tuple[float, Told[Any]]] = OrderedDict()
        self._silent: dict[str, tuple[float, str]] = {}
        # Each lock lives as long as somebody holds it or waits for it, and no longer.
        self._asking: WeakValueDictionary[tuple[str, Hashable], asyncio.Lock] = (
            WeakValueDictionary()
        )

    async def ask(
        self,
        source: str,
        key: Hashable,
        question: Callable[[], Awaitable[T]],
        patience: Patience | None = None,
    ) -> Told[T]:
        """The answer, or the last one with the reason why it is old. Never raises for that."""
        place = (source, key)
        patience = patience or Patience(deadline_s=self._deadline_s, fresh_s=self._fresh_s)
        async with self._asking.setdefault(place, asyncio.Lock()):
            nothing: Told[T] = Told(source=source)
            asked_s, kept = self._kept.get(place, (LONG_AGO_S, nothing))
            fresh_s = FRESH_S if kept.is_stale else patience.fresh_s
            if kept is not nothing and self._clock.now_s() - asked_s < fresh_s:
                return kept
            told = await self._asked(kept, question, patience.deadline_s)
            self._keep(place, told)
        return told

    async def _asked(
        self, kept: Told[T], question: Callable[[], Awaitable[T]], deadline_s: float
    ) -> Told[T]:
        silent_s, why = self._silent.get(kept.source, (LONG_AGO_S, ""))
        if self._clock.now_s() - silent_s < FRESH_S:
            return self._old(kept, why)  # a page waits once for who is silent, not once a question
        try:
            async with asyncio.timeout(deadline_s):
                value = await question()
        except Rejected as error:
            return Told(
                source=kept.source,
                error=error.message,
                since_s=self._clock.now_s(),
                refused=error.code != "not_allowed",
            )
        except MainstayError as error:
            return self._old(kept, error.message)
        except TimeoutError:
            why = f"no answer within {deadline_s:g} s"
            if deadline_s <= self._deadline_s:  # what may take longer says nothing about the rest
                self._silent[kept.source] = (self._clock.now_s(), why)
            return self._old(kept, why)
        self._silent.pop(kept.source, None)
        return Told(source=kept.source, value=value, at_s=self._clock.now_s())

    def _old(self, kept: Told[T], why: str) -> Told[T]:
        since_s = kept.since_s or kept.at_s or self._clock.now_s()
        return Told(
            source=kept.source,
            value=kept.value,
            at_s=kept.at_s,
            error=why[:REASON_MAX],
            since_s=since_s,
        )

    def _keep(self, place: tuple[str, Hashable], told: Told[Any]) -> None:
        self._kept[place] = (self._clock.now_s(), told)
        self._kept.move_to_end(place)
        while len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)

    def forget(self, source: str) -> None:
        """Ask anew the next time: something was changed there. What is known is still known."""
        for place, (_, told) in list(self._kept.items()):
            if place[0] == source:
                self._kept[place] = (LONG_AGO_S, told)
