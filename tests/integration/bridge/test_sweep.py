"""Lives that are long over go, with their nodes; what a bill or a next life stands on stays."""

from mainstay.bridge.sweep import sweep
from mainstay.tenancy import settle
from mainstay.tenancy.database.connect import Pool, transaction
from mainstay.tenancy.states import Actor
from mainstay.tenancy.transition import locked
from postgres import database_url, server
from tenants import NEW, SLICE, active, node, prove, rows, run, value

__all__ = ["database_url", "server"]

DAY_S = 86_400.0
KIND = """
    insert into node_kinds (kind, region, instance_types, sold_as, slots, gpus_total)
    values ('k', 'region-1', '{t}', array[%s], '[]', 8) returning kind
"""
LIFE = """
    insert into bridge_nodes (cluster, machine, incarnation, node_id, kind, state, reason,
                              closed_at, retired_at)
    values ('tenants', %(machine)s, %(number)s, %(node)s, 'k', %(state)s, %(reason)s,
            clock_timestamp() - make_interval(days => %(days)s),
            clock_timestamp() - make_interval(days => %(days)s)) returning node_id
"""


async def life(pool: Pool, name: str, *, days: int = 40, over: bool = True) -> None:
    """Of `machine.number`; over since so many days, or not at all."""
    if not await rows(pool, "select from nodes where id = %s", [name]):
        await node(pool, name, status="retired" if over else "active")
    machine, _, number = name.partition(".")
    await rows(
        pool,
        LIFE,
        {
            "machine": machine, "number": int(number), "node": name,
            "state": "retired" if over else "open", "reason": "r" if over else "",
            "days": days if over else None,
        },
    )  # fmt: skip


async def left(pool: Pool) -> list[str]:
    return [row["id"] for row in await rows(pool, "select id from nodes order by id")]


def test_what_is_long_over_goes_but_for_bills_and_for_the_last_life(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await rows(pool, KIND, [SLICE])
        await node(pool, "m.1")
        allocation = await active(pool)
        async with transaction(pool) as tx:
            await settle.releasing(tx, NEW, await locked(tx, allocation["id"]), Actor.ADMIN)
        await prove(pool, allocation["id"])
        await rows(pool, "update nodes set status = 'retired' returning id")
        for name in ("m.1", "m.2", "m.3", "n.1"):
            await life(pool, name)
        await life(pool, "m.4", days=20)
        await life(pool, "m.5", over=False)
        await rows(
            pool,
            """insert into node_outages (node_id, began_at, ended_at)
               values ('m.2', clock_timestamp(), clock_timestamp()) returning node_id""",
        )

        gone = [await sweep(pool, "tenants", 30 * DAY_S, 1) for _ in range(3)]
        others = await sweep(pool, "somebody", 0.0)

        assert (gone, others) == ([1, 1, 0], 0)
        assert await left(pool) == ["m.1", "m.4", "m.5", "n.1"]
        (bill,) = await rows(pool, "select node_id, status from allocations")
        assert (bill["node_id"], bill["status"]) == ("m.1", "released")
        for table in ("slots", "node_offers", "bridge_nodes"):
            of = await value(pool, f"select count(distinct node_id) from {table}")
            assert of == 4, table

    run(database_url, scenario)
