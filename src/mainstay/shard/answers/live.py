"""A running shard as its readers see it, and as people hold it back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mainstay.inventory.inventory import Inventory
from mainstay.model.errors import Rejected, Unavailable
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.machine import Machine
from mainstay.model.state import State
from mainstay.runtime.clock import Clock
from mainstay.shard.answers.money import MoneyFacts, facts_of
from mainstay.shard.answers.view import Activity
from mainstay.shard.controls import Control, ControlKind, Controls
from mainstay.shard.demand import DemandBook
from mainstay.shard.events import Event
from mainstay.shard.executor import Executor
from mainstay.shard.facts import ProviderFacts, Published, SessionFacts
from mainstay.shard.hands.acting import Acting
from mainstay.shard.journal import ShardJournal
from mainstay.shard.ledger import Ledger
from mainstay.shard.money.metering import Money
from mainstay.shard.orders import Disposed
from mainstay.shard.outcomes import Disposition
from mainstay.shard.reconcile import Reconciler
from mainstay.shard.sessions import Sessions
from mainstay.shard.shard import Shard

MINUTE_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveShard:
    """Implements `mainstay.shard.answers.view.Live`."""

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
    money_: Money

    @property
    def published(self) -> Published | None:
        """What the last cycle left."""
        return self.shard.published

    def sessions(self) -> Sequence[SessionFacts]:
        """The connected clusters."""
        return self.sessions_.facts()

    def providers(self) -> Sequence[ProviderFacts]:
        """Its providers."""
        return self.reconciler.facts()

    def controls(self) -> Sequence[Control]:
        """The live controls in force."""
        return self.controls_.in_force()

    def recent(self) -> Sequence[Disposed]:
        """What became of the last orders, the newest last."""
        return [told.disposed for told in self.journal.recent()]

    def held_rollups(self) -> Mapping[ClusterId, int]:
        """Roll-ups in a row that were not believed, by cluster."""
        return {cluster: held.in_a_row for cluster, held in self.demand.held.items()}

    def not_acting(self) -> str:
        """Why it does not act."""
        return self.acting.why

    def activity(self) -> Activity:
        """How busy it is."""
        since_s = self.clock.now_s() - MINUTE_S
        done = [
            told
            for told in self.journal.recent()
            if told.at_s >= since_s and told.disposed.disposition is Disposition.EXECUTED
        ]
        return Activity(
            queued=sum(self.executor.depth.values()),
            in_flight=sum(self.executor.in_flight.values()),
            actions_per_minute=float(len(done)),
        )

    def money(self) -> MoneyFacts:
        """What it costs and has cost, now."""
        book = self.money_.book
        return facts_of(
            book.account,
            since_s=book.since_s,
            at_s=self.clock.now_s(),
            as_seen=self.money_.as_seen,
        )

    def set_control(
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
        control = self.controls_.set(
            kind, cluster=cluster, value=value, reason=reason, by=by, lasts_s=lasts_s
        )
        self.shard.wake()
        return control

    def lift_control(
        self, kind: ControlKind, *, cluster: ClusterId | None, reason: str, by: str
    ) -> Control:
        """Take a control back before its time, and have a cycle that knows of it."""
        control = self.controls_.lift(kind, cluster=cluster, reason=reason, by=by)
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
