"""Steps that a provider has accepted and never finished: each state has a deadline.

A machine counts from when it was first seen so, or last in our own hands; after a restart, from
its first sight. Time in which its provider does not answer does not count: nobody can know what it
has done. Whoever is over the deadline is asked for, and is Failed if the answer does not finish it.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from mainstay.engine.preempt import LONGEST_GRACE_S
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.errors import MainstayError, Unavailable
from mainstay.model.ids import MachineId
from mainstay.model.state import TRANSITIONAL, State
from mainstay.providers.kit.steps import CALL_OF
from mainstay.shard.events import Event
from mainstay.shard.hands.flows import InHand, Reaction, failed, settled
from mainstay.shard.hands.tools import Tools
from mainstay.shard.outcomes import Outcome

DEADLINES_S: Final[Mapping[State, float]] = MappingProxyType(
    {
        State.CREATING: 1800.0,
        State.CONFIGURING: 900.0,
        State.DRAINING: 1800.0 + LONGEST_GRACE_S,
        State.DELETING: 900.0,
    }
)
"""The longest grace there is, since after a restart nobody knows which one a drain was given."""


class Way(NamedTuple):
    """Through whom a machine is on its way, and as what."""

    source: str
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class OverdueOptions:
    """How patient a shard is with steps."""

    deadlines_s: Mapping[State, float] = field(default_factory=lambda: DEADLINES_S)
    gets_at_once: int = 4
    """Of each provider."""

    unanswered_s: float = 300.0
    """Of a provider that lists and answers nothing else, so long after the deadline: no answer is
    one, too. Longer than it takes to notice that a provider is away.
    """


class Overdue:
    """Watches every machine that is on its way. `look` never waits; `run` asks."""

    def __init__(
        self, tools: Tools, sources: Iterable[str], options: OverdueOptions | None = None
    ) -> None:
        self._tools = tools
        self._options = options or OverdueOptions()
        self._seen: Snapshot | None = None
        self._seen_at_s = 0.0
        self._silent_s: defaultdict[str, float] = defaultdict(float)
        """How long each provider has not answered, altogether."""

        self._silent: frozenset[str] = frozenset()
        self._at: dict[int, tuple[MachineId, Way]] = {}
        """By row: who was on its way there, and which way."""

        self._since_s: defaultdict[Way, dict[MachineId, float]] = defaultdict(dict)
        """In time in which the provider answered; oldest first, so that only what is late is looked
        at.
        """

        self._late: dict[str, asyncio.Queue[MachineId]] = {
            each: asyncio.Queue() for each in sources
        }
        self._asked: set[MachineId] = set()
        self._in_vain: set[MachineId] = set()
        """Asked for since the last look without an answer: that begins no new count."""

        self._asking: set[MachineId] = set()
        """Asked for at this moment: in our hands, and that begins no new count either."""

    def look(
        self, snapshot: Snapshot, now_s: float, *, silent: frozenset[str] = frozenset()
    ) -> None:
        """See what is on its way, at this time of `Clock.elapsed_s`, and ask for what is late;
        `silent` are the providers that do not answer.
        """
        for source in silent | self._silent:
            self._silent_s[source] += now_s - self._seen_at_s
        self._silent, self._seen_at_s = silent, now_s
        changes = snapshot.changed_from(self._seen) if self._seen else None
        if changes is None:
            self._at.clear()
            self._since_s.clear()
        rows = snapshot.rows_in(*TRANSITIONAL) if changes is None else changes.rows
        self._see(snapshot, rows.tolist(), now_s)
        for machine in self._tools.ledger.news() - self._in_vain - self._asking:
            for way, since_s in self._since_s.items():
                if since_s.pop(machine, None) is not None:
                    since_s[machine] = self._answered_s(way.source, now_s)
        self._in_vain.clear()
        self._seen = snapshot
        self._ask_for_late(now_s)

    def _answered_s(self, source: str, now_s: float) -> float:
        """The time of a provider: it stands still while the provider does not answer."""
        return now_s - self._silent_s[source]

    def _see(self, snapshot: Snapshot, rows: Iterable[int], now_s: float) -> None:
        """Forget all who were in these rows before any who is there now is entered: two that come
        back may have each other's row.
        """
        entered: list[tuple[MachineId, Way]] = []
        for row in rows:
            now, before = _on_its_way(snapshot, row), self._at.pop(row, None)
            if now is not None:
                self._at[row] = now
            if before is not None and now != before:
                self._since_s[before[1]].pop(before[0], None)
            if now is not None and now != before:
                entered.append(now)
        for machine, way in entered:
            self._since_s[way][machine] = self._answered_s(way.source, now_s)

    def _ask_for_late(self, now_s: float) -> None:
        for way, of_way in self._since_s.items():
            if way.source in self._silent:
                continue
            for machine, since_s in of_way.items():
                late_s = self._answered_s(way.source, now_s) - since_s
                if late_s < self._options.deadlines_s[way.state]:
                    break
                if machine in self._tools.inventory:
                    self._ask_for(machine, way.source)

    async def run(self) -> None:
        """Ask until cancelled; a provider that hangs holds up only its own."""
        async with asyncio.TaskGroup() as tasks:
            for name, late in self._late.items():
                for number in range(self._options.gets_at_once):
                    tasks.create_task(self._ask(name, late), name=f"overdue {name}/{number}")

    def _ask_for(self, machine: MachineId, source: str) -> None:
        if machine not in self._asked and source in self._late:
            self._asked.add(machine)
            self._late[source].put_nowait(machine)

    async def _ask(self, source: str, late: asyncio.Queue[MachineId]) -> None:
        while True:
            machine = await late.get()
            ledger = self._tools.ledger
            try:
                if ledger.take(machine):
                    try:
                        await self._finish(InHand(machine, source))
                    except Exception as error:  # noqa: BLE001 - one machine must not end the rest
                        self._tell_defect(machine, error)
                    finally:
                        ledger.give_back(machine)
            finally:
                self._asked.discard(machine)

    def _tell_defect(self, machine: MachineId, error: Exception) -> None:
        """It is asked for again, since it still is on its way."""
        why = f"{type(error).__name__}: {error}"
        event = Event.WORKER_FAILED
        self._tools.journal.noticed(event, reason="overdue", machine=machine, why=why)

    async def _finish(self, hand: InHand) -> None:
        """Ask for one machine, and set it Failed unless that shows its step at an end."""
        tools = self._tools
        state = tools.inventory.machine(hand.machine).state if _is_there(hand, tools) else None
        since_s = self._since_s[Way(hand.source, state)].get(hand.machine) if state else None
        if state is None or since_s is None or hand.source in self._silent:
            return  # a list was faster, or there is nobody to ask
        self._asking.add(hand.machine)
        try:
            told = await tools.callers[hand.source].get(hand.machine)
        except MainstayError as error:
            if isinstance(error, Unavailable) and not self._has_waited(hand, state, since_s):
                self._in_vain.add(hand.machine)
                return  # its silence says nothing of the machine
            said, hardware = error.message, False
        else:
            settled(hand, tools, CALL_OF[state], told)
            said, hardware = f"it is {told.state}", True
        finally:
            self._asking.discard(hand.machine)
        if not _is_there(hand, tools) or tools.inventory.machine(hand.machine).state is not state:
            return
        seconds = self._answered_s(hand.source, tools.clock.elapsed_s()) - since_s
        why = f"{state} for {seconds:.0f} s, which is too long; asked, its provider said: {said}"
        tools.journal.noticed(
            Event.STEP_OVERDUE,
            reason=state.name.lower(),
            machine=hand.machine,
            provider=hand.source,
            why=why,
        )
        failed(hand, tools, why, Reaction(Outcome.PROVIDER_ERROR, hardware=hardware))

    def _has_waited(self, hand: InHand, state: State, since_s: float) -> bool:
        """Whether a provider has had its time to say what is late, and has answered meanwhile."""
        answered_s = self._answered_s(hand.source, self._tools.clock.elapsed_s()) - since_s
        return answered_s >= self._options.deadlines_s[state] + self._options.unanswered_s


def _on_its_way(snapshot: Snapshot, row: int) -> tuple[MachineId, Way] | None:
    """Who is in this row, and which way; None when nobody there is on the way."""
    state = State(snapshot.state.item(row))
    if state not in TRANSITIONAL:
        return None
    return MachineId(snapshot.ids[row]), Way(snapshot.sources[snapshot.source.item(row)], state)


def _is_there(hand: InHand, tools: Tools) -> bool:
    return hand.machine in tools.inventory
