"""A running shard as its readers see it, and as people hold it back."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from mainstay.inventory.inventory import Inventory
from mainstay.model.action import ActionKind
from mainstay.model.errors import Rejected, Unavailable
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.machine import Machine
from mainstay.model.state import State
from mainstay.runtime.clock import Clock
from mainstay.runtime.patience import Patience
from mainstay.shard.answers.holds import Restraints, stopped_text
from mainstay.shard.answers.money import MoneyFacts, facts_of
from mainstay.shard.answers.ports import Activity
from mainstay.shard.answers.when import Outlook
from mainstay.shard.controls import Control, ControlKind, Controls
from mainstay.shard.demand import DemandBook
from mainstay.shard.events import Event
from mainstay.shard.executor import Executor
from mainstay.shard.facts import Health, ProviderFacts, Published, SessionFacts
from mainstay.shard.hands.acting import Acting
from mainstay.shard.hands.backoff import BackOff
from mainstay.shard.hands.breaker import Breakers
from mainstay.shard.hands.unanswered import Unanswered
from mainstay.shard.journal import ShardJournal
from mainstay.shard.latency import Kind, Step, StepTimes, with_done
from mainstay.shard.ledger import Ledger
from mainstay.shard.money.metering import Money
from mainstay.shard.orders import Told
from mainstay.shard.outcomes import Outcome
from mainstay.shard.reconcile import Reconciler
from mainstay.shard.restrictions import Stance
from mainstay.shard.sessions import Sessions
from mainstay.shard.shard import Shard
from mainstay.shard.steady import SteadyClock

MINUTE_S: Final = 60.0

AT_ONCE_S: Final = 0.5
"""A page asks for money in several ways within this. To sum it up takes a while where thousands of
clusters, types and classes cost something.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveShard:
    """Implements `mainstay.shard.answers.ports.Live`."""

    shard_id: str
    epoch: int
    shard: Shard
    inventory: Inventory
    ledger: Ledger
    reconciler: Reconciler
    sessions_: Sessions
    demand: DemandBook
    controls_: Controls
    acting: Acting
    executor: Executor
    journal: ShardJournal
    clock: Clock
    steady: SteadyClock
    money_: Money
    steps: StepTimes
    backoff: BackOff
    breakers: Breakers
    unanswered: Unanswered
    cycle_s: float
    """From one tick to the next."""

    stance: Stance
    """How far the configuration lets it go."""

    _told_money: list[tuple[int, MoneyFacts]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )
    """The last of it, with the cycle it was told after: the plan itself would be kept alive."""

    @property
    def published(self) -> Published | None:
        """What the last cycle left."""
        return self.shard.published

    def sessions(self) -> Sequence[SessionFacts]:
        """The connected clusters."""
        return self.sessions_.facts()

    def connected(self) -> frozenset[ClusterId]:
        """Their names only: asked for far more often than the rest."""
        return self.sessions_.connected()

    def providers(self) -> Sequence[ProviderFacts]:
        """Its providers; one that refuses this shard may answer lists as ever."""
        stopped = self.acting.providers
        return [
            replace(each, health=Health.FENCED, why=stopped_text(each.name, stopped[each.name]))
            if each.name in stopped
            else each
            for each in self.unanswered.marked(self.reconciler.heard.facts())
        ]

    def controls(self) -> Sequence[Control]:
        """The live controls in force."""
        return self.controls_.in_force()

    def recent(self) -> Sequence[Told]:
        """What became of the last orders and when, the newest last."""
        return self.journal.recent()

    def held_rollups(self) -> Mapping[ClusterId, int]:
        """Roll-ups in a row that were not believed, by cluster."""
        return {cluster: held.in_a_row for cluster, held in self.demand.held.items()}

    def not_acting(self) -> str:
        """Why it does not act."""
        return self.acting.why

    def activity(self) -> Activity:
        """How busy it is."""
        since_s = self.clock.now_s() - MINUTE_S
        done = [told for told in self.journal.executed() if told.at_s >= since_s]
        return Activity(
            queued=sum(self.executor.depth.values()),
            in_flight=sum(self.executor.in_flight.values()),
            actions_per_minute=float(len(done)),
        )

    def money(self) -> MoneyFacts:
        """What it costs and has cost, now; who asks at once is told the same."""
        book, at_s = self.money_.book, self.clock.now_s()
        cycle = 0 if self.published is None else self.published.cycle
        for after, facts in self._told_money:
            if after == cycle and 0 <= at_s - facts.at_s < AT_ONCE_S:
                return facts
        told = facts_of(book.account, since_s=book.since_s, at_s=at_s, as_seen=self.money_.as_seen)
        self._told_money[:] = [(cycle, told)]
        return told

    def restraints(self) -> Restraints:
        """All that may hold it back, now."""
        return Restraints(**self._restraints())

    def outlook(self) -> Outlook:
        """What it knows about time, now."""
        now_s = self.clock.elapsed_s()
        measured = self.steps.measured(now_s)
        return Outlook(
            **self._restraints(),
            steady_s=self.steady.now_s(),
            measured=replace(measured, samples=with_done(measured.samples, self._joined_at_once())),
            barred_s={
                place: max(0.0, until_s - now_s)
                for place, until_s in self.breakers.open_until_s.items()
            },
        )

    def _restraints(self) -> dict[str, Any]:
        return {
            "now_s": self.clock.now_s(),
            "cycle_s": self.cycle_s,
            "connected": self.connected(),
            "stance": self.stance,
            "controls": tuple(self.controls()),
            "not_acting": self.not_acting(),
            "stopped": dict(self.acting.providers),
            "unlisted": self.published.unlisted if self.published else "",
            "refused": self.published.refused if self.published else frozenset(),
            "backed_off_s": self.backoff.left_s(self.clock.elapsed_s()),
        }

    def enough_after(self, seconds: float) -> Callable[[], bool] | None:
        """Says when no more can be tried in so many seconds; 0 is for ever."""
        return Patience(self.clock, seconds).is_over if seconds > 0 else None

    def _joined_at_once(self) -> Iterator[tuple[Kind, Step, float]]:
        """Machines that joined while an action had them in hand: no snapshot has seen these."""
        for told in self.journal.executed():
            done, action = told.disposed, told.disposed.order.action
            joined = action.kind is ActionKind.BOOTSTRAP and done.outcome is Outcome.SUCCESS
            if joined and action.machine in self.inventory:
                profile = self.inventory.machine(action.machine).profile
                yield Kind(done.order.source, profile.instance_type), Step.CONFIGURE, done.seconds

    async def set_control(
        self,
        kind: ControlKind,
        *,
        cluster: ClusterId | None,
        value: float,
        reason: str,
        by: str,
        lasts_s: float,
    ) -> Control:
        """Hold something back, and have a cycle that knows of it."""
        control = await self.controls_.set(
            kind, cluster=cluster, value=value, reason=reason, by=by, lasts_s=lasts_s
        )
        self.shard.wake()
        return control

    async def lift_control(
        self, kind: ControlKind, *, cluster: ClusterId | None, reason: str, by: str
    ) -> Control:
        """Take a control back before its time, and have a cycle that knows of it."""
        control = await self.controls_.lift(kind, cluster=cluster, reason=reason, by=by)
        self.shard.wake()
        return control

    def retire(self, machine: MachineId, *, reason: str, by: str) -> Machine:
        """Give up the record of a Failed machine; what its provider says of it is asked for."""
        record = self.inventory.machine(machine)
        if record.state is not State.FAILED:
            raise Rejected(f"only a Failed machine can be retired: {machine} is {record.state}")
        if machine in self.ledger:
            raise Unavailable(f"machine {machine} is in the hands of an action")
        source = self.inventory.source(machine)
        self.inventory.remove(machine)
        self.journal.noticed(
            Event.MACHINE_RETIRED,
            reason="asked",
            machine=machine,
            why=reason,
            by=by,
            last_error=record.last_error,
        )
        self.reconciler.owe(machine, source)
        self.shard.wake()
        return record
