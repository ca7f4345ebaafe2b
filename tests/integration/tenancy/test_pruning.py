"""What has long been over is deleted, some of it at a time; what is not over never is."""

import asyncio
from pathlib import Path

from event_stage import until
from mainstay.tenancy import board, idempotency, pruning
from mainstay.tenancy.database.connect import Pool, transaction
from mainstay.tenancy.worker.engine_dbos import dbos_workflows
from mainstay.tenancy.worker.port import Run
from postgres import database_url, pool_of, server
from tenants import node, rows, run, value
from workers import HURRIED, tools

__all__ = ["database_url", "server"]

DAY_S = pruning.DAY_S

EVENTS = """
    insert into outbox (id, key, event_type, subject, envelope, correlation_id, status,
                        created_at, published_at, ended_at)
    select status || days, 'k', 'provisioning.active', 's', '{}', 'c', status,
           clock_timestamp() - make_interval(days => days),
           clock_timestamp() - make_interval(days => days),
           case when status in ('done', 'discarded')
                then clock_timestamp() - make_interval(days => days) end
    from unnest(array['pending', 'published', 'done', 'failed', 'discarded']) as status,
         unnest(array[1, 40]) as days
    returning id
"""


async def left(pool: Pool) -> list[str]:
    return sorted(row["id"] for row in await rows(pool, "select id from outbox"))


def test_events_go_when_they_are_over_and_old_with_all_that_points_at_them(
    database_url: str,
) -> None:
    async def scenario(pool: Pool) -> None:
        await rows(pool, EVENTS)
        for statement in (
            "insert into consumed (consumer, event_id) select 'c', id from outbox returning 1",
            """insert into consumer_failures (consumer, event_id, attempt_count, last_error)
               select 'd', id, 1, 'x' from outbox returning 1""",
            """insert into notices (project_id, event_id, event_type, occurred_at, correlation_id,
                                    payload)
               select 'prj_one', id, 'e', clock_timestamp(), 'c', '{}' from outbox returning 1""",
        ):
            await rows(pool, statement)

        assert await pruning.events(pool, 30 * DAY_S) == 2

        kept = [
            "discarded1", "done1", "failed1", "failed40", "pending1", "pending40", "published1",
            "published40",
        ]  # fmt: skip
        assert await left(pool) == kept
        for table in ("consumed", "consumer_failures", "notices"):
            assert await value(pool, f"select count(*) from {table}") == len(kept), table
        assert await pruning.events(pool, 30 * DAY_S) == 0

    run(database_url, scenario)


def test_events_are_deleted_a_few_at_a_time_and_two_may_do_it(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await rows(
            pool,
            """insert into outbox (id, key, event_type, subject, envelope, correlation_id, status,
                                   ended_at)
               select number::text, 'k', 'e', 's', '{}', 'c', 'done', '2020-01-01'
               from generate_series(1, 25) number returning id""",
        )
        async with transaction(pool) as tx:
            await tx.execute("select from outbox where id in ('1', '2') for update")
            counts = [await pruning.events(pool, DAY_S, 10) for _ in range(3)]
            assert counts == [10, 10, 3]
        assert await pruning.events(pool, DAY_S, 10) == 2

    run(database_url, scenario)


def test_keys_of_requests_are_forgotten_after_a_day(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await rows(
            pool,
            """insert into idempotency_keys (principal, route, key, request_hash, resource,
                                             created_at)
               select 'p', 'r', hours::text, 'h', 'x',
                      clock_timestamp() - make_interval(hours => hours)
               from generate_series(20, 30) hours returning key""",
        )

        counts = [await idempotency.sweep(pool, 4) for _ in range(3)]

        assert counts == [4, 3, 0]
        assert await value(pool, "select min(key) from idempotency_keys") == "20"
        assert await value(pool, "select max(key) from idempotency_keys") == "23"

    run(database_url, scenario)


def test_notes_of_changes_are_kept_until_no_board_needs_them(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        changes, count = pruning.Changes(), "select count(*) from node_changes"
        before = await value(pool, count)
        assert await changes.prune(pool, 0.0) == 0
        async with transaction(pool) as slow:
            await slow.execute("update nodes set status = 'draining'")
            await rows(pool, "update slots set status = 'disabled' returning id")
            assert await changes.prune(pool, board.KEPT_S - 1) == 0
            assert await changes.prune(pool, board.KEPT_S) == before
            assert await value(pool, count) == 1  # of the slots; the node's is not committed
        assert await changes.prune(pool, 2 * board.KEPT_S) == 0
        assert await changes.prune(pool, 3 * board.KEPT_S) == 2
        assert await value(pool, count) == 0

    run(database_url, scenario)


async def _short(_: Run, __: dict[str, object]) -> None:
    """Over at once."""


async def _long(run: Run, _: dict[str, object]) -> None:
    await run.pause(3600)


def test_finished_work_goes_and_work_in_hand_stays_however_old(
    database_url: str, tmp_path: Path
) -> None:
    async def inside() -> None:
        async with pool_of(database_url) as pool:
            hands = tools(pool, tmp_path, HURRIED)
            plans = {"short": _short, "long": _long}
            async with dbos_workflows(database_url, hands, "one", plans=plans) as work:
                await work.start("done", "short", {})
                await work.start("open", "long", {})
                status = "select status from workflows.workflow_status where workflow_uuid = 'done'"

                async def finished() -> bool:
                    return bool(await value(pool, status) == "SUCCESS")

                await until(finished)
                assert await work.prune(60.0) == 0
                await rows(
                    pool,
                    """update workflows.workflow_status
                       set created_at = created_at - 120000, updated_at = updated_at - 120000
                       returning workflow_uuid""",
                )

                assert await work.prune(60.0) == 1

                left_over = "select workflow_uuid from workflows.workflow_status"
                assert await value(pool, left_over) == "open"

    asyncio.run(inside())
