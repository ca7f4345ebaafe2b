"""The processes of a soak: two providers that stay, and the lives of one shard."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final, NamedTuple, TypeVar

from mainstay.model.batch import MachineBatch
from mainstay.model.calls import ListRequest
from mainstay.model.errors import Rejected, Unavailable
from mainstay.model.metadata import decode
from mainstay.model.state import State
from mainstay.model.views import MachineQuery, MachineRow, Summary, SummaryQuery
from mainstay.processes.asking import ask_page
from mainstay.processes.cluster_demand import KINDS
from mainstay.processes.soak_laws import Held, Share, was_drained
from mainstay.providers.sim.offers import ZONES
from mainstay.runtime.children import Child, Children
from mainstay.runtime.clock import Clock
from mainstay.wire.provider_client import RemoteProvider
from mainstay.wire.shard_view_client import RemoteShard
from mainstay.wire.tls import Plaintext
from mainstay.wire.transport import open_channel

START_S: Final = 120.0
"""How long a process may take to serve; beyond that it is broken."""

POLL_S: Final = 0.05
WATCH_S: Final = 0.1
"""Between two looks at the providers: a machine is not drained and serving again in so little."""

CAPACITIES: Final = ("BareMetal", "OnDemand")
NAMES: Final = ("east", "west")

POOL: Final = """
[[pool]]
type = "{type}"
capacity = "{capacity}"
zone = "{zone}"
slots = {slots}
"""

LATENCIES: Final = """
[latency_s]
create = 0.3
configure = 0.2
drain = 0.2
delete = 0.2
"""

SHARD: Final = """
[shard]
shard_id = "soak"
listen = "{listen}"
http = "127.0.0.1:0"
insecure = true
providers = [{providers}]
cycle_interval_s = {cycle_interval_s}
default_grace_s = 1
"""

AnswerT = TypeVar("AnswerT")


class Kept(NamedTuple):
    """A machine at its provider."""

    held: Held
    instance_type: str
    need: str
    """The fingerprint of the need that its echo names; empty where there is none."""


class Provider:
    """One simulated cloud, and what has become of its machines."""

    def __init__(self, child: Child, facts: Mapping[str, str]) -> None:
        self.child = child
        self.address, self._http = facts["grpc"], facts["http"]
        self.channel = open_channel(self.address, Plaintext())
        self._calls = RemoteProvider(self.channel, source=child.name)
        self._looking = asyncio.Lock()
        self._cursor = b""
        self.seen: dict[str, Kept] = {}
        """Every machine, as of the last look."""

        self.touched: set[str] = set()
        """What any look has found changed, until somebody clears it."""

        self.drained = Counter[Share]()
        """How many machines were ever drained of those that served a cluster."""

    async def look(self) -> None:
        """See what has changed since the last look; what is lost has changed, too."""
        async with self._looking:
            batch = await self._calls.list(ListRequest(since=self._cursor))
            self._cursor = batch.cursor
            now = _kept(batch)
            gone = self.seen.keys() - now.keys() if batch.full else set(batch.tombstones)
            for name, kept in now.items():
                before = self.seen.get(name)
                if was_drained(before and before.held, kept.held):
                    whose = kept.held.cluster if before is None else before.held.cluster
                    self.drained[Share(whose or kept.held.cluster, kept.instance_type)] += 1
            for name in gone:
                self.seen.pop(name, None)
            self.seen |= now
            self.touched |= now.keys() | gone

    async def book(self) -> dict[str, Kept]:
        """Every machine, asked for anew."""
        return _kept(await self._calls.list(ListRequest()))

    async def metrics(self) -> str:
        """What it has counted, as text."""
        return await ask_page(self._http, "/metrics")

    async def strike(self, faults: Mapping[str, str]) -> None:
        """Have this go wrong from now on."""
        await ask_page(self._http, "/faults", faults)


def _kept(batch: MachineBatch) -> dict[str, Kept]:
    found = {}
    for place, name in enumerate(batch.ids):
        machine = batch.machine(place)
        echo = decode(machine.shard_metadata).assignment
        held = Held(machine.state, machine.cluster or "")
        found[str(name)] = Kept(held, machine.profile.instance_type, echo.fingerprint or "")
    return found


class Fleet:
    """Both providers; their machines have no name in common."""

    def __init__(self, children: Children, *, machines: int, seed: int) -> None:
        self._children = children
        self.machines = machines // 2 * 2
        self._seed = seed
        self._all: list[Provider] = []

    async def start(self) -> None:
        """Start both, and wait until they serve."""
        for number, (name, zone) in enumerate(zip(NAMES, ZONES[: len(NAMES)], strict=True)):
            path = self._children.home / f"{name}.toml"
            path.write_text(fleet_text(name, zone, self.machines // 2), encoding="utf-8")
            words = ["provider", "sim", "--fleet", str(path), "--seed", str(self._seed + number)]
            words += ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
            child = self._children.command(name, words)
            self._all.append(Provider(child, await _addresses(child)))

    async def close(self) -> None:
        """Hang up."""
        for each in self._all:
            await each.channel.close()

    def addresses(self) -> dict[str, str]:
        """By name, for the shard."""
        return {each.child.name: each.address for each in self._all}

    async def strike(self, faults: Mapping[str, str]) -> None:
        """The same faults at both."""
        for each in self._all:
            await each.strike(faults)

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Looked at all the time inside the block."""
        await self.look()
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._watch())
            try:
                yield
            finally:
                watching.cancel()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_S)
            await self.look()

    async def look(self) -> None:
        """See what has changed at both."""
        for each in self._all:
            await each.look()

    def mark(self) -> dict[str, Held]:
        """Every machine as of the last look; what changes from then on counts as touched."""
        for each in self._all:
            each.touched.clear()
        return {name: kept.held for each in self._all for name, kept in each.seen.items()}

    def touched(self) -> set[str]:
        """What has changed since it was marked, as of the last look."""
        return set().union(*(each.touched for each in self._all))

    def drained(self) -> Counter[Share]:
        """How many machines were ever drained, by whom they served."""
        return sum((each.drained for each in self._all), Counter[Share]())

    async def metrics(self) -> list[str]:
        """What both have counted."""
        return [await each.metrics() for each in self._all]

    async def book(self) -> dict[str, Kept]:
        """Every machine of both; a name that both have is refused."""
        east, west = [await each.book() for each in self._all]
        if both := east.keys() & west.keys():
            raise Rejected(f"two providers have one machine: {min(both)}")
        return east | west


def fleet_text(name: str, zone: str, machines: int) -> str:
    """A fleet file: of each type that demand is for a part that is there and one to be bought."""
    kinds = [(kind.exact_type, held) for kind in KINDS for held in CAPACITIES]
    pools = [
        POOL.format(type=each, capacity=capacity, zone=zone, slots=share)
        for (each, capacity), share in zip(kinds, _shares(machines, len(kinds)), strict=True)
    ]
    return f'name = "{name}"\n' + "".join(pools) + LATENCIES


def _shares(total: int, parts: int) -> list[int]:
    return [total // parts + (place < total % parts) for place in range(parts)]


class Life:
    """The shard from one start to its end."""

    def __init__(self, child: Child, clock: Clock) -> None:
        self._child = child
        self._clock = clock
        self._began_s = clock.elapsed_s()
        self.address = ""

    async def decided(self, machines: int) -> float:
        """Wait for the first decision over its machines; how long after the start it came."""
        self.address = (await _addresses(self._child))["grpc"]
        known = machines * 9 // 10  # the others may be lost just now

        async def first() -> float | None:
            summary = await self._summary()
            if summary is None or sum(summary.machines.values()) < known:
                return None
            return self._clock.elapsed_s() - self._began_s

        return round(await _until(first, self._child, "a decision"), 3)

    async def summary(self) -> Summary:
        """What it says of its last cycle."""
        return await _until(self._summary, self._child, "an answer")

    async def rows(self, *states: State) -> list[MachineRow]:
        """The machines in these states, or all, as it believes them to be."""
        query, rows = MachineQuery(states=states), list[MachineRow]()
        async with open_channel(self.address, Plaintext()) as channel:
            async for chunk in RemoteShard(channel, name="shard soak").machines(query):
                rows += chunk.rows
        return rows

    async def _summary(self) -> Summary | None:
        try:
            async with open_channel(self.address, Plaintext()) as channel:
                summary = await RemoteShard(channel, name="shard soak").summary(SummaryQuery())
        except Unavailable:
            return None
        return summary if summary.stamp.cycle else None

    def kill(self) -> None:
        """End it in the middle of whatever it does."""
        self._child.kill()


class Lives:
    """Starts the shard, always at the same address."""

    def __init__(self, children: Children, clock: Clock, *, cycle_interval_s: float) -> None:
        self._children = children
        self._clock = clock
        self._cycle_interval_s = cycle_interval_s
        self._listen = "127.0.0.1:0"

    async def begin(self, providers: Mapping[str, str]) -> Life:
        """The next life."""
        config = self._children.home / "shard.toml"
        text = SHARD.format(
            listen=self._listen,
            providers=", ".join(f'"{name}={address}"' for name, address in providers.items()),
            cycle_interval_s=self._cycle_interval_s,
        )
        config.write_text(text, encoding="utf-8")
        child = self._children.command("shard", ["shard", "--config", str(config)])
        life = Life(child, self._clock)
        if self._listen.endswith(":0"):
            self._listen = (await _addresses(child))["grpc"]
        return life


async def _addresses(child: Child) -> Mapping[str, str]:
    async def told() -> Mapping[str, str] | None:
        facts = child.announced()
        return None if facts is None else dict(facts["addresses"])

    return await _until(told, child, "it to serve")


async def _until(ask: Callable[[], Awaitable[AnswerT | None]], child: Child, what: str) -> AnswerT:
    """The first answer; a process that ends, or takes for ever, ends the soak."""
    try:
        async with asyncio.timeout(START_S):
            while (answer := await ask()) is None:
                if not child.is_running:
                    raise Rejected(f"{child.name} has ended by itself: {child.tail()}")
                await asyncio.sleep(POLL_S)
    except TimeoutError as error:
        raise Rejected(f"{child.name}: waited {START_S:g} s for {what}: {child.tail()}") from error
    return answer
