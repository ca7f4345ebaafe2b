"""What of a report may be believed, and what must be asked for again.

A report says how things stood when it was asked for: about machines that we have touched or asked
for since, it knows less than we do (ADR-0030).
"""

import math
from collections.abc import Container, Sequence

from mainstay.model.ids import MachineId
from mainstay.model.state import State
from mainstay.shard.facts import Health
from mainstay.shard.lists.feeds import Feed
from mainstay.shard.lists.lookups import Found
from mainstay.shard.lists.owed import Owed
from mainstay.shard.lists.telling import Books
from mainstay.shard.ports import Listed


class Belief:
    """When each provider was last heard, and what each still owes us. Lives on the event loop."""

    def __init__(self, books: Books, feeds: Sequence[Feed], *, owed_max: int) -> None:
        self._books = books
        self._feeds = feeds
        self.owed = {feed.name: Owed(owed_max) for feed in feeds}
        """The machines of each provider of which the last word is still to come."""

        self._listed: set[str] = set()
        self._full_asked_at_s: dict[str, float] = {}
        self._found_at_s: dict[MachineId, float] = {}
        self._denied_at_s: dict[MachineId, float] = {}
        self._named_at_s: dict[MachineId, float] = {}
        """When the last list came that named a machine while it was being asked for."""

        self._looked_at_s = 0.0

    @property
    def listed(self) -> frozenset[str]:
        """Providers of which a list was taken in, in this life."""
        return frozenset(self._listed)

    def listed_since(self, at_s: float) -> frozenset[str]:
        """Providers of which a full list was taken in that was asked for after this time."""
        return frozenset(name for name, when in self._full_asked_at_s.items() if when > at_s)

    def denied_at_s(self, machine: MachineId) -> float:
        """When a machine that is ours by its name was last denied by its provider; -1: never."""
        return self._denied_at_s.get(machine, -1.0)

    def has(self, machine: MachineId, name: str) -> bool:
        """Whether a machine is ours, and of this provider."""
        inventory = self._books.inventory
        return machine in inventory and inventory.source(machine) == name

    def beyond(self, asked_at_s: float) -> frozenset[MachineId]:
        """Machines of which a list that was asked for at this time knows less than we do."""
        found = {machine for machine, when in self._found_at_s.items() if when >= asked_at_s}
        return self._books.ledger.touched_since(asked_at_s) | found

    def passed_over(self, feed: Feed, listed: Listed, beyond: frozenset[MachineId]) -> None:
        """What of a list is not believed is owed, where the next list will not repeat it."""
        owed = self.owed[feed.name]
        if not feed.incremental:
            owed.after_full(())
        elif listed.full:
            # One that was taken from another shard meanwhile is owed, and not there yet.
            owed.after_full(each for each in beyond if each in owed or self.has(each, feed.name))
        elif beyond or len(owed):
            named = _named(listed)
            owed.after_delta(named, named & beyond)

    def names(self, feed: Feed, listed: Listed) -> None:
        """Note what a list that is taken now says of machines that are being asked for: an answer
        to come may be older. Of what it does not name it says nothing, unless it names all.
        """
        asked = feed.asked_for()
        if asked:
            named = asked if listed.full else asked & _named(listed)
            self._named_at_s |= dict.fromkeys(named, feed.arrived_at_s)

    def took_in(self, name: str, asked_at_s: float, *, full: bool) -> None:
        """A list of this provider is in the books."""
        self._listed.add(name)
        if full:
            self._full_asked_at_s[name] = asked_at_s

    def current(self, name: str, found: Sequence[Found]) -> list[Found]:
        """Which of these answers are news: none that may be older than what a list said of the
        machine, or than what we did since. They are no longer owed.
        """
        named_s = self._named_at_s
        touched = self._books.ledger.touched_since(min(each.asked_at_s for each in found))
        current = [
            each
            for each in found
            if each.asked_at_s > named_s.get(each.machine, -math.inf)
            and each.machine not in touched
        ]
        for each in current:
            self.owed[name].settle(each.machine)
            self._found_at_s[each.machine] = each.asked_at_s
        return current

    def hear_denials(self, found: Sequence[Found], ours: Container[MachineId]) -> None:
        """Which of the machines that are ours by their names a provider says it has not."""
        denied = {each.machine: each.asked_at_s for each in found if each.is_denied}
        both = self._denied_at_s | denied
        self._denied_at_s = {name: at_s for name, at_s in both.items() if name in ours}

    def collect(self) -> None:
        """Ask for what is owed, and forget what no answer to come can be held against."""
        self._owe_failed()
        ledger, clock = self._books.ledger, self._books.clock
        for feed in self._feeds:
            owed = self.owed[feed.name]
            if not len(owed) or feed.health is Health.LOST:
                continue
            if owed.too_many:
                feed.ask(full=True)
            else:
                feed.ask_for(owed.due(ledger))
        asked = [at_s for feed in self._feeds if (at_s := feed.oldest_s()) is not None]
        oldest_s = min(asked, default=clock.elapsed_s())
        ledger.forget_before(oldest_s)
        for kept in (self._found_at_s, self._named_at_s):
            for machine in [machine for machine, at_s in kept.items() if at_s < oldest_s]:
                del kept[machine]

    def _owe_failed(self) -> None:
        """What we gave up since the last time is owed: for its provider nothing may have changed,
        and then no incremental list would ever name it.
        """
        books, since_s = self._books, self._looked_at_s
        self._looked_at_s = books.clock.elapsed_s()
        incremental = {feed.name for feed in self._feeds if feed.incremental}
        for machine in books.ledger.touched_since(since_s) if incremental else ():
            if machine in books.ledger or machine not in books.inventory:
                continue
            source = books.inventory.source(machine)
            if source in incremental and books.inventory.machine(machine).state is State.FAILED:
                self.owed[source].add(machine)


def _named(listed: Listed) -> set[MachineId]:
    return {*map(MachineId, listed.ids), *listed.tombstones}
