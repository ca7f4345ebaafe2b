"""How the inventory follows what providers report: each on its own, none waiting for another.

A list is taken in as far as it may be believed (mainstay.shard.lists.belief); what we passed over
is asked for again.
"""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from mainstay.model.ids import MachineId
from mainstay.shard.lists.belief import Belief
from mainstay.shard.lists.feeds import Feed
from mainstay.shard.lists.first import wait_first
from mainstay.shard.lists.heard import Heard
from mainstay.shard.lists.intake import Intake, IntakeOptions
from mainstay.shard.lists.interruptions import Interruptions
from mainstay.shard.lists.looked import NOTHING, Looked
from mainstay.shard.lists.taking import Taking
from mainstay.shard.lists.telling import Books
from mainstay.shard.ownership.holdings import Holdings

__all__ = ["Books", "Looked", "ReconcileOptions", "Reconciler"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileOptions:
    """How much is believed, told and asked for at once."""

    intake: IntakeOptions = field(default_factory=IntakeOptions)
    owed_max: int = 1000
    """More machines than these are not asked for one by one: a full list says it all."""


class Reconciler:
    """Takes in what the feeds have fetched. Lives on the event loop."""

    def __init__(
        self,
        books: Books,
        feeds: Sequence[Feed],
        *,
        holdings: Holdings | None = None,
        options: ReconcileOptions | None = None,
        notices: Interruptions | None = None,
    ) -> None:
        options = options or ReconcileOptions()
        self._feeds = tuple(feeds)
        self._holdings = holdings or Holdings()
        self._holdings_seen = self._holdings.version
        self._belief = Belief(books, self._feeds, owed_max=options.owed_max)
        intake = Intake(books, self._belief.owed, options.intake)
        notices = notices or Interruptions(books.journal)
        self._taking = Taking(books, intake, self._belief, self._holdings, notices)
        self.heard = Heard(books.inventory, self._feeds, self._belief, notices)
        self._patience: asyncio.Timeout | None = None

    def owe(self, machine: MachineId, source: str) -> None:
        """Have a machine asked for by itself: whatever its provider says of it counts.

        At once, where each list is of everything and would settle what is owed.
        """
        self._belief.owed[source].add(machine)
        for feed in self._feeds:
            if feed.name == source and not feed.incremental:
                feed.ask_for([machine])

    async def run(self) -> None:
        """Fetch, for ever; `look` takes in what was fetched."""
        async with asyncio.TaskGroup() as tasks:
            for feed in self._feeds:
                tasks.create_task(feed.run(), name=f"feed of {feed.name}")

    async def wait_first(self, *, patience_s: float, others_s: float = math.inf) -> bool:
        """Wait until every provider has answered or failed once; whether all have."""
        return await wait_first(self._feeds, patience_s=patience_s, others_s=others_s)

    def tick(self) -> None:
        """The next look is that of a cycle by the clock."""
        for feed in self._feeds:
            feed.tick()

    async def look(self, *, patience_s: float) -> Looked:
        """Take in what there is, and what can be had within `patience_s`: incremental lists.

        A full list is asked for, and taken in by the next look.
        """
        looked = await self._take_all()
        reassigned = self._holdings.version != self._holdings_seen
        self._holdings_seen = self._holdings.version
        for feed in self._feeds:
            feed.ask(full=reassigned)
        await self._settle(patience_s)
        looked += await self._take_all()
        self._belief.collect()
        return looked

    def hurry(self) -> None:
        """Somebody waits for a decision: a look that is under way has no more patience."""
        if self._patience is not None and not self._patience.expired():
            self._patience.reschedule(asyncio.get_running_loop().time())

    async def _settle(self, patience_s: float) -> None:
        try:
            async with asyncio.timeout(patience_s) as self._patience:
                for feed in self._feeds:
                    await feed.settled()
        except TimeoutError:
            for feed in self._feeds if patience_s else ():
                feed.late()
        finally:
            self._patience = None

    async def _take_all(self) -> Looked:
        looked = NOTHING
        for feed in self._feeds:
            looked += await self._taking.take(feed)
            self.heard.note(feed)
        return looked
