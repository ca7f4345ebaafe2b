"""Asking for capacity, on a real PostgreSQL: scenarios 1 to 10 as far as they are about asking."""

import asyncio
import itertools
import signal
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

import outside
import tenants
from mainstay.model.errors import MainstayError
from mainstay.tenancy import board
from mainstay.tenancy.database.connect import Pool, Row, transaction
from mainstay.tenancy.database.embedded import Server
from mainstay.tenancy.placement.shape import Ask
from mainstay.tenancy.request import (
    CurrencyDiffers,
    InsufficientBalance,
    Order,
    SkuUnavailable,
    UnknownProject,
    UnknownSshKey,
    _at_once,
    _Trial,
    request,
)
from postgres import database_on, database_url, server
from tenants import KEY, NEW, SLICE, WHOLE, faults, node, order, rows, run, slots, told, value

__all__ = ["database_url", "server"]


async def answer(pool: Pool, wanted: Order) -> Row | MainstayError:
    try:
        return await request(pool, NEW, wanted)
    except MainstayError as error:
        return error


async def together(pool: Pool, wanted: list[Order]) -> list[Row | MainstayError]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(answer(pool, one)) for one in wanted]
    return [task.result() for task in tasks]


async def nothing_was_left(pool: Pool) -> None:
    for table in ("allocations", "claims", "outbox", "allocation_ssh_keys"):
        assert await value(pool, f"select count(*) from {table}") == 0, table
    assert await slots(pool, "reserved") == []


async def refusal_of(pool: Pool, wanted: Order) -> dict[str, Any]:
    with pytest.raises(SkuUnavailable) as refusal:
        await request(pool, NEW, wanted)
    return refusal.value.details


def test_scenario_1_a_slice_goes_from_requested_to_active(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)

        row = await request(pool, NEW, order(2, ssh_keys=(KEY,)))

        assert (row["status"], row["gpus"], row["node_id"]) == ("requested", 2, "node-a")
        taken = await slots(pool, "reserved")
        assert len(taken) == 2
        assert len({tenants.TWO_NUMA[slot] for slot in taken}) == 1
        assert await value(pool, "select count(*) from claims where kind = 'slot'") == 2
        assert await told(pool, row["id"]) == ["provisioning.requested"]
        assert await value(pool, "select ssh_key_id from allocation_ssh_keys") == KEY

        await tenants.begin(pool, row["id"])
        now = await tenants.activate(pool, row["id"])

        assert now["status"] == "active"
        assert now["active_at"] is not None
        assert now["connection"] == {"host": "10.0.0.1"}
        assert await slots(pool, "in_use") == taken
        assert await told(pool, row["id"]) == ["provisioning.requested", "provisioning.active"]
        assert await faults(pool) == {}

    run(database_url, scenario)


def test_scenario_2_a_whole_node_is_claimed_and_no_slot_is_touched(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        before = await rows(pool, "select * from slots order by id")

        row = await tenants.active(pool, 8, sku=WHOLE)

        assert row["status"] == "active"
        claims = await rows(pool, "select kind, node_id, slot_id, status from claims")
        assert [tuple(claim.values()) for claim in claims] == [
            ("node_exclusive", "node-a", None, "active")
        ]
        assert await rows(pool, "select * from slots order by id") == before
        assert await faults(pool) == {}

    run(database_url, scenario)


def test_scenario_3_a_count_that_is_not_sold_is_refused(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)

        details = await refusal_of(pool, order(3))

        assert details["reason"] == "count_not_allowed"
        await nothing_was_left(pool)

    run(database_url, scenario)


def test_scenario_4_room_on_two_nodes_is_not_room_on_one(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool, "node-a", free=(0, 1))
        await node(pool, "node-b", free=(4, 5))
        for name in ("node-a", "node-b"):  # taken, not unfit
            await rows(
                pool,
                f"delete from slots where node_id = '{name}' and status = 'disabled' returning id",
            )

        details = await refusal_of(pool, order(4))

        assert details["reason"] == "no_single_node_fit"
        assert details["largest_free_block"] == 2
        assert details["nearest_alternative"] == {
            "sku": SLICE,
            "gpus": 2,
            "region": tenants.REGION,
        }
        await nothing_was_left(pool)

    run(database_url, scenario)


@pytest.mark.parametrize(
    ("nodes", "gpus", "taken"),
    [
        ({"node-a": (0, 1, 4, 5), "node-b": (0, 1, 2, 3)}, 4, "node-b"),
        ({"node-d": (0, 1, 2, 3, 4, 5), "node-c": (0, 1)}, 2, "node-c"),
    ],
    ids=["one NUMA node before two", "the fuller node"],
)
@pytest.mark.parametrize("partitioned", [True, False])
def test_scenario_5_numa_fit_comes_before_best_fit(
    database_url: str, nodes: dict[str, tuple[int, ...]], gpus: int, taken: str, partitioned: bool
) -> None:
    async def scenario(pool: Pool) -> None:
        for name, free in nodes.items():
            await node(pool, name, free=free, partitioned=partitioned)

        assert (await request(pool, NEW, order(gpus)))["node_id"] == taken

    run(database_url, scenario)


def test_scenario_6_fifty_racing_for_eight_slots_get_eight(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)

        answers = await together(pool, [order(1) for _ in range(50)])

        codes = Counter(one.code for one in answers if isinstance(one, MainstayError))
        assert codes == {"sku_unavailable": 42}
        assert len(await slots(pool, "reserved")) == 8
        assert await value(pool, "select count(*) from allocations") == 8
        assert await faults(pool) == {}

    run(database_url, scenario)


def test_scenario_7_of_two_that_want_all_exactly_one_gets_it_each_time(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool, numa=(0, 0, 0, 0), free=range(4))
        for turn in range(200):
            answers = await together(pool, [order(4), order(4)])

            (got,) = [one for one in answers if not isinstance(one, MainstayError)]
            (refused,) = [one for one in answers if isinstance(one, MainstayError)]
            assert refused.code == "sku_unavailable", turn
            await tenants.begin(pool, got["id"])
            await tenants.fail(pool, got["id"], clean=True)
        assert await faults(pool) == {}

    run(database_url, scenario)


@pytest.mark.parametrize("sku", [SLICE, WHOLE])
def test_scenario_8_who_read_too_early_does_not_get_the_node(database_url: str, sku: str) -> None:
    """The request has read a free node and waits for its lock, while another one is committed."""

    async def scenario(pool: Pool) -> None:
        await node(pool)
        async with asyncio.TaskGroup() as group, transaction(pool) as tx:
            await tx.execute("select from nodes for update")
            late = group.create_task(answer(pool, order(8, sku=sku)))
            await waiting_for_a_lock(pool)
            await claim_by_hand(tx)
        refused = late.result()

        assert isinstance(refused, SkuUnavailable)
        assert await value(pool, "select count(*) from claims where live_mode is not null") == 1

    run(database_url, scenario)


async def waiting_for_a_lock(pool: Pool) -> None:
    waiting = 0
    while not waiting:
        waiting = await value(
            pool,
            """select count(*) from pg_stat_activity
               where datname = current_database() and wait_event_type = 'Lock'""",
        )


async def claim_by_hand(tx: Any) -> None:
    await tx.execute(
        """insert into allocations (id, project_id, account_id, requested_by, sku, gpus, region,
               capacity_shape, node_id, price_minor, currency, status, correlation_id, created_at)
           values ('alc_other', 'prj_two', 'acc_one', 'usr_two', %s, 8, %s, 'baremetal', 'node-a',
                   400, 'USD', 'requested', 'cor_two', clock_timestamp())""",
        [WHOLE, tenants.REGION],
    )
    await tx.execute("update nodes set mode = 'node_exclusive'")
    await tx.execute(
        """insert into claims (allocation_id, kind, node_id, status)
           values ('alc_other', 'node_exclusive', 'node-a', 'reserved')"""
    )


def test_scenario_9_a_node_in_slices_is_not_given_whole_nor_the_reverse(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        await tenants.active(pool, 1)

        assert (await refusal_of(pool, order(8, sku=WHOLE)))["reason"] == "no_capacity"

        await node(pool, "node-b")
        whole = await request(pool, NEW, order(8, sku=WHOLE))
        assert whole["node_id"] == "node-b"
        assert (await refusal_of(pool, order(8)))["largest_free_block"] == 4
        assert await faults(pool) == {}

    run(database_url, scenario)


def test_scenario_9_both_shapes_racing_for_a_node_never_share_it(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        for _ in range(30):
            wanted = [order(8, sku=WHOLE), order(1), order(2), order(8, sku=WHOLE)]
            got = [
                one for one in await together(pool, wanted) if not isinstance(one, MainstayError)
            ]

            assert await faults(pool) == {}
            assert len({one["capacity_shape"] for one in got}) == 1
            for one in got:
                await tenants.begin(pool, one["id"])
                await tenants.fail(pool, one["id"], clean=True)

    run(database_url, scenario)


KILLED = """
import asyncio, sys
sys.path.insert(0, {tests!r})
import tenants
from mainstay.tenancy import outbox, request
from postgres import pool_of

async def stop(*arguments):
    print("slots are updated", flush=True)
    await asyncio.Event().wait()

async def main():
    outbox.append = stop
    request.AT_ONCE_MAX = 0
    async with pool_of({url!r}) as pool:
        await request.request(pool, tenants.NEW, tenants.order(4))

asyncio.run(main())
"""


def test_scenario_10_a_crash_before_the_commit_leaves_nothing(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        code = KILLED.format(tests=str(outside.ROOT / "tests"), url=database_url)
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, stdout=subprocess.PIPE, env=outside.environment()
        )
        assert child.stdout is not None
        assert await child.stdout.readline() == b"slots are updated\n"
        child.send_signal(signal.SIGKILL)
        assert await child.wait() == -signal.SIGKILL

        again = await request(pool, NEW, order(8))  # waits for the lock that the dead one had

        assert again["node_id"] == "node-a"
        assert await value(pool, "select count(*) from allocations") == 1
        assert await told(pool, again["id"]) == ["provisioning.requested"]
        assert await value(pool, "select count(*) from outbox") == 1
        assert await faults(pool) == {}

    run(database_url, scenario)


@pytest.mark.parametrize(
    ("wanted", "error", "code"),
    [
        (order(1, project="prj_none"), UnknownProject, "project_not_found"),
        (order(1, ssh_keys=(KEY, "key_two")), UnknownSshKey, "ssh_key_not_found"),
        (order(1, ssh_keys=("key_none",)), UnknownSshKey, "ssh_key_not_found"),
        (order(1, sku="h100"), SkuUnavailable, "sku_unavailable"),
        (order(1, region="nowhere"), SkuUnavailable, "sku_unavailable"),
        (order(0), SkuUnavailable, "sku_unavailable"),
        (order(-1), SkuUnavailable, "sku_unavailable"),
    ],
)
def test_a_wrong_order_is_refused_by_name_and_leaves_nothing(
    database_url: str, wanted: Order, error: type[MainstayError], code: str
) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        with pytest.raises(error) as refusal:
            await request(pool, NEW, wanted)
        assert refusal.value.code == code
        await nothing_was_left(pool)

    run(database_url, scenario)


SPENT = """
    insert into ledger (account_id, amount_minor, currency, kind, corrects_id, dedupe_key)
    select 'acc_one', -100000, 'USD', 'correction', id, 'gone' from ledger
"""


def test_nothing_starts_on_a_balance_that_is_used_up(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        await rows(
            pool,
            f"{SPENT} returning id",
        )
        with pytest.raises(InsufficientBalance):
            await request(pool, NEW, order(1))
        await nothing_was_left(pool)

    run(database_url, scenario)


def test_a_sku_in_another_currency_is_refused_before_anything_is_locked(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        await rows(pool, "update skus set currency = 'EUR' returning sku")
        with pytest.raises(CurrencyDiffers):
            await request(pool, NEW, order(1))
        await nothing_was_left(pool)

    run(database_url, scenario)


def test_a_balance_that_runs_out_meanwhile_is_waited_for(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        async with asyncio.TaskGroup() as group, transaction(pool) as tx:
            await tx.execute("select from accounts for update")
            late = group.create_task(answer(pool, order(1)))
            await waiting_for_a_lock(pool)
            await tx.execute(SPENT)
        assert isinstance(late.result(), InsufficientBalance)
        await nothing_was_left(pool)

    run(database_url, scenario)


@pytest.mark.parametrize(
    "change",
    [
        "update nodes set status = 'draining' returning id",
        "update regions set active = false returning code",
        "update skus set active = false returning sku",
        "update slots set status = 'discovered' returning id",
    ],
)
def test_what_is_not_open_is_not_given_out(database_url: str, change: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        await rows(pool, change)
        await refusal_of(pool, order(1))
        await nothing_was_left(pool)

    run(database_url, scenario)


def test_a_node_that_is_held_is_left_for_the_end(database_url: str) -> None:
    """The fuller node would be taken, but nobody waits for it while another one would do."""

    async def scenario(pool: Pool) -> None:
        await node(pool, "node-a", free=(0, 1))
        await node(pool, "node-b")
        async with transaction(pool) as tx:
            await tx.execute("select from nodes where id = 'node-a' for update")
            async with asyncio.timeout(60):  # or it would wait for this very test
                assert (await request(pool, NEW, order(2)))["node_id"] == "node-b"
        assert (await request(pool, NEW, order(2)))["node_id"] == "node-a"

    run(database_url, scenario)


def test_a_node_that_was_waited_for_is_read_again(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the request saw is gone when the node is let go; it looks anew, once."""
    monkeypatch.setattr("mainstay.tenancy.request.SHORT_TURNS", 1)
    monkeypatch.setattr("mainstay.tenancy.request.ROUNDS_MAX", 2)

    async def scenario(pool: Pool) -> None:
        await node(pool)
        async with asyncio.TaskGroup() as group, transaction(pool) as tx:
            await tx.execute("select from nodes for update")
            late = group.create_task(answer(pool, order(2)))
            await waiting_for_a_lock(pool)
            await tx.execute("update slots set status = 'disabled' where slot_index < 4")
        assert not isinstance(late.result(), MainstayError)
        assert await slots(pool, "reserved") == [4, 5]

    run(database_url, scenario)


def test_who_waits_for_a_node_holds_no_account(database_url: str) -> None:
    """Else a charge that waits for the account, an outage that waits for the charge and this
    request, which waits for the node of the outage, would wait in a circle."""

    async def scenario(pool: Pool) -> None:
        await node(pool)
        async with asyncio.TaskGroup() as group, transaction(pool) as tx:
            await tx.execute("select from nodes for update")
            late = group.create_task(answer(pool, order(2)))
            await waiting_for_a_lock(pool)
            await tx.execute("select from accounts for no key update nowait")
        assert not isinstance(late.result(), MainstayError)

    run(database_url, scenario)


STALE = {
    "the node is in another region": "update nodes set region = 'other'",
    "the node is not sold so": "update nodes set sku = 'h200-sxm-baremetal-8g'",
    "the count is not sold": "update skus set allowed_gpu_counts = '{1}'",
    "the SKU is sold whole": "update skus set capacity_shape = 'baremetal'",
}


@pytest.mark.parametrize("change", STALE.values(), ids=STALE.keys())
def test_the_short_way_checks_again_all_that_was_seen(database_url: str, change: str) -> None:
    """The board is of before the change; the statement is not."""

    async def scenario(pool: Pool) -> None:
        await rows(pool, "insert into regions values ('other', 'Other') returning code")
        await node(pool)
        ask, seen = Ask(SLICE, 2, tenants.REGION), await board.seen(pool)
        trial = _Trial(pool, NEW, order(2), ask, dict(seen.catalogue))
        choices = seen.best(ask, 8)
        async with transaction(pool) as tx:
            await tx.execute("delete from node_offers")
            await tx.execute(change)
        assert await _at_once(trial, choices) is None
        await nothing_was_left(pool)

    run(database_url, scenario)


def test_cpu_and_memory_of_a_node_are_not_given_out_twice(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await rows(pool, "update skus set cpu_milli_per_gpu = 24000 returning sku")
        await node(pool, cpu_milli=72_000)
        await request(pool, NEW, order(2))
        await refusal_of(pool, order(2))
        assert (await request(pool, NEW, order(1)))["gpus"] == 1

    run(database_url, scenario)


def test_one_numa_node_is_looked_for_on_every_node(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainstay.tenancy.candidates.TRIED_MAX", 2)

    async def scenario(pool: Pool) -> None:
        for name in ("node-a", "node-b"):
            await node(pool, name, free=(0, 5), partitioned=False)
        await node(pool, "node-c", free=(0, 2, 5), partitioned=False)

        assert (await request(pool, NEW, order(2)))["node_id"] == "node-c"
        assert (await request(pool, NEW, order(2)))["node_id"] == "node-a"

    run(database_url, scenario)


def test_no_node_is_overlooked_before_anything_is_refused(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fuller nodes come first, but none of them has two slots side by side."""
    monkeypatch.setattr("mainstay.tenancy.candidates.TRIED_MAX", 2)

    async def scenario(pool: Pool) -> None:
        for name in ("node-a", "node-b"):
            await node(pool, name, free=(0, 2))
        await node(pool, "node-c", free=(0, 1, 2))

        assert (await request(pool, NEW, order(2)))["node_id"] == "node-c"

    run(database_url, scenario)


TABLES = {
    "allocations": "id", "claims": "id", "slots": "id", "nodes": "id", "outbox": "position",
    "allocation_ssh_keys": "allocation_id",
}  # fmt: skip
TIMES = ("created_at", "not_before", "occurred_at", "at")


def without_times(found: Any) -> Any:
    if isinstance(found, dict):
        return {
            name: None if name in TIMES else without_times(value) for name, value in found.items()
        }
    return [without_times(value) for value in found] if isinstance(found, list) else found


class Numbered:
    """Ids that are the same each time."""

    def __init__(self, first: int) -> None:
        self._numbers = itertools.count(first)

    def __call__(self, prefix: str) -> str:
        return f"{prefix}_{next(self._numbers):04}"


async def asked_in_turn(pool: Pool, wanted: list[Order]) -> list[Any]:
    """What each is told, and every row that is there then."""
    said: list[Any] = []
    for one in wanted:
        numbered = Numbered(10 * len(said))
        try:
            said.append(await request(pool, numbered, one))
        except MainstayError as error:
            said.append([error.code, str(error)])
    for table, by in TABLES.items():
        said.append(await rows(pool, f"select * from {table} order by {by}"))
    assert await faults(pool) == {}
    return [without_times(each) for each in said]


@pytest.mark.parametrize("partitioned", [True, False])
def test_the_short_way_writes_what_the_long_way_writes(
    server: Server, partitioned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One statement or several: the same rows, the same refusals, for the same requests."""
    wanted = [
        order(4, ssh_keys=(KEY,)), order(8, sku=WHOLE), order(1), order(2), order(1),
        order(8), order(1, ssh_keys=("key_none",)), order(1, project="prj_none"), order(4),
        order(2), order(2), order(1, project=tenants.OTHER_PROJECT, ssh_keys=("key_two",)),
    ]  # fmt: skip
    answers = []

    async def scenario(pool: Pool) -> None:
        await rows(pool, "update skus set cpu_milli_per_gpu = 24000 returning sku")
        for name in ("node-a", "node-b", "node-c"):
            await node(pool, name, partitioned=partitioned, cpu_milli=190_000, memory_mib=1)
        answers.append(await asked_in_turn(pool, wanted))

    for at_once_max in (8, 0):
        monkeypatch.setattr("mainstay.tenancy.request.AT_ONCE_MAX", at_once_max)
        with database_on(server) as url:
            run(url, scenario)
    assert answers[0] == answers[1]
    assert sum(isinstance(one, dict) for one in answers[0]) == 7


def test_nearly_every_request_goes_the_short_way(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: object) -> None:
        raise AssertionError("the long way")

    monkeypatch.setattr("mainstay.tenancy.request._first_that_holds", never)

    async def scenario(pool: Pool) -> None:
        await node(pool)
        await node(pool, "node-b")
        for wanted in (order(1), order(2), order(4), order(8, sku=WHOLE)):
            await request(pool, NEW, wanted)
        assert await faults(pool) == {}

    run(database_url, scenario)
