"""The lists of one provider, fetched in their own time: whoever waits for one waits for no other.

A feed is asked without waiting, fetches one list at a time, and keeps it until it is taken. The
next one begins where the one taken last ended, so nothing that was fetched is lost.
"""

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from mainstay.model.calls import ListRequest
from mainstay.model.errors import MainstayError, Rejected
from mainstay.model.ids import MachineId
from mainstay.runtime.clock import Clock
from mainstay.shard.events import Event
from mainstay.shard.facts import Health, ProviderFacts
from mainstay.shard.lists.lookups import Found, LookupOptions, Lookups
from mainstay.shard.ports import Journal, Link, Listed

CURSORS_KNOWN: Final = 64
"""So many earlier cursors are remembered: a list that ends at one of them is an old one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedOptions:
    """How patient a feed is, and how often it asks for everything."""

    list_timeout_s: float = 120.0
    delta_timeout_s: float = 30.0
    """Of an incremental list: a provider that takes longer for one does not answer."""

    full_every: int = 30
    """A list is full every so many ticks, of a provider that does not name what is gone."""

    full_every_declared: int = 360
    """The same of a provider that does: what a bad line has swallowed comes back."""

    full_pause_s: float = 5.0
    """From one full list to the next, where nobody needs it at once."""

    incremental_from_peers: bool = False
    """Whether a provider that declares nothing is asked for what changed, as BigFleet can be."""

    retry_min_s: float = 1.0
    retry_max_s: float = 60.0
    """After a failure, doubling from one to the other."""

    lookups: LookupOptions = field(default_factory=LookupOptions)

    def __post_init__(self) -> None:
        times = (self.list_timeout_s, self.delta_timeout_s, self.retry_min_s)
        if min(times) <= 0 or self.full_pause_s < 0 or self.retry_max_s < self.retry_min_s:
            raise Rejected(
                "timeouts and pauses of a feed must be above 0, and retry_max_s no less than"
                f" retry_min_s: {self}"
            )
        if min(self.full_every, self.full_every_declared) < 1:
            raise Rejected(f"a full list must come every 1 or more ticks: {self}")


@dataclass(frozen=True, slots=True)
class Fetched:
    """A list, and the time at which it was asked for: of what we did since, it knows nothing."""

    listed: Listed
    asked_at_s: float
    full: bool
    """As the answer says, whatever was asked for."""


class Feed:
    """One provider's lists. Lives on the event loop."""

    def __init__(
        self,
        name: str,
        link: Link,
        clock: Clock,
        options: FeedOptions | None = None,
        *,
        journal: Journal,
    ) -> None:
        self.name = name
        self._link = link
        self._clock = clock
        self._options = options or FeedOptions()
        self._journal = journal
        self._lookups = Lookups(link, clock, self._options.lookups)

        self._asked = False
        self._full_asked = False
        self._asked_at_s: float | None = None
        self._arrived: Fetched | None = None
        self._in_full = True

        self._cursor = b""
        self._cursors: deque[bytes] = deque(maxlen=CURSORS_KNOWN)
        self._doubted = False
        self._ticks_since_full = 0
        self._full_began_s = -self._options.full_pause_s
        self._full_from_s = math.inf
        self._listed_at_s = 0.0

        self.taken_asked_at_s = 0.0
        """When the list was asked for that was taken last."""

        self.arrived_at_s = -math.inf
        """When its last list came."""

        self.back_at_s = -math.inf
        """When it last answered after it had not, or began anew."""

        self._health = Health.UNKNOWN
        self._failures = 0
        self._why = ""
        self._retry_at_s = 0.0

        self._is_late = False
        self._work = asyncio.Event()
        self._hurry = asyncio.Event()
        self._first = asyncio.Event()
        self._changed = asyncio.Event()

    @property
    def health(self) -> Health:
        """How the provider stands."""
        return self._health

    @property
    def answered(self) -> bool:
        """Whether it has ever been listed, or has failed to be."""
        return self._first.is_set()

    @property
    def answered_at_s(self) -> float:
        """When it last answered anything: a list, or a question for one machine."""
        return max(self.arrived_at_s, self._lookups.answered_at_s)

    @property
    def incremental(self) -> bool:
        """Whether its next list may be of what changed alone."""
        declared = self._link.capabilities
        if declared is None:
            return self._options.incremental_from_peers
        return declared.incremental

    @property
    def says_drains(self) -> bool:
        """Whether its records say what a machine is drained for."""
        declared = self._link.capabilities
        return declared is not None and declared.drain_attribution

    def facts(self, machines: int = 0) -> ProviderFacts:
        """For whoever asks; how many machines it has is for the inventory to know."""
        return ProviderFacts(
            name=self.name,
            health=self._health,
            machines=machines,
            why=self._why,
            failures_in_a_row=self._failures,
            listed_at_s=self._listed_at_s,
            incremental=self.incremental,
        )

    def tick(self) -> None:
        """Another cycle by the clock: how often demand or a step wakes us says nothing of time."""
        self._ticks_since_full += 1

    def ask(self, *, full: bool = False) -> None:
        """Fetch a list as soon as the last one has been taken; a full one without any pause.

        A full list that is under way is the one that was asked for.
        """
        under_way = self._asked_at_s is not None and self._in_full
        self._want(full=full and not under_way)

    def ask_full_from(self, at_s: float) -> None:
        """Let the first list that is asked for from this time on be a full one, until one comes."""
        self._full_from_s = at_s

    def ask_for(self, machines: Iterable[MachineId]) -> None:
        """Fetch these machines one by one."""
        self._lookups.ask(machines)

    def take(self) -> Fetched | None:
        """The list that has arrived; the next one goes on behind it."""
        fetched, self._arrived = self._arrived, None
        if fetched is None:
            return None
        self._cursor, self.taken_asked_at_s = fetched.listed.cursor, fetched.asked_at_s
        self._listed_at_s = self._clock.now_s()
        self._wake()
        return fetched

    def take_found(self) -> list[Found]:
        """The single machines that have arrived."""
        return self._lookups.take()

    def asked_for(self) -> set[MachineId]:
        """The single machines that were asked for and have not been taken."""
        return self._lookups.pending()

    def refuse(self, why: str) -> None:
        """The list that was taken could not be taken in: ask for everything again."""
        self._fail(why, full=True)

    def oldest_s(self) -> float | None:
        """When the oldest question was asked whose answer has not been taken."""
        listed = self._arrived.asked_at_s if self._arrived else self._asked_at_s
        asked = (listed, self._lookups.oldest_s())
        return min((at_s for at_s in asked if at_s is not None), default=None)

    async def first(self) -> None:
        """Wait until it has answered or failed once."""
        await self._first.wait()

    async def settled(self) -> None:
        """Wait for the list that was asked for, if it is one that does not take long."""
        while self._is_quick():
            await self._changed.wait()

    def late(self) -> None:
        """Nobody waits any longer for what was asked for, nor again before it has answered."""
        self._is_late = self._is_quick()

    async def run(self) -> None:
        """Fetch what is asked for, for ever."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._lookups.run(), name=f"lookups of {self.name}")
            tasks.create_task(self._list_in_turn(), name=f"lists of {self.name}")

    async def _list_in_turn(self) -> None:
        while True:
            await self._work.wait()
            await self._pause()
            await self._fetch()
            self._wake()

    async def _pause(self) -> None:
        """Back off from a provider that fails; leave time between lists that cost."""
        await asyncio.sleep(max(0.0, self._retry_at_s - self._clock.elapsed_s()))
        if not self._wants_full():
            return
        rest_s = self._full_began_s + self._options.full_pause_s - self._clock.elapsed_s()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, rest_s)):
                await self._hurry.wait()

    async def _fetch(self) -> None:
        options, full = self._options, self._wants_full()
        explicit, self._full_asked, self._asked = self._full_asked, False, False
        self._hurry.clear()
        self._in_full = full
        asked_at_s = self._asked_at_s = self._clock.elapsed_s()
        timeout_s = options.list_timeout_s if full else options.delta_timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                listed = await self._link.listing(ListRequest(since=b"" if full else self._cursor))
        except TimeoutError:
            self._fail(f"no list within {timeout_s:g} s", full=explicit)
        except MainstayError as error:
            self._fail(error.message, full=explicit)
        except Exception as error:  # noqa: BLE001 - one provider must not end the others' feeds
            why = f"reading its list ended in a defect of ours: {type(error).__name__}: {error}"
            self._fail(why, full=explicit)
        else:
            self._arrive(Fetched(listed, asked_at_s, listed.full))
        finally:
            self._asked_at_s = None
            self._is_late = False
            self._tell()

    def _arrive(self, fetched: Fetched) -> None:
        source = fetched.listed.source
        if source != self.name:
            self._fail(f"its list is of provider {source!r}: name it so", full=False)
            return
        if self._health is Health.LOST:
            self._journal.noticed(Event.PROVIDER_BACK, reason=self.name, provider=self.name)
        declared = self._link.capabilities is not None and self.incremental
        begins_anew = declared and fetched.full and not self._in_full
        if self._health is Health.LOST or begins_anew:
            self.back_at_s = self._clock.elapsed_s()
        self._health, self._failures, self._why = Health.ANSWERING, 0, ""
        self.arrived_at_s = self._clock.elapsed_s()
        if fetched.full:
            self._full_began_s, self._ticks_since_full = fetched.asked_at_s, 0
            if fetched.asked_at_s >= self._full_from_s:
                self._full_from_s = math.inf
        if self._is_old(fetched):
            why = "an older list than the last one: asked again"
            self._journal.noticed(Event.LIST_FAILED, reason=self.name, provider=self.name, why=why)
            self._want(full=True)
            return
        self._arrived = fetched
        self._first.set()

    def _is_old(self, fetched: Fetched) -> bool:
        """Whether a full list ends where an earlier one ended; the second time it is believed.

        Cursors are opaque, so that is all there is to see of it. A provider that has begun anew
        comes by old cursors, too, and it goes on doing so.
        """
        cursor = fetched.listed.cursor
        latest = self._cursors[-1] if self._cursors else b""
        if fetched.full and cursor and cursor != latest and cursor in self._cursors:
            if not self._doubted:
                self._doubted = True
                return True
            self._cursors.clear()
        self._doubted = False
        if cursor and cursor != latest:
            self._cursors.append(cursor)
        return False

    def _fail(self, why: str, *, full: bool) -> None:
        """The provider does not answer: what we know of it stays, and it is asked again."""
        options = self._options
        if self._health is not Health.LOST:
            self._journal.noticed(
                Event.PROVIDER_LOST, reason=self.name, provider=self.name, why=why
            )
        self._journal.noticed(Event.LIST_FAILED, reason=self.name, provider=self.name, why=why)
        self._health, self._why = Health.LOST, why
        pause_s = min(options.retry_min_s * 2.0 ** min(self._failures, 30), options.retry_max_s)
        self._failures += 1
        self._retry_at_s = self._clock.elapsed_s() + pause_s
        self._first.set()
        self._want(full=full)

    def _want(self, *, full: bool) -> None:
        self._asked = True
        if full:
            self._full_asked = True
            self._hurry.set()
        self._wake()

    def _wants_full(self) -> bool:
        return self._full_asked or not self._cursor or not self.incremental or self._is_due()

    def _is_due(self) -> bool:
        """Whether it is time for a full list, although we could do without."""
        if self._clock.elapsed_s() >= self._full_from_s:
            return True
        declared, options = self._link.capabilities, self._options
        tombstones = declared is not None and declared.tombstones
        every = options.full_every_declared if tombstones else options.full_every
        return self._ticks_since_full >= every

    def _is_quick(self) -> bool:
        if self._health is Health.LOST or self._is_late or self._arrived is not None:
            return False
        if self._asked_at_s is not None:
            return not self._in_full
        return self._asked and not self._wants_full()

    def _wake(self) -> None:
        if self._asked and self._arrived is None:
            self._work.set()
        else:
            self._work.clear()

    def _tell(self) -> None:
        """Let those go on that wait for a change, and let others wait for the next."""
        self._changed.set()
        self._changed = asyncio.Event()
