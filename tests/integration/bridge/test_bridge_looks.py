"""A look that cannot deal with one thing deals with all others and says what is needed."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from prometheus_client import CollectorRegistry
from typing_extensions import override

from candidates import until_true
from lone_bridge import CLUSTER, KIND, a_bridge, a_life
from mainstay.bridge.bridge import Bridge
from mainstay.bridge.doing import DOES, Acts, Tools
from mainstay.bridge.steps import Name
from mainstay.model.errors import Unavailable
from mainstay.model.frames import NodeState
from mainstay.model.ids import MachineId
from mainstay.model.need import Need
from mainstay.model.state import State
from mainstay.session.client import SessionClient
from mainstay.tenancy.database.connect import Pool
from mainstay.tenancy.holdings import HoldingsDiffer
from mainstay.wire.tls import TlsFlags, transport
from postgres import database_url, server
from tenants import SLICE, active, node, rows, run

__all__ = ["database_url", "server"]

LEAVING = """
    insert into bridge_nodes (cluster, machine, incarnation, node_id, kind, state, reason,
                              closed_at, release_at)
    values ('tenants', 'm', 1, 'node-a', 'k', 'draining', 'r', clock_timestamp(), clock_timestamp())
    returning 1
"""
FAILED = NodeState(machine=MachineId("m-1"), cluster=CLUSTER, state=State.FAILED)
LIVES = "select machine, state from bridge_nodes order by 1"
STATES = "select status from allocations order by id"
SLOT_OF_FIRST = """
    update slots set status = %s where status = %s and id in (
        select slot_id from claims where allocation_id = (select min(id) from allocations))
    returning 1
"""


class Said(SessionClient):
    """One that nobody answers, and what it was given to say."""

    needs: Sequence[Need] = ()

    @override
    def set_needs(self, rows: Sequence[Need]) -> None:
        self.needs = rows


async def said(pool: Pool, statement: str) -> list[Any]:
    return [tuple(row.values()) for row in await rows(pool, statement)]


@asynccontextmanager
async def looking(bridge: Bridge) -> AsyncIterator[Said]:
    """It looks again and again while the block runs."""
    over = transport(TlsFlags(insecure=True), "127.0.0.1:1")
    client = Said(CLUSTER, "127.0.0.1:1", over, bridge)
    async with asyncio.TaskGroup() as tasks:
        looks = tasks.create_task(bridge.run(client))
        yield client
        looks.cancel()


@pytest.mark.parametrize("error", [HoldingsDiffer("it does not fit"), psycopg.DataError("no")])
def test_a_life_whose_step_raises_keeps_no_other_and_no_demand(
    database_url: str, error: Exception
) -> None:
    async def scenario(pool: Pool) -> None:
        await rows(pool, KIND, [SLICE])
        spoilt = ["m-1"]

        async def close(tools: Tools, life: Any, told: Any) -> None:
            if life["machine"] in spoilt:
                raise error
            await DOES[Name.CLOSE](tools, life, told)

        registry = CollectorRegistry()
        bridge = a_bridge(
            pool, Acts(does={**DOES, Name.CLOSE: close}), registry=registry, head_room={"k": 3}
        )
        for machine in ("m-1", "m-2"):
            await a_life(bridge, pool, machine)
            await bridge.node_state(replace(FAILED, machine=MachineId(machine)))

        async with looking(bridge) as client:
            await until_true(lambda: client.needs)

        assert await said(pool, LIVES) == [("m-1", "joining"), ("m-2", "retired")]
        assert registry.get_sample_value("mainstay_bridge_failing") == 1
        assert registry.get_sample_value("mainstay_bridge_ok") == 1
        spoilt.clear()
        await bridge.look()
        assert await said(pool, LIVES) == [("m-1", "retired"), ("m-2", "retired")]
        assert registry.get_sample_value("mainstay_bridge_failing") == 0

    run(database_url, scenario)


def test_a_tenant_who_cannot_be_released_keeps_no_other_on_that_machine(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await rows(pool, KIND, [SLICE])
        await node(pool)
        for _ in range(2):
            await active(pool)
        await rows(pool, SLOT_OF_FIRST, ["disabled", "in_use"])
        await rows(pool, LEAVING)
        registry = CollectorRegistry()
        bridge = a_bridge(pool, registry=registry)

        await bridge.look()

        assert await said(pool, STATES) == [("active",), ("releasing",)]
        assert registry.get_sample_value("mainstay_bridge_failing") == 1
        await rows(pool, SLOT_OF_FIRST, ["in_use", "disabled"])
        await bridge.look()
        assert await said(pool, STATES) == [("releasing",), ("releasing",)]
        assert registry.get_sample_value("mainstay_bridge_failing") == 0

    run(database_url, scenario)


def test_a_look_that_comes_to_no_end_is_seen_until_one_does(database_url: str) -> None:
    """The database is away in the middle of it, and comes back."""

    async def scenario(pool: Pool) -> None:
        await rows(pool, KIND, [SLICE])
        away = [Unavailable("the database failed")]
        registry = CollectorRegistry()

        async def close(tools: Tools, life: Any, told: Any) -> None:
            for error in away:
                raise error
            await DOES[Name.CLOSE](tools, life, told)

        bridge = a_bridge(
            pool, Acts(does={**DOES, Name.CLOSE: close}), registry=registry, head_room={"k": 3}
        )
        await a_life(bridge, pool, "m-1")
        await bridge.node_state(FAILED)

        async with looking(bridge) as client:
            await until_true(lambda: registry.get_sample_value("mainstay_bridge_ok") == 0)
            assert not client.needs
            away.clear()
            await until_true(lambda: client.needs)
            await until_true(lambda: registry.get_sample_value("mainstay_bridge_ok") == 1)

    run(database_url, scenario)
