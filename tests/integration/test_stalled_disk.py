"""A data disk that stalls holds up nobody but whoever wants something kept."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from mainstay.config.shard import ShardConfig
from mainstay.model.calls import Mutation
from mainstay.model.errors import Unavailable
from mainstay.model.frames import Hello
from mainstay.model.questions import SetControlRequest
from mainstay.processes.shard_ground import threads
from mainstay.processes.shard_parts import Assembled, Surroundings, assembled
from mainstay.providers.sim.provider import simulated
from mainstay.runtime.clock import SystemClock
from mainstay.shard.answers.view import ShardControls
from mainstay.shard.datadir import DataDir, Kept
from mainstay.shard.metrics import ShardMetrics
from mainstay.shard.orders import Disposed
from mainstay.shard.thought import Cycled
from served_shard import served
from shard_over_sim import SimLink
from talking import a_rollup
from whole_shard import AnsweringLine, Journal, a_provider, needs

TICKS: Final = 5
PATIENCE_S: Final = 20.0
PAUSE: Final = SetControlRequest(kind="pause", cluster="", reason="a test", by="ann", for_s=900)


class Disk:
    """Takes nothing until it is told to go on, and then what it is given, unless it is full."""

    def __init__(self) -> None:
        self.asked, self.goes_on = threading.Event(), threading.Event()
        self.is_full = False

    @contextmanager
    def under(self, kept: Kept[Any]) -> Iterator[None]:
        """Have this file lie on it; the block is not left before it goes on."""
        keep = kept.keep

        def stalling(value: Any) -> None:
            self.asked.set()
            if not self.goes_on.wait(PATIENCE_S):
                raise AssertionError("everybody waited for the disk")
            if self.is_full:
                raise Unavailable("no space left")
            keep(value)

        kept.keep = stalling  # type: ignore[method-assign]
        try:
            yield
        finally:
            self.goes_on.set()


class Beats:
    """Tells of every cycle."""

    def __init__(self) -> None:
        self._cycle = asyncio.Event()

    def seen(self, _: Cycled) -> None:
        self._cycle.set()

    async def beat(self) -> None:
        """The next one."""
        self._cycle.clear()
        await self._cycle.wait()

    async def go_on(self, disk: Disk) -> None:
        """While the disk has something to take, and does not."""
        assert await asyncio.to_thread(disk.asked.wait, PATIENCE_S)
        async with asyncio.timeout(PATIENCE_S):
            for _ in range(TICKS):
                await self.beat()
        assert not disk.goes_on.is_set()


@asynccontextmanager
async def at_work(
    data: DataDir, beats: Beats, sent: list[Mutation] | None = None
) -> AsyncIterator[Assembled]:
    """A shard as in its process: its threads are its own, and time passes by itself."""
    config = ShardConfig(cycle_interval_s=0.02)
    metrics, clock, spec = ShardMetrics(), SystemClock(), a_provider(slots=0, idle=2)
    sent = [] if sent is None else sent
    async with (
        threads(3, "shard") as aside,
        simulated(spec, clock) as sim,
        asyncio.TaskGroup() as tasks,
    ):
        made = assembled(
            config,
            Surroundings(
                links={spec.name: SimLink(sim, sent=sent)},
                data=data,
                journal=Journal(metrics, config),
                metrics=metrics,
                clock=clock,
                random=Random(5),
                aside=aside,
                seen=beats.seen,
            ),
        )
        task = tasks.create_task(made.shard.run())
        yield made
        task.cancel()


@pytest.mark.parametrize("is_full", [False, True])
def test_cycles_go_on_while_a_pause_is_kept_and_it_is_answered_after_that(
    tmp_path: Path, is_full: bool
) -> None:
    async def scenario(data: DataDir) -> None:
        disk, beats = Disk(), Beats()
        disk.is_full = is_full
        async with at_work(data, beats) as shard:
            with disk.under(data.controls):
                setting = asyncio.ensure_future(ShardControls(shard.live).set_control(PAUSE))
                await beats.go_on(disk)
                assert not setting.done()
            if is_full:
                with pytest.raises(Unavailable, match="no space left"):
                    await setting
            else:
                await setting
            assert len(shard.live.controls()) == (not is_full)

    with DataDir(tmp_path) as data:
        asyncio.run(scenario(data))


def test_cycles_go_on_while_the_first_list_of_a_provider_is_remembered(tmp_path: Path) -> None:
    async def scenario(data: DataDir) -> None:
        disk, beats = Disk(), Beats()
        async with at_work(data, beats) as shard:
            with disk.under(data.listed):
                await beats.go_on(disk)
                assert shard.live.reconciler.heard.ready

    with DataDir(tmp_path) as data:
        asyncio.run(scenario(data))


def test_nothing_is_acquired_that_a_next_life_would_not_know_to_wait_for(tmp_path: Path) -> None:
    """It would hold what then serves for missing, and buy it again."""

    async def scenario(data: DataDir) -> None:
        disk, beats, sent = Disk(), Beats(), list[Mutation]()
        async with at_work(data, beats, sent) as shard, asyncio.TaskGroup() as tasks:
            with disk.under(data.listed):
                line = AnsweringLine(shard.sessions.opened(Hello("web")))
                talking = tasks.create_task(line.talk())
                line.session.rolled_up(a_rollup(*needs(1)))
                async with asyncio.timeout(PATIENCE_S):
                    while not any(each.reason == "unlisted" for each in let_go(shard)):
                        await beats.go_on(disk)
                assert sent == []
            async with asyncio.timeout(PATIENCE_S):
                while not sent:
                    await beats.beat()
            assert "sim" in (data.listed.value or ())
            talking.cancel()

    with DataDir(tmp_path) as data:
        asyncio.run(scenario(data))


def let_go(shard: Assembled) -> list[Disposed]:
    return [told.disposed for told in shard.live.journal.recent()]


def test_the_directory_is_another_lifes_when_the_last_write_of_this_one_has_ended(
    tmp_path: Path,
) -> None:
    """A file beside that is a pipe takes what is written as slowly as somebody reads it."""
    folder = tmp_path / "shards" / ShardConfig().shard_id
    folder.mkdir(parents=True)
    pipe = folder / "listed.json.new"
    os.mkfifo(pipe)

    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(served(tmp_path))
            leaving = asyncio.ensure_future(stack.pop_all().aclose())
        done, _ = await asyncio.wait([leaving], timeout=1.0)
        assert not done
        with pytest.raises(Unavailable, match="in use by process"):
            DataDir(folder)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        await leaving
        os.close(reader)
        DataDir(folder).close()

    asyncio.run(scenario())
