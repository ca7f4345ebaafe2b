"""Providers that were listed in an earlier life of this shard and are not yet in this one.

Their machines may serve what is asked for, and nobody here knows them. To acquire others meanwhile
would buy everything twice, so nothing is, for a while.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from mainstay.model.errors import Unavailable
from mainstay.runtime.aside import Aside
from mainstay.runtime.clock import Clock
from mainstay.shard.events import Event
from mainstay.shard.ports import Journal


class KeptListed(Protocol):
    """Where the names of providers that were ever listed survive a restart."""

    @property
    def value(self) -> frozenset[str] | None:
        """As they were kept last; None: nobody ever did."""

    def keep(self, value: frozenset[str]) -> None:
        """Keep these from now on; Unavailable, and then the old ones stay."""


class EverListed:
    """The providers that were ever listed, by name. Kept beside the event loop, for later lives."""

    def __init__(
        self,
        sources: Iterable[str],
        kept: KeptListed,
        *,
        is_new: bool,
        journal: Journal,
        aside: Aside,
        on_kept: Callable[[], None] = lambda: None,
    ) -> None:
        """`is_new`: this is the first life there is. `on_kept` hears that names were kept which
        somebody has asked for in vain.

        Whoever was never listed has no machine that we bound. A directory that does not say who was
        listed may be of any age: then everybody may have been.
        """
        self._kept = kept
        self._journal = journal
        self._aside = aside
        self._on_kept = on_kept
        self._missed = self._refused = False
        self._sources = frozenset(sources)
        before = frozenset[str]() if is_new else kept.value
        self._names = self._sources if before is None else before
        self._heard = asyncio.Event()
        self._heard.set()

    def now(self) -> frozenset[str]:
        """Those of them that there still are."""
        return self._names & self._sources

    def add(self, name: str) -> None:
        """A list of it was taken in."""
        self._names |= {name}
        if self._kept.value != self._names:
            self._heard.set()

    def unkept(self) -> frozenset[str]:
        """Those that a later life would not wait for. Before it would, nothing is acquired through
        them: what then served would be bought again.
        """
        names = self._sources - (self._kept.value or frozenset())
        self._missed |= bool(names & self._names)
        return names

    def is_kept(self, name: str) -> bool:
        """Whether a later life would wait for this provider."""
        kept = name not in self.unkept()
        self._missed |= not kept
        return kept

    def refused(self) -> frozenset[str]:
        """The same once the disk has refused to take them, until it does. While it is still at it
        the wait is short, and what they have may be the best there is.
        """
        return self.unkept() if self._refused else frozenset()

    async def run(self) -> None:
        """Keep them, until cancelled."""
        while True:
            await self._heard.wait()
            self._heard.clear()
            await self.save()

    async def save(self) -> None:
        """Keep them now. If the disk does not take it, the next list tries again."""
        names = self._names
        if self._kept.value == names:
            return
        try:
            await self._aside(lambda: self._kept.keep(names))
        except Unavailable as error:
            self._refused = True
            self._journal.noticed(Event.LISTED_NOT_SAVED, why=error.message)
            return
        self._refused = False
        if self._missed:
            self._missed = False
            self._on_kept()


class Awaited:
    """Who is waited for. Lives on the event loop. On a new data directory nobody is."""

    def __init__(self, ever: EverListed, *, wait_s: float, clock: Clock, journal: Journal) -> None:
        self.ever = ever
        self._clock = clock
        self._journal = journal
        self._names = ever.now() if wait_s else frozenset[str]()
        self._until_s = clock.elapsed_s() + wait_s

    def names(self) -> frozenset[str]:
        """Who is waited for now; whoever has not come in time is given up, and that is told."""
        if self._names and self._clock.elapsed_s() >= self._until_s:
            for name in sorted(self._names):
                self._journal.noticed(Event.PROVIDER_NOT_AWAITED, reason=name, provider=name)
            self._names = frozenset()
        return self._names

    def why(self) -> str:
        """Why nothing is acquired yet, in one line; empty when nobody is waited for."""
        names = sorted(self.names())
        if not names:
            return ""
        left_s = self._until_s - self._clock.elapsed_s()
        whom = f"provider{'s' * (len(names) > 1)} {', '.join(names)}"
        return (
            f"nothing is acquired before the first list of {whom} since the start, whose machines"
            f" may serve what is asked for; for {left_s:.0f} s at most"
        )

    def listed(self, name: str) -> None:
        """A list of it was taken in: its machines are known."""
        self._names -= {name}
        self.ever.add(name)
