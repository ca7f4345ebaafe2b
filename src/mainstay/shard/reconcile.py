"""How the inventory follows what providers report: each on its own, none waiting for another.

A list is taken in as far as it can know: not about machines that we have touched since it was asked
for. What we passed over is owed, and asked for again.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from mainstay.inventory.screen import refusal_of
from mainstay.model.batch import batch_of
from mainstay.model.errors import MainstayError
from mainstay.model.ids import MachineId
from mainstay.model.notice import Notices
from mainstay.model.state import State
from mainstay.shard.facts import Health, ProviderFacts
from mainstay.shard.lists.feeds import Feed, Fetched
from mainstay.shard.lists.intake import UNKNOWN, Intake, IntakeOptions
from mainstay.shard.lists.interruptions import Interruptions
from mainstay.shard.lists.looked import NOTHING, Looked
from mainstay.shard.lists.lookups import Found
from mainstay.shard.lists.owed import Owed
from mainstay.shard.lists.reports import machines_of, says_anything
from mainstay.shard.lists.telling import Books
from mainstay.shard.ownership.holdings import Holdings
from mainstay.shard.ports import Listed

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
    ) -> None:
        options = options or ReconcileOptions()
        self._books = books
        self._feeds = tuple(feeds)
        self._holdings = holdings or Holdings()
        self._holdings_seen = self._holdings.version
        self._interruptions = Interruptions(books.journal)
        self._owed = {feed.name: Owed(options.owed_max) for feed in self._feeds}
        self._intake = Intake(books, self._owed, options.intake)
        self._asked_at_s: dict[str, float] = {}
        self._full_asked_at_s: dict[str, float] = {}
        self._found_at_s: dict[MachineId, float] = {}
        self._denied_at_s: dict[MachineId, float] = {}
        """Of machines that are ours by their names: when a provider was asked that has none."""

        self._answered: set[str] = set()
        self._looked_at_s = 0.0
        self._patience: asyncio.Timeout | None = None

    @property
    def ready(self) -> bool:
        """Whether each provider has been taken in once, or has failed to be. Never false again."""
        return len(self._answered) == len(self._feeds)

    @property
    def knows_all(self) -> bool:
        """Whether a list of each provider was taken in, in this life."""
        return self._asked_at_s.keys() == {feed.name for feed in self._feeds}

    def listed_since(self, at_s: float) -> frozenset[str]:
        """Providers of which a full list was taken in that was asked for after this time."""
        return frozenset(name for name, when in self._full_asked_at_s.items() if when > at_s)

    @property
    def unreachable(self) -> frozenset[str]:
        """Providers that do not answer."""
        return frozenset(feed.name for feed in self._feeds if feed.health is Health.LOST)

    @property
    def notices(self) -> Notices:
        """Whose host will be taken back; the same object while none changes."""
        return self._interruptions.notices

    @property
    def incremental(self) -> bool:
        """Whether every provider says what has changed, so that a look costs little."""
        return all(feed.incremental for feed in self._feeds)

    @property
    def owed(self) -> int:
        """Machines of which the last word is still to come."""
        return sum(map(len, self._owed.values()))

    def facts(self) -> tuple[ProviderFacts, ...]:
        """How each provider stands."""
        snapshot = self._books.inventory.snapshot()
        return tuple(feed.facts(machines_of(snapshot, feed.name)) for feed in self._feeds)

    def owe(self, machine: MachineId, source: str) -> None:
        """Have a machine asked for by itself: whatever its provider says of it counts."""
        self._owed[source].add(machine)

    def look_up(self, machine: MachineId, source: str) -> None:
        """Ask a provider now whether it has a machine, whatever its lists say."""
        for feed in self._feeds:
            if feed.name == source:
                feed.ask_for([machine])

    def denied_at_s(self, machine: MachineId) -> float:
        """When its provider was last asked for a machine of another's domain, and said that it has
        no such machine; -1: never.
        """
        return self._denied_at_s.get(machine, -1.0)

    async def run(self) -> None:
        """Fetch, for ever; `look` takes in what was fetched."""
        async with asyncio.TaskGroup() as tasks:
            for feed in self._feeds:
                tasks.create_task(feed.run(), name=f"feed of {feed.name}")

    async def wait_first(self, *, patience_s: float) -> None:
        """Wait until every provider has answered or failed once, if that does not take longer."""
        for feed in self._feeds:
            feed.ask()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                for feed in self._feeds:
                    await feed.first()

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
        self._owe_failed()
        self._collect()
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
            pass
        finally:
            self._patience = None

    async def _take_all(self) -> Looked:
        looked = NOTHING
        for feed in self._feeds:
            fetched = feed.take()
            if fetched is not None:
                looked += await self._take_list(feed, fetched)
            looked += await self._take_found(feed, feed.take_found())
            if feed.name in self._asked_at_s or feed.health is Health.LOST:
                self._answered.add(feed.name)
        return looked

    async def _take_list(self, feed: Feed, fetched: Fetched) -> Looked:
        """One list of one provider; a quiet one costs nothing."""
        listed, name = fetched.listed, feed.name
        touched = self._known_since(fetched.asked_at_s)
        looked = Looked(lists=1)
        self._owe_skipped(feed, listed, touched)
        try:
            if says_anything(listed):
                adoption = self._holdings.adoption(fetched.asked_at_s)
                looked += await self._intake.take_in(feed, listed, touched, adoption)
        except MainstayError as error:
            feed.refuse(error.message)
            return NOTHING
        except Exception:
            feed.refuse("taking in its list ended in a defect of ours")
            raise
        if listed.full and self._holdings.is_too_old(fetched.asked_at_s):
            feed.ask(full=True)
        self._asked_at_s[name] = fetched.asked_at_s
        if listed.full:
            self._full_asked_at_s[name] = fetched.asked_at_s
        self._interruptions.heard(name, listed, lambda machine: self._has(machine, name))
        self._books.listed(name)
        return looked

    async def _take_found(self, feed: Feed, found: Sequence[Found]) -> Looked:
        """Single machines of one provider; what is older than its last list is asked for again."""
        if not found:
            return NOTHING
        name, ledger, intake = feed.name, self._books.ledger, self._intake
        self._hear_denials(found)
        newest_s = self._asked_at_s.get(name, 0.0)
        touched = ledger.touched_since(min(each.asked_at_s for each in found))
        current = [
            each for each in found if each.asked_at_s >= newest_s and each.machine not in touched
        ]
        for each in current:
            self._owed[name].settle(each.machine)
            self._found_at_s[each.machine] = each.asked_at_s
        errors = [(each.machine, each.refused) for each in current if each.refused is not None]
        looked = intake.refuse(name, [refusal_of(machine, error) for machine, error in errors])
        gone = [each.machine for each in current if not (each.record or each.refused)]
        gone = [each for each in gone if self._has(each, name)]
        looked += await intake.remove(name, gone, UNKNOWN)
        records = [each.record for each in current if each.record is not None]
        if records:
            batch = batch_of(records, source=name, full=False)
            adoption = self._holdings.adoption(min(each.asked_at_s for each in current))
            looked += await intake.take_in(feed, batch, frozenset(), adoption)
        return looked

    def _hear_denials(self, found: Sequence[Found]) -> None:
        here = self._holdings.owned.here
        denied = {
            each.machine: each.asked_at_s for each in found if not (each.record or each.refused)
        }
        both = self._denied_at_s | denied
        self._denied_at_s = {name: at_s for name, at_s in both.items() if name in here}

    def _owe_skipped(self, feed: Feed, listed: Listed, touched: frozenset[MachineId]) -> None:
        """What of a list we passed over is owed, where the next list will not repeat it."""
        owed = self._owed[feed.name]
        if not feed.incremental:
            owed.after_full(())
        elif listed.full:
            owed.after_full(each for each in touched if self._has(each, feed.name))
        elif touched or len(owed):
            named = {*map(MachineId, listed.ids), *listed.tombstones}
            owed.after_delta(named, named & touched)

    def _owe_failed(self) -> None:
        """What we gave up since the last look is asked for: for its provider nothing may have
        changed, and then no incremental list would ever name it.
        """
        books, since_s = self._books, self._looked_at_s
        self._looked_at_s = books.clock.elapsed_s()
        incremental = {feed.name for feed in self._feeds if feed.incremental}
        for machine in books.ledger.touched_since(since_s) if incremental else ():
            if machine in books.ledger or machine not in books.inventory:
                continue
            source = books.inventory.source(machine)
            if source in incremental and books.inventory.machine(machine).state is State.FAILED:
                self._owed[source].add(machine)

    def _collect(self) -> None:
        """Ask for what is owed, and forget what no answer to come can be held against."""
        ledger, clock = self._books.ledger, self._books.clock
        for feed in self._feeds:
            owed = self._owed[feed.name]
            if not len(owed) or feed.health is Health.LOST:
                continue
            if owed.too_many:
                feed.ask(full=True)
            else:
                feed.ask_for(owed.due(ledger))
        asked = [at_s for feed in self._feeds if (at_s := feed.oldest_s()) is not None]
        oldest_s = min(asked, default=clock.elapsed_s())
        ledger.forget_before(oldest_s)
        self._found_at_s = {
            machine: at_s for machine, at_s in self._found_at_s.items() if at_s >= oldest_s
        }

    def _known_since(self, at_s: float) -> frozenset[MachineId]:
        """Machines of which a list that was asked for at this time knows less than we do."""
        found = {machine for machine, when in self._found_at_s.items() if when >= at_s}
        return self._books.ledger.touched_since(at_s) | found

    def _has(self, machine: MachineId, name: str) -> bool:
        """Whether a machine is ours, and of this provider."""
        inventory = self._books.inventory
        return machine in inventory and inventory.source(machine) == name
