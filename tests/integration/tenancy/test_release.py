"""Giving back, cancelling and retrying, on a real PostgreSQL: scenarios 21, 22 and 25 by rows."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

import tenants
from mainstay.model.errors import Rejected
from mainstay.tenancy import settle
from mainstay.tenancy.billing.statement import allocation_bill
from mainstay.tenancy.billing.tick import bill
from mainstay.tenancy.database.connect import Pool, Row, transaction
from mainstay.tenancy.release import force_release, release, retry
from mainstay.tenancy.request import SkuUnavailable, request
from mainstay.tenancy.states import Actor, IllegalStep, NotYours
from mainstay.tenancy.transition import AllocationNotFound, locked
from postgres import database_url, server
from tenants import (
    NEW,
    OTHER_PROJECT,
    PROJECT,
    PROOF,
    SLICE,
    WHOLE,
    active,
    faults,
    node,
    order,
    rows,
    run,
    slots,
    told,
    value,
)

__all__ = ["database_url", "server"]

SHAPES = pytest.mark.parametrize("sku", [SLICE, WHOLE])


async def by_tenant(pool: Pool, allocation: str, project: str = PROJECT) -> Row:
    return await release(pool, NEW, allocation, actor=Actor.TENANT, by="usr_one", project=project)


async def by_billing(pool: Pool, allocation: str) -> Row:
    return await release(pool, NEW, allocation, actor=Actor.BILLING, by="biller", project=None)


@SHAPES
def test_a_release_ends_with_its_proof_and_frees_what_was_held(database_url: str, sku: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        row = await active(pool, 8, sku=sku)

        now = await by_tenant(pool, row["id"])

        assert (now["status"], now["release_initiator"], now["release_attempt"]) == (
            "releasing",
            "tenant",
            1,
        )
        with pytest.raises(SkuUnavailable):
            await request(pool, NEW, order(1))

        done = await tenants.prove(pool, row["id"], {**PROOF, "hard_stopped": True})

        assert done["status"] == "released"
        assert done["hard_stopped"] is True
        assert done["proof"] == {**PROOF, "hard_stopped": True}
        assert (await told(pool, row["id"]))[2:] == [
            "provisioning.releasing.requested",
            "provisioning.releasing.completed",
        ]
        other = WHOLE if sku == SLICE else SLICE
        assert (await request(pool, NEW, order(8, sku=other)))["node_id"] == "node-a"
        assert await faults(pool) == {}

    run(database_url, scenario)


async def rented(pool: Pool, gpus: int, seconds: int) -> str:
    """An allocation that has been active for so long, and is being given back."""
    row = await active(pool, gpus)
    await rows(
        pool,
        """update allocations set created_at = created_at - %(ago)s,
               provisioning_started_at = provisioning_started_at - %(ago)s,
               active_at = active_at - %(ago)s where id = %(id)s returning id""",
        {"ago": timedelta(seconds=seconds), "id": row["id"]},
    )
    await by_tenant(pool, row["id"])
    return str(row["id"])


def test_whoever_sees_it_released_sees_all_that_it_cost(database_url: str) -> None:
    """Also where no biller came by in between, who then finds nothing left to charge."""

    async def scenario(pool: Pool) -> None:
        await node(pool)
        held = await rented(pool, 8, 60)

        await tenants.prove(pool, held)

        async with transaction(pool) as tx:
            seen = await allocation_bill(tx, await locked(tx, held))
        assert (seen.amount_minor, seen.is_whole) == (60, True)
        done = await bill(pool, NEW)
        assert (done.charged, done.closed, done.failed) == (0, 1, [])
        assert await value(
            pool, "select sum(amount_minor)::int from ledger where kind = 'charge'"
        ) == -60  # fmt: skip

    run(database_url, scenario)


def test_one_that_cannot_be_charged_is_released_all_the_same(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        held = await rented(pool, 8, 60)
        start = await value(pool, "select active_at from allocations")
        assert isinstance(start, datetime)
        await rows(
            pool,
            """insert into ledger (account_id, amount_minor, currency, kind, dedupe_key)
               values ('acc_one', 1, 'USD', 'credit', %s) returning 1""",
            [f"charge:{held}:{start.astimezone(UTC).isoformat()}"],
        )

        assert (await tenants.prove(pool, held))["status"] == "released"
        assert (await bill(pool, NEW)).failed == [held]

    run(database_url, scenario)


@pytest.mark.parametrize(
    "proof",
    [
        {**PROOF, "released": False},
        {**PROOF, "wiped": False},
        {**PROOF, "leases_released": False},
        {"released": True, "wiped": True},
        {**PROOF, "wiped": "true"},
        {**PROOF, "wiped": 1},
        {**PROOF, "wiped": None},
        {},
    ],
)
def test_scenario_22_a_partial_proof_never_releases_and_the_slots_are_never_reused(
    database_url: str, proof: Mapping[str, Any]
) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        row = await active(pool, 8)
        await by_tenant(pool, row["id"])

        with pytest.raises(settle.ProofIncomplete):
            await tenants.prove(pool, row["id"], proof)

        assert await value(pool, "select status from allocations") == "releasing"
        async with transaction(pool) as tx:
            failed = await settle.release_failed(
                tx, NEW, await locked(tx, row["id"]), "the proof is partial", proof
            )
        assert (failed["status"], failed["proof"]) == ("release_failed", proof)
        assert len(await slots(pool, "cleanup_blocked")) == 8
        with pytest.raises(SkuUnavailable):
            await request(pool, NEW, order(1))
        assert await faults(pool) == {}

    run(database_url, scenario)


def test_scenario_22_the_database_refuses_it_when_code_forgets(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        row = await active(pool)
        await by_tenant(pool, row["id"])
        with pytest.raises(psycopg.errors.CheckViolation):
            await rows(
                pool,
                """update allocations set status = 'released', version = version + 1,
                       released_at = clock_timestamp(),
                       proof = '{"released": true, "wiped": false, "leases_released": true}'
                   returning id""",
            )

    run(database_url, scenario)


@SHAPES
def test_a_release_that_failed_keeps_all_it_held_and_is_tried_again(
    database_url: str, sku: str
) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        row = await active(pool, 8, sku=sku)
        first = await by_tenant(pool, row["id"])

        stuck = await tenants.fail_release(pool, row["id"])

        assert stuck["failure_reason"] == "the disk could not be wiped"
        assert await faults(pool) == {}
        for wanted in (order(1), order(8, sku=WHOLE)):
            with pytest.raises(SkuUnavailable):
                await request(pool, NEW, wanted)

        again = await retry(pool, NEW, row["id"], actor=Actor.TENANT, by="usr_one", project=PROJECT)

        assert (again["status"], again["release_attempt"]) == ("releasing", 2)
        assert again["releasing_at"] == first["releasing_at"], "payment ended the first time"
        assert again["release_retried_at"] > again["release_failed_at"]
        await tenants.fail_release(pool, row["id"])
        assert (await force_release(pool, NEW, row["id"], by="root"))["release_attempt"] == 3
        done = await tenants.prove(pool, row["id"])
        assert (done["status"], done["failure_reason"]) == ("released", None)
        attempts = await rows(
            pool,
            """select envelope -> 'payload' ->> 'attempt' as attempt from outbox
               where event_type = 'provisioning.releasing.requested' order by position""",
        )
        assert [one["attempt"] for one in attempts] == ["1", "2", "3"]
        assert await faults(pool) == {}

    run(database_url, scenario)


def test_scenario_25_three_releases_at_once_are_one(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        for _ in range(10):
            row = await active(pool, 2)
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(by_tenant(pool, row["id"])),
                    group.create_task(force_release(pool, NEW, row["id"], by="root")),
                    group.create_task(by_billing(pool, row["id"])),
                    group.create_task(by_tenant(pool, row["id"])),
                ]

            assert {task.result()["status"] for task in tasks} == {"releasing"}
            assert {task.result()["version"] for task in tasks} == {row["version"] + 1}
            assert (await told(pool, row["id"])).count("provisioning.releasing.requested") == 1
            attempts = await rows(
                pool,
                """select actor, actor_role, action, result, correlation_id from audit
                   where target_id = %s order by actor, action""",
                [row["id"]],
            )
            assert [tuple(one.values()) for one in attempts] == [
                ("biller", "billing", "allocation.force_release", "success", "cor_one"),
                ("root", "admin", "allocation.force_release", "success", "cor_one"),
                ("usr_one", "tenant", "allocation.release", "success", "cor_one"),
                ("usr_one", "tenant", "allocation.release", "success", "cor_one"),
            ]
            assert await faults(pool) == {}
            await tenants.prove(pool, row["id"])

    run(database_url, scenario)


def test_saying_it_again_changes_nothing(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        row = await active(pool)
        first = await by_tenant(pool, row["id"])
        assert await by_tenant(pool, row["id"]) == first
        done = await tenants.prove(pool, row["id"])
        assert await by_tenant(pool, row["id"]) == done
        assert await force_release(pool, NEW, row["id"], by="root") == done
        assert len(await told(pool, row["id"])) == 4

    run(database_url, scenario)


def test_another_projects_allocation_does_not_exist(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        row = await active(pool)

        with pytest.raises(AllocationNotFound) as foreign:
            await by_tenant(pool, row["id"], OTHER_PROJECT)
        with pytest.raises(AllocationNotFound) as unknown:
            await by_tenant(pool, "alc_none")
        with pytest.raises(NotYours):
            await release(pool, NEW, row["id"], actor=Actor.TENANT, by="usr_one", project=None)

        said = foreign.value.message.replace(row["id"], "alc_none")
        assert said == unknown.value.message
        assert await value(pool, "select status from allocations") == "active"
        refused = await rows(
            pool, "select target_id, correlation_id, metadata from audit order by id"
        )
        assert [tuple(one.values()) for one in refused] == [
            (row["id"], "cor_one", {"code": "allocation_not_found"}),
            ("alc_none", "", {"code": "allocation_not_found"}),
            (row["id"], "cor_one", {"code": "insufficient_permissions"}),
        ]

    run(database_url, scenario)


def test_billing_does_not_retry_what_costs_nothing_any_more(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        row = await active(pool)
        await by_billing(pool, row["id"])
        stuck = await tenants.fail_release(pool, row["id"])

        assert await by_billing(pool, row["id"]) == stuck

    run(database_url, scenario)


@pytest.mark.parametrize("state", ["requested", "active", "release_failed"])
def test_the_worker_does_not_release_of_its_own_accord(database_url: str, state: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        row = await (request(pool, NEW, order(1)) if state == "requested" else active(pool))
        if state == "release_failed":
            await by_tenant(pool, row["id"])
            await tenants.fail_release(pool, row["id"])
        with pytest.raises(NotYours):
            await release(pool, NEW, row["id"], actor=Actor.WORKER, by="worker", project=None)

    run(database_url, scenario)


@SHAPES
def test_a_cancel_before_work_began_ends_as_failed_and_free(database_url: str, sku: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        row = await request(pool, NEW, order(8, sku=sku))

        cancelled = await by_tenant(pool, row["id"])

        assert (cancelled["status"], cancelled["cancel_requested_by"]) == ("requested", "tenant")
        assert (await by_billing(pool, row["id"]))["cancel_requested_by"] == "tenant"
        assert await told(pool, row["id"]) == ["provisioning.requested"]

        ended = await tenants.begin(pool, row["id"])

        assert (ended["status"], ended["failure_code"]) == ("failed", settle.CANCELLED)
        assert await told(pool, row["id"]) == ["provisioning.requested", "provisioning.failed"]
        assert await by_tenant(pool, row["id"]) == ended, "saying it again is no fault"
        assert (await request(pool, NEW, order(8)))["node_id"] == "node-a"
        assert await faults(pool) == {}

    run(database_url, scenario)


def test_a_cancel_during_work_releases_at_the_moment_it_is_active(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        row = await request(pool, NEW, order(2))
        await tenants.begin(pool, row["id"])
        await by_billing(pool, row["id"])

        now = await tenants.activate(pool, row["id"])

        assert (now["status"], now["release_initiator"]) == ("releasing", "billing")
        assert now["releasing_at"] >= now["active_at"]
        assert (await told(pool, row["id"]))[1:] == [
            "provisioning.active",
            "provisioning.releasing.requested",
        ]
        assert await faults(pool) == {}
        await tenants.prove(pool, row["id"])
        assert await faults(pool) == {}

    run(database_url, scenario)


def test_what_failed_was_never_given_and_cannot_be_given_back(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        row = await request(pool, NEW, order(1))
        await tenants.begin(pool, row["id"])
        await tenants.fail(pool, row["id"], clean=True)
        with pytest.raises(IllegalStep):
            await by_tenant(pool, row["id"])

    run(database_url, scenario)


@SHAPES
def test_a_failure_without_a_clean_undo_blocks_all_it_held(database_url: str, sku: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        row = await request(pool, NEW, order(8, sku=sku))
        await tenants.begin(pool, row["id"])

        ended = await tenants.fail(pool, row["id"], clean=False)

        assert (ended["failure_code"], ended["failure_phase"]) == ("ssh_timeout", "ssh_wait")
        for wanted in (order(1), order(8, sku=WHOLE)):
            with pytest.raises(SkuUnavailable):
                await request(pool, NEW, wanted)
        assert await faults(pool) == {}

        async with transaction(pool) as tx:
            with pytest.raises(settle.ProofIncomplete):
                await settle.cleaned(tx, await locked(tx, row["id"]), {**PROOF, "wiped": False})
            cleaned = await settle.cleaned(tx, await locked(tx, row["id"]), PROOF)

        assert (cleaned["status"], cleaned["proof"]) == ("failed", PROOF)
        assert (await request(pool, NEW, order(8)))["node_id"] == "node-a"
        assert await faults(pool) == {}

    run(database_url, scenario)


def test_a_step_that_was_taken_already_is_refused_and_leaves_nothing(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        row = await active(pool)
        before = await everything(pool)
        for again in (tenants.begin, tenants.activate, tenants.fail_release, tenants.prove):
            with pytest.raises(IllegalStep):
                await again(pool, row["id"])
        with pytest.raises(IllegalStep):
            await tenants.fail(pool, row["id"], clean=True)
        assert await everything(pool) == before

    run(database_url, scenario)


async def everything(pool: Pool) -> list[list[Row]]:
    tables = ("allocations", "claims", "slots", "outbox")
    return [await rows(pool, f"select * from {table} order by id") for table in tables]


def test_slots_that_somebody_changed_by_hand_undo_the_whole_step(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        row = await active(pool, 2)
        await rows(
            pool,
            """update slots set status = 'disabled'
               where id = (select min(slot_id) from claims) returning id""",
        )
        before = await everything(pool)
        with pytest.raises(Rejected) as error:
            await by_tenant(pool, row["id"])
        assert error.value.code == "holdings_differ"
        assert await everything(pool) == before

    run(database_url, scenario)


def test_a_release_and_the_end_of_the_work_at_once_end_in_order(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        for _ in range(20):
            row = await request(pool, NEW, order(1))
            await tenants.begin(pool, row["id"])
            async with asyncio.TaskGroup() as group:
                group.create_task(by_tenant(pool, row["id"]))
                group.create_task(tenants.activate(pool, row["id"]))
            assert await faults(pool) == {}
            done = await tenants.prove(pool, row["id"])
            assert done["status"] == "released"

    run(database_url, scenario)
