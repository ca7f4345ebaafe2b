"""One reign: the fleet in memory, and the only way to change it.

Commands are pure functions of the fleet; they are decided, committed and applied one after the
other, under one lock, so that each sees all that was stored before it. When it is not known whether
the store has a change, the fleet in memory is worth nothing until it was read again.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, TypeAlias

from mainstay.coordinator import commands
from mainstay.coordinator.fleet import Fleet
from mainstay.coordinator.leading import Reign
from mainstay.coordinator.memory import Memory
from mainstay.coordinator.metrics import Applied, CoordinatorMetrics
from mainstay.coordinator.snapshots import refuse_half_restored
from mainstay.coordinator.store import Change, Deposed, Overtaken, Store
from mainstay.model.errors import MainstayError, NotLeading, Rejected, Unavailable
from mainstay.runtime.clock import Clock

Decide: TypeAlias = Callable[[Fleet], Iterable[Change]]
"""What a command does to a fleet: changes, each of them asked for when the one before is stored."""

REPEATS: Final = 2
"""How often a command is decided when somebody was faster."""


class Reigning:
    """The fleet, for as long as we lead."""

    def __init__(
        self, reign: Reign, store: Store, clock: Clock, metrics: CoordinatorMetrics
    ) -> None:
        self._reign, self._store, self._clock, self._metrics = reign, store, clock, metrics
        self._fleet: Fleet | None = None
        self._base = 0
        self._lock = asyncio.Lock()
        self._running: set[asyncio.Future[Fleet]] = set()
        self.memory = Memory()
        self.over = asyncio.Event()
        """Set when the store says that somebody else leads."""

    @property
    def fleet(self) -> Fleet:
        """As it was last stored; Unavailable while that is not known, see `current`."""
        if self._fleet is None:
            raise Unavailable("the store has not said what it holds: try again")
        return self._fleet

    @property
    def term(self) -> int:
        """Of this leadership, as shards hear it."""
        return self._base + self._reign.term

    @property
    def is_valid(self) -> bool:
        """Whether nobody else can lead at this instant."""
        return self._reign.is_valid() and not self.over.is_set()

    async def load(self) -> Fleet:
        """Read everything again."""
        async with self._lock:
            return await self._load()

    async def current(self) -> Fleet:
        """The fleet, read again first where what is in memory may not be so."""
        return self._fleet or await self.one(lambda _: Change())

    async def carry_out(self, decide: Decide) -> Fleet:
        """Decide, store and apply; the fleet after it. Whatever is raised, nothing half done stays
        without a way on: each change is safe on its own.
        """
        return await self._to_its_end(self._in_turn(decide))

    async def one(self, decide: Callable[[Fleet], Change]) -> Fleet:
        """The same for a command that is one change."""
        return await self.carry_out(lambda fleet: (decide(fleet),))

    def above(self, fleet: Fleet, seen: int) -> Change:
        """A shard has heard a term as great as this: ours must be greater, or it obeys nobody."""
        if seen <= fleet.meta.term_base + self._reign.term:
            return Change()
        return commands.raise_term_base(fleet, seen + 1 - self._reign.term)

    async def _in_turn(self, decide: Decide) -> Fleet:
        async with self._lock:
            return await self._repeated(decide)

    async def _to_its_end(self, command: Coroutine[Any, Any, Fleet]) -> Fleet:
        """A caller that hangs up stops nothing: nobody would know what the store has."""
        running = asyncio.ensure_future(command)
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        return await asyncio.shield(running)

    async def _repeated(self, decide: Decide) -> Fleet:
        for attempt in range(REPEATS):
            fleet = self._fleet or await self._load()
            try:
                await self._committed(fleet, decide)
            except Overtaken:
                self._fleet = None
                if attempt + 1 == REPEATS:
                    raise
            else:
                return fleet
        raise AssertionError("the last attempt returns or raises")

    async def _committed(self, fleet: Fleet, decide: Decide) -> None:
        began = self._clock.elapsed_s()
        try:
            for change in decide(fleet):
                if change.puts or change.deletes:
                    await self._commit(fleet, change)
        except Deposed as error:
            self.over.set()
            raise NotLeading("this coordinator no longer leads: ask again") from error
        except Rejected:
            self._metrics.applied(Applied.REFUSED, self._clock.elapsed_s() - began)
            raise

    async def _commit(self, fleet: Fleet, change: Change) -> None:
        began = self._clock.elapsed_s()
        stored = False
        try:
            revision = await self._reign.commit(change)
            stored = True
        except MainstayError:
            self._metrics.applied(Applied.ERROR, self._clock.elapsed_s() - began)
            raise
        finally:
            if not stored:
                self._fleet = None  # cancelled calls too: the store may have it
        self._metrics.applied(Applied.SUCCESS, self._clock.elapsed_s() - began)
        fleet.apply(change, revision)
        self._base = fleet.meta.term_base

    async def _load(self) -> Fleet:
        everything = await self._store.load()
        refuse_half_restored(everything.entries)
        self._metrics.loaded()
        # Beside the loop: a large state takes longer to read than a lease lasts.
        self._fleet = await asyncio.to_thread(Fleet.from_entries, everything.entries)
        self._base = self._fleet.meta.term_base
        return self._fleet
