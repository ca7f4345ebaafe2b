"""Nobody pays for time in which the node's agent was silent."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agents import NodeSide
from billed import charged, differences
from event_stage import until
from mainstay.bridge import rows as bridge_rows
from mainstay.tenancy import enrolment, nodes, tasks
from mainstay.tenancy.attempts import Who
from mainstay.tenancy.billing.episodes import standing_of
from mainstay.tenancy.billing.tick import bill
from mainstay.tenancy.billing.usage import HOLD_OUTAGES
from mainstay.tenancy.database.connect import Pool, transaction
from mainstay.tenancy.nodes import NodeStep
from postgres import database_url, server
from tenants import ACCOUNT, NEW, active, node, rows, run, value

__all__ = ["database_url", "server"]

WHO = Who(name="ada", role="admin", correlation_id="cor")


async def hour_minor(pool: Pool) -> int:
    async with transaction(pool) as tx:
        return (await standing_of(tx, ACCOUNT)).hour_minor


async def falls_silent(pool: Pool) -> None:
    await rows(pool, "update nodes set last_seen_at = '2020-01-01' returning id")
    assert len(await enrolment.mark_offline(pool, silent_s=60)) == 1


async def waits_for_a_charge(pool: Pool) -> bool:
    return bool(
        await value(
            pool,
            """select count(*) from pg_stat_activity
               where datname = current_database() and wait_event = 'advisory'""",
        )
    )


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
                await until(lambda: waits_for_a_charge(pool))
                now = await (await charging.execute("select clock_timestamp() as at")).fetchone()
            await late
        assert now is not None
        assert await value(pool, "select began_at from node_outages") > now["at"]

    run(database_url, scenario)


def test_a_node_that_is_offline_is_so_once(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        await falls_silent(pool)
        for status in ("offline", "draining", "quarantined", "active"):
            await rows(pool, "update nodes set status = %s returning id", [status])
            await enrolment.mark_offline(pool, silent_s=60)
        assert await value(pool, "select count(*) from node_outages") == 1
        async with transaction(pool) as tx:
            await enrolment.seen(tx, "node-a")
        await falls_silent(pool)
        assert await value(pool, "select count(*) from node_outages") == 2
        assert await value(pool, "select count(ended_at) from node_outages") == 1

    run(database_url, scenario)


async def closed_by_the_bridge(pool: Pool) -> None:
    async with transaction(pool) as tx:
        await bridge_rows.close(tx, {"node_id": "node-a"}, bridge_rows.Told("preempted"))


CLOSINGS: dict[str, Callable[[Pool], Awaitable[object]]] = {
    "drained": lambda pool: nodes.step(pool, "node-a", NodeStep.DRAIN, WHO),
    "quarantined": lambda pool: nodes.step(pool, "node-a", NodeStep.QUARANTINE, WHO),
    "closed by the bridge": closed_by_the_bridge,
}


@pytest.mark.parametrize("close", CLOSINGS.values(), ids=CLOSINGS.keys())
def test_a_dead_node_costs_nothing_though_somebody_closes_it(
    database_url: str, close: Callable[[Pool], Awaitable[object]]
) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        await active(pool, 1)
        await falls_silent(pool)
        await close(pool)
        status = await value(pool, "select status from nodes")
        assert await hour_minor(pool) == 0
        async with transaction(pool) as tx:
            await enrolment.seen(tx, "node-a")
        assert await hour_minor(pool) == 450
        assert await value(pool, "select status from nodes") == status != "active"

    run(database_url, scenario)


@pytest.mark.parametrize("status", ["draining", "quarantined"])
def test_a_node_that_is_closed_and_then_dies_costs_nothing(database_url: str, status: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        await active(pool, 1)
        await rows(pool, "update nodes set status = %s returning id", [status])
        await falls_silent(pool)
        assert await hour_minor(pool) == 0
        assert await value(pool, "select status from nodes") == status
        assert await enrolment.mark_offline(pool, silent_s=60) == [], "it is told once"

    run(database_url, scenario)


def test_the_end_of_an_outage_waits_for_a_charge_that_does_not_know_it(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        await falls_silent(pool)

        async def comes_back() -> None:
            async with transaction(pool) as tx:
                await enrolment.seen(tx, "node-a")

        async with asyncio.TaskGroup() as group:
            async with transaction(pool) as charging:
                await charging.execute(HOLD_OUTAGES, ["node-a"])
                late = group.create_task(comes_back())
                await until(lambda: waits_for_a_charge(pool))
                now = await (await charging.execute("select clock_timestamp() as at")).fetchone()
            await late
        assert now is not None
        assert await value(pool, "select ended_at from node_outages") > now["at"]

    run(database_url, scenario)
