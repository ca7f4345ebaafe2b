"""Keeps the book beside the loop: after a cycle it asks what was charged, and now and then saves.

Nothing waits for it. A provider that does not answer is asked again after the next cycle.
"""

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from mainstay.model.charges import ChargeMark, Meter
from mainstay.model.errors import MainstayError, NotSupported
from mainstay.model.profile import CapacityType
from mainstay.runtime.aside import Aside
from mainstay.runtime.clock import Clock
from mainstay.shard.events import Event
from mainstay.shard.facts import Published
from mainstay.shard.money.account import ClassRate
from mainstay.shard.money.book import Book, Kept
from mainstay.shard.ports import Journal

SAVE_S: Final = 30.0
"""The book is saved so often, if it has changed; a new one at once, so that a kill cannot make
counting begin anew."""

TABS_PER_S: Final = 1_000.0
"""And not more often than so many machines a second allow: a large book is saved less often."""

MUTE_S: Final = 600.0
"""A provider that does not tell what it charges is asked again after so long."""

CHARGES_S: Final = 5.0
"""How long a provider has to say what it charged."""


class Safe(Protocol):
    """Where a book is put away."""

    @property
    def value(self) -> Kept | None:
        """As it was put away last."""

    def keep(self, value: Kept) -> None:
        """Put it away; Unavailable when that fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoneyTools:
    """What keeping a book takes."""

    meters: Mapping[str, Meter]
    """By the name of the provider; others are counted by what is seen."""

    safe: Safe
    published: Callable[[], Published | None]
    journal: Journal
    clock: Clock
    aside: Aside
    sources: frozenset[str] = field(default_factory=frozenset)
    shown: Callable[[Mapping[CapacityType, ClassRate]], None] = lambda _: None
    """Is told the rates after each plan."""


class Money:
    """The book of a running shard."""

    def __init__(self, tools: MoneyTools) -> None:
        self._tools = tools
        kept = tools.safe.value or Kept(since_s=tools.clock.now_s())
        self.book = Book(kept)
        self._woken = asyncio.Event()
        self._saved_s = tools.clock.elapsed_s() if tools.safe.value else -math.inf
        self._mute_until_s: dict[str, float] = {}
        self._waiting: list[ChargeMark] = []
        """Marks that were told and not booked yet."""

    @property
    def as_seen(self) -> tuple[str, ...]:
        """Providers whose moments are those at which the shard saw a change."""
        return tuple(sorted(self._tools.sources - self.book.cursors.keys()))

    def cycled(self) -> None:
        """There is a new plan."""
        self._woken.set()

    async def run(self) -> None:
        """Until cancelled."""
        await self._ask_all()
        while True:
            await self._woken.wait()
            self._woken.clear()
            try:
                await self.step()
            except Exception as error:  # noqa: BLE001 - counting must not end the shard
                self._begin_again(error)

    async def step(self) -> None:
        """Bring the book up to the last plan."""
        published = self._tools.published()
        await self._ask_all()
        if published is None:
            return
        marks, self._waiting = self._waiting, []
        self.book.follow(published.plan, published.at_s, marks)
        self._tools.shown(self.book.account.by_class())
        await self._save_when_due()

    def _begin_again(self, defect: Exception) -> None:
        """Whatever a defect left of the book is not believed: go on from what was put away."""
        tools = self._tools
        self.book = Book(tools.safe.value or Kept(since_s=tools.clock.now_s()))
        self._waiting = []
        told = f"{type(defect).__name__}: {defect}"
        tools.journal.noticed(Event.MONEY_FAILED, why=told)

    async def _ask_all(self) -> None:
        for source, meter in self._tools.meters.items():
            if self._tools.clock.elapsed_s() < self._mute_until_s.get(source, 0.0):
                continue
            try:
                async with asyncio.timeout(CHARGES_S):
                    await self._ask(source, meter)
            except NotSupported:
                self._mute_until_s[source] = self._tools.clock.elapsed_s() + MUTE_S
            except (MainstayError, TimeoutError) as error:
                self._tools.journal.noticed(
                    Event.CHARGES_NOT_TOLD, provider=source, why=str(error) or "no answer in time"
                )

    async def _ask(self, source: str, meter: Meter) -> None:
        more = True
        while more:
            charges = await meter.charges(self.book.cursors.get(source, b""))
            self._waiting.extend(charges.marks)
            self.book.cursors[source] = charges.cursor
            more = charges.more

    async def _save_when_due(self) -> None:
        clock, book = self._tools.clock, self.book
        pause_s = max(SAVE_S, book.open_tabs / TABS_PER_S)
        if clock.elapsed_s() - self._saved_s >= pause_s:
            await self.save()

    async def save(self) -> None:
        """Put the book away now."""
        clock, safe = self._tools.clock, self._tools.safe
        self._saved_s = clock.elapsed_s()
        kept = self.book.kept(clock.now_s())
        try:
            await self._tools.aside(lambda: safe.keep(kept))
        except MainstayError as error:
            self._tools.journal.noticed(Event.MONEY_NOT_SAVED, why=error.message)
