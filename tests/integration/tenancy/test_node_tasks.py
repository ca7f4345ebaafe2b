"""Work for agents on a real PostgreSQL: who gets a task, who may end it, and what ends it else."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from agents import DONE, NodeSide
from mainstay.model.errors import Fenced, MainstayError, Rejected, Unavailable
from mainstay.tenancy import bell, briefing, enrolment, late_results, request, signing, tasks
from mainstay.tenancy.database.connect import Pool, Row, transaction
from mainstay.tenancy.enrolment import NotThisNode
from mainstay.tenancy.signing import Signer, verify
from mainstay.tenancy.states import TaskStatus
from mainstay.tenancy.tasks import NotTheClaimer, ResultConflict, Task, TaskNotFound, TaskOver
from mainstay.tenancy.work import TaskResult, TaskType
from postgres import database_url, server
from tenants import KEY, NEW, WHOLE, node, order, rows, run, value

__all__ = ["database_url", "server"]

Scenario = Callable[[NodeSide], Awaitable[None]]
OTHER = TaskResult(status=TaskStatus.COMPLETED, output={"ready": False})
FAILED = TaskResult(
    status=TaskStatus.FAILED, output={"phase": "ssh_wait"}, error_code="ssh_timeout"
)


@pytest.fixture
def play(database_url: str, tmp_path: Path) -> Callable[[Scenario], None]:
    """Run a scenario in a world with two nodes."""

    def played(scenario: Scenario) -> None:
        async def inside(pool: Pool) -> None:
            await node(pool)
            await node(pool, "node-b")
            await scenario(await NodeSide(pool, tmp_path).open())

        run(database_url, inside)

    return played


Play = Callable[[Scenario], None]


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set when somebody has looked in vain and begins to wait."""
    begun, rings = asyncio.Event(), bell.Wait.rings

    async def watched(self: bell.Wait, *, at_most_s: float) -> None:
        begun.set()
        await rings(self, at_most_s=at_most_s)

    monkeypatch.setattr(bell.Wait, "rings", watched)
    return begun


async def task_row(side: NodeSide, task: str) -> Row:
    (row,) = await rows(side.pool, "select * from node_tasks where id = %s", [task])
    return row


async def past_its_time(side: NodeSide) -> None:
    """As if time had passed; the ends of tasks are the database's."""
    await rows(side.pool, "update node_tasks set expires_at = clock_timestamp() returning id")


class TestClaiming:
    def test_scenario_15_one_of_ten_waits_with_one_certificate_gets_the_task(
        self, play: Play
    ) -> None:
        async def scenario(side: NodeSide) -> None:
            mine = await side.certificate()
            task = await side.queue()

            async with asyncio.TaskGroup() as group:
                waits = [
                    group.create_task(tasks.claim(side.pool, "node-a", mine, wait_s=0.3))
                    for _ in range(10)
                ]

            given = [row["id"] for wait in waits if (row := wait.result()) is not None]
            assert given == [task]
            row = await task_row(side, task)
            assert (row["status"], row["claimed_by_fingerprint"]) == ("dispatched", mine)
            assert row["dispatched_at"] >= row["created_at"]

        play(scenario)

    def test_scenario_15_another_nodes_certificate_is_refused_and_changes_nothing(
        self, play: Play
    ) -> None:
        async def scenario(side: NodeSide) -> None:
            await side.certificate()
            theirs = await side.certificate("node-b")
            task = await side.queue()

            for stranger in (theirs, "", "0" * 64):
                with pytest.raises(NotThisNode):
                    await tasks.claim(side.pool, "node-a", stranger, wait_s=0)

            assert (await task_row(side, task))["status"] == "queued"

        play(scenario)

    def test_a_node_gets_its_own_tasks_in_the_order_they_were_queued(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            mine = await side.certificate()
            await side.queue(node="node-b")
            first = await side.queue()
            second = await side.queue(attempt=2)

            given = [await tasks.claim(side.pool, "node-a", mine, wait_s=0) for _ in range(3)]

            assert [row and row["id"] for row in given] == [first, second, None]

        play(scenario)

    def test_a_task_past_its_time_is_not_handed_out(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            mine = await side.certificate()
            await side.queue()
            await past_its_time(side)

            assert await tasks.claim(side.pool, "node-a", mine, wait_s=0) is None

        play(scenario)

    def test_a_retired_node_gets_nothing(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            mine = await side.certificate()
            await side.queue()
            await rows(side.pool, "update nodes set status = 'retired' returning id")

            with pytest.raises(NotThisNode):
                await tasks.claim(side.pool, "node-a", mine, wait_s=0)

        play(scenario)

    def test_a_task_that_somebody_is_claiming_is_nobody_elses(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            mine = await side.certificate()
            await side.queue()
            values = {"node": "node-a", "fingerprint": mine, "ours": [mine], "lost_at": None,
                      "holds": []}  # fmt: skip

            async with transaction(side.pool) as tx:
                first = await (await tx.execute(tasks._CLAIM, values)).fetchone()
                async with asyncio.timeout(10):
                    second = await tasks.claim(side.pool, "node-a", mine, wait_s=0)

            assert first is not None
            assert second is None

        play(scenario)

    def test_who_waits_gets_nothing_once_the_node_goes_by_another_certificate(
        self, play: Play, waits: asyncio.Event
    ) -> None:
        async def scenario(side: NodeSide) -> None:
            old = await side.certificate()
            async with asyncio.TaskGroup() as group:
                wait = group.create_task(tasks.claim(side.pool, "node-a", old, wait_s=1.5))
                await waits.wait()
                new = await side.certificate()
                task = await side.queue()
                await wait
            row = await tasks.claim(side.pool, "node-a", new, wait_s=0)

            assert wait.result() is None
            assert row is not None
            assert row["id"] == task

        play(scenario)

    def test_a_wait_sees_a_task_that_is_queued_meanwhile_even_if_nobody_listens(
        self, play: Play, waits: asyncio.Event
    ) -> None:
        async def scenario(side: NodeSide) -> None:
            mine = await side.certificate()

            async with asyncio.TaskGroup() as group:
                wait = group.create_task(tasks.claim(side.pool, "node-a", mine, wait_s=20))
                await waits.wait()
                task = await side.queue()

            row = wait.result()
            assert row is not None
            assert row["id"] == task

        play(scenario)

    def test_what_is_claimed_is_in_hand_until_it_is_ended(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            mine = await side.certificate()
            task = await side.queue()
            await side.queue(attempt=2)
            assert await tasks.in_hand(side.pool, "node-a", mine) == []

            await tasks.claim(side.pool, "node-a", mine, wait_s=0)
            held = await tasks.in_hand(side.pool, "node-a", mine)
            await tasks.finish(side.pool, "node-a", mine, task, DONE)

            assert [row["id"] for row in held] == [task]
            assert await tasks.in_hand(side.pool, "node-a", mine) == []

        play(scenario)

    def test_a_claim_says_that_the_node_is_there(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            mine = await side.certificate()
            await rows(side.pool, "update nodes set status = 'offline' returning id")

            await tasks.claim(side.pool, "node-a", mine, wait_s=0)

            found = await rows(side.pool, "select status, last_seen_at from nodes order by id")
            assert [row["status"] for row in found] == ["active", "offline"]
            assert [row["last_seen_at"] is None for row in found] == [False, True]

        play(scenario)

    def test_a_node_that_says_nothing_for_long_gets_no_new_allocations(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            mine = await side.certificate()
            await tasks.claim(side.pool, "node-a", mine, wait_s=0)

            early = await enrolment.mark_offline(side.pool, silent_s=60)
            late = await enrolment.mark_offline(side.pool, silent_s=0)

            assert (early, [row["id"] for row in late]) == ([], ["node-a"])

        play(scenario)


class TestListening:
    def test_one_connection_wakes_whoever_waits(
        self,
        play: Play,
        database_url: str,
        waits: asyncio.Event,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(bell, "NET_S", 3600.0)  # nobody looks again by himself

        async def scenario(side: NodeSide) -> None:
            mine = await side.certificate()
            async with (
                bell.listening(database_url) as heard,
                asyncio.timeout(15),  # less than any wait below
                asyncio.TaskGroup() as group,
            ):
                await heard.heard.wait()
                claim = group.create_task(
                    tasks.claim(side.pool, "node-a", mine, wait_s=20, bell=heard)
                )
                await waits.wait()
                task = await side.queue()
                claimed = await claim
                waits.clear()
                end = group.create_task(tasks.outcome(side.pool, task, wait_s=20, bell=heard))
                await waits.wait()
                await tasks.finish(side.pool, "node-a", mine, task, DONE)

            assert claimed is not None
            row = end.result()
            assert row is not None
            assert row["status"] == "completed"

        play(scenario)

    def test_a_notification_ends_a_wait_long_before_the_next_look(self, database_url: str) -> None:
        async def scenario(pool: Pool) -> None:
            async with bell.listening(database_url) as heard:
                await heard.heard.wait()
                with heard.wait(bell.Channel.QUEUED, "node-a") as wait:
                    await wait.rings(at_most_s=0)  # the ring of the beginning
                    async with transaction(pool) as tx:
                        await tx.execute("select pg_notify('mainstay_task_queued', 'node-b')")
                        await tx.execute("select pg_notify('mainstay_task_queued', 'node-a')")
                    began_s = asyncio.get_running_loop().time()
                    await wait.rings(at_most_s=60)
                    assert asyncio.get_running_loop().time() - began_s < bell.NET_S

        run(database_url, scenario)

    def test_a_broken_connection_is_opened_again_and_everybody_looks(
        self, database_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bell, "PAUSE_S", 0.01)
        monkeypatch.setattr(bell, "NET_S", 3600.0)

        async def scenario(pool: Pool) -> None:
            async with bell.listening(database_url) as heard, asyncio.timeout(20):
                await heard.heard.wait()
                with heard.wait(bell.Channel.ENDED, "tsk") as wait:
                    await rows(
                        pool,
                        """select pg_terminate_backend(pid) from pg_stat_activity
                           where datname = current_database() and query like 'listen%%'""",
                    )
                    await wait.rings(at_most_s=3600)
                    assert not heard.heard.is_set()
                    await heard.heard.wait()
                    await wait.rings(at_most_s=3600)  # something may have been missed meanwhile
                    await rows(pool, "select pg_notify('mainstay_task_ended', 'tsk')")
                    await wait.rings(at_most_s=3600)

        run(database_url, scenario)


class TestResults:
    def test_a_result_ends_the_task_and_says_when(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            mine = await side.certificate()
            task = await side.queue()
            await tasks.claim(side.pool, "node-a", mine, wait_s=0)

            row = await tasks.finish(side.pool, "node-a", mine, task, FAILED)

            assert (row["status"], row["error_code"]) == ("failed", "ssh_timeout")
            assert row["result"] == {"phase": "ssh_wait"}
            assert row["ended_at"] >= row["dispatched_at"]

        play(scenario)

    def test_the_same_result_again_is_fine_and_another_is_a_conflict(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            mine = await side.certificate()
            task = await side.queue()
            await tasks.claim(side.pool, "node-a", mine, wait_s=0)
            first = await tasks.finish(side.pool, "node-a", mine, task, DONE)

            again = await tasks.finish(side.pool, "node-a", mine, task, DONE)
            for other in (OTHER, FAILED):
                with pytest.raises(ResultConflict):
                    await tasks.finish(side.pool, "node-a", mine, task, other)

            assert again == first == await task_row(side, task)

        play(scenario)

    def test_of_two_results_at_once_one_counts(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            mine = await side.certificate()
            task = await side.queue()
            await tasks.claim(side.pool, "node-a", mine, wait_s=0)

            async def said(result: TaskResult) -> str:
                try:
                    await tasks.finish(side.pool, "node-a", mine, task, result)
                except ResultConflict as error:
                    return error.code
                return "ok"

            async with asyncio.TaskGroup() as group:
                answers = [group.create_task(said(result)) for result in (DONE, OTHER)]

            assert sorted(answer.result() for answer in answers) == ["ok", "task_result_conflict"]

        play(scenario)

    def test_scenario_16_a_result_of_another_certificate_is_refused(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            row = await request.request(side.pool, NEW, order(1))
            mine, theirs = await side.certificate(), await side.certificate("node-b")
            task = await side.queue(allocation=row["id"])
            await tasks.claim(side.pool, "node-a", mine, wait_s=0)
            before = await task_row(side, task)

            await refused(NotThisNode, tasks.finish(side.pool, "node-a", theirs, task, DONE))
            await refused(TaskNotFound, tasks.finish(side.pool, "node-b", theirs, task, DONE))

            assert await task_row(side, task) == before
            assert before["status"] == "dispatched"
            assert (await rows(side.pool, "select * from allocations"))[0] == row

        play(scenario)

    def test_scenario_16_nor_does_a_node_that_enrolled_again_end_what_it_had_before(
        self, play: Play
    ) -> None:
        async def scenario(side: NodeSide) -> None:
            mine = await side.certificate()
            task = await side.queue()
            await tasks.claim(side.pool, "node-a", mine, wait_s=0)
            new = await side.certificate()

            await refused(NotTheClaimer, tasks.finish(side.pool, "node-a", new, task, DONE))
            await refused(NotThisNode, tasks.finish(side.pool, "node-a", mine, task, DONE))

            assert await tasks.in_hand(side.pool, "node-a", new) == []
            assert (await task_row(side, task))["status"] == "dispatched"

        play(scenario)

    def test_a_task_nobody_claimed_has_no_result(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            mine = await side.certificate()
            task = await side.queue()

            await refused(NotTheClaimer, tasks.finish(side.pool, "node-a", mine, task, DONE))
            await refused(TaskNotFound, tasks.finish(side.pool, "node-a", mine, "tsk_no", DONE))

        play(scenario)

    @pytest.mark.parametrize(
        "output", [{"log": "a\0b"}, {"log": "x" * tasks.RESULT_BYTES_MAX}], ids=["nul", "long"]
    )
    def test_what_cannot_be_stored_is_refused_in_one_line(
        self, play: Play, output: dict[str, Any]
    ) -> None:
        async def scenario(side: NodeSide) -> None:
            mine = await side.certificate()
            task = await side.queue()
            await tasks.claim(side.pool, "node-a", mine, wait_s=0)
            bad = TaskResult(status=TaskStatus.COMPLETED, output=output)

            await refused(Rejected, tasks.finish(side.pool, "node-a", mine, task, bad))

            assert (await task_row(side, task))["status"] == "dispatched"

        play(scenario)

    @pytest.mark.parametrize(
        ("status", "code"),
        [(TaskStatus.EXPIRED, None), (TaskStatus.FAILED, None), (TaskStatus.COMPLETED, "x")],
    )
    def test_a_result_is_one_of_two_and_has_a_code_if_it_failed(
        self, status: TaskStatus, code: str | None
    ) -> None:
        with pytest.raises(Rejected):
            TaskResult(status=status, error_code=code)


async def refused(error: type[MainstayError], call: Awaitable[object]) -> None:
    with pytest.raises(error):
        await call


class TestExpiry:
    def test_the_sweeper_ends_what_is_past_its_time_claimed_or_not(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            mine = await side.certificate()
            first = await side.queue()
            await tasks.claim(side.pool, "node-a", mine, wait_s=0)
            second = await side.queue(attempt=2)
            assert await tasks.expire(side.pool) == []

            await past_its_time(side)
            ended = await tasks.expire(side.pool)

            assert {row["id"] for row in ended} == {first, second}
            assert {row["status"] for row in ended} == {"expired"}
            assert all(row["ended_at"] >= row["expires_at"] for row in ended)
            assert await tasks.expire(side.pool) == []

        play(scenario)

    def test_a_late_result_revives_nothing_and_is_kept_once(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            mine = await side.certificate()
            task = await side.queue()
            await tasks.claim(side.pool, "node-a", mine, wait_s=0)
            await past_its_time(side)
            await tasks.expire(side.pool)

            for _ in range(2):
                await refused(TaskOver, tasks.finish(side.pool, "node-a", mine, task, DONE))

            assert (await task_row(side, task))["status"] == "expired"
            (late,) = await late_results.listed(side.pool)
            assert (late["task_id"], late["status"], late["result"]) == (
                task, "completed", {"ready": True},
            )  # fmt: skip
            async with transaction(side.pool) as tx:
                handled = [await late_results.handled(tx, task) for _ in range(2)]
            assert handled == [True, False]
            assert await late_results.listed(side.pool) == []

        play(scenario)

    def test_a_late_result_of_who_did_not_claim_it_is_not_kept(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            mine = await side.certificate()
            task = await side.queue()
            await past_its_time(side)
            await tasks.expire(side.pool)

            await refused(NotTheClaimer, tasks.finish(side.pool, "node-a", mine, task, DONE))

            assert await late_results.listed(side.pool) == []

        play(scenario)

    def test_an_ended_task_cannot_be_changed_even_by_plain_sql(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            task = await side.queue()
            await past_its_time(side)
            await tasks.expire(side.pool)

            with pytest.raises(psycopg.errors.CheckViolation):
                await rows(side.pool, "update node_tasks set status = 'queued' returning id")

            assert (await task_row(side, task))["status"] == "expired"

        play(scenario)


class TestOutcome:
    def test_the_outcome_is_none_until_the_task_has_ended(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            mine = await side.certificate()
            task = await side.queue()
            before = await tasks.outcome(side.pool, task, wait_s=0)
            await tasks.claim(side.pool, "node-a", mine, wait_s=0)
            meanwhile = await tasks.outcome(side.pool, task, wait_s=0)
            ended = await tasks.finish(side.pool, "node-a", mine, task, DONE)

            assert (before, meanwhile) == (None, None)
            assert await tasks.outcome(side.pool, task, wait_s=0) == ended

        play(scenario)

    def test_an_expired_task_is_an_outcome_too(self, play: Play, waits: asyncio.Event) -> None:
        async def scenario(side: NodeSide) -> None:
            task = await side.queue()

            async with asyncio.TaskGroup() as group:
                wait = group.create_task(tasks.outcome(side.pool, task, wait_s=20))
                await waits.wait()
                await past_its_time(side)
                await tasks.expire(side.pool)

            row = wait.result()
            assert row is not None
            assert row["status"] == "expired"

        play(scenario)

    def test_who_waits_keeps_no_connection_and_so_no_transaction(
        self, database_url: str, tmp_path: Path
    ) -> None:
        async def scenario(pool: Pool) -> None:
            await node(pool)
            side = await NodeSide(pool, tmp_path).open()
            mine = await side.certificate()
            async with asyncio.TaskGroup() as group:
                claim = group.create_task(tasks.claim(pool, "node-a", mine, wait_s=20))
                task = await side.queue()
                end = group.create_task(tasks.outcome(pool, task, wait_s=20))
                await claim
                await tasks.finish(pool, "node-a", mine, task, DONE)

            row = end.result()
            assert row is not None
            assert row["status"] == "completed"

        run(database_url, scenario, connections=1)

    def test_there_is_no_outcome_of_no_task(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            await refused(TaskNotFound, tasks.outcome(side.pool, "tsk_no", wait_s=0))

        play(scenario)


class TestQueueing:
    def test_a_second_call_finds_the_first_task(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            row = await request.request(side.pool, NEW, order(1))

            first = await side.queue(allocation=row["id"])
            again = await side.queue(allocation=row["id"], params={"other": 1})
            next_one = await side.queue(allocation=row["id"], attempt=2)
            release = await side.queue(TaskType.VM_RELEASE, allocation=row["id"])

            assert first == again
            assert len({first, next_one, release}) == 3

        play(scenario)

    def test_two_calls_at_once_queue_one_task(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            async def other() -> str:
                async with transaction(side.pool) as tx:
                    return await tasks.enqueue(tx, NEW, side.signer, some_task())

            async with asyncio.TaskGroup() as group, transaction(side.pool) as tx:
                first = await tasks.enqueue(tx, NEW, side.signer, some_task())
                second = group.create_task(other())
                while not (second.done() or await value(side.pool, BLOCKED)):
                    pass

            assert second.result() == first
            assert await value(side.pool, "select count(*) from node_tasks") == 1

        play(scenario)

    def test_a_task_is_queued_with_its_transaction_or_not_at_all(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            async def interrupted() -> None:
                async with transaction(side.pool) as tx:
                    await tasks.enqueue(tx, NEW, side.signer, some_task())
                    raise LookupError

            with pytest.raises(LookupError):
                await interrupted()

            assert await value(side.pool, "select count(*) from node_tasks") == 0

        play(scenario)

    def test_what_the_agent_gets_is_what_was_signed(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            row = await request.request(side.pool, NEW, order(1))
            mine = await side.certificate()
            params = {"b": [1, {"ü": None}], "a": "x", "n": 10**30}
            await side.queue(allocation=row["id"], params=params)

            claimed = await tasks.claim(side.pool, "node-a", mine, wait_s=0)

            assert claimed is not None
            envelope = tasks.envelope(claimed)
            async with transaction(side.pool) as tx:
                verify(envelope, await signing.believed(tx))
            assert envelope["params"] == {**params, "allocation_id": row["id"]}

        play(scenario)

    @pytest.mark.parametrize(
        "changes",
        [{"attempt": 0}, {"expires_in_s": 0}, {"params": {"a": 1.5}}, {"params": {"a": {1: 2}}}],
        ids=str,
    )
    def test_what_cannot_be_a_task_is_refused(self, play: Play, changes: dict[str, Any]) -> None:
        async def scenario(side: NodeSide) -> None:
            await refused(Rejected, side.queue(**changes))

            assert await value(side.pool, "select count(*) from node_tasks") == 0

        play(scenario)

    def test_without_an_active_key_nothing_is_queued(self, play: Play, tmp_path: Path) -> None:
        async def scenario(side: NodeSide) -> None:
            await rows(side.pool, "update signer_versions set state = 'revoked' returning id")

            await refused(Unavailable, side.queue(signer=Signer(tmp_path / "empty")))

        play(scenario)


BLOCKED = """select count(*) from pg_stat_activity
             where datname = current_database() and wait_event_type = 'Lock'"""


def some_task() -> Task:
    return Task(
        node="node-a",
        allocation=None,
        type=TaskType.HEALTH_PROBE,
        expires_in_s=60,
        correlation_id="cor_one",
    )


class TestBriefing:
    def test_a_slice_is_told_its_slots_image_and_keys(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            row = await request.request(side.pool, NEW, order(2, ssh_keys=(KEY,)))
            async with transaction(side.pool) as tx:
                told = await briefing.params(tx, row, TaskType.VM_PROVISION)
                undo = await briefing.params(tx, row, TaskType.VM_RELEASE)

            assert [slot["slot_index"] for slot in told["slots"]] == [0, 1]
            assert told["ssh_keys"] == ["ssh-ed25519 AAAA one"]
            assert told["machine"] == undo["machine"] == row["id"]
            assert undo["slots"] == told["slots"]
            assert undo["wipe_policy"] == "full"

        play(scenario)

    def test_a_whole_node_is_told_all_its_slots_and_a_user(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            row = await request.request(side.pool, NEW, order(8, sku=WHOLE))
            async with transaction(side.pool) as tx:
                told = await briefing.params(tx, row, TaskType.PROVISION_USER)

            assert len(told["slots"]) == 8
            assert told["username"] == row["id"].replace("_", "-")

        play(scenario)

    @pytest.mark.parametrize("shape", ["gpu_slice", "baremetal"])
    def test_each_shape_has_a_task_that_gives_and_one_that_takes_back(self, shape: str) -> None:
        given = {giving: briefing.task_type(shape, giving=giving) for giving in (True, False)}

        assert given == {
            True: "slice.vm_provision" if shape == "gpu_slice" else "allocation.provision_user",
            False: "slice.vm_release" if shape == "gpu_slice" else "allocation.deprovision_user",
        }


def test_losing_a_task_is_being_fenced() -> None:
    assert issubclass(NotTheClaimer, Fenced)
    assert issubclass(TaskOver, Fenced)
