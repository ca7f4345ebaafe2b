"""The leader writes the whole state into a folder at intervals, for the day the store is lost."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from mainstay.coordinator import archive, snapshots
from mainstay.coordinator.metrics import CoordinatorMetrics
from mainstay.coordinator.reigning import Reigning
from mainstay.coordinator.store import Store
from mainstay.model.errors import MainstayError
from mainstay.runtime.aside import Aside
from mainstay.runtime.clock import Clock
from mainstay.runtime.log import logger


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """Where, how often, how many."""

    folder: Path
    interval_s: float = 300.0
    kept: int = 288


class Exporter:
    """A duty of the leader."""

    def __init__(
        self,
        store: Store,
        options: ExportOptions,
        clock: Clock,
        metrics: CoordinatorMetrics,
        *,
        aside: Aside,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store, self._options, self._clock, self._metrics = store, options, clock, metrics
        self._aside, self._sleep = aside, sleep
        self._log = logger(part="exporter")

    async def export_for_ever(self, reigning: Reigning) -> None:
        """One at once, then at intervals. A folder that cannot be written ends no reign."""
        while True:
            try:
                await self.export(reigning.term)
            except (OSError, MainstayError) as error:
                self._metrics.export_failed()
                self._log.warning(
                    "export_failed", folder=str(self._options.folder), error=str(error)
                )
            await self._sleep(self._options.interval_s)

    async def export(self, term: int) -> Path:
        """Write one; its folder."""
        now_s = self._clock.now_s()
        taken = await snapshots.saved(self._store, term=term, now_s=now_s)
        name = archive.checked(taken).id
        place = await self._aside(
            lambda: archive.exported(taken, self._options.folder, name, kept=self._options.kept)
        )
        self._metrics.exported(now_s)
        return place
