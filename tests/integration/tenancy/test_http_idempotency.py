"""The same key is the same answer, made once: repeated, at the same time, and after a death."""

import asyncio
from typing import Any, Final

from callers import Stage, on_stage
from mainstay.tenancy import api_keys, creation, idempotency
from mainstay.tenancy.api_keys import NewKey, Role
from mainstay.tenancy.attempts import Who
from mainstay.tenancy.database.connect import Pool, transaction
from mainstay.tenancy.idempotency import Answer, Call, Claim
from postgres import database_url, server
from tenants import NEW, REGION, SLICE, node, order, rows, run, value

__all__ = ["database_url", "server"]

ASKED: Final[dict[str, Any]] = {"sku": SLICE, "gpus": 1, "region": REGION}
COUNT: Final = "select count(*) from allocations"


def test_a_mutation_without_a_key_is_refused_and_does_nothing(database_url: str) -> None:
    async def scenario(stage: Stage) -> None:
        await node(stage.pool)

        answer = await stage.tenant.client.post("/api/v1/allocations", json=ASKED)

        assert (answer.status_code, answer.json()["code"]) == (400, "validation_error")
        assert "X-Idempotency-Key" in answer.json()["message"]
        assert await value(stage.pool, COUNT) == 0

    on_stage(database_url, scenario)


def test_every_mutation_asks_for_a_key(database_url: str) -> None:
    async def scenario(stage: Stage) -> None:
        document = stage.app.openapi()
        without = [
            f"{method} {path}"
            for path, operations in document["paths"].items()
            for method, operation in operations.items()
            if method != "get"
            and not any(
                found["name"] == "X-Idempotency-Key" and found["required"]
                for found in operation.get("parameters", [])
            )
        ]

        assert without == []

    on_stage(database_url, scenario)


def test_a_repetition_gets_the_same_answer_and_makes_nothing(database_url: str) -> None:
    async def scenario(stage: Stage) -> None:
        await node(stage.pool)

        first = await stage.tenant.post("/allocations", ASKED, key="k")
        swapped = dict(reversed(ASKED.items()))
        again = await stage.tenant.post("/allocations", swapped, key="k")

        assert (again.status_code, again.json()) == (201, first.json())
        assert "Idempotency-Replayed" not in first.headers
        assert again.headers["Idempotency-Replayed"] == "true"
        assert await value(stage.pool, COUNT) == 1

    on_stage(database_url, scenario)


def test_a_refusal_is_repeated_too(database_url: str) -> None:
    async def scenario(stage: Stage) -> None:
        first = await stage.tenant.post("/allocations", ASKED, key="k")
        await node(stage.pool)
        again = await stage.tenant.post("/allocations", ASKED, key="k")

        assert first.status_code == again.status_code == 409
        assert first.json() == again.json()

    on_stage(database_url, scenario)


def test_the_same_key_with_another_body_is_a_conflict(database_url: str) -> None:
    async def scenario(stage: Stage) -> None:
        await node(stage.pool)
        await stage.tenant.post("/allocations", ASKED, key="k")

        other = await stage.tenant.post("/allocations", {**ASKED, "gpus": 2}, key="k")

        assert (other.status_code, other.json()["code"]) == (409, "idempotency_key_reused")
        assert await value(stage.pool, COUNT) == 1

    on_stage(database_url, scenario)


def test_a_key_belongs_to_its_caller_and_its_route(database_url: str) -> None:
    async def scenario(stage: Stage) -> None:
        await node(stage.pool)

        mine = await stage.tenant.post("/allocations", ASKED, key="k")
        theirs = await stage.member.post("/allocations", ASKED, key="k")
        held = mine.json()["allocation_id"]
        released = await stage.tenant.post(f"/allocations/{held}/release", key="k")

        assert mine.json()["allocation_id"] != theirs.json()["allocation_id"]
        assert released.json()["cancel_requested"]

    on_stage(database_url, scenario)


def test_of_many_at_the_same_time_one_executes(database_url: str) -> None:
    async def scenario(stage: Stage) -> None:
        await node(stage.pool)

        async with asyncio.TaskGroup() as group:
            calls = [
                group.create_task(stage.tenant.post("/allocations", ASKED, key="k"))
                for _ in range(10)
            ]

        answers = {call.result().json()["allocation_id"] for call in calls}
        assert {call.result().status_code for call in calls} == {201}
        assert len(answers) == 1
        assert await value(stage.pool, COUNT) == 1

    on_stage(database_url, scenario)


WHO: Final = Who(name="root", role="admin", correlation_id="c")
CALL: Final = Call(principal="key:x", route="POST /x", key="k", request_hash="h")


async def grow_old(pool: Pool, seconds: float) -> None:
    await rows(
        pool,
        """update idempotency_keys set created_at = created_at - make_interval(secs => %s)
           returning key""",
        [seconds],
    )


def test_who_takes_over_from_the_dead_finds_what_the_dead_has_made(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool, free=[0])  # what the dead has made is all there is
        first = await idempotency.claim(pool, NEW, CALL)
        assert isinstance(first, Claim)
        made = await creation.requested(pool, first.ids(NEW), order())  # and dies before it says so
        assert await idempotency.claim(pool, NEW, CALL) is None
        await grow_old(pool, idempotency.CLAIM_S + 1)

        second = await idempotency.claim(pool, NEW, CALL)
        assert isinstance(second, Claim)
        found = await creation.requested(pool, second.ids(NEW), order())

        assert found["id"] == made["id"]
        assert await value(pool, COUNT) == 1

    run(database_url, scenario)


def test_two_who_execute_the_same_call_after_all_make_one_thing(database_url: str) -> None:
    """The first was only slow, and taken for dead."""

    async def scenario(pool: Pool) -> None:
        await node(pool)
        claim = await idempotency.claim(pool, NEW, CALL)
        assert isinstance(claim, Claim)

        async with asyncio.TaskGroup() as group:
            both = [
                group.create_task(creation.requested(pool, claim.ids(NEW), order()))
                for _ in range(2)
            ]

        assert both[0].result()["id"] == both[1].result()["id"]
        assert await value(pool, COUNT) == 1

    run(database_url, scenario)


def test_a_key_that_somebody_made_and_never_showed_gets_another_secret(database_url: str) -> None:
    """Made, and dead before the answer: there is one key, and its secret is the one shown."""

    async def scenario(pool: Pool) -> None:
        claim = await idempotency.claim(pool, NEW, CALL)
        assert isinstance(claim, Claim)
        new = NewKey(role=Role.READONLY, project=None)

        (_, lost), (row, shown) = [
            await api_keys.create(pool, claim.ids(NEW), new, WHO) for _ in range(2)
        ]

        assert await value(pool, "select count(*) from api_keys") == 1
        assert await api_keys.holder(pool, lost) is None
        held = await api_keys.holder(pool, shown)
        assert held is not None
        assert held["id"] == row["id"]

    run(database_url, scenario)


def test_the_first_answer_stays_and_a_day_later_the_key_is_free(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        first = await idempotency.claim(pool, NEW, CALL)
        assert isinstance(first, Claim)
        await idempotency.answer(pool, CALL, Answer(200, {"a": 1}))
        await idempotency.answer(pool, CALL, Answer(200, {"a": 2}))
        assert await idempotency.claim(pool, NEW, CALL) == Answer(200, {"a": 1})
        await grow_old(pool, idempotency.KEPT_S + 1)

        later = await idempotency.claim(pool, NEW, CALL)

        assert isinstance(later, Claim)
        assert later.resource != first.resource
        assert await idempotency.sweep(pool) == 0
        await grow_old(pool, idempotency.KEPT_S + 1)
        assert await idempotency.sweep(pool) == 1

    run(database_url, scenario)


def test_what_was_not_answered_for_good_may_be_tried_at_once(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        first = await idempotency.claim(pool, NEW, CALL)
        await idempotency.let_go(pool, CALL)

        assert await idempotency.claim(pool, NEW, CALL) == first

    run(database_url, scenario)


def test_a_secret_is_shown_once_and_kept_nowhere(database_url: str) -> None:
    async def scenario(stage: Stage) -> None:
        body = {"id": "node-z", "region": REGION, "sku": SLICE, "gpus_total": 8}

        first = await stage.admin.post("/admin/nodes", body, key="k")
        again = await stage.admin.post("/admin/nodes", body, key="k")
        key = await stage.tenant.post("/api-keys", {"role": "member"}, key="k")

        token, secret = first.json()["enrolment_token"], key.json()["secret"]
        assert token.startswith("enr_")
        assert again.json() == {**first.json(), "enrolment_token": None}
        kept = str(await rows(stage.pool, "select * from idempotency_keys"))
        assert token not in kept
        assert secret not in kept

    on_stage(database_url, scenario)


def test_after_a_moment_that_was_bad_the_same_key_tries_again(database_url: str) -> None:
    async def scenario(stage: Stage) -> None:
        await node(stage.pool)
        async with transaction(stage.pool) as tx:
            await tx.execute(AWAY)

        away = await stage.tenant.post("/allocations", ASKED, key="k")
        async with transaction(stage.pool) as tx:
            await tx.execute("drop trigger away on allocations")
        again = await stage.tenant.post("/allocations", ASKED, key="k")

        assert (away.status_code, away.json()["code"]) == (503, "service_unavailable")
        assert "Retry-After" in away.headers
        assert again.status_code == 201

    on_stage(database_url, scenario)


AWAY: Final = """
    create function away() returns trigger language plpgsql as $$
    begin raise exception 'away' using errcode = 'admin_shutdown'; end $$;
    create trigger away before insert on allocations for each row execute function away();
"""
