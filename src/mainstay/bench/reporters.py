"""Simulated shards that report through the client of real ones, and when each was answered."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

from mainstay.bench.fleet_shards import SimulatedShard
from mainstay.model.errors import MainstayError
from mainstay.runtime.clock import Clock
from mainstay.wire.coordinator_dialer import LIST_BYTES_MAX, CoordinatorDialer
from mainstay.wire.tls import Plaintext

AT_ONCE: Final = 8
PAUSE_S: Final = 0.05
"""Between two attempts while nobody leads: short, or it would be a part of what is measured."""


class Reporters:
    """All shards of a simulated fleet, each with a connection of its own."""

    def __init__(
        self,
        shards: Sequence[SimulatedShard],
        addresses: Sequence[str],
        clock: Clock,
        *,
        timeout_s: float,
    ) -> None:
        self._shards, self._clock = shards, clock
        self._dialers = [
            CoordinatorDialer(addresses, Plaintext(), timeout_s=timeout_s) for _ in shards
        ]
        self.admin = CoordinatorDialer(
            addresses, Plaintext(), timeout_s=timeout_s, answer_bytes_max=LIST_BYTES_MAX
        )
        self._first_s: list[dict[int, float]] = [{} for _ in shards]
        """For each shard, when it was first answered in each term."""

        self.took_ms: list[float] = []
        """Of every report that was answered, in order; its attempts before are not counted in."""

        self.refused = 0

    @property
    def term(self) -> int:
        """The highest that any of them has heard."""
        return max(shard.term for shard in self._shards)

    async def first_above(self, term: int) -> float | None:
        """When one of them was first answered in a higher term than this; None: not yet."""
        return min(self.answered_above(term), default=None)

    async def all_above(self, term: int) -> float | None:
        """When the last of them was; None: not yet."""
        heard = list(self.answered_above(term))
        return max(heard) if len(heard) == len(self._shards) else None

    def answered_above(self, term: int) -> Iterable[float]:
        """When each of them was, as far as they were."""
        for firsts in self._first_s:
            above = [at_s for at_term, at_s in firsts.items() if at_term > term]
            if above:
                yield min(above)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator["Reporters"]:
        """Connections end with the block."""
        try:
            yield self
        finally:
            for dialer in (*self._dialers, self.admin):
                await dialer.close()

    async def all_once(self) -> None:
        """Each of them until it is answered; some at once, or the last would wait for all."""
        waiting = iter(range(len(self._shards)))

        async def take_turns() -> None:
            for number in waiting:
                await self._answered(number)

        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(take_turns())

    @asynccontextmanager
    async def reporting(self, every_s: float, *, spread: bool = False) -> AsyncIterator[None]:
        """Each of them again and again inside the block, begun all at once or one by one."""
        is_over = asyncio.Event()

        async def keep_on(number: int) -> None:
            if spread:
                await asyncio.sleep(every_s * number / len(self._shards))
            while not is_over.is_set():
                await self._answered(number)
                with suppress(TimeoutError):
                    await asyncio.wait_for(is_over.wait(), every_s)

        async with asyncio.TaskGroup() as group:
            for number in range(len(self._shards)):
                group.create_task(keep_on(number))
            try:
                yield
            finally:
                is_over.set()

    async def _answered(self, number: int) -> None:
        """One shard until it is answered."""
        while True:
            if await self._once(number):
                return
            await asyncio.sleep(PAUSE_S)

    async def _once(self, number: int) -> bool:
        shard = self._shards[number]
        report, began_s = shard.report(self._clock.now_s()), self._clock.elapsed_s()
        try:
            ack = await self._dialers[number].report(report)
        except MainstayError:
            self.refused += 1
            return False
        now_s = self._clock.elapsed_s()
        shard.hear(report, ack)
        self._first_s[number].setdefault(ack.term, now_s)
        self.took_ms.append((now_s - began_s) * 1000)
        return True
