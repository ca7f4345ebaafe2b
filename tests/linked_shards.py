"""Real shards over one simulated provider that report to a real coordinator, and their clusters."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from coordinators import coordinator, in_a_file, led
from mainstay.model.coordinator_views import MoveQuery, MoveRow, ShardQuery, ShardRow
from mainstay.model.errors import Unavailable
from mainstay.model.ids import ClusterId
from mainstay.model.need import Need, NeedProfile
from mainstay.model.state import State
from mainstay.model.views import MachineQuery
from mainstay.session.client import ClientTools, SessionClient
from mainstay.session.reconnect import ReconnectOptions
from mainstay.wire.coordinator_dialer import CoordinatorDialer
from mainstay.wire.shard_view_client import RemoteShard
from mainstay.wire.tls import Plaintext
from mainstay.wire.transport import open_channel
from running import Home, Process
from talking import Hands

QUICK: Final = ReconnectOptions(shortest_s=0.05, longest_s=0.5)

LOOK_EVERY_S: Final = 0.02
READ_S: Final = 10.0
"""So long an answer may take: one that hangs must not use up all the patience of a test."""


def provider(home: Home) -> Process:
    words = ("--fleet", "fleet.toml", "--state", "sim.db", "--listen", "127.0.0.1:0")
    return home.start("provider", "provider", "sim", *words)


def shard(
    home: Home,
    name: str,
    sim: Process,
    *coordinators: str,
    listen: str = "127.0.0.1:0",
    config: str = "mainstay.toml",
) -> Process:
    told = [word for address in coordinators for word in ("--coordinator", address)]
    words = ("--id", name, "--provider", f"sim={sim.grpc}", "--listen", listen, *told)
    settings = ("--config", config, "--http", "127.0.0.1:0", "--insecure")
    return home.start("shard", "shard", *words, *settings)


def needs(machines: int, cluster: str, *, priority: int = 100, penalty: int = 0) -> list[Need]:
    """A cluster's whole demand: so many machines of two cores."""
    profile = NeedProfile(priority=priority, interruption_penalty_bucket=penalty)
    amount = {"cpu": machines * 2_000}
    return [
        Need(cluster=ClusterId(cluster), profile=profile, aggregate=amount, min_unit={"cpu": 2_000})
    ]


@asynccontextmanager
async def connected(
    process: Process, cluster: str, hands: Hands | None = None
) -> AsyncIterator[SessionClient]:
    """A cluster with a session, which comes back by itself."""
    tools = ClientTools(reconnect=QUICK, rollup_every_s=0.3)
    client = SessionClient(cluster, process.grpc, Plaintext(), hands or Hands(), tools=tools)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(client.run())
        try:
            yield client
        finally:
            running.cancel()


async def machines(process: Process, *states: State) -> set[str]:
    """Those that a shard has."""
    async with open_channel(process.grpc, Plaintext()) as channel:
        remote = RemoteShard(channel, name="shard")
        query = MachineQuery(states=states)
        try:
            async with asyncio.timeout(READ_S):
                return {row.id async for rows in remote.machines(query) for row in rows.rows}
        except TimeoutError as error:
            raise Unavailable(f"shard at {process.grpc}: no answer in {READ_S:g} s") from error


def serves(process: Process, count: int) -> Callable[[], Awaitable[bool]]:
    """Asks whether so many machines of a shard serve."""

    async def said() -> bool:
        return len(await machines(process, State.CONFIGURED)) == count

    return said


async def rows(dialer: CoordinatorDialer) -> dict[str, ShardRow]:
    """How the coordinator sees each shard."""
    found = await dialer.ask(lambda remote: remote.shards(ShardQuery()))
    return {row.id: row for row in found.rows}


async def moves(dialer: CoordinatorDialer, *, unsettled: bool = False) -> tuple[MoveRow, ...]:
    """Those that the coordinator remembers."""
    found = await dialer.ask(lambda remote: remote.moves(MoveQuery(unsettled=unsettled)))
    return found.rows


def heard(dialer: CoordinatorDialer, *names: str) -> Callable[[], Awaitable[bool]]:
    """Asks whether this leader has heard all of these shards."""

    async def said() -> bool:
        return {name for name, row in (await rows(dialer)).items() if row.last_heartbeat_ns} >= {
            *names
        }

    return said


@dataclass(slots=True)
class Owners:
    """Looks, as often as it can, whether two shards have one machine."""

    giver: Process | None = None
    getter: Process | None = None
    looks: int = 0

    async def watch(self) -> None:
        while True:
            giver, getter = self.giver, self.getter
            try:
                if giver is not None and getter is not None:
                    # In this order: what goes from one to the other is never seen twice.
                    taken = await machines(getter)
                    both = taken & await machines(giver)
                    assert both == set(), both
                    self.looks += 1
            except Unavailable:
                pass  # one of them is dead at this moment
            await asyncio.sleep(LOOK_EVERY_S)


@dataclass(slots=True)
class Linked:
    """A coordinator on a file, one provider, and shards a and b, each with settings of its own.

    Machines go from a to b. Whoever is killed can be started again where it was.
    """

    home: Home
    sim: Process
    running: dict[str, Process] = field(default_factory=dict)
    owners: Owners = field(default_factory=Owners)
    ways: dict[str, str] = field(default_factory=dict)
    """Where a shard is told that the coordinator is, if not where it is."""

    @property
    def a(self) -> Process:
        return self.running["a"]

    @property
    def b(self) -> Process:
        return self.running["b"]

    async def start(self, name: str) -> None:
        """For the first time or again, at the same address; a coordinator when it leads."""
        listen = self.running[name].grpc if name in self.running else "127.0.0.1:0"
        if name == "c":
            words = (*in_a_file(self.home), "--config", "c.toml")
            self.running[name] = coordinator(self.home, "c-0", *words, listen=listen)
            await led(self.running[name])
            return
        to = self.ways.get(name) or self.running["c"].grpc
        self.running[name] = shard(
            self.home, name, self.sim, to, listen=listen, config=f"{name}.toml"
        )
        self.owners.giver, self.owners.getter = self.running.get("a"), self.running.get("b")

    def kill(self, *names: str) -> None:
        for name in names:
            self.running[name].kill()

    def lose_the_store(self) -> None:
        """Of a coordinator that is dead."""
        for path in self.home.path.glob("shared.db*"):
            path.unlink()

    async def has_whole_fleet(self, count: int) -> bool:
        """Whether every machine has an owner. None ever has two: b is asked first, as above."""
        b, a = await machines(self.b), await machines(self.a)
        assert not a & b, a & b
        return len(a | b) == count
