"""Taking in one report of one provider, and all that follows from it.

What it names is merged; what it says is gone is removed, or held; where no edge leads, a record is
retired and admitted again. Refused records leave what we have and count as seen.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import numpy as np

from mainstay.inventory.merge import only
from mainstay.inventory.screen import Refusal
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.errors import IllegalTransition
from mainstay.model.ids import MachineId
from mainstay.model.machine import Machine
from mainstay.model.state import TRANSITIONAL, State
from mainstay.model.texts import Rows
from mainstay.shard.events import Event
from mainstay.shard.lists.absence import (
    NOTHING_HELD,
    AbsenceOptions,
    Missing,
    confirms_at_s,
    judge,
)
from mainstay.shard.lists.comebacks import Comebacks
from mainstay.shard.lists.feeds import Feed
from mainstay.shard.lists.looked import Looked
from mainstay.shard.lists.owed import Owed
from mainstay.shard.lists.reports import machines_of, moved_by
from mainstay.shard.lists.rivals import claimed_elsewhere
from mainstay.shard.lists.telling import Books, Moved, Telling
from mainstay.shard.ownership.holdings import Adoption
from mainstay.shard.ports import Listed

ILLEGAL: Final = IllegalTransition.code
OTHER_PROVIDER: Final = "other_provider"
"""The reason of a record about a machine that another provider has."""

RIVAL: Final = "another provider reports this machine: it stays with the one that was first"

ABSENT, TOMBSTONE, UNKNOWN = "absent", "tombstone", "unknown"
"""Why a machine is gone: a full list misses it, a list says so, or a Get does not find it."""

AT_ONCE: Final = 256
"""So many machines are dealt with one by one before somebody else may have a turn."""

ItemT = TypeVar("ItemT")


async def in_turns(items: Iterable[ItemT]) -> AsyncIterator[ItemT]:
    """All of these, and now and then a turn for somebody else."""
    for count, item in enumerate(items, start=1):
        yield item
        if count % AT_ONCE == 0:
            await asyncio.sleep(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeOptions:
    """How much is believed and told at once."""

    absence: AbsenceOptions = field(default_factory=AbsenceOptions)
    told_max: int = 5000
    """Of more new machines in one report, clusters are to be told all they have instead."""


class Intake:
    """Writes reports into the books."""

    def __init__(
        self,
        books: Books,
        owed: Mapping[str, Owed],
        options: IntakeOptions,
    ) -> None:
        self._books = books
        self._owed = owed
        self._options = options
        self._telling = Telling(books)
        self._comebacks = Comebacks()
        self._held = dict.fromkeys(owed, NOTHING_HELD)
        self._claimed: defaultdict[str, set[MachineId]] = defaultdict(set)
        """Of each provider what it names and another one has; a full list says it anew."""

    async def take_in(
        self, feed: Feed, report: Listed, touched: frozenset[MachineId], adoption: Adoption
    ) -> Looked:
        """Take in a report, and all that follows from it; nothing waits until it is merged."""
        name, books = feed.name, self._books
        claimed, named = self._disputed(name, report)
        merged = books.inventory.merge(
            report,
            now=books.clock.now_s(),
            skip=touched | claimed,
            adopt=None if adoption.domains is None else adoption.admits,
            named=adoption.named,
        )
        snapshot = books.inventory.snapshot()
        moved = moved_by(merged, snapshot)
        bound = merged.added[snapshot.cluster[merged.added] != 0]
        missing = snapshot.machine_ids(merged.absent)
        machines = machines_of(snapshot, name) - len(merged.added) - self._in_hand(name, touched)

        looked = Looked(
            added=len(merged.added),
            changed=len(merged.changed),
            unchanged=merged.unchanged,
            skipped=merged.skipped - len(named),
            foreign=merged.foreign,
        )
        illegal = {MachineId(e.machine): e for e in merged.refused if e.reason == ILLEGAL}
        retired = await self._retire(name, report, list(illegal)) if illegal else frozenset()
        looked += Looked(retired=len(retired))
        looked += self.refuse(name, [e for e in merged.refused if e.machine not in retired])
        looked += self.refuse(name, [Refusal(each, OTHER_PROVIDER, RIVAL) for each in named])
        looked += await self._judge(feed, report, missing, machines)
        if merged.foreign:
            books.journal.noticed(Event.MACHINE_FOREIGN, count=merged.foreign, provider=name)
        await self._tell_moved(name, moved)
        await self._tell_added(snapshot, bound)
        return looked

    def _disputed(self, name: str, report: Listed) -> tuple[frozenset[MachineId], list[MachineId]]:
        """What of a report is another provider's, and which of that it names: remembered, because
        that provider may give it up.
        """
        if len(self._owed) == 1:
            return frozenset(), []
        claimed = claimed_elsewhere(self._books.inventory, report, name)
        named = sorted(claimed.difference(report.tombstones))
        if report.full:
            self._claimed[name].clear()
        self._claimed[name].update(named)
        self._claimed[name].difference_update(report.tombstones)
        return claimed, named

    def _in_hand(self, name: str, touched: Iterable[MachineId]) -> int:
        """How many of these are machines of this provider: its list is not heard about them."""
        inventory = self._books.inventory
        return sum(each in inventory and inventory.source(each) == name for each in touched)

    def refuse(self, name: str, refused: Sequence[Refusal]) -> Looked:
        """Records that were not taken in: counted by reason, and one of each is shown."""
        times = Counter(each.reason for each in refused)
        shown = {each.reason: each for each in reversed(refused)}
        for reason, count in sorted(times.items()):
            self._books.journal.noticed(
                Event.MACHINE_REFUSED,
                reason=reason,
                count=count,
                provider=name,
                machine=shown[reason].machine,
                why=shown[reason].message,
            )
        return Looked(refused=len(refused))

    async def _retire(
        self, name: str, report: Listed, machines: Sequence[MachineId]
    ) -> frozenset[MachineId]:
        """Machines where no edge leads: give up what we have of them, take what is reported."""
        inventory, telling = self._books.inventory, self._telling
        reported = only(report, machines)
        states = dict(zip(reported.ids, map(State, reported.state.tolist()), strict=True))
        before: list[Machine] = []
        async for machine in in_turns(machines):
            record = self._let_be(name, machine)
            if record is not None and self._may_return(name, record, states[machine]):
                inventory.remove(machine)
                before.append(record)
        retired = frozenset(record.id for record in before)
        inventory.merge(only(reported, retired), now=self._books.clock.now_s())
        async for record in in_turns(before):
            if record.id in inventory:
                telling.admitted_again(record, inventory.machine(record.id), name)
            else:
                telling.not_admitted_again(record, name, ABSENT)
        return retired

    def _let_be(self, name: str, machine: MachineId) -> Machine | None:
        """A machine that is still there and nobody's; one in our hands by now is asked for."""
        if machine in self._books.ledger:
            self._owed[name].add(machine)
            return None
        inventory = self._books.inventory
        return inventory.machine(machine) if machine in inventory else None

    def _may_return(self, name: str, record: Machine, state: State) -> bool:
        """Whether a record may be retired now. One that we gave up waits until the provider has
        ended its step, and for longer if it comes too often.
        """
        if record.state is not State.FAILED:
            return True
        if state in TRANSITIONAL:
            return False
        if self._comebacks.allow(record.id, self._books.clock.elapsed_s()):
            return True
        self._owed[name].add(record.id)
        return False

    async def _judge(
        self, feed: Feed, report: Listed, missing: Sequence[MachineId], machines: int
    ) -> Looked:
        """What a report says is gone: at once, or when one repeats it that is asked for later."""
        if not report.full:
            return await self.remove(feed.name, missing, TOMBSTONE)
        options = self._options.absence
        found = Missing(
            machines=missing,
            known=machines,
            asked_at_s=feed.taken_asked_at_s,
            back_at_s=feed.back_at_s,
        )
        judged = judge(found, self._held[feed.name], options)
        self._held[feed.name] = judged.held
        if judged.held:
            self._books.journal.noticed(
                Event.LIST_HELD,
                reason=feed.name,
                provider=feed.name,
                missing=len(missing),
                machines=machines,
            )
            since_s = min(judged.held.values())
            feed.ask_full_from(confirms_at_s(since_s, feed.back_at_s, options))
        gone = await self.remove(feed.name, judged.gone, ABSENT)
        return gone + Looked(held=len(judged.held))

    async def remove(self, name: str, machines: Sequence[MachineId], why: str) -> Looked:
        """Machines that this provider no longer has; another one may have claimed them before."""
        removed = 0
        async for machine in in_turns(machines):
            before = self._let_be(name, machine)
            if before is None:
                continue
            self._books.inventory.remove(machine)
            self._telling.lost(before, name, why)
            for rival, claimed in self._claimed.items():
                if machine in claimed:
                    claimed.discard(machine)
                    self._owed[rival].add(machine)
            removed += 1
        return Looked(removed=removed)

    async def _tell_moved(self, name: str, moved: Sequence[tuple[MachineId, State, Moved]]) -> None:
        inventory = self._books.inventory
        async for machine, state, before in in_turns(moved):
            if machine in inventory and (record := inventory.machine(machine)).state is state:
                self._telling.moved(before, record, name)

    async def _tell_added(self, snapshot: Snapshot, rows: Rows) -> None:
        """Tell clusters of machines that are new to us; if too many, of all they have."""
        if len(rows) > self._options.told_max:
            for code in np.unique(snapshot.cluster[rows]).tolist():
                self._books.tell_all(snapshot.clusters[code])
            return
        inventory = self._books.inventory
        async for machine in in_turns(snapshot.machine_ids(rows)):
            if machine in inventory:
                self._telling.arrived(inventory.machine(machine))
