"""Providers that were listed in an earlier life of this shard and are not yet in this one.

Their machines may serve what is asked for, and nobody here knows them. To acquire others meanwhile
would buy everything twice, so nothing is, for a while.
"""

from collections.abc import Iterable
from typing import Protocol

from mainstay.model.errors import Unavailable
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


class Awaited:
    """Who is waited for. Lives on the event loop.

    Whoever was never listed has no machine that we bound: on a new data directory nobody is waited
    for. A directory that does not say who was listed may be of any age: then everybody is.
    """

    def __init__(
        self,
        sources: Iterable[str],
        kept: KeptListed,
        *,
        is_new: bool,
        wait_s: float,
        clock: Clock,
        journal: Journal,
    ) -> None:
        """`is_new`: this is the first life there is."""
        self._kept = kept
        self._clock = clock
        self._journal = journal
        sources = frozenset(sources)
        before = frozenset[str]() if is_new else kept.value
        self._known = sources if before is None else before
        self._names = self._known & sources if wait_s else frozenset[str]()
        self._until_s = clock.elapsed_s() + wait_s
        self._keep()

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
        """A list of it was taken in: its machines are known, and this is kept for later lives."""
        self._names -= {name}
        self._known |= {name}
        self._keep()

    def _keep(self) -> None:
        """For later lives. If the disk does not take it, the next list tries again."""
        if self._kept.value == self._known:
            return
        try:
            self._kept.keep(self._known)
        except Unavailable as error:
            self._journal.noticed(Event.LISTED_NOT_SAVED, why=error.message)
