"""Whether this coordinator leads, and what runs while it does."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from mainstay.coordinator.leading import Leading, Reign
from mainstay.coordinator.metrics import CoordinatorMetrics
from mainstay.coordinator.reigning import Reigning
from mainstay.coordinator.store import Leader, Store
from mainstay.model.errors import MainstayError, NotLeading
from mainstay.runtime.beside import beside
from mainstay.runtime.clock import Clock
from mainstay.runtime.log import logger

SECOND_NS: Final = 1_000_000_000
DUTY_PAUSE_S: Final = 10.0

Duty = Callable[[Reigning], Awaitable[None]]
"""Something that only a leader does; it runs until it is cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a seat stands on."""

    id: str
    store: Store
    clock: Clock
    metrics: CoordinatorMetrics


class Seat:
    """Empty, or with the one reign there is here."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._leading: Leading | None = None
        self._reigning: Reigning | None = None

    @property
    def id(self) -> str:
        """Of this coordinator."""
        return self._ground.id

    @property
    def store(self) -> str:
        """Which engine, for people."""
        return self._ground.store.label

    @property
    def clock(self) -> Clock:
        """The time of all that is stamped here."""
        return self._ground.clock

    @property
    def leader(self) -> Leader | None:
        """Who leads, as far as is known here."""
        return None if self._leading is None else self._leading.leader

    @property
    def leads(self) -> bool:
        """Whether this one does, and has read its state."""
        return self._reigning is not None and self._reigning.is_valid

    @property
    def term(self) -> int:
        """Of the leadership that is here; 0 when there is none."""
        return 0 if self._reigning is None else self._reigning.term

    def now_ns(self) -> int:
        """Wall-clock time."""
        return int(self._ground.clock.now_s() * SECOND_NS)

    @property
    def reigning(self) -> Reigning:
        """The reign; NotLeading with the address of the one that leads where there is none."""
        if self._reigning is not None and self._reigning.is_valid:
            return self._reigning
        leader = self.leader
        if leader is None or leader.candidate == self.id:
            raise NotLeading(f"{self.id} does not lead, and nobody else is known to: try again")
        raise NotLeading(
            f"{self.id} does not lead: ask {leader.candidate} at {leader.address}",
            leader=leader.address,
        )

    def require_leading(self) -> None:
        """NotLeading when this one does not."""
        _ = self.reigning

    def require(self, reigning: Reigning) -> None:
        """NotLeading when this reign is over: to be asked before an answer goes out that had to
        wait, since a report that changes nothing never meets the store.
        """
        if self.reigning is not reigning:
            raise NotLeading(f"{self.id} has led in between anew: ask again")

    async def lead(self, leading: Leading, duties: Sequence[Duty]) -> None:
        """Campaign for ever; read the state and do the duties in every reign."""
        self._leading = leading

        async def rule(reign: Reign) -> None:
            await self._reign(reign, duties)

        await leading.run(rule)

    async def _reign(self, reign: Reign, duties: Sequence[Duty]) -> None:
        ground = self._ground
        reigning = Reigning(reign, ground.store, ground.clock, ground.metrics)
        await reigning.load()
        try:
            self._reigning = reigning
            ground.metrics.leads(reigning.term)
            await beside(reigning.over.wait(), *(_run(duty, reigning) for duty in duties))
        finally:
            self._reigning = None
            ground.metrics.follows()


async def _run(duty: Duty, reigning: Reigning) -> None:
    """A defect in a duty ends neither the reign nor the process: the state would bring it to the
    next leader, too. It is told, and the duty begins again after a while.
    """
    while True:
        try:
            await duty(reigning)
        except MainstayError:
            raise
        except Exception as error:  # noqa: BLE001 - the boundary of a duty
            logger(part="duty").error(
                "duty_failed", duty=getattr(duty, "__qualname__", ""), error=repr(error)
            )
        await asyncio.sleep(DUTY_PAUSE_S)
