"""Nobody pays for time in which the node was offline."""

import asyncio
from pathlib import Path

from agents import NodeSide
from billed import charged, differences
from event_stage import until
from mainstay.tenancy import enrolment, tasks
from mainstay.tenancy.billing.episodes import standing_of
from mainstay.tenancy.billing.tick import HOLD_OUTAGES, bill
from mainstay.tenancy.database.connect import Pool, transaction
from postgres import database_url, server
from tenants import ACCOUNT, NEW, active, node, rows, run, value

__all__ = ["database_url", "server"]


async def hour_minor(pool: Pool) -> int:
    async with transaction(pool) as tx:
        return (await standing_of(tx, ACCOUNT)).hour_minor


async def falls_silent(pool: Pool) -> None:
    await rows(pool, "update nodes set last_seen_at = '2020-01-01' returning id")
    assert len(await enrolment.mark_offline(pool, silent_s=60)) == 1


def test_a_node_that_is_offline_costs_nothing_until_it_is_back(
    database_url: str, tmp_path: Path
) -> None:
    """Offline by its silence, back by its agent's next call; the bill knows both to the second."""

    async def scenario(pool: Pool) -> None:
        await node(pool)
        mine = await (await NodeSide(pool, tmp_path).open()).certificate()
        allocation = (await active(pool, 1))["id"]
        assert await hour_minor(pool) == 450
        await falls_silent(pool)
        assert await hour_minor(pool) == 0
        for change in (
            "update node_outages set began_at = began_at - interval '30 minutes'",
            """update allocations set created_at = created_at - interval '3 hours',
                   provisioning_started_at = null,
                   active_at = (select began_at - interval '90 minutes' from node_outages)""",
        ):
            async with transaction(pool) as tx:
                await tx.execute(change)

        await bill(pool, NEW)
        assert await charged(pool, allocation) == 450 * 90 // 60

        await tasks.claim(pool, "node-a", mine, wait_s=0)
        assert await value(pool, "select ended_at is not null from node_outages")
        assert await hour_minor(pool) == 450
        await bill(pool, NEW)
        assert await charged(pool, allocation) == 450 * 90 // 60
        assert await differences(pool) == []

    run(database_url, scenario)


def test_an_outage_waits_for_a_charge_that_does_not_know_it(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        async with asyncio.TaskGroup() as group:
            async with transaction(pool) as charging:
                await charging.execute(HOLD_OUTAGES, ["node-a"])
                late = group.create_task(falls_silent(pool))

                async def waits() -> bool:
                    return bool(
                        await value(
                            pool,
                            """select count(*) from pg_stat_activity
                               where datname = current_database() and wait_event = 'advisory'""",
                        )
                    )

                await until(waits)
                now = await (await charging.execute("select clock_timestamp() as at")).fetchone()
            await late
        assert now is not None
        assert await value(pool, "select began_at from node_outages") > now["at"]

    run(database_url, scenario)


def test_a_node_that_is_offline_is_so_once(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        for status in ("offline", "offline", "active", "draining", "offline", "quarantined"):
            await rows(pool, "update nodes set status = %s returning id", [status])
        assert await value(pool, "select count(*) from node_outages") == 2
        assert await value(pool, "select bool_and(ended_at is not null) from node_outages")

    run(database_url, scenario)
