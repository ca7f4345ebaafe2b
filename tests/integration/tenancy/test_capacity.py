"""Requests that wait: what is placed late is given back, and one that cannot be keeps no other."""

import psycopg

from mainstay.tenancy import capacity, creation
from mainstay.tenancy.database.connect import Pool, transaction
from mainstay.tenancy.holdings import HoldingsDiffer
from postgres import database_url, server
from tenants import NEW, activate, begin, fail, faults, node, order, rows, run, told, value

__all__ = ["database_url", "server"]

WAITS = """
    insert into capacity_requests (id, project_id, requested_by, sku, gpus, region, ssh_key_ids,
                                   state, correlation_id, expires_at)
    values (%(id)s, %(project)s, %(by)s, %(sku)s, %(gpus)s, %(region)s, '{}', 'waiting',
            %(correlation)s, clock_timestamp() + make_interval(hours => 1)) returning 1
"""
OVER = """
    update capacity_requests set state = %s, expires_at = clock_timestamp(),
                                 ended_at = clock_timestamp() where id = %s returning 1
"""
FAILURES = "select count(*) from audit where result = 'failure'"


async def waits(pool: Pool, name: str) -> str:
    """A request that waits; its id."""
    asked = order()
    given = {
        "id": f"cap_{name}", "project": asked.project, "by": asked.by, "sku": asked.sku,
        "gpus": asked.gpus, "region": asked.region, "correlation": asked.correlation_id,
    }  # fmt: skip
    await rows(pool, WAITS, given)
    return f"cap_{name}"


async def placed_late(pool: Pool, name: str, state: str = "expired") -> tuple[str, str]:
    """A request that ended when its allocation was there and not yet written down; both."""
    request = await waits(pool, name)
    made = await creation.requested(pool, lambda prefix: f"{prefix}_{name}", order())
    await rows(pool, OVER, [state, request])
    return request, made["id"]


async def seen(pool: Pool) -> dict[str, tuple[str, str | None]]:
    found = await rows(pool, "select id, state, allocation_id from capacity_requests")
    return {row["id"]: (row["state"], row["allocation_id"]) for row in found}


def test_what_was_placed_late_and_has_failed_is_over(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        for name, state in (("one", "expired"), ("two", "cancelled")):
            _, allocation = await placed_late(pool, name, state)
            await begin(pool, allocation)
            await fail(pool, allocation, clean=True)

        for _ in range(2):
            assert not await capacity.place_due(pool, NEW)

            assert await seen(pool) == {
                "cap_one": ("expired", "alc_one"),
                "cap_two": ("cancelled", "alc_two"),
            }
            assert await rows(pool, "select target_id from audit") == []
        assert await faults(pool) == {}

    run(database_url, scenario)


def test_what_was_placed_late_is_given_back_once(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        _, early = await placed_late(pool, "early")
        _, held = await placed_late(pool, "held")
        await begin(pool, held)
        await activate(pool, held)

        for _ in range(2):
            assert not await capacity.place_due(pool, NEW)

            stood = "select status, cancel_requested_by from allocations order by id"
            assert [tuple(row.values()) for row in await rows(pool, stood)] == [
                ("requested", "tenant"),
                ("releasing", None),
            ]
            tried = "select target_id, actor, action, result from audit order by 1"
            assert [tuple(row.values()) for row in await rows(pool, tried)] == [
                (each, "usr_one", "allocation.release", "success") for each in (early, held)
            ]
        assert (await told(pool, held))[-1] == "provisioning.releasing.requested"

    run(database_url, scenario)


def test_one_that_cannot_be_given_back_keeps_no_other_and_is_tried_again(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        for name in ("a", "b"):
            _, allocation = await placed_late(pool, name)
            await begin(pool, allocation)
            await activate(pool, allocation)
        by_hand = "update slots set status = %s where status = %s and id in ({}) returning 1"
        its = by_hand.format("select slot_id from claims where allocation_id = 'alc_a'")
        await rows(pool, its, ["disabled", "in_use"])
        await waits(pool, "c")

        for _ in range(2):
            failing = await capacity.place_due(pool, NEW)

            assert {which: type(error) for which, error in failing.items()} == {
                "cap_a": HoldingsDiffer
            }
            assert await seen(pool) == {
                "cap_a": ("expired", None),
                "cap_b": ("expired", "alc_b"),
                "cap_c": ("placed", "alc_c"),
            }
            assert await value(pool, FAILURES) == 0  # else there would be one with every look

        await rows(pool, its, ["in_use", "disabled"])
        assert not await capacity.place_due(pool, NEW)
        assert (await seen(pool))["cap_a"] == ("expired", "alc_a")
        assert await faults(pool) == {}

    run(database_url, scenario)


def test_one_that_the_database_refuses_keeps_no_other_from_its_turn(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        for name in ("a", "b"):
            await waits(pool, name)
        strange = "alter table allocations add constraint strange check (id <> 'alc_a')"
        async with transaction(pool) as tx:
            await tx.execute(strange)

        failing = await capacity.place_due(pool, NEW)

        assert {which: type(error) for which, error in failing.items()} == {
            "cap_a": psycopg.errors.CheckViolation
        }
        assert await seen(pool) == {"cap_a": ("waiting", None), "cap_b": ("placed", "alc_b")}

    run(database_url, scenario)
