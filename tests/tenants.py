"""A small world of tenants in a real database: its catalogue, its nodes, and what must always hold.

Plain SQL on purpose, so that what is tested does not furnish its own world.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import Any, Final

from mainstay.runtime.clock import SystemClock
from mainstay.tenancy import request, settle
from mainstay.tenancy.database.connect import Pool, Row, transaction
from mainstay.tenancy.ids import Ids, ids_from
from mainstay.tenancy.request import Order
from mainstay.tenancy.states import Actor
from mainstay.tenancy.transition import locked
from postgres import pool_of

SLICE: Final = "h200-sxm-slice"
WHOLE: Final = "h200-sxm-baremetal-8g"
REGION: Final = "region-1"
PROJECT: Final = "prj_one"
OTHER_PROJECT: Final = "prj_two"
ACCOUNT: Final = "acc_one"
KEY: Final = "key_one"
PROOF: Final = {"released": True, "wiped": True, "leases_released": True, "hard_stopped": False}
TWO_NUMA: Final = (0, 0, 0, 0, 1, 1, 1, 1)


def run(url: str, test: Callable[[Pool], Awaitable[None]], *, connections: int = 16) -> None:
    """Run a test's own coroutine on a pool of its database, with the catalogue in it."""

    async def inside() -> None:
        async with pool_of(url, size_max=connections) as pool:
            if not await rows(pool, "select from regions limit 1"):
                await furnish(pool)
            await test(pool)

    asyncio.run(inside())


def ids(seed: int = 0) -> Ids:
    return ids_from(SystemClock(), Random(seed))


NEW: Final = ids()


def order(gpus: int = 1, *, sku: str = SLICE, **changes: Any) -> Order:
    given = {"project": PROJECT, "by": "usr_one", "region": REGION, "correlation_id": "cor_one"}
    return Order(sku=sku, gpus=gpus, **(given | changes))


async def furnish(pool: Pool) -> None:
    """Two SKUs, a region, two projects of one account with funds, an SSH key each."""
    async with transaction(pool) as tx:
        await tx.execute("insert into regions values (%s, 'One')", [REGION])
        await tx.execute(
            """insert into skus (sku, capacity_shape, gpus_total, allowed_gpu_counts,
                                 gpu_hourly_price_minor)
               values (%s, 'gpu_slice', 8, '{1,2,4,8}', 450), (%s, 'baremetal', 8, '{8}', 400)""",
            [SLICE, WHOLE],
        )
        await tx.execute("insert into accounts (id) values (%s)", [ACCOUNT])
        await tx.execute(
            "insert into projects (id, account_id) values (%s, %s), (%s, %s)",
            [PROJECT, ACCOUNT, OTHER_PROJECT, ACCOUNT],
        )
        await tx.execute(
            """insert into ssh_keys (id, project_id, public_key)
               values (%s, %s, 'ssh-ed25519 AAAA one'), ('key_two', %s, 'ssh-ed25519 AAAA two')""",
            [KEY, PROJECT, OTHER_PROJECT],
        )
        await tx.execute(
            """insert into ledger (account_id, amount_minor, currency, kind, dedupe_key)
               values (%s, 100000, 'USD', 'credit', 'funds')""",
            [ACCOUNT],
        )


async def node(
    pool: Pool,
    name: str = "node-a",
    *,
    free: Sequence[int] = range(8),
    numa: Sequence[int] = TWO_NUMA,
    **columns: Any,
) -> None:
    """An open node, sold whole and in slices; slots that are not free are disabled."""
    given = {"region": REGION, "sku": SLICE, "status": "active", "gpus_total": len(numa), **columns}
    names = ["id", *given]
    async with transaction(pool) as tx:
        await tx.execute(
            f"insert into nodes ({', '.join(names)}) values ({', '.join(['%s'] * len(names))})",
            [name, *given.values()],
        )
        await tx.execute("insert into node_offers values (%s, %s)", [name, WHOLE])
        for index, on in enumerate(numa):
            await tx.execute(
                """insert into slots (id, node_id, slot_index, status, numa_node)
                   values (%s, %s, %s, %s, %s)""",
                [f"{name}/{index}", name, index, "available" if index in free else "disabled", on],
            )


async def rows(
    pool: Pool, statement: str, values: Sequence[Any] | Mapping[str, Any] = ()
) -> list[Row]:
    async with transaction(pool) as tx:
        return await (await tx.execute(statement, values)).fetchall()


async def value(pool: Pool, statement: str, values: Sequence[Any] = ()) -> Any:
    (row,) = await rows(pool, statement, values)
    return next(iter(row.values()))


async def told(pool: Pool, allocation: str) -> list[str]:
    """The events of an allocation, in order."""
    found = await rows(
        pool, "select event_type from outbox where key = %s order by position", [allocation]
    )
    return [row["event_type"] for row in found]


async def slots(pool: Pool, status: str) -> list[int]:
    found = await rows(
        pool,
        "select slot_index from slots where status = %s order by node_id, slot_index",
        [status],
    )
    return [row["slot_index"] for row in found]


async def begin(pool: Pool, allocation: str) -> Row:
    async with transaction(pool) as tx:
        return await settle.begun(tx, NEW, await locked(tx, allocation))


async def activate(pool: Pool, allocation: str) -> Row:
    async with transaction(pool) as tx:
        return await settle.activated(tx, NEW, await locked(tx, allocation), {"host": "10.0.0.1"})


async def fail(pool: Pool, allocation: str, *, clean: bool) -> Row:
    async with transaction(pool) as tx:
        return await settle.failed(
            tx,
            NEW,
            await locked(tx, allocation),
            code="ssh_timeout",
            phase="ssh_wait",
            reason="no answer on port 22",
            clean=clean,
            actor=Actor.WORKER,
        )


async def prove(pool: Pool, allocation: str, proof: Mapping[str, Any] = PROOF) -> Row:
    async with transaction(pool) as tx:
        return await settle.released(tx, NEW, await locked(tx, allocation), proof)


async def fail_release(pool: Pool, allocation: str) -> Row:
    async with transaction(pool) as tx:
        return await settle.release_failed(
            tx, NEW, await locked(tx, allocation), "the disk could not be wiped"
        )


async def active(pool: Pool, gpus: int = 1, **changes: Any) -> Row:
    """An allocation that a tenant has."""
    row = await request.request(pool, NEW, order(gpus, **changes))
    await begin(pool, row["id"])
    return await activate(pool, row["id"])


FAULTS: Final[Mapping[str, str]] = {
    "I1: who is not at the end holds all it asked for, on its node": """
        select a.id from allocations a left join claims c
          on c.allocation_id = a.id and c.live_mode is not null and c.node_id = a.node_id
        where a.status not in ('released', 'failed') group by a.id
        having count(c.id) <> case a.capacity_shape when 'baremetal' then 1 else a.gpus end
            or bool_or(c.kind <> case a.capacity_shape when 'baremetal' then 'node_exclusive'
                                 else 'slot' end)""",
    "a claim is where its allocation is": """
        select c.id from claims c join allocations a on a.id = c.allocation_id
        where not case a.status
            when 'requested' then c.status = 'reserved'
            when 'provisioning' then c.status = 'reserved'
            when 'active' then c.status = 'active'
            when 'releasing' then c.status = 'releasing'
            when 'release_failed' then c.status = 'blocked'
            when 'released' then c.status = 'released'
            when 'failed' then c.status in ('failed', 'blocked') end""",
    "a slot is where its live claim is, and free or out of service without one": """
        select s.id, s.status, c.status from slots s
        left join claims c on c.slot_id = s.id and c.live_mode = 'slot'
        where not case s.status
            when 'reserved' then c.status = 'reserved'
            when 'in_use' then c.status = 'active'
            when 'releasing' then c.status = 'releasing'
            when 'cleanup_blocked' then c.status = 'blocked'
            else c.id is null end or (c.id is not null) <> (s.status in
                ('reserved', 'in_use', 'releasing', 'cleanup_blocked'))""",
    "nobody has a slot or a node twice, nor a slot of a node that is taken whole": """
        select c.node_id from claims c where c.live_mode is not null group by c.node_id
        having count(c.slot_id) <> count(distinct c.slot_id)
            or count(*) filter (where c.kind = 'node_exclusive') > 1
            or count(distinct c.kind) > 1""",
    "a node is in the mode of its live claims": """
        select n.id from nodes n join claims c on c.node_id = n.id
        where c.live_mode is not null and c.live_mode <> n.mode""",
    "a claim that has ended says when": """
        select id from claims where (live_mode is null) <> (ended_at is not null)""",
    "I2: what is back in the pool was proved clean, undone, or verified absent": """
        select c.id from claims c join allocations a on a.id = c.allocation_id
        where c.live_mode is null
          and not coalesce((a.proof ->> 'released')::bool and (a.proof ->> 'wiped')::bool
                           and (a.proof ->> 'leases_released')::bool, false)
          and not exists (select from outbox o where o.key = a.id
                and o.event_type = 'provisioning.failed'
                and (o.envelope -> 'payload' ->> 'clean')::bool)
          and not exists (select from audit u where u.target_id = a.id and u.result = 'success'
                and u.action = 'allocation.force_cleanup'
                and (u.metadata ->> 'runtime_verified_absent')::bool)""",
    "I3: every step but A2 wrote one event": """
        select a.id from allocations a left join outbox o on o.key = a.id
        group by a.id
        having count(o.id) <> a.version - (a.provisioning_started_at is not null)::int""",
    "I4: times are those of the steps, in their order, and no event is older than its step": """
        select a.id from allocations a
        where not coalesce(a.created_at <= a.provisioning_started_at, true)
           or not coalesce(a.provisioning_started_at <= a.active_at, true)
           or not coalesce(a.active_at <= a.releasing_at, true)
           or not coalesce(a.releasing_at <= a.release_failed_at, true)
           or not coalesce(a.releasing_at <= a.released_at, true)
        union all
        select o.id from outbox o where (o.envelope ->> 'occurred_at')::timestamptz
                                        < (o.envelope -> 'payload' ->> 'at')::timestamptz""",
    "I6: payment ended at the first release, whatever was tried again": """
        select a.id from allocations a join outbox o on o.key = a.id
          and o.event_type = 'provisioning.releasing.requested'
          and (o.envelope -> 'payload' ->> 'attempt')::int = 1
        where a.releasing_at <> (o.envelope -> 'payload' ->> 'at')::timestamptz""",
    "each attempt to release is told once": """
        select a.id from allocations a left join outbox o on o.key = a.id
          and o.event_type = 'provisioning.releasing.requested'
        group by a.id having count(o.id) <> a.release_attempt
            or count(distinct o.envelope -> 'payload' ->> 'attempt') <> a.release_attempt""",
}


async def faults(pool: Pool) -> dict[str, list[Row]]:
    """What does not hold, by sentence; empty is right."""
    found = {}
    async with transaction(pool) as tx:
        for sentence, statement in FAULTS.items():
            bad = await (await tx.execute(statement)).fetchall()
            if bad:
                found[sentence] = bad
    return found
