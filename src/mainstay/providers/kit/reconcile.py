"""What the hardware is, taken into what we know: new slots, changed facts, vanished hosts.

A state is never taken from the hardware: it changes only by steps. A machine whose host is gone is
not moved anywhere, for there is no legal edge; it is removed, with a tombstone, and its slot comes
back under a new id.
"""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from mainstay.model.errors import Rejected, Unavailable
from mainstay.model.machine import Machine
from mainstay.model.notice import InterruptionNotice
from mainstay.model.state import State
from mainstay.providers.kit.admission import machine_of
from mainstay.providers.kit.backend import Backend, Job, Slot
from mainstay.providers.kit.ledger import Ledger
from mainstay.providers.kit.record import Record

ThingT = TypeVar("ThingT")

TURN: Final = 1000

RESTING = frozenset({State.SPECULATIVE, State.IDLE, State.CONFIGURED})
"""Only a machine at rest can be found missing; of one at work, its step will tell."""


@dataclass(slots=True)
class Report:
    """What one look found."""

    added: int = 0
    refreshed: int = 0
    lost: list[str] = field(default_factory=list)
    refused: list[Rejected] = field(default_factory=list)


class Reconciler:
    """Looks at the hardware of one provider, again and again: it costs by what has changed."""

    def __init__(self, ledger: Ledger, backend: Backend) -> None:
        self._ledger = ledger
        self._backend = backend
        self._seen: dict[str, Slot] = {}
        """Slots as they were when last taken in."""

    async def look(self, *, now_s: float) -> Report:
        """One look. What the backend cannot tell stays as it is: a partial list loses nothing."""
        before = self._ledger.revision
        report = Report()
        listed = self._listed(await self._backend.slots(), report)
        async for slot in _in_turns(listed.values()):
            self._take_in(slot, report)
        missing = [
            record
            async for record in _in_turns(self._ledger)
            if record.modified <= before and _is_missing(record, listed)
        ]
        for record in missing:
            if await self._is_gone(record) and self._ledger.record(record.machine.id) == record:
                self._lose(record, now_s, report)
                if record.slot in listed:
                    self._take_in(listed[record.slot], report)
        self._ledger.commit()
        return report

    def _listed(self, slots: Sequence[Slot], report: Report) -> Mapping[str, Slot]:
        listed: dict[str, Slot] = {}
        for slot in slots:
            if slot.name in listed:
                twice = f"slot {slot.name!r} of provider {self._backend.name} is listed twice"
                report.refused.append(Rejected(twice))
            else:
                listed[slot.name] = slot  # also if it is refused later: that is no absence
        return listed

    def _take_in(self, slot: Slot, report: Report) -> None:
        record = self._ledger.of_slot(slot.name)
        seen = self._seen.get(slot.name)
        known = record is not None and record.notice == _notice(record, slot)
        if known and (slot is seen or slot == seen):
            return
        try:
            machine = machine_of(slot, self._backend.name)
            if record is None:
                self._ledger.admit(slot.name, machine, slot.notice if slot.host else None)
                report.added += 1
            elif self._ledger.refresh(_refreshed(record.machine, machine), _notice(record, slot)):
                report.refreshed += 1
            self._seen[slot.name] = slot
        except Rejected as refusal:
            report.refused.append(refusal)

    def _lose(self, record: Record, now_s: float, report: Report) -> None:
        host = record.machine.host
        what = f"host {host.ref} vanished" if host else "slot was withdrawn"
        self._ledger.remove(record.machine.id, reason=what, at=now_s)
        self._seen.pop(record.slot, None)
        report.lost.append(record.machine.id)

    async def _is_gone(self, record: Record) -> bool:
        try:
            return not await self._backend.describe(Job("", record.machine, record.slot))
        except Unavailable:
            return False


async def _in_turns(things: Iterable[ThingT]) -> AsyncIterator[ThingT]:
    """One after the other, letting calls through in between: a large fleet must not hold them."""
    for place, thing in enumerate(list(things)):
        if place % TURN == TURN - 1:
            await asyncio.sleep(0)
        yield thing


def _refreshed(known: Machine, told: Machine) -> Machine:
    """Declared facts; state, host and binding are ours."""
    return dataclasses.replace(
        known,
        profile=told.profile,
        allocatable=told.allocatable or known.allocatable,
        price_per_hour=told.price_per_hour,
        interruption_probability=told.interruption_probability,
    )


def _notice(record: Record, slot: Slot) -> InterruptionNotice | None:
    """A notice is about one host; of another, or of none, it says nothing about ours."""
    host = record.machine.host
    return slot.notice if host is not None and host.ref == slot.host else record.notice


def _is_missing(record: Record, listed: Mapping[str, Slot]) -> bool:
    machine = record.machine
    if machine.state not in RESTING:
        return False
    slot = listed.get(record.slot)
    if slot is None:
        return True
    return machine.host is not None and slot.host != machine.host.ref
