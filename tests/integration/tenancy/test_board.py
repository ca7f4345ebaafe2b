"""The board of a process, held against reading every node, over whatever changes in the database.

Changes are plain SQL, past all our code: what the board knows it knows from the database.
"""

import asyncio

import psycopg
import pytest

from mainstay.tenancy import board, candidates, enrolment
from mainstay.tenancy.database.connect import Pool, transaction
from mainstay.tenancy.placement.place import Refusal, place
from mainstay.tenancy.placement.rank import outlook_for, ranked
from mainstay.tenancy.placement.shape import Ask
from postgres import database_url, server
from tenants import REGION, SLICE, WHOLE, active, node, rows, run

__all__ = ["database_url", "server"]

ASKS = [Ask(SLICE, 1, REGION), Ask(SLICE, 4, REGION), Ask(WHOLE, 8, REGION), Ask(SLICE, 1, "other")]


async def agrees(pool: Pool) -> None:
    """The board, read on from where it was, with every node read anew."""
    now = await board.seen(pool)
    async with transaction(pool) as tx:
        known = await candidates.catalogue(tx)
        nodes = await candidates.everything(tx)
    assert now.catalogue == known
    for ask in ASKS:
        found = place(ask, known, nodes)
        if isinstance(found, Refusal):
            assert now.best(ask, 9) == []
            assert now.refusal(ask) == found
            continue
        here = [each for each in nodes if ask.sku in each.skus and each.region == ask.region]
        sku = known[ask.sku]
        assert now.best(ask, 9) == ranked(sku, ask.gpus, here, outlook_for(sku))


CHANGES = {
    "a slot is taken": "update slots set status = 'reserved' where id = 'node-a/3'",
    "a slot is freed": "update slots set status = 'available' where id = 'node-b/7'",
    "a slot goes": "delete from slots where id = 'node-b/7'",
    "a slot comes": """insert into slots (id, node_id, slot_index, status)
                       values ('node-b/8', 'node-b', 8, 'available')""",
    "a node is closed": "update nodes set status = 'draining' where id = 'node-a'",
    "a node has less memory": "update nodes set memory_mib = 1 where id = 'node-a'",
    "a node is not joined": "update nodes set partitioned = false where id = 'node-b'",
    "a node is not sold whole": "delete from node_offers where node_id = 'node-a'",
    "another node is sold whole": "update node_offers set sku = 'h200-sxm-slice'",
    "a node is sold under one name more": """insert into node_offers
                                             values ('node-c', 'h200-sxm-baremetal-8g')""",
    "a node moves": "update nodes set region = 'other' where id = 'node-a'",
    "a SKU is sold no more": "update skus set active = false where capacity_shape = 'baremetal'",
    "a SKU needs more": "update skus set cpu_milli_per_gpu = 1000",
    "a claim ends": "update claims set status = 'released', ended_at = clock_timestamp()",
    "a claim is not there": "delete from claims",
    "nothing": "select",
    "a region is closed": "update regions set active = false",
}


def test_the_board_sees_whatever_changes(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await rows(pool, "insert into regions values ('other', 'Other') returning code")
        await node(pool, "node-a")
        await node(pool, "node-b", free=(0, 1, 2, 3))
        await node(pool, "node-c")
        await rows(pool, "delete from node_offers where node_id = 'node-c' returning sku")
        await active(pool, 4)
        await agrees(pool)
        for statement in CHANGES.values():
            async with transaction(pool) as tx:
                await tx.execute(statement)
                await agrees(pool)  # not yet
            await agrees(pool)

    run(database_url, scenario)


def test_a_change_that_is_committed_late_is_seen_however_many_came_before(
    database_url: str,
) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool, "node-a")
        await node(pool, "node-b")
        async with transaction(pool) as slow:
            await slow.execute("update nodes set status = 'draining' where id = 'node-a'")
            for turn in range(20):
                await rows(
                    pool,
                    "update slots set status = %s where id = 'node-b/0' returning id",
                    ["reserved" if turn % 2 else "available"],
                )
                await agrees(pool)
        await agrees(pool)
        assert {choice.node for choice in (await board.seen(pool)).best(ASKS[0], 9)} == {"node-b"}

    run(database_url, scenario)


def test_who_looks_sees_what_was_committed_before(database_url: str) -> None:
    """Many look at once and share their reads, but nobody gets one that began before him."""

    async def scenario(pool: Pool) -> None:
        await node(pool)

        async def one(index: int) -> None:
            await rows(
                pool,
                f"update slots set status = 'disabled' where id = 'node-a/{index}' returning id",
            )
            seen = await board.seen(pool)
            (choice,) = seen.best(Ask(SLICE, 1, REGION), 9) or (None,)
            assert choice is None or index not in choice.slots

        async with asyncio.TaskGroup() as group:
            for index in range(8):
                group.create_task(one(index))
        assert (await board.seen(pool)).best(Ask(SLICE, 1, REGION), 9) == []

    run(database_url, scenario)


def test_a_board_that_was_long_not_looked_at_is_read_from_the_beginning(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        await agrees(pool)
        await rows(pool, "update slots set status = 'disabled' returning id")
        await rows(pool, "delete from node_changes returning node_id")  # as if it were old
        monkeypatch.setattr(board, "KNOWN_S", 0.0)
        await agrees(pool)

    run(database_url, scenario)


def test_a_board_is_read_from_the_beginning_now_and_then_however_often_it_is_looked_at(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        live = board.LiveBoard()
        await live.seen(pool)
        full_at = live._full_at
        await live.seen(pool)
        assert live._full_at == full_at
        monkeypatch.setattr(board, "KNOWN_S", 0.0)
        await live.seen(pool)
        assert live._full_at > full_at

    run(database_url, scenario)


def test_a_database_that_has_lost_transactions_is_read_from_the_beginning(
    database_url: str,
) -> None:
    """Another took its place, and counts transactions from before what we have seen."""

    async def scenario(pool: Pool) -> None:
        await node(pool)
        live = board.LiveBoard()
        await live.seen(pool)
        live._snapshot = "1000000000:1000000000:"
        await rows(pool, "update slots set status = 'disabled' returning id")
        assert (await live.seen(pool)).best(Ask(SLICE, 1, REGION), 9) == []

    run(database_url, scenario)


def test_a_call_of_an_agent_is_no_change(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        await rows(pool, "delete from node_changes returning node_id")
        async with transaction(pool) as tx:
            await enrolment.seen(tx, "node-a")
        assert await rows(pool, "select last_seen_at from nodes") != [{"last_seen_at": None}]
        assert await rows(pool, "select * from node_changes") == []

    run(database_url, scenario)


def test_a_read_that_fails_is_made_again_by_the_next(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        await agrees(pool)
        async with transaction(pool) as tx:
            await tx.execute("alter function nodes_changed_since rename to away")
        with pytest.raises(psycopg.errors.UndefinedFunction):
            await board.seen(pool)
        async with transaction(pool) as tx:
            await tx.execute("alter function away rename to nodes_changed_since")
        await rows(pool, "update slots set status = 'disabled' returning id")
        await agrees(pool)

    run(database_url, scenario)
