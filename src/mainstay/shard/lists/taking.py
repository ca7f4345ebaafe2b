"""What one provider has answered, on its way into the inventory: its list, then single machines.

An answer that cannot be taken in, be it by a defect of ours, costs that provider alone: it counts
as one that does not answer, and is asked for everything again.
"""

from collections.abc import Awaitable, Callable

from mainstay.model.errors import MainstayError
from mainstay.shard.lists.belief import Belief
from mainstay.shard.lists.feeds import Feed
from mainstay.shard.lists.intake import Intake
from mainstay.shard.lists.interruptions import Interruptions
from mainstay.shard.lists.looked import NOTHING, Looked
from mainstay.shard.lists.reports import says_anything
from mainstay.shard.lists.singles import take_found
from mainstay.shard.lists.telling import Books
from mainstay.shard.ownership.holdings import Holdings


class Taking:
    """Takes in what feeds have fetched. Lives on the event loop."""

    def __init__(
        self,
        books: Books,
        intake: Intake,
        belief: Belief,
        holdings: Holdings,
        interruptions: Interruptions,
    ) -> None:
        self._books = books
        self._intake = intake
        self._belief = belief
        self._holdings = holdings
        self._interruptions = interruptions

    async def take(self, feed: Feed) -> Looked:
        """All that has arrived from one provider."""
        looked = await self._contained(feed, self._take_list)
        return looked + await self._contained(feed, self._take_found)

    async def _contained(self, feed: Feed, taken: Callable[[Feed], Awaitable[Looked]]) -> Looked:
        try:
            return await taken(feed)
        except MainstayError as error:
            feed.refuse(error.message)
        except Exception as error:  # noqa: BLE001 - one provider must not end the others' cycles
            why = f"taking it in ended in a defect of ours: {type(error).__name__}: {error}"
            feed.refuse(why)
        return NOTHING

    async def _take_list(self, feed: Feed) -> Looked:
        """The list that has arrived; a quiet one costs nothing."""
        fetched = feed.take()
        if fetched is None:
            return NOTHING
        listed, asked_at_s, name, belief = (
            fetched.listed,
            fetched.asked_at_s,
            feed.name,
            self._belief,
        )
        beyond = belief.beyond(asked_at_s)
        belief.names(feed, listed)
        belief.passed_over(feed, listed, beyond)
        looked = Looked(lists=1)
        if says_anything(listed):
            adoption = self._holdings.adoption(asked_at_s)
            looked += await self._intake.take_in(feed, listed, beyond, adoption)
        if listed.full and self._holdings.is_too_old(asked_at_s):
            feed.ask(full=True)
        belief.took_in(name, asked_at_s, full=listed.full)
        self._interruptions.heard(name, listed, lambda machine: belief.has(machine, name))
        self._books.listed(name)
        return looked

    async def _take_found(self, feed: Feed) -> Looked:
        """Single machines that were asked for."""
        found = feed.take_found()
        return await take_found(feed, found, self._intake, self._belief, self._holdings)
