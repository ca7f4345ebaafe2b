"""What is read of allocations, on a real PostgreSQL."""

import base64
import json
from dataclasses import replace

import pytest

import tenants
from mainstay.bridge import rows as bridge_rows
from mainstay.bridge import taking
from mainstay.tenancy.database.connect import Pool, transaction
from mainstay.tenancy.release import force_release
from mainstay.tenancy.request import request
from mainstay.tenancy.settle import cleaned
from mainstay.tenancy.states import Status
from mainstay.tenancy.transition import AllocationNotFound, locked
from mainstay.tenancy.views import BadPage, Query, Room, page, rooms, show
from postgres import database_url, server
from tenants import (
    KEY,
    NEW,
    OTHER_PROJECT,
    PROJECT,
    PROOF,
    REGION,
    SLICE,
    WHOLE,
    active,
    node,
    order,
    rows,
    run,
)

__all__ = ["database_url", "server"]


def test_one_allocation_is_shown_with_all_that_belongs_to_it(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        row = await active(pool, 2, ssh_keys=(KEY,))

        shown = await show(pool, row["id"], project=PROJECT)

        assert shown.allocation == row
        assert [(one["slot_index"], one["slot_status"]) for one in shown.claims] == [
            (0, "in_use"),
            (1, "in_use"),
        ]
        assert [one["last_proof"] for one in shown.claims] == [None, None]
        assert shown.ssh_key_ids == (KEY,)
        assert [moment.what for moment in shown.timeline] == [
            "requested",
            "placement_reserved",
            "provisioning_started",
            "active",
        ]

    run(database_url, scenario)


def test_another_projects_allocation_is_not_shown(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        row = await active(pool)
        with pytest.raises(AllocationNotFound):
            await show(pool, row["id"], project=OTHER_PROJECT)
        assert (await show(pool, row["id"], project=None)).allocation == row

    run(database_url, scenario)


def test_the_next_holder_sees_the_proof_of_the_one_before(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        first = await active(pool, 8, sku=WHOLE)
        await force_release(pool, NEW, first["id"], by="root")
        await tenants.prove(pool, first["id"], {**PROOF, "serial": "A"})
        second = await active(pool, 2)
        seen = await show(pool, second["id"], project=PROJECT)
        assert [one["last_proof"] for one in seen.claims] == [{**PROOF, "serial": "A"}] * 2

        await force_release(pool, NEW, second["id"], by="root")
        await tenants.prove(pool, second["id"], {**PROOF, "serial": "B"})
        third = await request(pool, NEW, order(4))
        seen = await show(pool, third["id"], project=PROJECT)
        assert [one["last_proof"]["serial"] for one in seen.claims] == ["B", "B", "A", "A"]

        await tenants.begin(pool, third["id"])
        await tenants.fail(pool, third["id"], clean=True)
        fourth = await request(pool, NEW, order(4))
        seen = await show(pool, fourth["id"], project=PROJECT)
        assert [one["last_proof"] for one in seen.claims] == [None] * 4, "freed without a release"

        await tenants.begin(pool, fourth["id"])
        await tenants.fail(pool, fourth["id"], clean=False)
        async with transaction(pool) as tx:
            await cleaned(tx, await locked(tx, fourth["id"]), {**PROOF, "serial": "C"})
        whole = await request(pool, NEW, order(8, sku=WHOLE))
        seen = await show(pool, whole["id"], project=PROJECT)
        assert [one["last_proof"]["serial"] for one in seen.claims] == ["C"]

    run(database_url, scenario)


def test_pages_hold_every_allocation_once_whatever_comes_meanwhile(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        for name in ("node-a", "node-b"):
            await node(pool, name)
        made = [(await request(pool, NEW, order(1)))["id"] for _ in range(7)]
        await request(pool, NEW, order(1, project=OTHER_PROJECT))
        await rows(  # at one moment: the id decides
            pool, "update allocations set created_at = '2026-01-01T00:00:00Z' returning id"
        )

        seen = []
        query: Query | None = Query(project=PROJECT, limit=3)
        sizes = []
        while query is not None:
            found = await page(pool, query)
            seen += [row["id"] for row in found.rows]
            sizes.append(len(found.rows))
            await request(pool, NEW, order(1))
            more = found.next_cursor
            query = None if more is None else replace(query, cursor=more)

        assert sizes == [3, 3, 1]
        assert seen == sorted(made, reverse=True)

    run(database_url, scenario)


def test_allocations_of_one_moment_are_listed_by_id_for_everybody(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        made = [(await request(pool, NEW, order(1)))["id"] for _ in range(6)]
        for one in sorted(made):  # written in this order, so that the heap has it too
            await rows(
                pool,
                """update allocations set created_at = '2026-01-01T00:00:00Z'
                   where id = %s returning id""",
                [one],
            )
        first = await page(pool, Query(limit=4))
        rest = await page(pool, Query(limit=4, cursor=first.next_cursor))
        listed = [row["id"] for row in (*first.rows, *rest.rows)]
        assert listed == sorted(made, reverse=True)

    run(database_url, scenario)


def test_a_page_is_of_a_project_and_a_state(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        waiting = await request(pool, NEW, order(1))
        running = await active(pool)
        other = await request(pool, NEW, order(1, project=OTHER_PROJECT))

        async def listed(query: Query) -> list[str]:
            return [row["id"] for row in (await page(pool, query)).rows]

        assert await listed(Query()) == [other["id"], running["id"], waiting["id"]]
        assert await listed(Query(project=OTHER_PROJECT)) == [other["id"]]
        assert await listed(Query(project=PROJECT, status=Status.ACTIVE)) == [running["id"]]
        assert await listed(Query(status=Status.RELEASE_FAILED)) == []

    run(database_url, scenario)


def encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


@pytest.mark.parametrize(
    "query",
    [
        Query(limit=0),
        Query(limit=201),
        Query(cursor=""),
        Query(cursor="not base64!"),
        Query(cursor="ünïcode"),
        Query(cursor=encoded({"a": 1})),
        Query(cursor=encoded(["yesterday", "alc_1"])),
        Query(cursor=encoded(["2026-01-01T00:00:00", "alc_1"])),
        Query(cursor=encoded(["2026-01-01T00:00:00+00:00", 1])),
        Query(cursor=encoded(["2026-01-01T00:00:00+00:00", "\x00"])),
        Query(cursor=encoded([1, 2, 3])),
        Query(cursor="W1tb" * 10_000),
    ],
)
def test_a_page_that_cannot_be_is_refused_in_a_line(database_url: str, query: Query) -> None:
    async def scenario(pool: Pool) -> None:
        with pytest.raises(BadPage) as error:
            await page(pool, query)
        assert len(error.value.message) < 150

    run(database_url, scenario)


def test_what_is_free_is_told_by_sku_and_region(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await rows(pool, "insert into regions values ('region-2', 'Two') returning code")
        await node(pool, "node-a")
        await node(pool, "node-b", region="region-2")
        await node(pool, "node-c", region="region-2", free=(1, 2, 4))
        await request(pool, NEW, order(1))

        assert await rooms(pool) == (
            Room(WHOLE, REGION, 1, 0, 0),
            Room(WHOLE, "region-2", 2, 8, 8),
            Room(SLICE, REGION, 1, 7, 4),
            Room(SLICE, "region-2", 2, 11, 8),
        )

    run(database_url, scenario)


def test_who_lost_a_machine_is_told_why_in_the_timeline(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        row = await active(pool, 1)
        async with transaction(pool) as tx:
            await tx.execute(
                """insert into node_kinds (kind, region, instance_types, sold_as, slots, gpus_total)
                   values ('k', %s, '{big}', %s, '[]', 8)""",
                [REGION, [SLICE]],
            )
            await tx.execute(
                """insert into bridge_nodes (cluster, machine, incarnation, node_id, kind, state)
                   values ('t', 'm', 1, 'node-a', 'k', 'open')"""
            )
            assert await bridge_rows.close(tx, row, bridge_rows.Told("preempted"))
        await taking.release(pool, NEW, {**row, "machine": "m", "reason": "preempted",
                                         "preemptor_priority": 1}, row["id"])  # fmt: skip

        shown = await show(pool, row["id"], project=PROJECT)

        assert shown.timeline[-1].detail == "asked for by admin: preempted"

    run(database_url, scenario)
