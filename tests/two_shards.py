"""Two whole shards over one simulated provider, and just enough of a coordinator between them.

What must hold at every moment is looked at four times a second and at every call.
"""

import asyncio
import dataclasses
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from typing_extensions import override

from mainstay.model.calls import DrainRequest, ListRequest, Mutation
from mainstay.model.coordination import (
    AssignDomain,
    CrossShardDrain,
    Domain,
    Grant,
    Handed,
    InstructAck,
    Instruction,
    Outcome,
    Payload,
    QuotaKind,
    QuotaOf,
    ReassignSpeculative,
    TransferOwnership,
    UnassignDomain,
    Wanted,
)
from mainstay.model.ids import MachineId, ShardId
from mainstay.model.profile import ZONE_KEY, CapacityType
from mainstay.model.state import State
from mainstay.providers.sim.latency import CLOUD, scaled
from mainstay.providers.sim.provider import Sim
from mainstay.providers.sim.spec import Pool, SimSpec
from mainstay.shard.ownership.owned import Owned
from shard_over_sim import OFFER
from whole_shard import UNIT_MILLI, Cluster, Whole, needs, running, sims

ValueT = TypeVar("ValueT")

WATCH_S: Final = 0.25
TICK_S: Final = 1.0
DOWN_S: Final = 7.0
"""How long a shard that was killed is away."""

OF_SIM: Final = QuotaOf(QuotaKind.PLACE, "sim")
ZONES: Final = ("zone-a", "zone-b", "zone-c")


def zone(name: str) -> Domain:
    return Domain(ZONE_KEY, name)


def three_zones(*, idle: int = 4, slots: int = 2) -> SimSpec:
    """One provider with reserved machines and on-demand slots in three zones."""
    offers = [dataclasses.replace(OFFER, zone=name) for name in ZONES]
    pools = [Pool(offer, CapacityType.RESERVED, idle) for offer in offers]
    pools += [Pool(offer, CapacityType.ON_DEMAND, slots) for offer in offers if slots]
    return SimSpec(pools=tuple(pools), name="sim", latencies=scaled(CLOUD, 0.2))


class Killed(Exception):
    """The process ended here."""


class Kill(NamedTuple):
    """When a shard dies: before or after one of its writes of what it owns, or holds of quota."""

    shard: str
    write: int
    after: bool
    file: str = "owned"


class Calls(list[Mutation]):
    """What a shard sends; whoever watches sees it before the provider does."""

    def __init__(self, see: Callable[[Mutation], None]) -> None:
        super().__init__()
        self._see = see

    @override
    def append(self, request: Mutation) -> None:
        self._see(request)
        super().append(request)


@dataclass
class Side:
    """One shard, which may die and come back, with its cluster."""

    name: ShardId
    folder: Path
    providers: dict[str, Sim]
    domains: tuple[str, ...]
    kill: Kill | None = None
    priority: int = 100
    whole: Whole | None = None
    cluster: Cluster | None = None
    machines: int = 0
    writes: Counter[str] = field(default_factory=Counter)
    lives: int = 0
    drained: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    """What the laws say of it."""

    others: "list[Side]" = field(default_factory=list)
    _dies: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Live, die, live again."""
        task = asyncio.current_task()
        while task is not None and not task.cancelling():
            self._dies.clear()
            async with running(
                self.folder,
                self.providers,
                shard_id=self.name,
                domains=self.domains,
                decision_audit_every=10,
            ) as whole:
                self._watch(whole)
                async with whole.cluster(f"of-{self.name}") as cluster:
                    self.whole, self.cluster, self.lives = whole, cluster, self.lives + 1
                    self.ask_for(self.machines)
                    await self._dies.wait()
                    self.whole, self.cluster = None, None
            await asyncio.sleep(DOWN_S)

    def ask_for(self, machines: int) -> None:
        self.machines = machines
        if self.cluster is not None:
            self.cluster.roll_up(needs(machines, cluster=self.cluster.name, priority=self.priority))

    @property
    def owned(self) -> Owned:
        assert self.whole is not None
        return self.whole.assembled.holder.owned

    def ids(self) -> set[str]:
        return set() if self.whole is None else set(self.whole.assembled.live.inventory.ids())

    def used(self) -> int:
        """Machines that are more than a slot."""
        if self.whole is None:
            return 0
        return sum(each.state is not State.SPECULATIVE for each in self.whole.machines())

    def serving(self) -> set[str]:
        if self.whole is None:
            return set()
        return {each.id for each in self.whole.machines(State.CONFIGURED)}

    def _watch(self, whole: Whole) -> None:
        """See every call, and every write of what is owned."""
        whole.links["sim"].sent = Calls(self._sees)
        owned, quota = whole.data.owned, whole.data.quota
        owned.keep = self._killing("owned", owned.keep)  # type: ignore[method-assign, assignment]
        quota.keep = self._killing("quota", quota.keep)  # type: ignore[method-assign, assignment]

    def _killing(self, file: str, keep: Callable[[ValueT], None]) -> Callable[[ValueT], None]:
        def kept(value: ValueT) -> None:
            self.writes[file] += 1
            now = (self.name, self.writes[file], file)
            kill = self.kill
            dies = kill is not None and (kill.shard, kill.write, kill.file) == now
            if not (kill and dies and not kill.after):
                keep(value)
            if dies:
                self._dies.set()
                self.whole = None
                raise Killed

        return kept

    def _sees(self, request: Mutation) -> None:
        """A call is made only by the one shard that has the machine."""
        if self.whole is None:
            return
        name = MachineId(request.machine)
        if name not in self.ids():
            self.told.append(f"{self.name} calls for {name}, which it does not have")
        elif not self.owned.has(name, self.whole.machine(name).profile):
            self.told.append(f"{self.name} calls for {name}, which is not its own")
        self.told += [f"{each.name} has {name}, too" for each in self.others if name in each.ids()]
        if isinstance(request, DrainRequest):
            self.drained.append(name)


@dataclass
class Told:
    """An instruction on its way, and what follows from its end."""

    instruction: Instruction
    then: Callable[[InstructAck], None]


@dataclass
class Entitlement:
    """How much of a provider both may use, granted as a coordinator grants it.

    What goes with machines is the recipient's at once, and told to it when it has taken them.
    """

    entitled: int
    granted: dict[str, int]
    on_its_way: Counter[str] = field(default_factory=Counter)
    of: QuotaOf = OF_SIM

    def move(self, ack: InstructAck, giver: str, to: str) -> Callable[[InstructAck], None]:
        """Give what goes along; what is returned is called when the machines were taken."""
        count = sum(moved.amount for moved in ack.quota if moved.of == self.of)
        count = min(count, self.granted[giver])
        self.granted[giver] -= count
        self.granted[to] += count
        self.on_its_way[to] += count

        def taken(_: InstructAck) -> None:
            self.on_its_way[to] -= count

        return taken

    async def hear(self, name: str, side: Side, kept: int) -> None:
        """A report's line and its answer. So much of what is not held was `kept` for it."""
        assert side.whole is not None
        quota, holder = side.whole.assembled.quota, side.whole.assembled.holder
        lines = {line.of: line for line in quota.lines(quota.tallying()())}
        moved, line = quota.moved, lines[self.of]
        has = max(line.held, line.used)
        has = max(has, min(self.granted[name], has + kept))
        self.granted[name] = has
        free = max(0, self.entitled - sum(self.granted.values()))
        self.granted[name] += min(free, max(0, line.wanted - has))
        told = max(0, self.granted[name] - self.on_its_way[name])
        await quota.hear([Grant(self.of, told, -1)], since=moved, coming=holder.coming)


class Coordinator:
    """Remembers everything, never fails, and hears each shard once a second."""

    def __init__(self, sides: dict[str, Side]) -> None:
        self.sides = sides
        self.owner: dict[Domain, str] = {}
        self.strays: dict[MachineId, tuple[str, Handed]] = {}
        """Who has it, as far as it has said so or was told so."""

        self.granted: set[MachineId] = set()
        self.queues: dict[str, deque[Told]] = {name: deque() for name in sides}
        self.acks: list[InstructAck] = []
        self.quota: Entitlement | None = None
        self._count = 0

    def tell(
        self, shard: str, payload: Payload, then: Callable[[InstructAck], None] = lambda _: None
    ) -> None:
        self._count += 1
        told = Instruction(term=1, sequence=self._count, id=f"i-{self._count}", payload=payload)
        self.queues[shard].append(Told(told, then))

    def move(self, domain: Domain, to: str) -> None:
        """A domain goes from its owner to another."""

        giver = self.owner[domain]

        def left(ack: InstructAck) -> None:
            away = [m for m, (who, at) in self.strays.items() if at.domain == domain and who != to]
            assigned = AssignDomain(domain=domain, away=tuple(sorted(away)))
            self.tell(to, assigned, self._with_quota(ack, giver, to))
            self.owner[domain] = to

        self.tell(giver, UnassignDomain(domain=domain), left)

    def _with_quota(self, ack: InstructAck, giver: str, to: str) -> Callable[[InstructAck], None]:
        return (lambda _: None) if self.quota is None else self.quota.move(ack, giver, to)

    def hand_over(
        self, donor: str, recipient: str, machines: int, *, speculative: bool = False
    ) -> None:
        """Machines that the donor does not need go to the recipient."""
        kind = ReassignSpeculative if speculative else TransferOwnership
        payload = kind(
            from_shard=ShardId(donor), to_shard=ShardId(recipient), wanted=wanted(machines)
        )
        self.tell(donor, payload, lambda ack: self._given(donor, recipient, ack))

    def _given(self, donor: str, recipient: str, ack: InstructAck) -> None:
        self._granted(recipient, ack.given, self._with_quota(ack, donor, recipient))

    def drain(self, donor: str, recipient: str, machines: int) -> None:
        payload = CrossShardDrain(
            to_shard=ShardId(recipient),
            wanted=wanted(machines, bucket=5),
            preemptor_priority=1000,
        )
        self.tell(donor, payload, lambda ack: self._given(donor, recipient, ack))

    async def run(self) -> None:
        while True:
            for name, side in self.sides.items():
                await self._hear(name, side)
            await asyncio.sleep(TICK_S)

    @property
    def idle(self) -> bool:
        return not any(self.queues.values())

    async def _hear(self, name: str, side: Side) -> None:
        try:
            if side.whole is not None:
                await side.whole.assembled.holder.sweep()
            kept = 0 if self.quota is None else self.quota.on_its_way[name]
            if side.whole is not None and self.queues[name]:
                await self._offer(name, side)
            if side.whole is not None:
                self._compare(name, side.owned)
            if side.whole is not None and self.quota is not None:
                await self.quota.hear(name, side, kept)
        except Killed:
            pass

    async def _offer(self, name: str, side: Side) -> None:
        told = self.queues[name][0]
        assert side.whole is not None
        ack = await side.whole.assembled.holder.carry_out(told.instruction)
        if ack is None or side.whole is None:
            return
        assert ack.outcome is Outcome.ACCEPTED, ack
        self.acks.append(ack)
        self.queues[name].popleft()
        self._compare(name, side.owned)
        told.then(ack)

    def _compare(self, name: str, owned: Owned) -> None:
        """What a shard reports against what is recorded of it."""
        for machine, stray in owned.here.items():
            if machine not in self.strays:
                self.strays[machine] = name, Handed(*stray[:3])
            assert self.strays[machine][0] == name, f"{machine}: {name} and {self.strays[machine]}"
            self.granted.discard(machine)
        for machine, (who, handed) in list(self.strays.items()):
            if who == name and machine not in owned.here and machine not in self.granted:
                del self.strays[machine]
                assert handed.domain is not None
                owner = self.owner[handed.domain]
                if owner != name:
                    self._granted(owner, [handed])

    def _granted(
        self,
        to: str,
        machines: Iterable[Handed],
        then: Callable[[InstructAck], None] = lambda _: None,
    ) -> None:
        handed = tuple(machines)
        if not handed:
            return
        for each in handed:
            self.strays[each.machine] = to, each
            self.granted.add(each.machine)

        def took(ack: InstructAck) -> None:
            then(ack)
            for each in handed:
                self.granted.discard(each.machine)
                if self.owner.get(each.domain or zone("")) == to:
                    self.strays.pop(each.machine, None)

        payload = TransferOwnership(from_shard=ShardId(""), to_shard=ShardId(to), machines=handed)
        self.tell(to, payload, took)


def wanted(machines: int, *, bucket: int = 0) -> Wanted:
    return Wanted(
        deficit={"cpu": machines * UNIT_MILLI},
        min_unit={"cpu": UNIT_MILLI},
        machines_max=machines,
        providers=("sim",),
        interruption_penalty_bucket=bucket,
    )


@dataclass
class Fleet:
    """All of it."""

    a: Side
    b: Side
    coordinator: Coordinator
    sim: Sim

    async def all_machines(self) -> set[str]:
        listed = await self.sim.provider.list(ListRequest(since=b""))
        return set(listed.ids)

    async def settle(self, seconds: float = 20.0) -> None:
        """Until nothing is left to be told, and then some."""
        for _ in range(2000):
            await asyncio.sleep(TICK_S)
            if self.coordinator.idle and self.a.whole and self.b.whole:
                break
        else:
            raise AssertionError(f"never settled: {self.coordinator.queues}")
        await asyncio.sleep(seconds)

    async def next_ack(self) -> None:
        """Until one more instruction was carried out."""
        before = len(self.coordinator.acks)
        for _ in range(2000):
            await asyncio.sleep(WATCH_S)
            if len(self.coordinator.acks) > before:
                return
        raise AssertionError(f"never carried out: {self.coordinator.queues}")

    async def each_has_one_owner(self) -> None:
        """Every machine of the provider is in one inventory."""
        a, b = self.a.ids(), self.b.ids()
        assert not a & b
        assert a | b == await self.all_machines()

    def lawful(self) -> None:
        assert self.a.told + self.b.told == []


@asynccontextmanager
async def fleet(
    folder: Path, spec: SimSpec | None = None, *, kill: Kill | None = None
) -> AsyncIterator[Fleet]:
    """Shard a has zones a and b, shard b has zone c; both at work until the block is left."""
    async with sims(spec or three_zones()) as providers:
        a = Side(ShardId("a"), folder / "a", providers, _labels("zone-a", "zone-b"), kill)
        b = Side(ShardId("b"), folder / "b", providers, _labels("zone-c"), kill)
        a.others, b.others = [b], [a]
        coordinator = Coordinator({"a": a, "b": b})
        coordinator.owner = {zone("zone-a"): "a", zone("zone-b"): "a", zone("zone-c"): "b"}
        made = Fleet(a, b, coordinator, providers["sim"])
        async with asyncio.TaskGroup() as tasks:
            work = [a.run(), b.run(), coordinator.run(), _watch(made)]
            running_ = [tasks.create_task(each) for each in work]
            await asyncio.sleep(12)
            yield made
            made.lawful()
            for task in running_:
                task.cancel()


async def _watch(made: Fleet) -> None:
    """No machine is in two inventories, ever."""
    while True:
        both = made.a.ids() & made.b.ids()
        assert not both, f"in two inventories: {sorted(both)}"
        if (quota := made.coordinator.quota) is not None:
            used = made.a.used(), made.b.used()
            assert sum(used) <= quota.entitled, f"used {used} of {quota}"
        await asyncio.sleep(WATCH_S)


def _labels(*zones: str) -> tuple[str, ...]:
    return tuple(f"{ZONE_KEY}={name}" for name in zones)
