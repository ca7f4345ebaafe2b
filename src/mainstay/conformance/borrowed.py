"""Machines borrowed from a provider for the time of a run, and given back as they were found.

Nothing is touched but quota slots and idle machines that were there when the run began. The
cheapest are taken first, and one that was created serves check after check.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence

from mainstay.conformance import expect
from mainstay.conformance.caller import Caller
from mainstay.conformance.check import Broken, NotRun
from mainstay.conformance.limits import Limits
from mainstay.model.state import TRANSITIONAL, State, state_name
from mainstay.wire.raw_calls import Record

CREATE_FAULT = ("conformance.fault/create", "error")
"""The label of slots whose Create fails: only checks of failures take them."""


class Borrowed:
    """What a run may use of a fleet."""

    def __init__(self, caller: Caller, fleet: Iterable[Record], limits: Limits) -> None:
        self._caller = caller
        self._limits = limits
        by_price = sorted(fleet, key=lambda record: (record.price_per_hour, record.id))
        self.found = {record.id: State(record.state) for record in by_price}
        self.deletes = False
        """Whether Delete is supported."""

        self.touched: set[str] = set()
        self.failed: set[str] = set()
        self._slots = [each.id for each in by_price if _is(each, State.SPECULATIVE)]
        self._faulty = [each.id for each in by_price if _faulty(each)]
        self._ours: list[str] = []
        """Idle now, quota slots before."""

        self._idle = [each.id for each in by_price if _is(each, State.IDLE)]

    def by_state(self) -> Counter[State]:
        """What was found."""
        return Counter(self.found.values())

    @property
    def has_slots(self) -> bool:
        """Whether there was anything to create."""
        return State.SPECULATIVE in self.found.values()

    async def slot(self) -> str:
        """A quota slot."""
        if not self._slots and self._ours and self.deletes:
            machine = self._ours.pop()
            expect.acked(await self._caller.delete(machine))
            await settled(self._caller, machine, self._limits)
            return self._take([machine])
        return self._take(self._slots)

    async def idle(self) -> str:
        """An idle machine; it may have been created by an earlier check."""
        if self._ours:
            return self._take(self._ours)
        if not self._slots:
            return self._take(self._idle)
        machine = self._take(self._slots)
        expect.acked(await self._caller.create(machine))
        expect.state(await settled(self._caller, machine, self._limits), State.IDLE)
        return machine

    def faulty(self) -> str:
        """A quota slot whose Create fails."""
        return self._take(self._faulty)

    async def give_back(self, machines: Iterable[str]) -> None:
        """Bring machines to rest, unbound, for the next check."""
        for machine in machines:
            try:
                state = State((await self._freed(machine)).state)
            except Broken:
                self.failed.add(machine)
                continue
            self._keep(machine, state)

    async def restore(self) -> None:
        """Make quota slots again of what was one, where the provider can."""
        if not self.deletes:
            return
        async with asyncio.TaskGroup() as tasks:
            turns = asyncio.Semaphore(self._limits.at_once)
            for machine in self._ours:
                tasks.create_task(self._deleted(machine, turns))

    def left(self, fleet: Iterable[Record]) -> list[str]:
        """In sentences: which of the machines we touched are not as they were found."""
        return [
            f"{record.id}: {state_name(record.state)}, was {self.found[record.id]}"
            for record in fleet
            if record.id in self.touched and record.state != self.found[record.id]
        ]

    def _take(self, machines: list[str]) -> str:
        if not machines:
            raise NotRun("too few machines: no quota slot and no idle machine is left")
        machine = machines.pop(0)
        self.touched.add(machine)
        return machine

    def _keep(self, machine: str, state: State) -> None:
        if state is State.SPECULATIVE:
            self._slots.append(machine)
        elif state is State.IDLE and self.found[machine] is State.SPECULATIVE:
            self._ours.append(machine)
        elif state is State.IDLE:
            self._idle.append(machine)
        else:
            self.failed.add(machine)

    async def _freed(self, machine: str) -> Record:
        record = await settled(self._caller, machine, self._limits)
        if record.state == State.CONFIGURED:
            expect.acked(await self._caller.drain(machine))
            record = await settled(self._caller, machine, self._limits)
        return record

    async def _deleted(self, machine: str, turns: asyncio.Semaphore) -> None:
        async with turns:
            reply = await self._caller.delete(machine)
            if reply.ok:
                try:
                    await settled(self._caller, machine, self._limits)
                except Broken:
                    self.failed.add(machine)


async def settled(caller: Caller, machine: str, limits: Limits) -> Record:
    """The machine at rest, or Failed."""
    trace = await watched(caller, machine, limits, until=frozenset(State) - TRANSITIONAL)
    return trace[-1]


async def watched(
    caller: Caller, machine: str, limits: Limits, *, until: frozenset[State]
) -> Sequence[Record]:
    """Everything seen of a machine until it is in one of these states."""
    seen: list[Record] = []
    try:
        async with asyncio.timeout(limits.step_s):
            while not seen or seen[-1].state not in until:
                if seen:
                    await asyncio.sleep(limits.poll_s)
                seen.append(await caller.get(machine))
    except TimeoutError as error:
        at = state_name(seen[-1].state) if seen else "not to be seen"
        raise Broken(f"machine {machine} is still {at} after {limits.step_s:g} s") from error
    return seen


def _is(record: Record, state: State) -> bool:
    return record.state == state and not _faulty(record)


def _faulty(record: Record) -> bool:
    return record.state == State.SPECULATIVE and CREATE_FAULT in record.labels.items()
