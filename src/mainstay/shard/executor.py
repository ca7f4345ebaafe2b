"""The executor: a queue and a pool of workers for each provider. Nobody waits for an action.

What does not fit is dropped, and what waits too long is overtaken: the next cycle decides again,
on what is true then. A provider that hangs holds up only its own queue, and a cluster that hangs
holds up nobody: an order that waits for one has no worker meanwhile.
"""

import asyncio
import contextlib
import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Protocol

from mainstay.model.action import Action, ActionKind
from mainstay.model.errors import MainstayError
from mainstay.model.ids import MachineId
from mainstay.model.state import State
from mainstay.shard.actions.bootstrap import bootstrap
from mainstay.shard.actions.delete import delete
from mainstay.shard.actions.drain import drain
from mainstay.shard.actions.provision import provision
from mainstay.shard.admitted import HELD_BY
from mainstay.shard.events import Event
from mainstay.shard.hands.flows import Ending, Reaction, failed, in_hand
from mainstay.shard.hands.lane import Lane, Waiting
from mainstay.shard.hands.tools import Tools
from mainstay.shard.orders import Disposed, Order
from mainstay.shard.outcomes import Disposition, Outcome


class Flow(Protocol):
    """The life of one action, from a stable state to an ending."""

    async def __call__(self, order: Order, tools: Tools, *, until_s: float) -> Ending:
        """No call begins after `until_s`."""


@dataclass(frozen=True, slots=True)
class _Doing:
    starts_in: State
    flow: Flow


# fmt: off
DOINGS: Final[Mapping[ActionKind, _Doing]] = MappingProxyType({
    ActionKind.BOOTSTRAP: _Doing(State.IDLE,        bootstrap),
    ActionKind.PROVISION: _Doing(State.SPECULATIVE, provision),
    ActionKind.PREEMPT:   _Doing(State.CONFIGURED,  drain),
    ActionKind.RECLAIM:   _Doing(State.CONFIGURED,  drain),
    ActionKind.DELETE:    _Doing(State.IDLE,        delete),
})
# fmt: on


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorOptions:
    """How much at once, and for how long."""

    workers: int = 32
    """Of each provider."""

    queue: int = 0
    """How many orders may wait for each provider; 0: twice the workers."""

    deadline_s: float = 30.0
    """An order makes no call later than so long after it was begun."""

    @property
    def queue_length_max(self) -> int:
        """How many orders may wait."""
        return self.queue or 2 * self.workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """What became of an offer: every order is in one of the first four."""

    accepted: int = 0
    dropped: int = 0
    deduplicated: int = 0
    held: int = 0
    """By what came after the decision: a fence, a control, a cluster that does not answer."""

    overtaken: int = 0
    """Orders of earlier plans that had not begun and that this one does not repeat."""


class Executor:
    """Carries out orders. Lives on the event loop; `offer` may be called before `run`."""

    def __init__(
        self,
        tools: Tools,
        sources: Iterable[str],
        options: ExecutorOptions | None = None,
        *,
        on_room: Callable[[], None] = lambda: None,
    ) -> None:
        self._tools = dataclasses.replace(tools, off_work=lambda name: self._lanes[name].off_work())
        self._options = options = options or ExecutorOptions()
        self._lanes = {name: Lane(options.queue_length_max, options.workers) for name in sources}
        self._on_room = on_room
        self._cycle = 0
        self._besides: set[MachineId] = set()
        """Of orders that wait and are of no plan."""

    @property
    def depth(self) -> Mapping[str, int]:
        """How many orders wait for each provider."""
        return {name: len(lane) for name, lane in self._lanes.items()}

    @property
    def in_flight(self) -> Mapping[str, int]:
        """How many orders are being carried out through each provider."""
        return {name: len(lane.running) for name, lane in self._lanes.items()}

    @property
    def room(self) -> int:
        """How many orders through one provider are worth offering: some more than fit, so that who
        does not fit is noticed, and some may have moved on meanwhile.
        """
        return 2 * self._options.queue_length_max

    def offer(self, orders: Iterable[Order], *, cycle: int) -> Offered:
        """Take on the orders of a plan, which replaces every earlier one. Never waits."""
        self._cycle = cycle
        orders = list(orders)
        disposed = self._overtaken({order.action.machine: order.action for order in orders})
        overtaken = len(disposed)
        counts: Counter[Disposition] = Counter()
        for order in orders:
            refused = self._admit(order)
            if refused is not None:
                counts[refused.disposition] += 1
                disposed.append(refused)
        self._tools.journal.disposed(disposed)
        dropped, again = counts[Disposition.DROPPED], counts[Disposition.DEDUPLICATED]
        return Offered(
            accepted=len(orders) - counts.total(),
            dropped=dropped,
            deduplicated=again,
            held=counts.total() - dropped - again,
            overtaken=overtaken,
        )

    def also(self, orders: Iterable[Order]) -> int:
        """Take on orders that are of no plan, and that none replaces; how many. Never waits.

        Those that are in hand already are no news. The rest of what is not taken on is told.
        """
        fresh = [each for each in orders if each.action.machine not in self._tools.ledger]
        refused = [(order, self._admit(order)) for order in fresh]
        taken = {order.action.machine for order, why_not in refused if why_not is None}
        self._besides |= taken
        self._tools.journal.disposed([why_not for _, why_not in refused if why_not is not None])
        return len(taken)

    async def run(self) -> None:
        """Work until cancelled; what then has not begun is let go."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for name, lane in self._lanes.items():
                    tasks.create_task(self._work(lane, tasks), name=f"lane of {name}")
        finally:
            self._besides.clear()
            for lane in self._lanes.values():
                left = [*lane.running.values(), *lane.leave_only(lambda _: False)]
                self._tools.journal.disposed(self._dropped(left, "stopped"))

    def _overtaken(self, plan: Mapping[MachineId, Action]) -> list[Disposed]:
        """Let go of what waits and is not in the plan."""

        def is_wanted(order: Order) -> bool:
            machine = order.action.machine
            return machine in self._besides or _is_repeated(order.action, plan.get(machine))

        left = [each for lane in self._lanes.values() for each in lane.leave_only(is_wanted)]
        return self._dropped(left, "overtaken")

    def _dropped(self, left: Sequence[Waiting], why: str) -> list[Disposed]:
        """Orders that are not to begin any more."""
        for each in left:
            self._tools.ledger.give_back(each.order.action.machine)
        return [self._let_go(each.order, Disposition.DROPPED, why) for each in left]

    def _admit(self, order: Order) -> Disposed | None:
        """Let an order wait for its turn; why not, if not."""
        tools, machine = self._tools, order.action.machine
        lane = self._lanes.get(order.source)
        if lane is None:
            return self._let_go(order, Disposition.DROPPED, "no_provider", order.source)
        if (held := self._held_back(order)) is not None:
            return held
        if machine in tools.ledger:
            return self._let_go(order, Disposition.DEDUPLICATED, "in_flight")
        if why := _moved_on(order, tools):
            return self._let_go(order, Disposition.DEDUPLICATED, "stale_state", why)
        if not lane.has_room_for(order):
            lane.owes_room = True
            return self._let_go(order, Disposition.DROPPED, "queue_full")
        tools.ledger.take(machine)
        lane.put(Waiting(order, tools.clock.elapsed_s()))
        return None

    def _held_back(self, order: Order) -> Disposed | None:
        """What stops an order now, whatever was so when it was decided; None if nothing does."""
        if why := self._tools.acting.why_not(order.source):
            return self._let_go(order, Disposition.SUPPRESSED, "fenced", why)
        stance = self._tools.stance(order)
        if stance in HELD_BY:
            return self._let_go(order, *HELD_BY[stance])
        return self._let_go(order, Disposition.DEFERRED, "back_off") if self._waits(order) else None

    def _waits(self, order: Order) -> bool:
        """Whether it is a bootstrap for a cluster that does not answer at present."""
        if order.action.kind is not ActionKind.BOOTSTRAP or order.need is None:
            return False
        now_s = self._tools.clock.elapsed_s()
        return self._tools.backoff.is_backed_off(order.need.cluster, now_s)

    def _let_go(
        self, order: Order, disposition: Disposition, reason: str, detail: str = ""
    ) -> Disposed:
        return Disposed(
            order=order, disposition=disposition, reason=reason, detail=detail, cycle=self._cycle
        )

    async def _work(self, lane: Lane, tasks: asyncio.TaskGroup) -> None:
        """Begin what waits, as workers become free."""
        while True:
            waiting = await lane.next()
            if lane.owes_room and lane.is_half_empty:
                lane.owes_room = False
                self._on_room()
            tasks.create_task(self._in_lane(lane, waiting))

    async def _in_lane(self, lane: Lane, waiting: Waiting) -> None:
        try:
            await self._carry_out(waiting)
        finally:
            lane.done(waiting)

    async def _carry_out(self, waiting: Waiting) -> None:
        """One order, to its end; exactly one record of it is left."""
        tools, order = self._tools, waiting.order
        self._besides.discard(order.action.machine)
        if (held := self._held_back(order)) is not None:
            tools.ledger.give_back(order.action.machine)
            tools.journal.disposed([held])
            return
        ending = Ending(Outcome.CANCELLED)
        try:
            until_s = tools.clock.elapsed_s() + self._options.deadline_s
            ending = await DOINGS[order.action.kind].flow(order, tools, until_s=until_s)
        except Exception as error:  # noqa: BLE001 - one defect must not end the others' work
            ending = self._contained(order, error)
        finally:
            tools.ledger.give_back(order.action.machine)
            tools.journal.disposed([self._executed(waiting, ending)])

    def _executed(self, waiting: Waiting, ending: Ending) -> Disposed:
        return Disposed(
            order=waiting.order,
            disposition=Disposition.EXECUTED,
            outcome=ending.outcome,
            detail=ending.detail,
            cycle=self._cycle,
            seconds=self._tools.clock.elapsed_s() - waiting.since_s,
        )

    def _contained(self, order: Order, error: Exception) -> Ending:
        """A defect of ours, or a move that the table does not have."""
        tools, why = self._tools, f"{type(error).__name__}: {error}"
        tools.journal.noticed(
            Event.WORKER_FAILED,
            reason=order.action.kind.value,
            machine=order.action.machine,
            why=why,
        )
        with contextlib.suppress(MainstayError):
            failed(in_hand(order), tools, why, Reaction(Outcome.TRANSITION_ERROR, hardware=False))
        return Ending(Outcome.TRANSITION_ERROR, why)


def _is_repeated(waiting: Action, planned: Action | None) -> bool:
    """Whether a plan wants the same; how long workloads have to leave makes no other action."""
    return planned is not None and (
        (waiting.kind, waiting.cluster, waiting.need)
        == (planned.kind, planned.cluster, planned.need)
    )


def _moved_on(order: Order, tools: Tools) -> str:
    """Why the machine is no longer where the plan saw it; nothing where that cannot be told."""
    try:
        state = tools.inventory.machine(order.action.machine).state
    except MainstayError:
        return ""
    wanted = DOINGS[order.action.kind].starts_in
    return "" if state is wanted else f"the machine is {state}, not {wanted}"
