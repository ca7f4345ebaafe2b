"""Allocations by HTTP: what is asked, what is answered, and what nobody else may see."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import billed
from callers import Stage, on_stage
from mainstay.tenancy.billing.tick import bill
from mainstay.tenancy.views import PAGE_MAX
from postgres import database_url, server
from tenants import (
    KEY,
    NEW,
    REGION,
    SLICE,
    activate,
    active,
    begin,
    fail_release,
    faults,
    node,
    prove,
    rows,
    slots,
    told,
    value,
)

__all__ = ["database_url", "server"]


def asked(**changes: Any) -> dict[str, Any]:
    return {"sku": SLICE, "gpus": 2, "region": REGION, "ssh_key_ids": [KEY], **changes}


def test_a_tenant_asks_and_gets_201_with_the_id_and_requested(database_url: str) -> None:
    async def scenario(stage: Stage) -> None:
        await node(stage.pool)

        answer = await stage.tenant.post("/allocations", asked(), **{"X-Correlation-Id": "mine-1"})

        made = answer.json()
        assert answer.status_code == 201
        assert (made["status"], made["sku"], made["gpus"]) == ("requested", SLICE, 2)
        assert made["price"] == {"gpu_hour_minor": 450, "currency": "USD"}
        assert made["correlation_id"] == answer.headers["X-Correlation-Id"] == "mine-1"
        assert await slots(stage.pool, "reserved") == [0, 1]
        assert await told(stage.pool, made["allocation_id"]) == ["provisioning.requested"]

    on_stage(database_url, scenario)


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"gpus": 3}, 409, "sku_unavailable"),
        ({"sku": "h100"}, 409, "sku_unavailable"),
        ({"region": "region-9"}, 409, "sku_unavailable"),
        ({"ssh_key_ids": ["key_two"]}, 404, "ssh_key_not_found"),
        ({"gpus": 0}, 400, "validation_error"),
        ({"gpus": "two"}, 400, "validation_error"),
        ({"gpus_total": 2}, 400, "validation_error"),
        ({"sku": "a\x00b"}, 400, "validation_error"),
    ],
)
def test_a_refusal_is_an_envelope_and_leaves_nothing(
    database_url: str, change: dict[str, Any], status: int, code: str
) -> None:
    async def scenario(stage: Stage) -> None:
        await node(stage.pool)

        answer = await stage.tenant.post("/allocations", asked(**change))

        said = answer.json()
        assert (answer.status_code, said["code"]) == (status, code)
        assert said.keys() == {"code", "message", "correlation_id", "details"}
        assert said["correlation_id"] == answer.headers["X-Correlation-Id"]
        assert await value(stage.pool, "select count(*) from allocations") == 0
        assert await slots(stage.pool, "reserved") == []

    on_stage(database_url, scenario)


def test_a_refusal_for_want_of_room_says_why_and_what_there_is(database_url: str) -> None:
    async def scenario(stage: Stage) -> None:
        await node(stage.pool, numa=(0, 0))

        answer = await stage.tenant.post("/allocations", asked(gpus=4))

        details = answer.json()["details"]
        assert details["reason"] == "no_single_node_fit"
        assert details["largest_free_block"] == 2
        assert details["nearest_alternative"]["gpus"] == 2

    on_stage(database_url, scenario)


def test_without_funds_the_answer_is_402(database_url: str) -> None:
    async def scenario(stage: Stage) -> None:
        await node(stage.pool)
        await rows(
            stage.pool,
            """insert into ledger (account_id, amount_minor, currency, kind, dedupe_key,
                                   corrects_id)
               select account_id, -amount_minor, currency, 'correction', 'spent', id from ledger
               returning id""",
        )

        answer = await stage.tenant.post("/allocations", asked())

        assert (answer.status_code, answer.json()["code"]) == (402, "insufficient_balance")

    on_stage(database_url, scenario)


def test_a_body_that_is_not_json_and_a_body_that_is_too_large_are_envelopes(
    database_url: str,
) -> None:
    async def scenario(stage: Stage) -> None:
        headers = {"X-Idempotency-Key": "k", "Content-Type": "application/json"}
        post = stage.tenant.client.post

        bad = await post("/api/v1/allocations", content=b"{", headers=headers)
        large = await post("/api/v1/allocations", content=b"x" * 2**21, headers=headers)

        assert (bad.status_code, bad.json()["code"]) == (400, "validation_error")
        assert (large.status_code, large.json()["code"]) == (413, "request_too_large")

    on_stage(database_url, scenario)


def test_one_is_shown_with_claims_keys_connection_and_timeline(database_url: str) -> None:
    async def scenario(stage: Stage) -> None:
        await node(stage.pool)
        made = (await stage.tenant.post("/allocations", asked())).json()["allocation_id"]
        await begin(stage.pool, made)
        await activate(stage.pool, made)

        shown = (await stage.tenant.get(f"/allocations/{made}")).json()
        timeline = (await stage.tenant.get(f"/allocations/{made}/timeline")).json()

        assert (shown["status"], shown["ssh_key_ids"]) == ("active", [KEY])
        assert [claim["slot_index"] for claim in shown["claims"]] == [0, 1]
        assert shown["connection"]["host"] == "10.0.0.1"
        assert [moment["what"] for moment in timeline["moments"]] == [
            "requested", "placement_reserved", "provisioning_started", "active",
        ]  # fmt: skip

    on_stage(database_url, scenario)


def test_release_is_said_as_often_as_one_likes(database_url: str) -> None:
    async def scenario(stage: Stage) -> None:
        await node(stage.pool)
        held = (await active(stage.pool))["id"]

        first = await stage.member.post(f"/allocations/{held}/release")
        again = await stage.tenant.post(f"/allocations/{held}/release")
        await prove(stage.pool, held)
        late = await stage.tenant.post(f"/allocations/{held}/release")

        said = [answer.json()["status"] for answer in (first, again, late)]
        assert [first.status_code, again.status_code, late.status_code] == [200, 200, 200]
        assert said == ["releasing", "releasing", "released"]
        assert (await told(stage.pool, held)).count("provisioning.releasing.requested") == 1

    on_stage(database_url, scenario)


def test_what_is_not_active_yet_is_cancelled_and_what_failed_cannot_be_released(
    database_url: str,
) -> None:
    async def scenario(stage: Stage) -> None:
        await node(stage.pool)
        made = (await stage.tenant.post("/allocations", asked())).json()["allocation_id"]
        other = (await stage.tenant.post("/allocations", asked())).json()["allocation_id"]
        absent = {"runtime_verified_absent": True}
        await stage.admin.post(f"/admin/allocations/{other}/force-cleanup", absent)

        cancelled = (await stage.tenant.post(f"/allocations/{made}/release")).json()
        refused = await stage.tenant.post(f"/allocations/{other}/release")

        assert (cancelled["status"], cancelled["cancel_requested"]) == ("requested", True)
        assert (refused.status_code, refused.json()["code"]) == (409, "allocation_state_conflict")

    on_stage(database_url, scenario)


class TestIsolation:
    @pytest.mark.parametrize("path", ["", "/timeline"])
    def test_another_projects_allocation_does_not_exist(self, database_url: str, path: str) -> None:
        async def scenario(stage: Stage) -> None:
            await node(stage.pool)
            held = (await active(stage.pool))["id"]

            answer = await stage.other.get(f"/allocations/{held}{path}")

            assert (answer.status_code, answer.json()["code"]) == (404, "allocation_not_found")

        on_stage(database_url, scenario)

    def test_another_projects_allocation_cannot_be_released(self, database_url: str) -> None:
        async def scenario(stage: Stage) -> None:
            await node(stage.pool)
            held = (await active(stage.pool))["id"]

            answer = await stage.other.post(f"/allocations/{held}/release")

            assert (answer.status_code, answer.json()["code"]) == (404, "allocation_not_found")
            assert (await stage.tenant.get(f"/allocations/{held}")).json()["status"] == "active"

        on_stage(database_url, scenario)

    def test_lists_keys_usage_and_projects_are_of_ones_own_project(self, database_url: str) -> None:
        async def scenario(stage: Stage) -> None:
            await node(stage.pool)
            await active(stage.pool)

            allocations = (await stage.other.get("/allocations")).json()["items"]
            keys = (await stage.other.get("/ssh-keys")).json()["items"]
            projects = (await stage.other.get("/projects")).json()["items"]
            api_keys = (await stage.other.get("/api-keys")).json()["items"]

            assert allocations == []
            assert [key["id"] for key in keys] == ["key_two"]
            assert [project["id"] for project in projects] == ["prj_two"]
            assert {key["project_id"] for key in api_keys} == {"prj_two"}

        on_stage(database_url, scenario)

    def test_no_query_lets_a_tenant_into_another_project(self, database_url: str) -> None:
        async def scenario(stage: Stage) -> None:
            for path in ("/allocations", "/ssh-keys", "/billing/balance", "/notices"):
                answer = await stage.other.get(path, project_id="prj_one")
                assert (answer.status_code, answer.json()["code"]) == (404, "project_not_found")

        on_stage(database_url, scenario)

    def test_the_bill_shows_other_projects_of_the_account_as_amounts_only(
        self, database_url: str
    ) -> None:
        async def scenario(stage: Stage) -> None:
            await node(stage.pool)
            held = (await active(stage.pool))["id"]
            await rows(
                stage.pool,
                """with held as (select * from allocations where id = %s), debit as (
                       insert into ledger (account_id, amount_minor, currency, kind, allocation_id,
                                           dedupe_key)
                       select account_id, -450, 'USD', 'charge', id, 'charge' from held
                       returning id)
                   insert into usage_records (allocation_id, account_id, window_start, window_end,
                       gpus, price_minor, amount_minor, ledger_id)
                   select held.id, account_id, active_at, active_at + interval '1 hour', 1, 450,
                       450, debit.id from held, debit returning id""",
                [held],
            )

            own = (await stage.tenant.get("/billing/statement")).json()
            others = (await stage.other.get("/billing/statement")).json()

            assert [line["allocation"] for line in own["lines"]] == [held]
            assert [(line["allocation"], line["amount_minor"]) for line in others["lines"]] == [
                ("", 450)
            ]
            assert others["closing_minor"] == own["closing_minor"]

        on_stage(database_url, scenario)

    def test_the_bill_of_an_allocation_has_every_month_and_says_how_far_it_goes(
        self, database_url: str
    ) -> None:
        async def scenario(stage: Stage) -> None:
            began = datetime(2025, 11, 30, 23, tzinfo=UTC)
            held = await billed.requested(stage.pool, began - timedelta(minutes=2), gpus=2)
            await billed.step(stage.pool, held, "provisioning", began - timedelta(minutes=1))
            path = f"/allocations/{held}/bill"
            nothing = (await stage.tenant.get(path)).json()
            await billed.step(stage.pool, held, "active", began)
            await bill(stage.pool, NEW, at=began + timedelta(minutes=90))
            so_far = (await stage.tenant.get(path)).json()
            await billed.step(stage.pool, held, "releasing", began + timedelta(hours=2))
            unfinished = (await stage.tenant.get(path)).json()
            await bill(stage.pool, NEW)
            whole = (await stage.tenant.get(path)).json()
            other = await stage.other.get(path)

            assert (nothing["lines"], nothing["charged_to"], nothing["is_whole"]) == (
                [], None, False,
            )  # fmt: skip
            assert [line["amount_minor"] for line in so_far["lines"]] == [900, 450]
            assert (so_far["charged_to"], so_far["is_whole"]) == ("2025-12-01T00:30:00Z", False)
            assert unfinished == so_far
            months = [(line["start"][:7], line["end"], line["seconds"]) for line in whole["lines"]]
            assert months == [
                ("2025-11", "2025-12-01T00:00:00Z", 3600),
                ("2025-12", "2025-12-01T01:00:00Z", 3600),
            ]
            assert (whole["amount"], whole["amount_minor"], whole["is_whole"]) == (
                "$18.00", 1800, True,
            )  # fmt: skip
            assert other.status_code == 404

        on_stage(database_url, scenario)

    def test_who_sees_every_project_must_say_which(self, database_url: str) -> None:
        async def scenario(stage: Stage) -> None:
            silent = await stage.admin.get("/allocations")
            named = await stage.readonly.get("/ssh-keys", project_id="prj_two")

            assert silent.status_code == 400
            assert [key["id"] for key in named.json()["items"]] == ["key_two"]

        on_stage(database_url, scenario)


class TestPages:
    def test_pages_hold_every_allocation_once_and_in_order(self, database_url: str) -> None:
        async def scenario(stage: Stage) -> None:
            await node(stage.pool)
            made = [
                (await stage.tenant.post("/allocations", asked(gpus=1))).json()["allocation_id"]
                for _ in range(5)
            ]

            seen, cursor = [], None
            while True:
                query = {"limit": 2} | ({"cursor": cursor} if cursor else {})
                page = (await stage.tenant.get("/allocations", **query)).json()
                seen += [found["allocation_id"] for found in page["items"]]
                cursor = page["next_cursor"]
                if cursor is None:
                    break

            assert seen == made[::-1]

        on_stage(database_url, scenario)

    @pytest.mark.parametrize(
        "query", [{"cursor": "x"}, {"limit": 0}, {"limit": PAGE_MAX + 1}, {"status": "odd"}]
    )
    def test_a_wrong_page_is_a_validation_error(
        self, database_url: str, query: dict[str, Any]
    ) -> None:
        async def scenario(stage: Stage) -> None:
            answer = await stage.tenant.get("/allocations", **query)

            assert (answer.status_code, answer.json()["code"]) == (400, "validation_error")

        on_stage(database_url, scenario)


def test_25_concurrent_releases_make_one_transition_and_every_attempt_has_its_audit_row(
    database_url: str,
) -> None:
    """Scenario 25, by HTTP."""

    async def scenario(stage: Stage) -> None:
        await node(stage.pool)
        held = await active(stage.pool)
        release, force = f"/allocations/{held['id']}/release", "force-release"

        async with asyncio.TaskGroup() as group:
            calls = [
                group.create_task(stage.tenant.post(release, key="one")),
                group.create_task(stage.tenant.post(release, key="one")),
                group.create_task(stage.admin.post(f"/admin/allocations/{held['id']}/{force}")),
            ]
        retried = await stage.tenant.post(release, key="one")
        other = await stage.tenant.post(release, {"why": "?"}, key="one")

        assert [call.result().status_code for call in calls] == [200, 200, 200]
        assert retried.headers["Idempotency-Replayed"] == "true"
        assert (other.status_code, other.json()["code"]) == (409, "idempotency_key_reused")
        assert (await told(stage.pool, held["id"])).count("provisioning.releasing.requested") == 1
        audit = await rows(
            stage.pool,
            "select action, actor_role, correlation_id from audit where target_id = %s",
            [held["id"]],
        )
        assert sorted((row["action"], row["actor_role"]) for row in audit) == [
            ("allocation.force_release", "admin"), ("allocation.release", "tenant"),
        ]  # fmt: skip
        assert {row["correlation_id"] for row in audit} == {held["correlation_id"]}
        assert await faults(stage.pool) == {}

    on_stage(database_url, scenario)


def test_a_release_that_failed_is_found_and_tried_again_by_an_admin(database_url: str) -> None:
    async def scenario(stage: Stage) -> None:
        await node(stage.pool)
        held = (await active(stage.pool))["id"]
        await stage.tenant.post(f"/allocations/{held}/release")
        await fail_release(stage.pool, held)

        listed = (await stage.readonly.get("/admin/allocations", status="release_failed")).json()
        again = await stage.admin.post(f"/admin/allocations/{held}/force-release")

        assert [found["allocation_id"] for found in listed["items"]] == [held]
        assert again.json()["status"] == "releasing"

    on_stage(database_url, scenario)
