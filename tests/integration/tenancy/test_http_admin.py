"""What administrators do by HTTP: everything that gets stuck is freed, and all of it is audited."""

import tomllib
from typing import Any

import pytest

from callers import Stage, on_stage
from mainstay.tenancy import outbox
from mainstay.tenancy.catalogue import SAMPLE
from mainstay.tenancy.database.connect import transaction
from mainstay.tenancy.states import EventType
from postgres import database_url, server
from tenants import ACCOUNT, NEW, REGION, SLICE, WHOLE, active, node, rows, slots, value

__all__ = ["database_url", "server"]

NODE: dict[str, Any] = {"id": "node-n", "region": REGION, "sku": SLICE, "gpus_total": 2}


async def audited(stage: Stage, action: str) -> list[tuple[str, str]]:
    found = await rows(
        stage.pool, "select target_id, result from audit where action = %s order by id", [action]
    )
    return [(row["target_id"], row["result"]) for row in found]


class TestNodes:
    def test_a_node_is_registered_with_its_slots_found_and_none_approved(
        self, database_url: str
    ) -> None:
        async def scenario(stage: Stage) -> None:
            body = {**NODE, "offers": [WHOLE], "slots": [{"slot_index": 0}, {"slot_index": 1}]}
            made = await stage.admin.post("/admin/nodes", body)
            shown = (await stage.readonly.get("/admin/nodes/node-n")).json()

            assert made.status_code == 201
            assert (shown["status"], shown["slots"], shown["slots_available"]) == (
                "bootstrap_issued", 2, 0,
            )  # fmt: skip
            assert await slots(stage.pool, "discovered") == [0, 1]
            assert await audited(stage, "node.create") == [("node-n", "success")]

        on_stage(database_url, scenario)

    @pytest.mark.parametrize(
        ("change", "status", "code"),
        [
            ({}, 409, "node_exists"),
            ({"id": "x", "region": "nowhere"}, 400, "invalid_request"),
            ({"id": "x", "sku": "nothing"}, 400, "invalid_request"),
            ({"id": "a/b"}, 400, "validation_error"),
        ],
    )
    def test_a_node_that_cannot_be_is_refused_whole(
        self, database_url: str, change: dict[str, Any], status: int, code: str
    ) -> None:
        async def scenario(stage: Stage) -> None:
            await stage.admin.post("/admin/nodes", NODE)

            answer = await stage.admin.post("/admin/nodes", {**NODE, **change})

            assert (answer.status_code, answer.json()["code"]) == (status, code)
            assert await value(stage.pool, "select count(*) from nodes") == 1

        on_stage(database_url, scenario)

    def test_slots_are_approved_and_disabled_unless_somebody_holds_them(
        self, database_url: str
    ) -> None:
        async def scenario(stage: Stage) -> None:
            await node(stage.pool)
            await active(stage.pool)
            path = "/admin/nodes/node-a/resource-slots"

            off = await stage.admin.post(f"{path}/7/disable")
            on = await stage.admin.post(f"{path}/7/approve")
            again = await stage.admin.post(f"{path}/7/approve")
            held = await stage.admin.post(f"{path}/0/disable")
            blocked = await stage.admin.post(f"{path}/0/approve")
            none = await stage.admin.post(f"{path}/9/approve")

            assert [off.json()["status"], on.json()["status"], again.json()["status"]] == [
                "disabled", "available", "available",
            ]  # fmt: skip
            assert (held.status_code, held.json()["code"]) == (409, "slot_state_conflict")
            assert blocked.status_code == 409
            assert (none.status_code, none.json()["code"]) == (404, "slot_not_found")
            assert await audited(stage, "node.slot.disable") == [
                ("node-a/7", "success"), ("node-a/0", "failure"),
            ]  # fmt: skip

        on_stage(database_url, scenario)

    def test_no_slot_that_is_not_proved_clean_is_approved(self, database_url: str) -> None:
        async def scenario(stage: Stage) -> None:
            await node(stage.pool)
            for status in ("cleanup_blocked", "releasing", "reserved", "in_use"):
                await rows(
                    stage.pool,
                    "update slots set status = %s where slot_index = 3 returning id",
                    [status],
                )
                answer = await stage.admin.post("/admin/nodes/node-a/resource-slots/3/approve")
                assert answer.status_code == 409, status

        on_stage(database_url, scenario)

    def test_nodes_that_are_retired_are_listed_only_if_asked_for(self, database_url: str) -> None:
        """Machines that come and go leave many of them."""

        async def scenario(stage: Stage) -> None:
            for name, status in (("a", "retired"), ("b", "active"), ("c", "retired")):
                await node(stage.pool, name, status=status)

            async def names(**query: Any) -> list[str]:
                answer = await stage.readonly.get("/admin/nodes", **query)
                return [each["id"] for each in answer.json()["items"]]

            assert await names() == ["b"]
            assert await names(limit=2, retired=True) == ["a", "b"]
            assert await names(after="b", retired=True) == ["c"]
            assert await names(retired_only=True) == ["a", "c"]
            assert await names(retired=True, retired_only=True) == ["a", "c"]
            shown = await stage.readonly.get("/admin/nodes/a")
            assert shown.json()["status"] == "retired"

        on_stage(database_url, scenario)

    def test_a_node_says_when_it_was_silent_if_asked(self, database_url: str) -> None:
        """Nobody pays for that time."""

        async def scenario(stage: Stage) -> None:
            for name in ("a", "b"):
                await node(stage.pool, name)
            await rows(
                stage.pool,
                """insert into node_outages (node_id, began_at, ended_at)
                   values ('a', '2026-01-02Z', null), ('a', '2026-01-01Z', '2026-01-01 01:00Z')
                   returning node_id""",
            )
            both = [
                {"began_at": "2026-01-01T00:00:00Z", "ended_at": "2026-01-01T01:00:00Z"},
                {"began_at": "2026-01-02T00:00:00Z", "ended_at": None},
            ]

            told = (await stage.readonly.get("/admin/nodes", outages=True)).json()["items"]
            assert {each["id"]: each["outages"] for each in told} == {"a": both, "b": []}
            assert (await stage.readonly.get("/admin/nodes/a")).json()["outages"] == both
            told = (await stage.readonly.get("/admin/nodes")).json()["items"]
            assert [each["outages"] for each in told] == [None, None]

        on_stage(database_url, scenario)

    def test_a_node_says_of_which_machine_it_is_a_life(self, database_url: str) -> None:
        """Its name does not: a node that was registered by hand may be called like one."""

        async def scenario(stage: Stage) -> None:
            for name in ("10.0.0.5", "m-1.1"):
                await node(stage.pool, name)
            await rows(
                stage.pool,
                """insert into node_kinds (kind, region, instance_types, sold_as, slots, gpus_total)
                   values ('k', %s, '{big}', %s, '[]', 8) returning kind""",
                [REGION, [SLICE]],
            )
            await rows(
                stage.pool,
                """insert into bridge_nodes (cluster, machine, incarnation, node_id, kind, state)
                   values ('t', 'm-1', 1, 'm-1.1', 'k', 'open') returning node_id""",
            )

            told = (await stage.readonly.get("/admin/nodes")).json()["items"]
            assert {each["id"]: each["machine"] for each in told} == {
                "10.0.0.5": None, "m-1.1": "m-1",
            }  # fmt: skip
            shown = (await stage.readonly.get("/admin/nodes/m-1.1")).json()
            assert (shown["machine"], shown["retired_at"]) == ("m-1", None)
            await rows(
                stage.pool,
                """update bridge_nodes set state = 'retired', reason = 'lost',
                          closed_at = '2026-01-01Z', retired_at = '2026-01-02Z'
                   returning node_id""",
            )
            shown = (await stage.readonly.get("/admin/nodes/m-1.1")).json()
            assert shown["retired_at"] == "2026-01-02T00:00:00Z"

        on_stage(database_url, scenario)

    def test_a_node_is_drained_resumed_and_not_retired_while_it_is_held(
        self, database_url: str
    ) -> None:
        async def scenario(stage: Stage) -> None:
            await node(stage.pool)
            await active(stage.pool)

            async def step(what: str) -> tuple[int, str]:
                answer = await stage.admin.post("/admin/nodes/node-a/step", {"step": what})
                return answer.status_code, answer.json().get("status", answer.json().get("code"))

            assert await step("drain") == (200, "draining")
            assert await step("resume") == (200, "active")
            assert await step("retire") == (409, "node_state_conflict")
            assert await step("explode") == (400, "validation_error")

        on_stage(database_url, scenario)


def test_what_is_stuck_is_given_up_with_or_without_its_slots(database_url: str) -> None:
    async def scenario(stage: Stage) -> None:
        await node(stage.pool)
        asked = {"sku": SLICE, "gpus": 1, "region": REGION}
        one, two = [
            (await stage.tenant.post("/allocations", asked)).json()["allocation_id"]
            for _ in range(2)
        ]

        for held, absent in ((one, True), (two, False)):
            path = f"/admin/allocations/{held}/force-cleanup"
            answer = await stage.admin.post(path, {"runtime_verified_absent": absent})
            assert answer.json()["status"] == "failed"
            assert answer.json()["failure"]["code"] == "force_cleanup"

        assert await slots(stage.pool, "cleanup_blocked") == [1]
        silent = await stage.admin.post(f"/admin/allocations/{two}/force-cleanup", {})
        assert silent.status_code == 400

    on_stage(database_url, scenario)


@pytest.mark.parametrize(("verb", "ends"), [("requeue", "pending"), ("discard", "discarded")])
def test_a_failed_event_is_requeued_or_discarded(database_url: str, verb: str, ends: str) -> None:
    async def scenario(stage: Stage) -> None:
        async with transaction(stage.pool) as tx:
            event = outbox.Event(
                event_type=EventType.LOW_BALANCE, key="k", correlation_id="c", payload={}
            )
            identity = await outbox.append(tx, NEW, event)
            await tx.execute("update outbox set status = 'failed', last_error = 'no bus'")

        listed = (await stage.readonly.get("/admin/outbox/failed")).json()["items"]
        done = await stage.admin.post(f"/admin/outbox/{identity}/{verb}", {"reason": "because"})
        again = await stage.admin.post(f"/admin/outbox/{identity}/{verb}", {})
        none = await stage.admin.post(f"/admin/outbox/evt_none/{verb}", {})

        assert [(found["event_id"], found["error"]) for found in listed] == [(identity, "no bus")]
        assert done.json() == {"id": identity, "done": True}
        assert await value(stage.pool, "select status from outbox") == ends
        assert (again.status_code, again.json()["code"]) == (409, "outbox_event_not_failed")
        assert (none.status_code, none.json()["code"]) == (404, "outbox_event_not_found")
        assert [result for _, result in await audited(stage, f"outbox.{verb}")] == [
            "success", "failure", "failure",
        ]  # fmt: skip

    on_stage(database_url, scenario)


def test_money_is_booked_once_per_payment_and_seen_in_the_balance(database_url: str) -> None:
    async def scenario(stage: Stage) -> None:
        path = f"/admin/accounts/{ACCOUNT}/credits"
        body = {"amount_minor": 500, "payment_key": "pay-1"}

        first = await stage.admin.post(path, body)
        again = await stage.admin.post(path, body)
        other = await stage.admin.post(path, {**body, "amount_minor": 600})
        balance = (await stage.tenant.get("/billing/balance")).json()
        nobody = await stage.admin.post("/admin/accounts/acc_none/credits", body)

        assert (first.status_code, first.json()["id"]) == (201, again.json()["id"])
        assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")
        assert balance["balance_minor"] == 100_500
        assert (nobody.status_code, nobody.json()["code"]) == (404, "account_not_found")

    on_stage(database_url, scenario)


def test_an_entry_is_corrected_by_another_one(database_url: str) -> None:
    async def scenario(stage: Stage) -> None:
        entry = await value(stage.pool, "select id from ledger")
        body = {"amount_minor": -100, "key": "c1", "reason": "too much"}

        done = await stage.admin.post(f"/admin/ledger/{entry}/corrections", body)
        none = await stage.admin.post("/admin/ledger/999/corrections", {**body, "key": "c2"})

        assert (done.status_code, done.json()["corrects_id"]) == (201, entry)
        assert (none.status_code, none.json()["code"]) == (404, "ledger_entry_not_found")
        assert (await stage.tenant.get("/billing/balance")).json()["balance_minor"] == 99_900

    on_stage(database_url, scenario)


def test_a_catalogue_is_loaded_whole_or_refused_by_name(database_url: str) -> None:
    async def scenario(stage: Stage) -> None:
        document = tomllib.loads(SAMPLE.read_text())

        loaded = await stage.admin.post("/admin/catalogue", document)
        same = await stage.admin.post("/admin/catalogue", document)
        strange = {"region": [{"code": "x", "name": "X", "odd": 1}]}
        wrong = await stage.admin.post("/admin/catalogue", strange)

        assert loaded.json()["made"]["node"] == 2
        assert same.json()["made"] == {}
        assert (wrong.status_code, "odd" in wrong.json()["message"]) == (400, True)
        assert await audited(stage, "catalogue.load") == [
            ("catalogue", "success"), ("catalogue", "success"), ("catalogue", "failure"),
        ]  # fmt: skip
        catalog = (await stage.tenant.get("/catalog")).json()
        assert {sku["sku"] for sku in catalog["skus"]} >= {SLICE, WHOLE}
        free = {room["sku"]: room["free_gpus"] for room in catalog["rooms"]}
        assert free[SLICE] == 16

    on_stage(database_url, scenario)


def test_a_project_is_made_with_an_account_and_its_tenant_gets_in(database_url: str) -> None:
    async def scenario(stage: Stage) -> None:
        made = await stage.admin.post("/admin/projects", {"name": "New"})
        beside = {"name": "Beside", "account_id": made.json()["account_id"]}
        second = await stage.admin.post("/admin/projects", beside)
        nobody = await stage.admin.post("/admin/projects", {**beside, "account_id": "acc_none"})
        body = {"role": "tenant", "project_id": made.json()["id"]}
        key = await stage.admin.post("/admin/api-keys", body)

        assert second.json()["account_id"] == made.json()["account_id"]
        assert second.json()["id"] != made.json()["id"]
        assert (nobody.status_code, nobody.json()["code"]) == (404, "account_not_found")
        assert key.json()["project_id"] == made.json()["id"]

    on_stage(database_url, scenario)


PUBLIC = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f me"


class TestSshKeys:
    def test_a_key_is_added_named_by_an_allocation_and_then_not_removed(
        self, database_url: str
    ) -> None:
        async def scenario(stage: Stage) -> None:
            await node(stage.pool)
            body = {"name": "mine", "public_key": f"  {PUBLIC}\n"}
            made = await stage.tenant.post("/ssh-keys", body)
            unused = await stage.tenant.post("/ssh-keys", body)
            key = made.json()["id"]
            asked = {"sku": SLICE, "gpus": 1, "region": REGION, "ssh_key_ids": [key]}
            await stage.tenant.post("/allocations", asked)

            kept = await stage.tenant.delete(f"/ssh-keys/{key}")
            gone = await stage.tenant.delete(f"/ssh-keys/{unused.json()['id']}")
            foreign = await stage.other.delete(f"/ssh-keys/{key}")

            assert made.json()["public_key"] == PUBLIC
            assert (kept.status_code, kept.json()["code"]) == (409, "ssh_key_in_use")
            assert gone.status_code == 200
            assert (foreign.status_code, foreign.json()["code"]) == (404, "ssh_key_not_found")
            listed = (await stage.tenant.get("/ssh-keys")).json()["items"]
            assert [found["id"] for found in listed] == ["key_one", key]

        on_stage(database_url, scenario)

    @pytest.mark.parametrize(
        "line",
        [
            "-----BEGIN OPENSSH PRIVATE KEY-----",
            "ssh-ed25519 not-base64!",
            "ssh-rsa " + PUBLIC.split()[1],
            "ssh-dss " + PUBLIC.split()[1],
            PUBLIC.replace(" me", " \x00"),
        ],
    )
    def test_what_is_no_public_key_is_refused(self, database_url: str, line: str) -> None:
        async def scenario(stage: Stage) -> None:
            answer = await stage.tenant.post("/ssh-keys", {"public_key": line})

            assert (answer.status_code, answer.json()["code"]) == (400, "bad_ssh_key")

        on_stage(database_url, scenario)
