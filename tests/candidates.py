"""Candidates for the lead of a coordinator's store, in this process, that note when they acted."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

from mainstay.coordinator.leading import Leading, LeadingOptions, Reign
from mainstay.coordinator.store import Store
from mainstay.runtime.clock import SystemClock
from store_processes import late_write
from stores import PATIENCE_S

EAGER: Final = LeadingOptions(pause_s=0.02, jitter_s=0.01)


class Candidate:
    """Acts whenever it may, and tries to write once more when it no longer may."""

    def __init__(self, store: Store, name: str) -> None:
        self.leading = Leading(
            store, candidate=name, address=f"{name}:1", clock=SystemClock(), options=EAGER
        )
        self.reigns: list[Reign] = []
        self.acts: dict[int, tuple[float, float]] = {}
        """Per term, the first and the last time."""

        self.late: list[str] = []

    async def rule(self, reign: Reign) -> None:
        self.reigns.append(reign)
        try:
            while True:
                now_s = time.monotonic()  # before it looks whether it may: then it may have
                if reign.is_valid():
                    first_s, _ = self.acts.get(reign.term, (now_s, now_s))
                    self.acts[reign.term] = first_s, now_s
                await asyncio.sleep(0.005)
        finally:
            self.late.append(await late_write(reign))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with running(self.leading.run(self.rule)):
            yield


@asynccontextmanager
async def running(work: Coroutine[object, object, None]) -> AsyncIterator["asyncio.Future[None]"]:
    """Runs while the block does, unless it ends before; then cancelled as a stop does it."""
    task = asyncio.ensure_future(work)
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def closing(stores: Sequence[Store]) -> AsyncIterator[None]:
    try:
        yield
    finally:
        for store in stores:
            await store.close()


async def until_true(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if is_so():
                return
            await asyncio.sleep(0.01)
