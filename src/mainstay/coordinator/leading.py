"""Leading while the lease holds, following otherwise.

A leader that is stopped, or that the store does not answer, cannot know who leads. So it counts its
lease by its own monotonic clock from before it asked for it, and stops acting a little before the
store could give it to another. Its writes would be refused then anyway.
"""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random, SystemRandom
from typing import Final, Protocol

from mainstay.coordinator.store import Change, Deposed, Leader, Leadership, Store
from mainstay.model.errors import Unavailable
from mainstay.runtime.beside import beside
from mainstay.runtime.clock import Clock
from mainstay.runtime.log import logger

RENEWALS_A_LEASE: Final = 3

MARGIN: Final = 0.1
"""So much of a lease is given up, for two clocks that do not run alike and for work under way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadingOptions:
    """How eager a coordinator is."""

    pause_s: float = 0.2
    """After the store did not answer, or a reign ended by a failure."""

    jitter_s: float = 0.05
    """At most; so that those who wait do not all campaign in the same moment."""

    random: Random = field(default_factory=SystemRandom)


class Reign:
    """One leadership, from winning to losing it. Once it is over it stays over."""

    def __init__(self, leadership: Leadership, clock: Clock, until_s: float) -> None:
        self._leadership = leadership
        self._clock = clock
        self._until_s = until_s
        self._ended = asyncio.Event()

    @property
    def term(self) -> int:
        """Greater than that of every leader before."""
        return self._leadership.term

    def left_s(self) -> float:
        """How long it surely lasts, if it is not extended."""
        return max(0.0, self._until_s - self._clock.elapsed_s())

    def is_valid(self) -> bool:
        """Whether surely nobody else leads."""
        return self.left_s() > 0

    async def commit(self, change: Change) -> int:
        """Write; the revision. Errors as of `Leadership.commit`, and Deposed when it is over."""
        if not self.is_valid():
            raise Deposed(f"the lease of term {self.term} has run out")
        try:
            return await self._leadership.commit(change)
        except Deposed:
            self.end()
            raise

    def extend(self, until_s: float) -> None:
        """It holds until then, unless it is over."""
        if self.is_valid():
            self._until_s = max(self._until_s, until_s)

    def end(self) -> None:
        """It is over."""
        self._until_s = float("-inf")
        self._ended.set()

    async def ended(self, *, patience_s: float) -> bool:
        """Wait for the end, at most so long; whether it is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, min(patience_s, self.left_s()))):
                await self._ended.wait()
        return not self.is_valid()


class Rule(Protocol):
    """What a leader does. It is cancelled when the reign is over; when it returns, or raises an
    error that passes, another may lead.
    """

    def __call__(self, reign: Reign, /) -> Awaitable[None]:
        """Act."""


class Leading:
    """One candidate."""

    def __init__(
        self,
        store: Store,
        *,
        candidate: str,
        address: str,
        clock: Clock,
        options: LeadingOptions | None = None,
    ) -> None:
        self._store = store
        self._candidate = candidate
        self._address = address
        self._clock = clock
        self._options = options or LeadingOptions()
        self._valid_s = store.lease_s * (1 - MARGIN)
        self._leader: Leader | None = None
        self._reign: Reign | None = None
        self._log = logger(candidate=candidate)

    @property
    def leader(self) -> Leader | None:
        """Who leads, as far as is known here; None when nobody does."""
        return self._leader

    @property
    def reign(self) -> Reign | None:
        """Ours, while it is valid."""
        return self._reign if self._reign is not None and self._reign.is_valid() else None

    async def run(self, rule: Rule) -> None:
        """Campaign for ever, and rule while leading. An error that does not pass ends it."""
        while True:
            leadership, until_s = await self._won()
            self._leader = Leader(self._candidate, self._address, leadership.term)
            self._reign = Reign(leadership, self._clock, until_s)
            self._log.info("leadership_won", term=leadership.term)
            why = await self._ruled(rule, self._reign, leadership)
            self._log.info("leadership_ended", term=leadership.term, why=why)
            await asyncio.sleep(self._options.pause_s)

    async def _ruled(self, rule: Rule, reign: Reign, leadership: Leadership) -> str:
        """Rule to the end; why it ended. The lease is given back only when nobody acts on it."""
        try:
            await beside(rule(reign), self._held(reign, leadership))
        except (Deposed, Unavailable) as error:
            return error.message
        else:
            return "stepped down"
        finally:
            reign.end()
            self._leader, self._reign = None, None
            await leadership.resign()

    async def _held(self, reign: Reign, leadership: Leadership) -> None:
        """Renew as long as that can be done in time, then raise Deposed."""
        every_s = self._store.lease_s / RENEWALS_A_LEASE
        since_asked_s = self._valid_s - reign.left_s()
        pause_s = every_s - since_asked_s
        while not await reign.ended(patience_s=pause_s):
            asked_s = self._clock.elapsed_s()
            try:
                async with asyncio.timeout(reign.left_s()):
                    await leadership.renew()
            except Deposed:
                reign.end()
                raise
            except (Unavailable, TimeoutError) as error:
                why = str(error) or "no answer in time"
                self._log.warning("lease_not_renewed", term=reign.term, error=why)
                pause_s = min(every_s, self._options.pause_s)
            else:
                reign.extend(asked_s + self._valid_s)
                pause_s = asked_s + every_s - self._clock.elapsed_s()
        raise Deposed(f"the lease of term {reign.term} has run out")

    async def _won(self) -> tuple[Leadership, float]:
        """Follow until nobody leads, then campaign until it is won."""
        options = self._options
        while True:
            try:
                self._leader = await self._store.leader()
                if self._leader is None:
                    asked_s = self._clock.elapsed_s()
                    won = await self._store.campaign(
                        candidate=self._candidate, address=self._address
                    )
                    if won is not None:
                        return won, asked_s + self._valid_s
                elif await self._store.leaderless(patience_s=self._store.lease_s):
                    self._leader = None
                    await asyncio.sleep(options.random.uniform(0, options.jitter_s))
            except Unavailable as error:
                self._log.warning("store_unavailable", error=error.message, detail=error.detail)
                await asyncio.sleep(options.pause_s)
