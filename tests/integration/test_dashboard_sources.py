"""Whom the dashboard asks: what has stopped is not forgotten, what was removed is."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc

from coordinators import coordinator, in_a_file
from mainstay.bench.fleet_shards import KEY, SimulatedShard, heavy
from mainstay.config.dashboard import DashboardConfig
from mainstay.model.coordination import Domain
from mainstay.model.coordinator_views import ShardQuery
from mainstay.model.errors import Unavailable
from mainstay.processes.announce import announced
from mainstay.processes.dashboard_sources import Running
from mainstay.runtime.clock import StepClock
from mainstay.wire.coordinator_client import RemoteCoordinator
from mainstay.wire.coordinator_dialer import CoordinatorDialer
from mainstay.wire.tls import Plaintext
from running import PATIENCE_S, Home, at_home

CONFIG = DashboardConfig()


@asynccontextmanager
async def looking(home: Home) -> AsyncIterator[tuple[Running, StepClock]]:
    clock = StepClock(100.0)
    running = Running(CONFIG, home.path, home.path / "none", {}, clock=clock, linger_s=0.0)
    try:
        yield running, clock
    finally:
        await running.close()


async def ask(address: str, question: Callable[[RemoteCoordinator], Awaitable[Any]]) -> None:
    """As soon as it leads."""
    dialer = CoordinatorDialer([address], Plaintext())
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await dialer.ask(question)
            except Unavailable:
                await asyncio.sleep(0.05)
            else:
                return await dialer.close()


async def names(running: Running, clock: StepClock) -> set[str]:
    """Who is known after another look, when all that it began is done."""
    clock.advance(2)
    running.shards()
    if others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others, timeout=10)
    return set(running.shards())


def test_a_shard_that_stopped_is_known_until_the_coordinator_has_removed_it(tmp_path: Path) -> None:
    async def scenario(home: Home) -> None:
        leading = coordinator(home, "c-0", *in_a_file(home))
        gone = SimulatedShard("a", heavy(10), [Domain(KEY, "r1")])
        report = gone.report(1_000.0)
        await ask(leading.grpc, lambda one: one.report(report))
        async with looking(home) as (running, clock):
            with announced(home.path, "shard", "a", {"id": "a", **at(1)}):
                assert await names(running, clock) == {"a"}
            assert await names(running, clock) == {"a"}
            forced = ("shards", "remove", "a", "--yes", "--force", "--insecure")
            told = await asyncio.to_thread(home.run, *forced, "--server", leading.grpc)
            assert told.returncode == 0, told.stderr
            assert await names(running, clock) == set()
            with announced(home.path, "shard", "a", {"id": "a", **at(2)}):
                assert await names(running, clock) == {"a"}

    with at_home(tmp_path) as home:
        asyncio.run(scenario(home))


def test_a_shard_that_no_coordinator_ever_had_stays_known(tmp_path: Path) -> None:
    async def scenario(home: Home) -> None:
        leading = coordinator(home, "c-0", *in_a_file(home))
        await ask(leading.grpc, lambda one: one.shards(ShardQuery()))
        async with looking(home) as (running, clock):
            with announced(home.path, "shard", "alone", {"id": "alone", **at(1)}):
                await names(running, clock)
            assert await names(running, clock) == {"alone"}

    with at_home(tmp_path) as home:
        asyncio.run(scenario(home))


def test_lines_to_where_a_shard_was_before_are_hung_up(tmp_path: Path) -> None:
    async def scenario(home: Home) -> None:
        async with looking(home) as (running, clock):
            for port in range(1, 9):
                with announced(home.path, "shard", "a", {"id": "a", **at(port)}):
                    await names(running, clock)
            gc.collect()
            lines = [each for each in gc.get_objects() if isinstance(each, grpc.aio.Channel)]
            assert len(lines) == 1

    with at_home(tmp_path) as home:
        asyncio.run(scenario(home))


def at(port: int) -> dict[str, object]:
    """Where nobody listens."""
    return {"addresses": {"grpc": f"127.0.0.1:{port}"}}
