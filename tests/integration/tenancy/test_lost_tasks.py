"""A task that was handed out and never reached its agent is offered again, and run once."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from agents import DONE, NodeSide
from event_stage import until
from mainstay.model.errors import Unavailable
from mainstay.tenancy import tasks
from mainstay.tenancy.agent_api import LocalApi
from mainstay.tenancy.agent_faults import HEALTHY
from mainstay.tenancy.agent_sim import SimulatedAgent
from mainstay.tenancy.database.connect import Pool
from mainstay.tenancy.tasks import Poll
from mainstay.tenancy.work import TaskResult, TaskType
from postgres import database_url, server
from tenants import node, rows, run, value

__all__ = ["database_url", "server"]

Scenario = Callable[[NodeSide], Awaitable[None]]
NOTHING: frozenset[str] = frozenset()


@pytest.fixture(autouse=True)
def lost_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "LOST_S", 0.0)


@pytest.fixture
def play(database_url: str, tmp_path: Path) -> Callable[[Scenario], None]:
    def played(scenario: Scenario) -> None:
        async def inside(pool: Pool) -> None:
            await node(pool)
            await scenario(await NodeSide(pool, tmp_path).open())

        run(database_url, inside)

    return played


Play = Callable[[Scenario], None]


async def polled(side: NodeSide, mine: str, **said: Any) -> str | None:
    poll = Poll(**{"wait_s": 0.0, "holds": NOTHING, **said})
    row = await tasks.claim_for(side.pool, "node-a", mine, poll)
    return None if row is None else str(row["id"])


def test_what_an_agent_was_given_and_does_not_have_is_offered_again(play: Play) -> None:
    async def scenario(side: NodeSide) -> None:
        mine = await side.certificate()
        first = await side.queue()
        second = await side.queue(attempt=2)

        assert await polled(side, mine) == first  # the answer is lost
        assert await polled(side, mine) == first
        assert await polled(side, mine, holds=frozenset({first})) == second
        assert await polled(side, mine, holds=frozenset({second})) == first
        assert await polled(side, mine, holds=frozenset({first, second})) is None

    play(scenario)


def test_what_was_handed_out_a_moment_ago_is_not_offered_again_yet(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be on its way, or its result may be."""
    monkeypatch.setattr(tasks, "LOST_S", 5.0)

    async def scenario(side: NodeSide) -> None:
        mine = await side.certificate()
        task = await side.queue()
        assert await polled(side, mine) == task
        assert await polled(side, mine) is None
        await rows(
            side.pool,
            """update node_tasks set dispatched_at = dispatched_at - interval '5 seconds'
               returning id""",
        )
        assert await polled(side, mine) == task

    play(scenario)


class Refusing(LocalApi):
    """Takes no result of the first task."""

    refused = ""
    offered = 0

    @override
    async def wait(self, node: str, *, wait_s: float, holds: frozenset[str] | None = None) -> Any:
        found = await super().wait(node, wait_s=wait_s, holds=holds)
        self.offered += found is not None
        return found

    @override
    async def result(self, node: str, task: str, result: TaskResult) -> None:
        if task == (self.refused or task):
            self.refused = task
            result = replace(result, error_detail="x" * tasks.RESULT_BYTES_MAX)
        await super().result(node, task, result)


def test_a_task_whose_result_is_refused_is_not_offered_over_and_over(play: Play) -> None:
    async def scenario(side: NodeSide) -> None:
        before = await side.agent()
        api = Refusing(side.pool, side.authority)
        agent = SimulatedAgent(api, "node-a", HEALTHY, side.clock, before._random, host=before.host)
        await side.queue(TaskType.HEALTH_PROBE)
        async with asyncio.timeout(30):
            running = asyncio.ensure_future(agent.run())
            await until(lambda: is_true(agent.contradicted is not None))
            second = await side.queue(TaskType.HEALTH_PROBE, attempt=2)
            row = await tasks.outcome(side.pool, second, wait_s=20)
            running.cancel()
        assert row is not None
        assert row["status"] == "completed"
        assert api.offered == 2

    play(scenario)


async def is_true(said: bool) -> bool:
    return said


def test_an_agent_that_does_not_say_what_it_has_is_given_nothing_twice(play: Play) -> None:
    async def scenario(side: NodeSide) -> None:
        mine = await side.certificate()
        task = await side.queue()

        assert await polled(side, mine) == task
        assert await polled(side, mine, holds=None) is None

    play(scenario)


def test_what_another_certificate_claimed_is_not_offered(play: Play) -> None:
    async def scenario(side: NodeSide) -> None:
        old = await side.certificate()
        task = await side.queue()
        assert await polled(side, old) == task
        new = await side.certificate()  # enrolled anew

        assert await polled(side, new) is None

    play(scenario)


def test_what_has_ended_or_expired_is_not_offered_again(play: Play) -> None:
    async def scenario(side: NodeSide) -> None:
        mine = await side.certificate()
        ended, late = await side.queue(), await side.queue(attempt=2)
        assert await polled(side, mine) == ended
        await tasks.finish(side.pool, "node-a", mine, ended, DONE)
        assert await polled(side, mine) == late
        await rows(
            side.pool,
            "update node_tasks set expires_at = clock_timestamp() where id = %s returning id",
            [late],
        )

        assert await polled(side, mine) is None

    play(scenario)


def test_who_is_gone_before_there_is_work_gets_none(play: Play) -> None:
    async def scenario(side: NodeSide) -> None:
        mine = await side.certificate()
        await side.queue()

        async def gone() -> bool:
            return True

        assert await polled(side, mine, is_gone=gone) is None
        assert await value(side.pool, "select status from node_tasks") == "queued"

    play(scenario)


def test_what_somebody_was_given_who_is_gone_is_queued_again(play: Play) -> None:
    async def scenario(side: NodeSide) -> None:
        mine = await side.certificate()
        task = await side.queue()
        said = iter([False, True])

        async def goes() -> bool:
            return next(said)

        assert await polled(side, mine, is_gone=goes) is None
        row = (await rows(side.pool, "select * from node_tasks"))[0]
        assert (row["status"], row["claimed_by_fingerprint"]) == ("queued", None)
        assert await polled(side, mine, holds=None) == task

    play(scenario)


class Losing(LocalApi):
    """The first answers to a wait do not arrive."""

    lost = 2

    @override
    async def wait(self, node: str, *, wait_s: float, holds: frozenset[str] | None = None) -> Any:
        found = await super().wait(node, wait_s=wait_s, holds=holds)
        if found is not None and self.lost:
            self.lost -= 1
            raise Unavailable("the answer broke off")
        return found


def test_an_agent_whose_answers_are_lost_does_the_work_once(play: Play) -> None:
    async def scenario(side: NodeSide) -> None:
        before = await side.agent()
        agent = SimulatedAgent(
            Losing(side.pool, side.authority), "node-a", HEALTHY, side.clock, before._random,
            host=before.host,
        )  # fmt: skip
        task = await side.queue(TaskType.HEALTH_PROBE)
        async with asyncio.timeout(30):
            running = asyncio.ensure_future(agent.run())
            row = await tasks.outcome(side.pool, task, wait_s=20)
            running.cancel()
        assert row is not None
        assert row["status"] == "completed"
        assert list(agent.host.results) == [task]

    play(scenario)
