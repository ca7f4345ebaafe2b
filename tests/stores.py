"""Stores of a coordinator for tests, on real members of etcd and on a file."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from etcd_servers import EtcdServers
from mainstay.coordinator.embedded import EmbeddedStore
from mainstay.coordinator.etcd import CALL_S, EtcdStore
from mainstay.coordinator.store import Leadership, Store
from mainstay.model.errors import Unavailable
from mainstay.runtime.clock import StepClock

LEASE_S: Final = 2.0
PATIENCE_S: Final = 20.0
PREFIXES = itertools.count()

AnswerT = TypeVar("AnswerT")
Scenario = Callable[["Backend"], Awaitable[None]]


@dataclass(slots=True)
class Backend:
    """Stores that share what they hold, and how to let a lease run out."""

    opened: list[Store]
    another: Callable[[float], Store]
    let_leases_end: Callable[[], Awaitable[None]]

    def open(self, *, lease_s: float = LEASE_S) -> Store:
        self.opened.append(self.another(lease_s))
        return self.opened[-1]

    async def led(
        self, candidate: str = "a", *, lease_s: float = LEASE_S
    ) -> tuple[Store, Leadership]:
        store = self.open(lease_s=lease_s)
        leadership = await store.campaign(candidate=candidate, address=f"{candidate}:1")
        assert leadership
        return store, leadership

    def run(self, scenario: Scenario) -> None:
        async def to_its_end() -> None:
            try:
                await scenario(self)
            finally:
                for store in self.opened:
                    await store.close()

        asyncio.run(to_its_end())


def on_etcd(servers: EtcdServers, *, call_s: float = CALL_S, first: int = 0) -> Backend:
    """Its stores ask that member first."""
    prefix = f"suite-{next(PREFIXES)}/"

    endpoints = [*servers.endpoints[first:], *servers.endpoints[:first]]

    def another(lease_s: float) -> Store:
        return EtcdStore(endpoints, prefix=prefix, lease_s=lease_s, call_s=call_s)

    async def let_leases_end() -> None:
        store = another(LEASE_S)
        assert await store.leaderless(patience_s=10.0)
        await store.close()

    return Backend([], another, let_leases_end)


def on_a_file(path: Path) -> Backend:
    clock = StepClock(1_000.0)

    async def let_leases_end() -> None:
        clock.advance(LEASE_S)

    return Backend(
        [], lambda lease_s: EmbeddedStore(path, clock=clock, lease_s=lease_s), let_leases_end
    )


async def held(store: Store) -> Mapping[str, bytes]:
    return {key: entry.value for key, entry in (await store.load()).entries.items()}


async def patiently(ask: Callable[[], Awaitable[AnswerT]]) -> AnswerT:
    """Ask until there is an answer."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await ask()
            except Unavailable:
                await asyncio.sleep(0.05)
