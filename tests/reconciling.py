"""What tests of reconciling stand on: a provider of a few records, and books that remember."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from mainstay.inventory.inventory import Inventory
from mainstay.inventory.merge import MergeReport, Report
from mainstay.model.batch import MachineBatch, batch_of
from mainstay.model.calls import (
    Ack,
    Capabilities,
    ConfigureRequest,
    CreateRequest,
    DeleteRequest,
    DrainRequest,
    GetRequest,
    ListRequest,
)
from mainstay.model.coordination import Domain
from mainstay.model.errors import NotSupported, UnknownMachine
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.machine import Machine
from mainstay.model.need import Requirement
from mainstay.model.notice import InterruptionNotice
from mainstay.model.state import State
from mainstay.providers.sim.provider import Sim
from mainstay.runtime.clock import Clock
from mainstay.shard.events import Event
from mainstay.shard.ledger import Ledger
from mainstay.shard.lists.feeds import Feed, FeedOptions
from mainstay.shard.moves import Moves
from mainstay.shard.orders import Disposed
from mainstay.shard.ownership.holdings import Holdings
from mainstay.shard.ownership.owned import Owned, assigned, unassigned
from mainstay.shard.reconcile import Books, Looked, ReconcileOptions, Reconciler
from virtual_loop import LoopClock, run

FULL_ONLY: Final = Capabilities()
DELTAS: Final = Capabilities(incremental=True, tombstones=True)
DELTAS_ONLY: Final = Capabilities(incremental=True)
"""Incremental, without a word about what is gone."""

PATIENCE_S: Final = 0.25


def in_domains(*domains: tuple[str, str]) -> Holdings:
    """Of a shard that has these domains."""
    return Holdings(Owned(domains=frozenset(Domain(*each) for each in domains), assigned=True))


class FakeLink:
    """A provider's records and their revisions: a list since a cursor names what changed after it,
    and a cursor that is not known means from the beginning.
    """

    def __init__(
        self,
        *machines: Machine,
        source: str = "metal",
        capabilities: Capabilities | None = DELTAS,
        delay_s: float = 0.0,
    ) -> None:
        self.source = source
        self.capabilities = capabilities
        self.delay_s = delay_s
        self.get_delay_s = 0.0
        self.fails: Exception | None = None
        self.get_fails: Exception | None = None
        self.hides: set[str] = set()
        """Left out of full lists."""

        self.notices: dict[MachineId, InterruptionNotice] = {}
        self.asked: list[ListRequest] = []
        self.looked_up: list[str] = []
        self.life = "a"
        self._revision = 0
        self._there: dict[MachineId, tuple[int, Machine]] = {}
        self._gone: dict[MachineId, int] = {}
        self.put(*machines)

    def put(self, *machines: Machine) -> None:
        """These records are as they stand from now on."""
        for machine in machines:
            self._revision += 1
            self._there[machine.id] = (self._revision, machine)

    def take_away(self, *machines: str) -> None:
        for name in machines:
            self._revision += 1
            del self._there[MachineId(name)]
            self._gone[MachineId(name)] = self._revision

    def notice(self, machine: str, at_s: float) -> None:
        self.notices[MachineId(machine)] = InterruptionNotice(at_s)
        self.put(self._there[MachineId(machine)][1])

    def restart(self) -> None:
        """Its cursors mean nothing any more."""
        self.life += "a"

    async def listing(self, request: ListRequest) -> MachineBatch:
        self.asked.append(request)
        answer = self._answer(request.since)
        await asyncio.sleep(self.delay_s)
        if self.fails is not None:
            raise self.fails
        return answer

    def _answer(self, since: bytes) -> MachineBatch:
        life, _, revision = since.decode().partition(":")
        known = bool(self.capabilities and self.capabilities.incremental) or (
            self.capabilities is None
        )
        full = not since or life != self.life or not known
        after = 0 if full else int(revision)
        names = [name for name, (at, _) in self._there.items() if at > after]
        if full:
            names = [name for name in names if name not in self.hides]
        tombstones: list[MachineId] = []
        if not full and self.capabilities is not None and self.capabilities.tombstones:
            tombstones = [name for name, at in self._gone.items() if at > after]
        # One that declares nothing does not say which of both it was: see `is_full` of the wire.
        told = full if self.capabilities is not None else not since
        batch = batch_of(
            [self._there[name][1] for name in names],
            source=self.source,
            full=told,
            tombstones=tombstones,
        )
        notices = {name: self.notices[name] for name in names if name in self.notices}
        cursor = f"{self.life}:{self._revision}".encode()
        return dataclasses.replace(batch, cursor=cursor, notices=notices)

    async def get(self, request: GetRequest) -> Machine:
        self.looked_up.append(request.machine)
        held = self._there.get(MachineId(request.machine))
        await asyncio.sleep(self.get_delay_s)
        if self.get_fails is not None:
            raise self.get_fails
        if held is None:
            raise UnknownMachine(f"no machine {request.machine}")
        return held[1]

    async def create(self, request: CreateRequest) -> Ack:
        raise NotSupported("a list is all it has")

    async def configure(self, request: ConfigureRequest) -> Ack:
        raise NotSupported("a list is all it has")

    async def drain(self, request: DrainRequest) -> Ack:
        raise NotSupported("a list is all it has")

    async def delete(self, request: DeleteRequest) -> Ack:
        raise NotSupported("a list is all it has")


class SimLink:
    """The simulated provider as a shard calls it, without a transport."""

    def __init__(self, sim: Sim) -> None:
        self.sim = sim
        self.source = sim.calls.source
        provider = sim.provider
        self.create, self.configure = provider.create, provider.configure
        self.drain, self.delete, self.get = provider.drain, provider.delete, provider.get
        self.listing = provider.list

    @property
    def capabilities(self) -> Capabilities | None:
        return self.sim.calls.capabilities


class Diary:
    """A journal that can be read."""

    def __init__(self) -> None:
        self.lines: list[tuple[Event, str, int, dict[str, object]]] = []

    def disposed(self, records: Iterable[Disposed]) -> None:
        raise AssertionError(f"reconciling acts on nothing: {list(records)}")

    def noticed(self, event: Event, *, reason: str = "", count: int = 1, **facts: object) -> None:
        self.lines.append((event, reason, count, facts))

    def count(self, event: Event, reason: str | None = None) -> int:
        """How often something was noticed."""
        return sum(
            times for what, why, times, _ in self.lines if what is event and reason in {None, why}
        )

    def of(self, event: Event) -> list[dict[str, object]]:
        return [facts for what, _, _, facts in self.lines if what is event]


class Heard:
    """Clusters that write down what they are told."""

    def __init__(self) -> None:
        self.told: list[tuple[ClusterId, Machine]] = []

    def tell(self, cluster: ClusterId, machine: Machine) -> None:
        self.told.append((cluster, machine))

    def states(self, cluster: str, machine: str = "m-1") -> list[State]:
        """What a cluster was told of a machine, in order."""
        return [record.state for to, record in self.told if (to, record.id) == (cluster, machine)]

    def reclaim(
        self,
        machine: Machine,
        *,
        grace_s: int,
        unheard_grace_s: int,
        preemptor_priority: int | None,
    ) -> bool:
        raise AssertionError(f"reconciling drains nothing: {machine.id}")

    async def bootstrap(
        self,
        cluster: ClusterId,
        requirements: Sequence[Requirement],
        *,
        timeout_s: float,
        machine: str = "",
    ) -> bytes:
        raise AssertionError(f"reconciling joins nothing: {cluster}")


class Ends:
    """Whose step failed, who was lost, and who did well."""

    def __init__(self) -> None:
        self.failures: list[tuple[str, str]] = []
        self.losses: list[tuple[str, str]] = []
        self.successes: list[tuple[str, str]] = []

    def failed(self, machine: Machine, source: str) -> None:
        self.failures.append((machine.id, source))

    def lost(self, machine: Machine, source: str) -> None:
        self.losses.append((machine.id, source))

    def succeeded(self, machine: Machine, source: str) -> None:
        self.successes.append((machine.id, source))


@dataclass
class World:
    """A reconciler at work."""

    links: dict[str, Any]
    feeds: dict[str, Feed]
    reconciler: Reconciler
    inventory: Inventory
    ledger: Ledger
    moves: Moves
    clock: Clock
    diary: Diary = field(default_factory=Diary)
    clusters: Heard = field(default_factory=Heard)
    ends: Ends = field(default_factory=Ends)
    configured: list[str] = field(default_factory=list)
    holdings: Holdings = field(default_factory=Holdings)
    told_all: list[str] = field(default_factory=list)
    """The clusters that were told of all their machines."""

    async def look(self, *, patience_s: float = PATIENCE_S) -> Looked:
        return await self.reconciler.look(patience_s=patience_s)

    async def first(self) -> Looked:
        """The first lists, taken in."""
        await self.reconciler.wait_first(patience_s=300.0)
        return await self.look()

    async def cycles(self, count: int = 1, *, every_s: float = 10.0) -> Looked:
        """So many looks by the clock, one after the other; the sum of what they found."""
        looked = Looked()
        for _ in range(count):
            await asyncio.sleep(every_s)
            self.reconciler.tick()
            looked += await self.look()
        return looked

    def ready(self) -> bool:
        return self.reconciler.heard.ready

    def merges(self) -> list[str]:
        """The providers whose reports are merged from now on."""
        merged: list[str] = []
        merge = self.inventory.merge

        def counting(report: MachineBatch | Report, **given: Any) -> MergeReport:
            merged.append(report.source)
            return merge(report, **given)

        self.inventory.merge = counting  # type: ignore[method-assign]
        return merged

    def assign(self, key: str, value: str) -> None:
        owned = assigned(self.holdings.owned, Domain(key, value))
        self.holdings.put(owned, self.clock.elapsed_s())

    def unassign(self, key: str, value: str) -> None:
        self.holdings.put(unassigned(self.holdings.owned, Domain(key, value)))

    def state(self, machine: str = "m-1") -> State:
        return self.inventory.machine(MachineId(machine)).state

    def has(self, machine: str = "m-1") -> bool:
        return machine in self.inventory


@asynccontextmanager
async def world(
    *links: FakeLink | SimLink,
    holdings: Holdings | None = None,
    feed_options: FeedOptions | None = None,
    options: ReconcileOptions | None = None,
) -> AsyncIterator[World]:
    """Feeds that run until the block is left."""
    clock = LoopClock()
    diary, clusters, ends = Diary(), Heard(), Ends()
    configured, told_all = list[str](), list[str]()
    inventory, ledger = Inventory(), Ledger(clock)
    moves = Moves(inventory, ledger, clusters, clock)
    feeds = [Feed(link.source, link, clock, feed_options, journal=diary) for link in links]
    books = Books(
        inventory=inventory,
        ledger=ledger,
        moves=moves,
        journal=diary,
        failures=ends,
        clock=clock,
        configured=lambda machine: configured.append(machine.id),
        tell_all=told_all.append,
    )
    holdings = holdings or Holdings()
    reconciler = Reconciler(books, feeds, holdings=holdings, options=options)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(reconciler.run())
        try:
            yield World(
                {link.source: link for link in links},
                {feed.name: feed for feed in feeds},
                reconciler,
                inventory,
                ledger,
                moves,
                clock,
                diary,
                clusters,
                ends,
                configured,
                holdings,
                told_all,
            )
        finally:
            task.cancel()


Scenario = Callable[[World], Awaitable[None]]


def play(
    scenario: Scenario,
    *links: FakeLink,
    holdings: Holdings | None = None,
    feed_options: FeedOptions | None = None,
    options: ReconcileOptions | None = None,
) -> None:
    """Run a scenario to its end, in no time."""

    async def whole() -> None:
        async with world(
            *links, holdings=holdings, feed_options=feed_options, options=options
        ) as made:
            await scenario(made)

    run(whole())
