"""A shard, its providers and its clusters as people run them: processes, at addresses they keep."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from mainstay.model.ids import ClusterId
from mainstay.model.need import Need, NeedProfile
from mainstay.model.state import State
from mainstay.model.views import ActionQuery, ActionRow, MachineQuery, MachineRow, ProviderQuery
from mainstay.session.client import ClientTools, SessionClient
from mainstay.session.reconnect import ReconnectOptions
from mainstay.wire.shard_view_client import RemoteShard
from mainstay.wire.tls import Plaintext
from mainstay.wire.transport import open_channel
from running import Home, Process
from talking import Hands

FLEET: Final = """
name = "{name}"
latency_s = {{ create = 0.1, configure = {configure_s}, drain = 0.1, delete = 0.1 }}

[[pool]]
capacity = "Reserved"
type = "m5.large"
zone = "{zone}"
slots = 12
"""

CYCLES: Final = "mainstay_shard_cycle_seconds_count"
QUICK: Final = ReconnectOptions(shortest_s=0.05, longest_s=0.5)


def fleet(home: Home, name: str, zone: str, configure_s: float) -> Path:
    path = home.path / f"{name}.toml"
    path.write_text(FLEET.format(name=name, zone=zone, configure_s=configure_s))
    return path


def provider(
    home: Home, name: str = "east", zone: str = "use1-az2", *, configure_s: float = 0.1
) -> Process:
    """A simulated provider that remembers over a restart, at the address it had before."""
    known = [each for each in home.started if f"{name}.db" in str(each.popen.args)]
    at = known[-1].grpc if known else "127.0.0.1:0"
    state = str(home.path / f"{name}.db")
    words = ("--state", state, "--listen", at, "--http", "127.0.0.1:0")
    path = str(fleet(home, name, zone, configure_s))
    return home.start("provider", "provider", "sim", "--fleet", path, *words)


def shard(home: Home, *providers: tuple[str, Process], **settings: str) -> Process:
    known = [each for each in home.started if "'shard'" in str(each.popen.args)]
    listen = known[-1].grpc if known else "127.0.0.1:0"
    words = [word for name, each in providers for word in ("--provider", f"{name}={each.grpc}")]
    options = [word for name, value in settings.items() for word in (f"--{name}", value)]
    always = ("--listen", listen, "--http", "127.0.0.1:0", "--insecure", "--cycle-interval", "0.3")
    return home.start("shard", "shard", *always, *words, *options)


def needs(count: int, cluster: str = "web") -> list[Need]:
    return [
        Need(
            cluster=ClusterId(cluster),
            profile=NeedProfile(priority=100),
            aggregate={"cpu": count * 2_000},
            min_unit={"cpu": 2_000},
        )
    ]


@asynccontextmanager
async def connected(
    process: Process, cluster: str = "web", *, at: str = "", hands: Hands | None = None
) -> AsyncIterator[SessionClient]:
    """A cluster with a session, which comes back by itself; `at`: by another way than directly."""
    tools = ClientTools(reconnect=QUICK, rollup_every_s=0.5)
    address = at or process.grpc
    client = SessionClient(cluster, address, Plaintext(), hands or Hands(), tools=tools)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(client.run())
        try:
            yield client
        finally:
            running.cancel()


async def serving(process: Process, cluster: str = "web") -> set[str]:
    """The machines that serve a cluster, as the shard tells it."""
    return {row.id for row in await machines(process, State.CONFIGURED, cluster=cluster)}


async def machines(process: Process, *states: State, cluster: str = "web") -> list[MachineRow]:
    """The machines of a cluster in these states, as the shard tells it."""
    query = MachineQuery(states=states, cluster=cluster)
    async with asked(process) as remote:
        return [row async for rows in remote.machines(query) for row in rows.rows]


@asynccontextmanager
async def asked(process: Process) -> AsyncIterator[RemoteShard]:
    async with open_channel(process.grpc, Plaintext()) as channel:
        yield RemoteShard(channel, name="shard")


async def executed(process: Process) -> int:
    return len(await actions(process))


async def actions(process: Process) -> list[ActionRow]:
    """What this life of the shard has carried out."""
    async with asked(process) as remote:
        found = await remote.actions(ActionQuery(disposition="executed"))
    return list(found.rows)


async def health(process: Process) -> dict[str, str]:
    async with asked(process) as remote:
        found = await remote.providers(ProviderQuery())
    return {row.name: row.health for row in found.rows}


async def so_many(process: Process, count: int, cluster: str = "web") -> set[str]:
    """Wait until so many machines serve a cluster; which."""
    return await standing(process, State.CONFIGURED, count, cluster)


async def standing(process: Process, state: State, count: int, cluster: str = "web") -> set[str]:
    """Wait until so many machines of a cluster are in a state; which."""
    async with asyncio.timeout(60):
        while True:
            found = {row.id for row in await machines(process, state, cluster=cluster)}
            if len(found) == count:
                return found
            await asyncio.sleep(0.05)


async def cycles(process: Process, count: int) -> None:
    """Wait until the shard has had so many more cycles."""
    begun = await asyncio.to_thread(process.metric, CYCLES)
    await until(lambda: process.metric(CYCLES) >= begun + count)


async def until(said: Callable[[], Any], patience_s: float = 60.0) -> Any:
    """Ask in a thread until the answer is true; the answer."""
    async with asyncio.timeout(patience_s):
        while True:
            if answer := await asyncio.to_thread(said):
                return answer
            await asyncio.sleep(0.05)
