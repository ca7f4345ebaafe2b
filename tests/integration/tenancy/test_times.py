"""A step has the time at which it was written, however long its transaction has been open."""

import asyncio
from datetime import datetime
from typing import Any, Final

import psycopg
import pytest

from mainstay.tenancy.database.connect import Connection, transaction
from mainstay.tenancy.ids import Ids
from mainstay.tenancy.states import EDGES, Edge, Status
from mainstay.tenancy.transition import Step, locked, move
from postgres import database_url, pool_of, server
from schema_cases import WORLD
from tenants import ids

__all__ = ["database_url", "server"]

NEW: Final[Ids] = ids()
STANDING: Final = {
    Status.REQUESTED: "new", Status.PROVISIONING: "made", Status.ACTIVE: "used",
    Status.RELEASING: "back", Status.RELEASE_FAILED: "stuck",
}  # fmt: skip
WITH: Final[dict[Status, dict[str, Any]]] = {
    Status.FAILED: {"failure_code": "x"},
    Status.RELEASED: {"proof": '{"released": true, "wiped": true, "leases_released": true}'},
}


async def only(tx: Connection, statement: str, *values: object) -> Any:
    row = await (await tx.execute(statement, values)).fetchone()
    assert row is not None
    return next(iter(row.values()))


@pytest.mark.parametrize("edge", [e for e in EDGES if e.old], ids=lambda edge: edge.name)
def test_a_step_in_an_old_transaction_is_stamped_when_it_is_written(
    database_url: str, edge: Edge
) -> None:
    async def inside() -> None:
        async with pool_of(database_url) as pool:
            async with transaction(pool) as tx:
                await tx.execute(WORLD)
                await tx.execute("update allocations set active_at = created_at where id = 'used'")
            async with transaction(pool) as tx:
                began: datetime = await only(tx, "select now()")
                await _wait_until_the_clock_has_moved(tx)
                reached: datetime = await only(tx, "select clock_timestamp()")
                assert edge.old is not None
                row = await locked(tx, STANDING[edge.old])
                step = Step(new=edge.new, actor=min(edge.actors), changes=WITH.get(edge.new, {}))
                moved = await move(tx, NEW, row, step)
                ended: datetime = await only(tx, "select clock_timestamp()")

                assert began < reached <= moved[edge.stamps] <= ended
                assert await only(tx, "select now()") == began
                if edge.event is not None:
                    told = await only(
                        tx,
                        """select (envelope ->> 'occurred_at')::timestamptz from outbox
                           where key = %s and event_type = %s""",
                        row["id"],
                        str(edge.event),
                    )
                    assert reached <= told <= ended

    asyncio.run(inside())


async def _wait_until_the_clock_has_moved(tx: Connection) -> None:
    """The transaction is older than the clock's resolution: what it froze can be told apart."""
    while await only(tx, "select clock_timestamp() - now() < interval '50 milliseconds'"):
        pass


def test_every_time_that_the_schema_fills_in_is_the_clocks(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        found = connection.execute(
            """select distinct column_default from information_schema.columns
               where table_schema = 'public' and data_type like 'timestamp%'
                 and column_default is not null"""
        ).fetchall()

    assert found == [("clock_timestamp()",)]
