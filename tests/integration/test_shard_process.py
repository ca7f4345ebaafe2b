"""`mainstay shard` as people run it: real processes, real kills. The rows of the failure table that
concern one shard (docs/explanation/static-stability.md) are tests here.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from mainstay.model.ids import ClusterId
from mainstay.model.need import Need, NeedProfile
from mainstay.model.state import State
from mainstay.model.views import ActionQuery, MachineQuery, ProviderQuery
from mainstay.session.client import ClientTools, SessionClient
from mainstay.session.reconnect import ReconnectOptions
from mainstay.wire.shard_view_client import RemoteShard
from mainstay.wire.tls import Plaintext
from mainstay.wire.transport import open_channel
from running import Home, Process, at_home
from talking import Hands

FLEET: Final = """
name = "{name}"
latency_s = {{ create = 0.1, configure = 0.1, drain = 0.1, delete = 0.1 }}

[[pool]]
capacity = "Reserved"
type = "m5.large"
zone = "{zone}"
slots = 12
"""

QUICK: Final = ReconnectOptions(shortest_s=0.05, longest_s=0.5)


def fleet(home: Home, name: str, zone: str) -> Path:
    path = home.path / f"{name}.toml"
    path.write_text(FLEET.format(name=name, zone=zone))
    return path


def provider(home: Home, name: str = "east", zone: str = "use1-az2") -> Process:
    """A simulated provider that remembers over a restart, at the address it had before."""
    known = [each for each in home.started if f"{name}.db" in str(each.popen.args)]
    at = known[-1].grpc if known else "127.0.0.1:0"
    state = str(home.path / f"{name}.db")
    words = ("--fleet", str(fleet(home, name, zone)), "--state", state, "--listen", at)
    return home.start("provider", "provider", "sim", *words)


def shard(home: Home, *providers: tuple[str, Process], **settings: str) -> Process:
    known = [each for each in home.started if "'shard'" in str(each.popen.args)]
    listen = known[-1].grpc if known else "127.0.0.1:0"
    words = [word for name, each in providers for word in ("--provider", f"{name}={each.grpc}")]
    options = [word for name, value in settings.items() for word in (f"--{name}", value)]
    always = ("--listen", listen, "--http", "127.0.0.1:0", "--insecure", "--cycle-interval", "0.3")
    return home.start("shard", "shard", *always, *words, *options)


def needs(machines: int, cluster: str = "web") -> list[Need]:
    return [
        Need(
            cluster=ClusterId(cluster),
            profile=NeedProfile(priority=100),
            aggregate={"cpu": machines * 2_000},
            min_unit={"cpu": 2_000},
        )
    ]


@asynccontextmanager
async def connected(process: Process, cluster: str = "web") -> AsyncIterator[SessionClient]:
    """A cluster with a session, which comes back by itself."""
    tools = ClientTools(reconnect=QUICK, rollup_every_s=0.5)
    client = SessionClient(cluster, process.grpc, Plaintext(), Hands(), tools=tools)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(client.run())
        try:
            yield client
        finally:
            running.cancel()


async def serving(process: Process, cluster: str = "web") -> set[str]:
    """The machines that serve a cluster, as the shard tells it."""
    query = MachineQuery(states=(State.CONFIGURED,), cluster=cluster)
    async with asked(process) as remote:
        return {row.id async for rows in remote.machines(query) for row in rows.rows}


@asynccontextmanager
async def asked(process: Process) -> AsyncIterator[RemoteShard]:
    async with open_channel(process.grpc, Plaintext()) as channel:
        yield RemoteShard(channel, name="shard")


async def executed(process: Process) -> int:
    async with asked(process) as remote:
        found = await remote.actions(ActionQuery())
    return sum(row.disposition == "executed" for row in found.rows)


async def health(process: Process) -> dict[str, str]:
    async with asked(process) as remote:
        found = await remote.providers(ProviderQuery())
    return {row.name: row.health for row in found.rows}


async def so_many(process: Process, machines: int) -> set[str]:
    """Wait until so many machines serve; which."""
    async with asyncio.timeout(60):
        while True:
            if len(found := await serving(process)) == machines:
                return found
            await asyncio.sleep(0.05)


async def until(said: Callable[[], Any], patience_s: float = 60.0) -> Any:
    """Ask in a thread until the answer is true; the answer."""
    async with asyncio.timeout(patience_s):
        while True:
            if answer := await asyncio.to_thread(said):
                return answer
            await asyncio.sleep(0.05)


def test_a_shard_that_is_killed_comes_back_with_every_assignment(tmp_path: Path) -> None:
    async def scenario(home: Home) -> None:
        east = await asyncio.to_thread(provider, home)
        first = await asyncio.to_thread(shard, home, ("east", east))
        async with connected(first) as web:
            web.set_needs(needs(5))
            before = await so_many(first, 5)
            first.kill()
            second = await asyncio.to_thread(shard, home, ("east", east))
            assert second.facts["epoch"] == first.facts["epoch"] + 1
            await until(lambda: second.page("/readyz")[0] == 200)
            await until(lambda: web.facts().sessions == 2)
            await asyncio.sleep(1.5)

            assert await serving(second) == before
            assert await executed(second) == 0

    with at_home(tmp_path) as home:
        asyncio.run(scenario(home))


def test_a_cluster_that_is_cut_off_keeps_its_machines_and_comes_back_with_its_demand(
    tmp_path: Path,
) -> None:
    async def scenario(home: Home) -> None:
        east = await asyncio.to_thread(provider, home)
        process = await asyncio.to_thread(shard, home, ("east", east))
        async with connected(process) as web:
            web.set_needs(needs(3))
            before = await so_many(process, 3)
        await asyncio.sleep(2)
        assert await serving(process) == before
        async with connected(process) as web:
            web.set_needs(needs(4))
            after = await so_many(process, 4)
        assert before < after

    with at_home(tmp_path) as home:
        asyncio.run(scenario(home))


def test_a_provider_that_is_killed_costs_nobody_anything_but_its_own_capacity(
    tmp_path: Path,
) -> None:
    async def scenario(home: Home) -> None:
        east = await asyncio.to_thread(provider, home)
        west = await asyncio.to_thread(provider, home, "west", "use1-az4")
        process = await asyncio.to_thread(shard, home, ("east", east), ("west", west))
        async with connected(process) as web:
            web.set_needs(needs(3))
            before = await so_many(process, 3)
            east.kill()
            await until(lambda: process.metric("mainstay_shard_providers_lost_total") >= 1)
            web.set_needs(needs(5))
            both = await so_many(process, 5)
            assert before < both
            assert await health(process) == {"east": "lost", "west": "answering"}

            await asyncio.to_thread(provider, home)
            await until(lambda: process.metric("mainstay_shard_providers_back_total") >= 1)
            assert await serving(process) == both

    with at_home(tmp_path) as home:
        asyncio.run(scenario(home))


def test_with_everything_down_machines_stay_and_everything_comes_back(tmp_path: Path) -> None:
    async def scenario(home: Home) -> None:
        east = await asyncio.to_thread(provider, home)
        process = await asyncio.to_thread(shard, home, ("east", east))
        async with connected(process) as web:
            web.set_needs(needs(4))
            before = await so_many(process, 4)
        process.kill()
        east.kill()
        east = await asyncio.to_thread(provider, home)
        process = await asyncio.to_thread(shard, home, ("east", east))
        await until(lambda: process.page("/readyz")[0] == 200)
        assert await so_many(process, 4) == before
        async with connected(process) as web:
            web.set_needs(needs(5))
            after = await so_many(process, 5)
        assert before < after

    with at_home(tmp_path) as home:
        asyncio.run(scenario(home))


def test_a_paused_shard_calls_nobody_and_says_what_it_would_do(tmp_path: Path) -> None:
    async def scenario(home: Home) -> None:
        east = await asyncio.to_thread(provider, home)
        process = await asyncio.to_thread(shard, home, ("east", east))
        stopped = home.run("pause", "--reason", "a test", "--for", "1h")
        assert stopped.returncode == 0, stopped.stderr
        async with connected(process) as web:
            web.set_needs(needs(2))
            told = {"disposition": "suppressed", "kind": "bootstrap"}
            await until(lambda: process.metric("mainstay_shard_actions_total", **told) >= 2)
            assert await serving(process) == set()

            process.kill()
            process = await asyncio.to_thread(shard, home, ("east", east))
            await until(lambda: process.metric("mainstay_shard_actions_total", **told) >= 2)
            assert await serving(process) == set()

            lifted = home.run("resume", "--reason", "the test is over")
            assert lifted.returncode == 0, lifted.stderr
            await so_many(process, 2)

    with at_home(tmp_path) as home:
        asyncio.run(scenario(home))


def test_two_processes_with_one_data_directory_are_refused(tmp_path: Path) -> None:
    with at_home(tmp_path) as home:
        east = provider(home)
        shard(home, ("east", east))
        ended = home.run("shard", "--insecure", "--provider", f"east={east.grpc}",
                         "--listen", "127.0.0.1:0", "--http", "")  # fmt: skip

        assert ended.returncode != 0
        assert "in use by process" in ended.stderr
        assert len(ended.stderr.strip().splitlines()) == 1


def test_an_unreadable_epoch_refuses_to_start(tmp_path: Path) -> None:
    with at_home(tmp_path) as home:
        folder = home.path / "shards" / "shard-0"
        folder.mkdir(parents=True)
        (folder / "epoch").write_text("seven\n")
        ended = home.run("shard", "--insecure", "--provider", "east=127.0.0.1:1",
                         "--listen", "127.0.0.1:0", "--http", "")  # fmt: skip

        assert ended.returncode == 1
        assert "epoch" in ended.stderr
        assert "seven" in ended.stderr
        assert (folder / "epoch").read_text() == "seven\n"


def test_a_shard_is_ready_without_any_provider_answering(tmp_path: Path) -> None:
    """Readiness is the first list of each provider, or its recorded failure."""
    with at_home(tmp_path) as home:
        east = provider(home)
        east.kill()
        process = shard(home, ("east", east))
        asyncio.run(until(lambda: process.page("/readyz")[0] == 200))
