"""What is known of the providers by their lists, for whoever asks."""

import math
from collections.abc import Sequence

from mainstay.inventory.inventory import Inventory
from mainstay.model.ids import MachineId
from mainstay.model.notice import Notices
from mainstay.shard.facts import Health, ProviderFacts
from mainstay.shard.lists.belief import Belief
from mainstay.shard.lists.feeds import Feed
from mainstay.shard.lists.interruptions import Interruptions
from mainstay.shard.lists.reports import machines_of


class Heard:
    """How each provider stands, and what they have said so far."""

    def __init__(
        self,
        inventory: Inventory,
        feeds: Sequence[Feed],
        belief: Belief,
        interruptions: Interruptions,
    ) -> None:
        self._inventory = inventory
        self._feeds = feeds
        self._belief = belief
        self._interruptions = interruptions
        self._answered: set[str] = set()

    def note(self, feed: Feed) -> None:
        """Whether this provider has been taken in by now, or has failed to be."""
        if feed.name in self._belief.listed or feed.health is Health.LOST:
            self._answered.add(feed.name)

    @property
    def ready(self) -> bool:
        """Whether each provider has been taken in once, or has failed to be. Never false again."""
        return len(self._answered) == len(self._feeds)

    @property
    def knows_all(self) -> bool:
        """Whether a list of each provider was taken in, in this life."""
        return len(self._belief.listed) == len(self._feeds)

    @property
    def unreachable(self) -> frozenset[str]:
        """Providers that do not answer."""
        return frozenset(feed.name for feed in self._feeds if feed.health is Health.LOST)

    def answered_at_s(self, source: str) -> float:
        """When a provider last answered what is asked of it here, by `Clock.elapsed_s`; -inf:
        never.
        """
        came = [feed.answered_at_s for feed in self._feeds if feed.name == source]
        return max(came, default=-math.inf)

    @property
    def notices(self) -> Notices:
        """Whose host will be taken back; the same object while none changes."""
        return self._interruptions.notices

    @property
    def incremental(self) -> bool:
        """Whether every provider says what has changed, so that a look costs little."""
        return all(feed.incremental for feed in self._feeds)

    @property
    def silent_on_drains(self) -> frozenset[str]:
        """Providers that do not say what a machine is drained for."""
        return frozenset(feed.name for feed in self._feeds if not feed.says_drains)

    @property
    def owed(self) -> int:
        """Machines of which the last word is still to come."""
        return sum(map(len, self._belief.owed.values()))

    def listed_since(self, at_s: float) -> frozenset[str]:
        """Providers of which a full list was taken in that was asked for after this time."""
        return self._belief.listed_since(at_s)

    def denied_at_s(self, machine: MachineId) -> float:
        """When its provider was last asked for a machine of another's domain, and said that it has
        no such machine; -1: never.
        """
        return self._belief.denied_at_s(machine)

    def facts(self) -> tuple[ProviderFacts, ...]:
        """How each provider stands."""
        snapshot = self._inventory.snapshot()
        return tuple(feed.facts(machines_of(snapshot, feed.name)) for feed in self._feeds)
