"""A shard that people can ask: a real plan over a few hundred machines, and the rest as told."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import nursery
from builders import a_machine, a_need, a_need_profile, a_profile, an_assignment
from mainstay.engine.decide import decide
from mainstay.engine.plan import Demand, Memory, Plan
from mainstay.engine.policy import Policy
from mainstay.engine.quota import Quota
from mainstay.inventory.inventory import Inventory
from mainstay.model.action import Action, ActionKind
from mainstay.model.errors import Rejected, UnknownMachine
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.machine import Machine
from mainstay.model.need import Need, Operator, Requirement
from mainstay.model.profile import ZONE_KEY
from mainstay.model.state import State
from mainstay.processes.announce import announced
from mainstay.shard.answers.holds import Restraints
from mainstay.shard.answers.money import MoneyFacts, facts_of
from mainstay.shard.answers.ports import Activity
from mainstay.shard.answers.view import ShardControls, ShardView
from mainstay.shard.answers.when import Outlook
from mainstay.shard.controls import Control, ControlKind
from mainstay.shard.facts import Health, ProviderFacts, Published, SessionFacts
from mainstay.shard.money.book import Book, Kept
from mainstay.shard.orders import Disposed, Order, Told
from mainstay.shard.outcomes import Disposition, Outcome
from mainstay.shard.restrictions import Stance
from mainstay.wire.shard_read_server import read_handler
from mainstay.wire.shard_view_client import RemoteShard
from mainstay.wire.shard_view_server import control_handler, view_handler
from mainstay.wire.tls import Plaintext
from mainstay.wire.transport import Over, open_channel, serving
from nursery import Born
from running import until

NOW_S = 1_000_000.0
RACK = "topology.bigfleet/rack"
WEB, BATCH, LATE = ClusterId("web"), ClusterId("batch"), ClusterId("late")
AnswerT = TypeVar("AnswerT")


def plain_need() -> Need:
    """Web's: served in full."""
    return a_need(cluster=WEB, aggregate={"cpu": 480_000}, arrival_nanos=5)


def short_need() -> Need:
    """Batch's: asks for a zone in which nothing is left, and may take nothing."""
    in_b = Requirement(ZONE_KEY, Operator.IN, ("zone-b",))
    profile = a_need_profile(requirements=(in_b,), priority=10)
    return a_need(cluster=BATCH, profile=profile, aggregate={"cpu": 900_000}, arrival_nanos=3)


def gang_need() -> Need:
    """Batch's gang: larger than any rack."""
    profile = a_need_profile(requirements=(Requirement(RACK, Operator.SAME),), priority=50)
    return a_need(
        cluster=BATCH,
        profile=profile,
        aggregate={"cpu": 2_000_000},
        min_unit={"cpu": 8_000},
        group="train-1",
        arrival_nanos=4,
    )


def fleet() -> list[Machine]:
    """300 machines in two zones and ten racks."""
    return [*_machines("c", 60, State.CONFIGURED, WEB), *_machines("d", 30, State.CONFIGURED, LATE),
            *_machines("i", 40, State.IDLE), *_machines("s", 160, State.SPECULATIVE),
            *_creating(6), *_machines("x", 4, State.FAILED)]  # fmt: skip


def _machines(
    letter: str, count: int, state: State, cluster: ClusterId | None = None
) -> list[Machine]:
    found = []
    for number in range(count):
        zone = "zone-a" if number % 4 else "zone-b"
        profile = a_profile(zone=zone, labels={RACK: f"r{number % 10}"})
        machine = a_machine(
            state, id=f"{letter}-{number:03}", profile=profile, price_per_hour=1.0 + number % 3
        )
        found.append(replace(machine, cluster=cluster) if cluster else machine)
    return found


def _creating(count: int) -> list[Machine]:
    meant = an_assignment(
        fingerprint=plain_need().profile.fingerprint, cluster=WEB, priority=None,
        interruption_penalty_dollars=None, reclamation_penalty_dollars=None,
    )  # fmt: skip
    return [replace(m, assignment=meant) for m in _machines("n", count, State.CREATING)]


def in_the_west() -> list[Machine]:
    """Two more machines, in a zone of their own."""
    profile = a_profile(zone="zone-w")
    return [a_machine(State.IDLE, id=f"w-{number}", profile=profile) for number in range(2)]


def a_plan(*, needs: Sequence[Need] | None = None, more: Sequence[Machine] = ()) -> Plan:
    """What the engine makes of it."""
    inventory = Inventory()
    for machine in (*fleet(), *more):
        source = "cloud" if machine.profile.zone == "zone-b" else "metal"
        inventory.add(machine, now=NOW_S - 60, source=source)
    asked = (plain_need(), gang_need(), short_need()) if needs is None else tuple(needs)
    demand = Demand(asked, frozenset({WEB, BATCH}), quota=Quota({WEB: 90}, {}))
    return decide(inventory.snapshot(), demand, Memory.empty(), Policy(), NOW_S)


@dataclass
class FakeShard:
    """`mainstay.shard.answers.ports.Live`, as far as one can be without a loop."""

    published: Published | None = None
    shard_id: str = "s-0"
    epoch: int = 7
    stopped: str = ""
    stance: Stance = Stance.ACT
    set_controls: list[Control] = field(default_factory=list)
    retired: list[tuple[str, str, str]] = field(default_factory=list)
    connected: Sequence[ClusterId] = (WEB,)

    def sessions(self) -> Sequence[SessionFacts]:
        return [
            SessionFacts(cluster=cluster, since_s=NOW_S - 100, protocol_version="v1alpha1")
            for cluster in self.connected
        ]

    def providers(self) -> Sequence[ProviderFacts]:
        lost = ProviderFacts(name="metal", health=Health.LOST, why="no route", failures_in_a_row=3)
        good = ProviderFacts(
            name="cloud", health=Health.ANSWERING, machines=75, listed_at_s=NOW_S, incremental=True
        )
        return [lost, good]

    def controls(self) -> Sequence[Control]:
        return self.set_controls

    def recent(self) -> Sequence[Told]:
        order = Order(
            action=Action(ActionKind.BOOTSTRAP, MachineId("i-001"), WEB, plain_need().ref),
            need=plain_need(), cycle=11, source="metal", price_per_hour=2.0,
        )  # fmt: skip
        drain = replace(order, action=Action(ActionKind.RECLAIM, MachineId("c-009"), BATCH, None))
        done = Disposed(
            order=order,
            disposition=Disposition.EXECUTED,
            outcome=Outcome.SUCCESS,
            cycle=12,
            seconds=1.5,
        )
        held = Disposed(order=drain, disposition=Disposition.CAPPED, reason="cap", cycle=13)
        return [Told(NOW_S - 2, done), Told(NOW_S - 1, held)]  # fmt: skip

    def held_rollups(self) -> Mapping[ClusterId, int]:
        return {BATCH: 2}

    def restraints(self) -> Restraints:
        return Restraints(
            now_s=NOW_S, connected=frozenset(self.connected), stance=self.stance,
            controls=tuple(self.set_controls), not_acting=self.stopped,
        )  # fmt: skip

    def activity(self) -> Activity:
        return Activity(queued=3, in_flight=2, actions_per_minute=12.0)

    def money(self) -> MoneyFacts:
        """An hour of the plan that was published, seen whole at its beginning."""
        book = Book(Kept(since_s=NOW_S))
        if self.published is not None:
            book.follow(self.published.plan, NOW_S)
        return facts_of(book.account, since_s=NOW_S, at_s=NOW_S + 3600, as_seen=("cloud", "metal"))

    def outlook(self) -> Outlook:
        """Web is there, and nothing was measured."""
        return Outlook(now_s=NOW_S, steady_s=NOW_S, connected=frozenset({WEB}), stance=self.stance)

    def enough_after(self, seconds: float) -> Callable[[], bool] | None:
        """Less than a tenth of a second is over at once, all else lasts for ever."""
        return (lambda: True) if 0 < seconds < 0.1 else None

    async def set_control(
        self, kind: ControlKind, *, cluster: ClusterId | None, value: float, reason: str, by: str,
        lasts_s: float,
    ) -> Control:  # fmt: skip
        control = Control(
            kind=kind, cluster=cluster, value=value, reason=reason, by=by,
            set_at_s=NOW_S, expires_at_s=NOW_S + lasts_s,
        )  # fmt: skip
        self.set_controls = [c for c in self.set_controls if c.key != control.key] + [control]
        return control

    async def lift_control(
        self, kind: ControlKind, *, cluster: ClusterId | None, reason: str, by: str
    ) -> Control:
        for control in self.set_controls:
            if control.key == (kind, cluster or ""):
                self.set_controls.remove(control)
                return control
        raise Rejected(f"no such control is in force: {kind}")

    def retire(self, machine: MachineId, *, reason: str, by: str) -> Machine:
        for record in fleet():
            if record.id == machine:
                if record.state is not State.FAILED:
                    raise Rejected(f"machine {machine} is {record.state}: only Failed is retired")
                self.retired.append((machine, reason, by))
                return record
        raise UnknownMachine(f"no machine {machine}")


def a_shard(*, cycle: int = 12, plan: Plan | None = None) -> FakeShard:
    """One that has finished a cycle."""
    seconds = {"decide": 0.020, "reconcile": 0.005}
    published = Published(cycle=cycle, at_s=NOW_S, plan=plan or a_plan(), seconds=seconds)
    return FakeShard(published)


class _AtOnce:
    """Aside on a test's loop: there is no other place."""

    async def __call__(self, work: Callable[[], AnswerT], /) -> AnswerT:
        return work()


AT_ONCE = _AtOnce()


def a_view(shard: FakeShard) -> ShardView:
    return ShardView(shard, AT_ONCE)


@asynccontextmanager
async def served(shard: FakeShard, over: Over | None = None) -> AsyncIterator[str]:
    """The three services at an address on loopback."""
    view = a_view(shard)
    handlers = [view_handler(view), control_handler(ShardControls(shard)), read_handler(view)]
    async with serving(handlers, "127.0.0.1:0", over or Plaintext()) as address:
        yield address


@asynccontextmanager
async def asked(
    shard: FakeShard, over: Over | None = None, client_over: Over | None = None
) -> AsyncIterator[RemoteShard]:
    """Somebody who asks it over the network."""
    async with served(shard, over) as address:
        async with open_channel(address, client_over or over or Plaintext()) as channel:
            yield RemoteShard(channel, name="shard s-0")


async def _serve(home: Path, name: str, *alone: str) -> None:
    """What it has alone is a cluster, and a zone."""
    shard = a_shard(plan=a_plan(more=in_the_west())) if alone else a_shard()
    shard.shard_id = name
    shard.connected = (WEB, *map(ClusterId, alone))
    async with served(shard) as address:
        facts = {"addresses": {"grpc": address}, "tls": None}
        with announced(home, "shard", name, facts):
            await asyncio.sleep(600)


def main() -> None:
    asyncio.run(_serve(Path(sys.argv[1]), *sys.argv[2:]))


def started(home: Path, name: str, *alone: str) -> Born:
    """A process of its own, for the command line to find, once it can be found."""
    words = [str(home), name, *alone]
    process = nursery.logged(words, home / f"{name}.log", cwd=home, module="live_shard")
    until(lambda: (home / "run" / f"shard-{name}.json").exists() or process.poll() is not None)
    assert process.poll() is None, (home / f"{name}.log").read_text()
    return process
