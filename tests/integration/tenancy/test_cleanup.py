"""Force-cleanup and machines that turn up late, on a real PostgreSQL."""

import pytest

import tenants
from mainstay.model.errors import Rejected
from mainstay.tenancy import settle
from mainstay.tenancy.cleanup import Remains, force_cleanup, late_success
from mainstay.tenancy.database.connect import Pool, Row, transaction
from mainstay.tenancy.release import release
from mainstay.tenancy.request import SkuUnavailable, request
from mainstay.tenancy.states import Actor, IllegalStep
from mainstay.tenancy.transition import AllocationNotFound, locked
from postgres import database_url, server
from tenants import NEW, PROOF, SLICE, WHOLE, active, faults, node, order, rows, run, slots, told

__all__ = ["database_url", "server"]

STUCK = pytest.mark.parametrize("state", ["requested", "provisioning"])
SHAPES = pytest.mark.parametrize("sku", [SLICE, WHOLE])


async def given_up(pool: Pool, allocation: str, *, absent: bool) -> Row:
    return await force_cleanup(pool, NEW, allocation, runtime_verified_absent=absent, by="root")


async def late(pool: Pool, allocation: str) -> Remains | None:
    async with transaction(pool) as tx:
        return await late_success(tx, await locked(tx, allocation))


async def clean(pool: Pool, allocation: str) -> Row:
    async with transaction(pool) as tx:
        return await settle.cleaned(tx, await locked(tx, allocation), PROOF)


async def stuck(pool: Pool, state: str, *, sku: str = SLICE) -> Row:
    row = await request(pool, NEW, order(8, sku=sku))
    return row if state == "requested" else await tenants.begin(pool, row["id"])


@STUCK
def test_force_cleanup_with_verification_fails_it_and_frees_its_slots(
    database_url: str, state: str
) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        row = await stuck(pool, state)

        ended = await given_up(pool, row["id"], absent=True)

        assert (ended["status"], ended["failure_code"]) == ("failed", "force_cleanup")
        assert ended["provisioning_started_at"] is not None, "it went through provisioning"
        assert len(await slots(pool, "available")) == 8
        assert await told(pool, row["id"]) == ["provisioning.requested", "provisioning.failed"]
        assert await faults(pool) == {}

    run(database_url, scenario)


@STUCK
def test_force_cleanup_without_verification_leaves_the_slots_blocked(
    database_url: str, state: str
) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        row = await stuck(pool, state)

        ended = await given_up(pool, row["id"], absent=False)

        assert ended["status"] == "failed"
        assert len(await slots(pool, "cleanup_blocked")) == 8
        with pytest.raises(SkuUnavailable) as refusal:
            await request(pool, NEW, order(1))
        assert refusal.value.details["reason"] == "readiness_blocked"
        assert await given_up(pool, row["id"], absent=False) == ended
        assert len(await slots(pool, "cleanup_blocked")) == 8

        await given_up(pool, row["id"], absent=True)

        assert len(await slots(pool, "available")) == 8
        assert await told(pool, row["id"]) == ["provisioning.requested", "provisioning.failed"]
        tried = await rows(pool, "select action, actor, result, metadata from audit order by id")
        assert [tuple(one.values()) for one in tried] == [
            ("allocation.force_cleanup", "root", "success", {"runtime_verified_absent": absent})
            for absent in (False, False, True)
        ]
        assert await faults(pool) == {}

    run(database_url, scenario)


@pytest.mark.parametrize("state", ["active", "releasing", "release_failed", "released"])
def test_force_cleanup_is_not_for_what_a_tenant_has_had(database_url: str, state: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        row = await active(pool)
        if state != "active":
            await release(pool, NEW, row["id"], actor=Actor.ADMIN, by="root", project=None)
        if state == "release_failed":
            await tenants.fail_release(pool, row["id"])
        if state == "released":
            await tenants.prove(pool, row["id"])
        before = await rows(pool, "select * from slots order by id")

        with pytest.raises(IllegalStep, match="release it instead"):
            await given_up(pool, row["id"], absent=True)

        assert await rows(pool, "select * from slots order by id") == before
        (tried,) = await rows(
            pool,
            "select result, correlation_id from audit where action = 'allocation.force_cleanup'",
        )
        assert tuple(tried.values()) == ("failure", "cor_one")
        assert await faults(pool) == {}

    run(database_url, scenario)


@STUCK
def test_force_cleanup_is_not_for_a_whole_node_until_it_has_failed(
    database_url: str, state: str
) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        row = await stuck(pool, state, sku=WHOLE)
        with pytest.raises(Rejected) as error:
            await given_up(pool, row["id"], absent=True)
        assert error.value.code == "wrong_shape"
        assert await faults(pool) == {}

        if state == "requested":
            await tenants.begin(pool, row["id"])
        await tenants.fail(pool, row["id"], clean=False)
        with pytest.raises(SkuUnavailable):
            await request(pool, NEW, order(8, sku=WHOLE))
        await given_up(pool, row["id"], absent=True)

        assert (await request(pool, NEW, order(8, sku=WHOLE)))["node_id"] == "node-a"
        assert await faults(pool) == {}

    run(database_url, scenario)


def test_nobody_cleans_up_what_is_not_there(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        with pytest.raises(AllocationNotFound):
            await given_up(pool, "alc_none", absent=True)

    run(database_url, scenario)


def test_a_worker_that_still_has_it_finds_it_failed(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        row = await stuck(pool, "provisioning")
        await given_up(pool, row["id"], absent=True)
        with pytest.raises(IllegalStep):
            await tenants.activate(pool, row["id"])
        assert await faults(pool) == {}

    run(database_url, scenario)


@SHAPES
@pytest.mark.parametrize("undone", [True, False], ids=["said to be undone", "blocked"])
def test_a_late_success_never_revives_it_and_its_machine_is_released(
    database_url: str, sku: str, undone: bool
) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        row = await stuck(pool, "provisioning", sku=sku)
        await tenants.fail(pool, row["id"], clean=undone)

        remains = await late(pool, row["id"])

        every = () if sku == WHOLE else tuple(f"node-a/{index}" for index in range(8))
        assert remains == Remains(row["id"], "node-a", every, ())
        assert await late(pool, row["id"]) == remains, "told twice"
        for wanted in (order(1), order(8, sku=WHOLE)):
            with pytest.raises(SkuUnavailable):
                await request(pool, NEW, wanted)

        cleaned = await clean(pool, row["id"])

        assert cleaned["status"] == "failed"
        assert await clean(pool, row["id"]) == cleaned
        assert (await request(pool, NEW, order(8)))["node_id"] == "node-a"
        assert await told(pool, row["id"]) == ["provisioning.requested", "provisioning.failed"]
        assert await faults(pool) == {}

    run(database_url, scenario)


@pytest.mark.parametrize("sku", [SLICE, WHOLE])
def test_a_late_success_takes_nothing_from_who_has_it_by_now(database_url: str, sku: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        row = await stuck(pool, "provisioning")
        await tenants.fail(pool, row["id"], clean=True)
        other = await active(pool, 8 if sku == WHOLE else 2, sku=sku)

        remains = await late(pool, row["id"])

        assert remains is not None
        held = {SLICE: ("node-a/0", "node-a/1"), WHOLE: remains.slots}[sku]
        assert remains.elsewhere == held
        assert len(await slots(pool, "cleanup_blocked")) == (6 if sku == SLICE else 0)
        kept = await rows(
            pool, "select distinct status from claims where allocation_id = %s", [other["id"]]
        )
        assert [one["status"] for one in kept] == ["active"]
        await clean(pool, row["id"])
        assert await slots(pool, "cleanup_blocked") == []

    run(database_url, scenario)


def test_a_success_in_time_is_nobodys_remains(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        row = await active(pool)
        assert await late(pool, row["id"]) is None
        with pytest.raises(IllegalStep):
            await clean(pool, row["id"])

    run(database_url, scenario)
