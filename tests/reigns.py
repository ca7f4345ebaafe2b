"""A leader over a store in a file, whose writes fail when a test says so."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from coordinating import NOW, PROVIDERS
from mainstay.coordinator import reports
from mainstay.coordinator.embedded import EmbeddedStore
from mainstay.coordinator.leading import Reign
from mainstay.coordinator.metrics import CoordinatorMetrics
from mainstay.coordinator.reigning import Decide, Reigning
from mainstay.coordinator.store import Change, Leadership, Store
from mainstay.model.coordination import ShardReport
from mainstay.model.ids import ShardId
from mainstay.runtime.clock import StepClock

START_S: Final = 1_700_000_000.0


class Fault(NamedTuple):
    """What becomes of one write."""

    error: BaseException
    is_stored: bool = False
    """Whether the store has it all the same."""


@dataclass(slots=True)
class RiggedLeadership:
    """A real one; the next writes end as the faults say."""

    real: Leadership
    faults: deque[Fault] = field(default_factory=deque)

    @property
    def term(self) -> int:
        return self.real.term

    async def renew(self) -> None:
        await self.real.renew()

    async def commit(self, change: Change) -> int:
        if not self.faults:
            return await self.real.commit(change)
        fault = self.faults.popleft()
        if fault.is_stored:
            await self.real.commit(change)
        raise fault.error

    async def resign(self) -> None:
        await self.real.resign()


@dataclass(slots=True)
class Stage:
    """One leader, and what is around it."""

    store: Store
    leadership: RiggedLeadership
    reigning: Reigning
    metrics: CoordinatorMetrics
    clock: StepClock

    def will_fail(self, error: BaseException, *, is_stored: bool = False) -> None:
        """The next write."""
        self.leadership.faults.append(Fault(error, is_stored))

    async def next_reign(self) -> Reigning:
        """The leader goes, and another comes that knows only what is stored."""
        await self.leadership.resign()
        return await _reigning(self.store, self.clock, self.metrics, self.leadership)

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"mainstay_coordinator_{name}", labels)


def on_stage(folder: Path, scenario: Callable[[Stage], Awaitable[None]]) -> None:
    """Run a scenario with a leader that has read its state."""

    async def played() -> None:
        clock, metrics = StepClock(START_S), CoordinatorMetrics()
        store = EmbeddedStore(folder / "coordinator.db", clock=clock, lease_s=1_000_000.0)
        leadership = RiggedLeadership(await _led(store))
        reigning = await _reigning(store, clock, metrics, leadership)
        try:
            await scenario(Stage(store, leadership, reigning, metrics, clock))
        finally:
            await store.close()

    asyncio.run(played())


def a_report(shard: ShardId, number: int = 1, **parts: Any) -> ShardReport:
    """Of a shard of ours, in its first life."""
    given: dict[str, Any] = {"epoch": 1, "can_hand_over": True, "address": "127.0.0.1:9"}
    given |= {"providers": PROVIDERS}
    return ShardReport(shard=shard, number=number, **given | parts)


def taking(report: ShardReport, now_ns: int = NOW) -> Decide:
    """What a report does to a fleet."""
    return lambda fleet: reports.taken_in(
        fleet, report, certified=True, now_ns=now_ns, conflicts=[]
    )


async def _led(store: Store) -> Leadership:
    leadership = await store.campaign(candidate="c-0", address="127.0.0.1:1")
    assert leadership is not None
    return leadership


async def _reigning(
    store: Store, clock: StepClock, metrics: CoordinatorMetrics, rigged: RiggedLeadership
) -> Reigning:
    if await store.leader() is None:
        rigged.real = await _led(store)
    reign = Reign(rigged, clock, clock.elapsed_s() + 1_000_000)
    reigning = Reigning(reign, store, clock, metrics)
    await reigning.load()
    return reigning
