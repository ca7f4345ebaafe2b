"""The only writer of what a shard owns: the file first, beside the event loop, then the memory.

Machines that are about to be another's are in hand meanwhile, so that nobody begins anything with
them. If the disk does not take a change, nobody knows which of both it has; they stay in hand until
it has taken what is true.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from mainstay.engine.barred import Barred
from mainstay.engine.quota import Place
from mainstay.inventory.inventory import Inventory
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.batch import Shape
from mainstay.model.coordination import Domain, Handed, QuotaMoved, Stray
from mainstay.model.errors import MainstayError
from mainstay.model.ids import ClusterId, MachineId, ShardId
from mainstay.model.machine import Machine
from mainstay.model.state import State
from mainstay.runtime.aside import Aside
from mainstay.runtime.clock import Clock
from mainstay.shard.events import Event
from mainstay.shard.executor import Executor
from mainstay.shard.facts import Published
from mainstay.shard.ledger import Ledger
from mainstay.shard.lists.intake import in_turns
from mainstay.shard.ownership.holdings import Holdings
from mainstay.shard.ownership.owned import Owned, domain_by
from mainstay.shard.ownership.quota import HeldQuota, place_of
from mainstay.shard.ports import Journal
from mainstay.shard.reconcile import Reconciler

FREE: Final = frozenset({State.IDLE, State.SPECULATIVE, State.FAILED})
"""A machine in one of these that is bound to no cluster serves nobody."""

TOLD_MAX: Final = 20
"""So many machines of one event are named."""


class KeptOwned(Protocol):
    """The file."""

    @property
    def value(self) -> Owned:
        """As it was kept last."""

    def keep(self, value: Owned) -> None:
        """Have this value from now on; Unavailable, and then nothing is sure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnershipTools:
    """What owning takes."""

    shard: ShardId
    holdings: Holdings
    kept: KeptOwned
    quota: HeldQuota
    inventory: Inventory
    ledger: Ledger
    reconciler: Reconciler
    executor: Executor
    journal: Journal
    clock: Clock
    aside: Aside
    published: Callable[[], Published | None]
    """What the last cycle left."""

    wake: Callable[[], None]
    """Has a cycle soon."""

    sources: frozenset[str]
    """The names of our providers."""


@dataclass(frozen=True, slots=True)
class Parted:
    """Machines that are to go: those that can at once, in hand, and those that cannot yet."""

    free: tuple[Handed, ...]
    kept: tuple[Stray, ...]
    places: Mapping[Place, int]
    """What those that can go at once count for, where quota goes with them."""

    @property
    def names(self) -> tuple[MachineId, ...]:
        """Of those in hand."""
        return tuple(each.machine for each in self.free)


class Keeping:
    """Changes what is owned. Lives on the event loop; one change at a time is its callers' care."""

    def __init__(self, tools: OwnershipTools) -> None:
        self._tools = tools
        self._doubtful: set[MachineId] | None = None
        self._found: frozenset[ClusterId] | None = None
        """Whom machines served that were there at the start, once that is known."""

    @property
    def owned(self) -> Owned:
        """What is owned now."""
        return self._tools.holdings.owned

    def is_free(self, record: Machine) -> bool:
        """Whether a machine serves nobody and nobody has it in hand."""
        return (
            record.state in FREE and record.cluster is None and record.id not in self._tools.ledger
        )

    async def keep(self, owned: Owned, *, in_hand: Sequence[MachineId] = ()) -> None:
        """Own this from now on; Unavailable, and then nothing has changed."""
        tools = self._tools
        if owned is self.owned:
            return
        try:
            await tools.aside(lambda: tools.kept.keep(owned))
        except BaseException:
            self._doubtful = (self._doubtful or set()) | set(in_hand)
            raise
        tools.holdings.put(owned, tools.clock.elapsed_s())
        self._believe(besides=in_hand)

    async def make_sure(self) -> None:
        """After a write that failed: have the file say what is so, and let go of what was held."""
        tools, owned = self._tools, self.owned
        if self._doubtful is not None:
            await tools.aside(lambda: tools.kept.keep(owned))
            self._believe()

    def _believe(self, *, besides: Iterable[MachineId] = ()) -> None:
        """The disk has what is true: what was in hand because of a doubt no longer is."""
        doubtful, self._doubtful = self._doubtful or set(), None
        for machine in doubtful.difference(besides):
            self._tools.ledger.give_back(machine)

    async def remember(self) -> None:
        """Have the file name the domains of the configuration: the next one may name others."""
        tools, owned = self._tools, self.owned
        if not owned.assigned and tools.kept.value.configured != owned.configured:
            await tools.aside(lambda: tools.kept.keep(owned))

    async def lower(
        self, places: Mapping[Place, int], *, in_hand: Iterable[MachineId]
    ) -> tuple[QuotaMoved, ...]:
        """Hold less quota, because machines in hand are about to go; Unavailable, and then they
        are not. It is lowered before they go: a crash in between costs quota and exceeds none.
        """
        try:
            return await self._tools.quota.lower(places)
        except BaseException:
            self.put_back(in_hand)
            raise

    def counts_for(self, machines: Iterable[MachineId]) -> Counter[Place]:
        """Which places these machines count for; slots count nothing."""
        inventory, places = self._tools.inventory, Counter[Place]()
        for name in machines:
            record = inventory.machine(name)
            if record.state is not State.SPECULATIVE:
                places[place_of(inventory.source(name), record.profile)] += 1
        return places

    async def part(
        self,
        machines: Iterable[MachineId],
        keys: Sequence[str],
        *,
        uncounted: Collection[MachineId] = (),
    ) -> Parted:
        """Take in hand what is free; the rest serves or is on its way, and is kept until it is.

        With the `uncounted` no quota goes: others have them, and theirs. Those that serve clusters
        of others go too.
        """
        tools = self._tools
        others = self._others() if uncounted else frozenset[ClusterId]()
        places = Counter[Place]()
        free: list[Handed] = []
        kept: list[Stray] = []
        async for name in in_turns(machines):
            if name not in tools.inventory:
                continue
            record = tools.inventory.machine(name)
            source = tools.inventory.source(name)
            domain = domain_by(keys, record.profile)
            is_theirs = name in uncounted and record.cluster in others
            if (is_theirs or self.is_free(record)) and tools.ledger.take(name):
                free.append(Handed(name, source, domain))
                places.update(() if name in uncounted else self.counts_for([name]))
            else:
                kept.append(Stray(name, source, domain, leaving=True))
        return Parted(tuple(free), tuple(kept), places)

    def find_clusters(self) -> None:
        """Remember, once after a start, whom the machines serve that every list has named."""
        if self._found is None and self._tools.reconciler.heard.knows_all:
            self._found = _served(self._tools.inventory.snapshot())

    def _others(self) -> frozenset[ClusterId]:
        """The clusters that are not ours, of those that machines serve.

        Whoever was heard is ours, whatever it asks for now. One that was not is, too, if machines
        served it at the start: it may not have come back yet.
        """
        published, found = self._tools.published(), self._found
        if published is None or found is None:
            return frozenset()
        demand = published.plan.demand
        served = _served(self._tools.inventory.snapshot())
        return served - found - demand.heard - frozenset(demand.asked.clusters)

    async def let_go(self, machines: Sequence[MachineId], why: str) -> None:
        """Forget machines in hand that are no longer ours. Nobody lost them: nobody is told."""
        tools = self._tools
        async for name in in_turns(machines):
            if name in tools.inventory:
                tools.inventory.remove(name)
            tools.ledger.give_back(name)
        self.tell(Event.MACHINE_LET_GO, machines, reason=why)

    def put_back(self, machines: Iterable[MachineId]) -> None:
        """Let go of machines in hand that are ours after all."""
        for name in machines:
            self._tools.ledger.give_back(name)

    def tell(
        self, event: Event, machines: Sequence[MachineId], *, reason: str = "", **facts: object
    ) -> None:
        """One line for all of them."""
        if machines:
            named = " ".join(machines[:TOLD_MAX])
            self._tools.journal.noticed(
                event, reason=reason, count=len(machines), machines=named, **facts
            )


def _served(snapshot: Snapshot) -> frozenset[ClusterId]:
    """The clusters that machines are bound to."""
    used = np.unique(snapshot.cluster[snapshot.order]).tolist()
    return frozenset(snapshot.clusters[code] for code in used if code)


def lying(snapshot: Snapshot, chosen: Callable[[Shape], bool]) -> list[MachineId]:
    """The machines whose shape is chosen, in order of their ids. Asked once per shape."""
    shapes = snapshot.shapes.values
    wanted = np.array([bool(number) and chosen(shape) for number, shape in enumerate(shapes)])
    rows = snapshot.order[wanted[snapshot.shape[snapshot.order]]]
    return snapshot.machine_ids(rows.astype(np.intp))


def joined(one: Barred, other: Barred) -> Barred:
    """What either of them names."""
    if not (one and other):
        return one or other
    return Barred(
        sources=one.sources | other.sources,
        values=one.values | other.values,
        machines=one.machines | other.machines,
        offers=one.offers | other.offers,
    )


def is_in(domain: Domain) -> Callable[[Shape], bool]:
    """Whether a shape lies in a domain."""
    return lambda shape: shape.profile.attribute(domain.key) == domain.value


def reason_of(error: MainstayError) -> str:
    """For the answer to an instruction."""
    return error.message
