"""The audit log beside the loop: whoever tells something goes on at once; a task writes.

When the disk takes nothing, what was told waits, as long as there is room, and the shard goes on.
What found no room is counted, and the next line that is written says how many are missing.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mainstay.runtime.aside import Aside
from mainstay.shard.audit.files import AuditFiles
from mainstay.shard.events import Event
from mainstay.shard.ports import Journal

Content = Callable[[], Mapping[str, object]]
"""Makes the content of a line; called beside the loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """How much waits and how long."""

    gather_s: float = 0.2
    """How long to gather lines before they are written."""

    batch_lines: int = 1_000
    waiting_max: int = 100_000
    again_s: float = 1.0
    """After a failure; doubled up to `again_max_s`."""

    again_max_s: float = 60.0


class AuditLog:
    """One per shard. `append` belongs to the loop, the writing to its task."""

    def __init__(
        self, files: AuditFiles, aside: Aside, options: AuditOptions | None = None
    ) -> None:
        self._files, self._aside = files, aside
        self._options = options or AuditOptions()
        self._waiting: deque[Content] = deque()
        self._some = asyncio.Event()
        self._writing = threading.Lock()
        self._lost_said = 0
        self.lost = 0
        """Lines that found no room."""

        self.written = 0

    def __len__(self) -> int:
        """How many lines wait."""
        return len(self._waiting)

    def append(self, content: Content) -> None:
        """Have a line written soon. Never waits."""
        if len(self._waiting) >= self._options.waiting_max:
            self.lost += 1
            return
        self._waiting.append(content)
        self._some.set()

    async def run(self, journal: Journal) -> None:
        """Write what is told, until cancelled; first say what the start found."""
        self._tell_found(journal)
        options, again_s = self._options, 0.0
        while True:
            await self._some.wait()
            await asyncio.sleep(again_s or options.gather_s)
            if await self.flush(journal):
                again_s = 0.0
            else:
                again_s = min(again_s * 2 or options.again_s, options.again_max_s)

    async def flush(self, journal: Journal) -> bool:
        """Write all that waits; whether that went well."""
        self._some.clear()
        try:
            while self._waiting or self.lost > self._lost_said:
                await self._aside(self._write_some)
        except OSError as error:
            self._some.set()
            self._tell_failed(journal, error)
            return False
        return True

    async def close(self, journal: Journal) -> None:
        """Write what waits and say where the chain stands. The last call."""
        await self.flush(journal)
        try:
            await self._aside(self._close_files)
        except OSError as error:
            self._tell_failed(journal, error)

    def _write_some(self) -> None:
        """In a thread that nobody can cancel: what it has taken, it writes or puts back."""
        with self._writing:
            count = min(len(self._waiting), self._options.batch_lines)
            taken = [self._waiting.popleft() for _ in range(count)]
            lost = self.lost
            contents = [make() for make in taken]
            if lost > self._lost_said:
                contents.append({"what": "lost", "lines": lost - self._lost_said})
            try:
                self.written += self._files.append(contents)
            except OSError:
                self._waiting.extendleft(reversed(taken))
                raise
            self._lost_said = lost

    def _close_files(self) -> None:
        with self._writing:
            self._files.close()

    def _tell_found(self, journal: Journal) -> None:
        found = self._files.found
        for path, size in found.torn:
            journal.noticed(Event.AUDIT_LOG_TORN, file=path.name, bytes=size)
        if found.broken:
            journal.noticed(Event.AUDIT_LOG_BROKEN, why=found.broken)

    def _tell_failed(self, journal: Journal, error: OSError) -> None:
        why = error.strerror or str(error)
        journal.noticed(Event.AUDIT_LOG_FAILED, why=why, waiting=len(self._waiting), lost=self.lost)
