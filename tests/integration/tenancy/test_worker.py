"""The durable worker with relay, bus, engine and a simulated agent, on a real database."""

import asyncio
import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

import tenants
from mainstay.model.errors import Unavailable
from mainstay.tenancy import cleanup, outbox, release, request
from mainstay.tenancy.agent_faults import HEALTHY, Fault, Faults, faults
from mainstay.tenancy.agent_host import Lease
from mainstay.tenancy.bell import Bell
from mainstay.tenancy.database.connect import Pool, Row, transaction
from mainstay.tenancy.states import Actor, EventType
from mainstay.tenancy.work import Phase
from mainstay.tenancy.worker.engine_dbos import SCHEMA
from mainstay.tenancy.worker.tools import STALL_S, short_transaction
from postgres import pool_of, server
from workers import (
    CLOCK,
    HURRIED,
    Site,
    at_a_site,
    worker_template,
    worker_url,
    working,
)

__all__ = ["server", "worker_template", "worker_url"]

BY_PHASE: Final = [
    (Fault.SHA_MISMATCH, "image_sha_mismatch", "image_ensure"),
    (Fault.VFIO_NOT_BOUND, "vfio_not_bound", "vfio_bind"),
    (Fault.SSH_TIMEOUT, "ssh_timeout", "ssh_wait"),
    (Fault.MARKER_MISSING, "marker_missing", "guest_marker_wait"),
]
GIVEN: Final = "slice.vm_provision"
TAKEN: Final = "slice.vm_release"


async def kinds(site: Site, allocation: str) -> list[tuple[str, int]]:
    return [(task["task_type"], task["attempt"]) for task in await site.node_tasks(allocation)]


async def charged(site: Site) -> int:
    """Rows that somebody pays by."""
    return int(
        await tenants.value(
            site.pool,
            """select (select count(*) from usage_records)
                    + (select count(*) from ledger where kind = 'charge')""",
        )
    )


def test_scenario_2_a_whole_node_is_given_by_its_own_kind_of_task(
    worker_url: str, tmp_path: Path
) -> None:
    async def test(site: Site) -> None:
        one = await site.ask(8, sku=tenants.WHOLE)
        row = await site.until(one, "active", "failed")
        await site.give_back(one)
        await site.until(one, "released")

        assert row["connection"]["username"] == one.replace("_", "-")
        assert await kinds(site, one) == [
            ("allocation.provision_user", 1),
            ("allocation.deprovision_user", 101),
        ]

    at_a_site(worker_url, tmp_path, test)


class TestScenario14TimestampRule:
    def test_times_are_those_of_the_end_of_the_host_work(
        self, worker_url: str, tmp_path: Path
    ) -> None:
        async def test(site: Site) -> None:
            one = await site.ask(1)
            row = await site.until(one, "active", "failed")

            (task,) = await site.node_tasks(one)
            told = await tenants.value(
                site.pool,
                """select (envelope ->> 'occurred_at')::timestamptz from outbox
                   where event_type = 'provisioning.active'""",
            )
            assert row["active_at"] - row["provisioning_started_at"] >= dt.timedelta(seconds=5)
            assert row["active_at"] >= task["ended_at"]
            assert told >= task["ended_at"]

        at_a_site(worker_url, tmp_path, test, faults=Faults(slow={Phase.SSH_WAIT: 5.0}))


class TestScenario18ProvisionFailureByPhase:
    @pytest.mark.parametrize(
        ("fault", "code", "phase", "clean"),
        [
            *((*named, True) for named in BY_PHASE),
            *((*named, False) for named in BY_PHASE[1:]),  # an image comes before anything stands
        ],
    )
    def test_it_says_where_and_why_and_nobody_pays(
        self, worker_url: str, tmp_path: Path, fault: Fault, code: str, phase: str, *, clean: bool
    ) -> None:
        async def test(site: Site) -> None:
            one = await site.ask(2)
            row = await site.until(one, "active", "failed")
            await site.all_quiet()

            assert row["status"] == "failed"
            assert (row["failure_code"], row["failure_phase"]) == (code, phase)
            assert row["failure_reason"]
            assert await tenants.told(site.pool, one) == [
                "provisioning.requested",
                "provisioning.failed",
            ]
            assert await charged(site) == 0
            assert await kinds(site, one) == [(GIVEN, 1)]
            blocked = [] if clean else [0, 1]
            assert await tenants.slots(site.pool, "cleanup_blocked") == blocked
            assert len(await tenants.slots(site.pool, "available")) == 8 - len(blocked)

        named = faults(fault) if clean else faults(fault, Fault.UNDO_FAILS)
        at_a_site(worker_url, tmp_path, test, faults=named)


def leased(site: Site, *, until_s: float, stands: bool) -> None:
    """Somebody else's leases of all GPUs, in the host's own books."""
    names = [f"slot:{index}" for index in range(8)]
    site.agent.host.leases = {name: Lease(name, "alc_dead", until_s) for name in names}
    if stands:
        site.agent.host.standing["alc_dead"] = [Phase.LEASE_ACQUIRE]


class TestScenario19LeaseConflictThenSuccess:
    def test_an_expired_lease_is_cleared_and_the_next_attempt_is_active(
        self, worker_url: str, tmp_path: Path
    ) -> None:
        async def test(site: Site) -> None:
            leased(site, until_s=0.0, stands=False)
            async with working(site):
                one = await site.ask(1)
                await site.until(one, "active", "failed")
                found = await site.node_tasks(one)

            assert [task["error_code"] for task in found] == ["lease_conflict", None, None]
            assert await kinds(site, one) == [(GIVEN, 1), (TAKEN, 10), (GIVEN, 2)]
            assert (await site.allocation(one))["status"] == "active"

        at_a_site(worker_url, tmp_path, test, works=False)

    def test_a_live_lease_is_respected_until_the_attempts_are_used_up(
        self, worker_url: str, tmp_path: Path
    ) -> None:
        async def test(site: Site) -> None:
            leased(site, until_s=CLOCK.now_s() + 900, stands=True)
            async with working(site):
                one = await site.ask(1)
                row = await site.until(one, "active", "failed")

            assert (row["status"], row["failure_code"]) == ("failed", "lease_conflict")
            assert await kinds(site, one) == [
                (GIVEN, 1), (TAKEN, 10), (GIVEN, 2), (TAKEN, 20), (GIVEN, 3),
            ]  # fmt: skip
            assert len(site.agent.host.leases) == 8
            assert await tenants.slots(site.pool, "available") == [*range(8)]

        at_a_site(worker_url, tmp_path, test, works=False)


class TestScenario20ReleaseWithHardStop:
    def test_a_guest_that_does_not_answer_is_released_all_the_same(
        self, worker_url: str, tmp_path: Path
    ) -> None:
        async def test(site: Site) -> None:
            one = await site.ask(2)
            await site.until(one, "active")
            await site.give_back(one)
            row = await site.until(one, "released", "release_failed")
            await site.all_quiet()

            assert (row["status"], row["hard_stopped"]) == ("released", True)
            assert {**tenants.PROOF, "hard_stopped": True}.items() <= row["proof"].items()
            assert await tenants.slots(site.pool, "available") == [*range(8)]
            told = await tenants.told(site.pool, one)
            assert told.count("provisioning.releasing.completed") == 1

        at_a_site(worker_url, tmp_path, test, faults=faults(Fault.HARD_STOP))


async def force_release(site: Site, allocation: str) -> Row:
    return await release.force_release(site.pool, tenants.NEW, allocation, by="usr_admin")


async def retry(site: Site, allocation: str) -> Row:
    return await site.give_back(allocation)


class TestScenario21ReleaseExhaustedAndRecovered:
    @pytest.mark.parametrize("again", [retry, force_release])
    def test_it_stays_held_until_the_fault_is_cured_and_somebody_says_it_again(
        self, worker_url: str, tmp_path: Path, again: Any
    ) -> None:
        async def test(site: Site) -> None:
            one = await site.ask(2)
            await site.until(one, "active")
            site.agent.faults = faults(Fault.WIPE_FAILS)
            await site.give_back(one)
            failed = await site.until(one, "released", "release_failed")

            assert failed["status"] == "release_failed"
            assert "wipe_failed" in failed["failure_reason"]
            assert await tenants.slots(site.pool, "cleanup_blocked") == [0, 1]
            assert failed["node_id"] == "node-a"
            assert [attempt for _, attempt in await kinds(site, one)] == [
                1,
                101,
                102,
                103,
                104,
                105,
            ]

            site.agent.faults = HEALTHY
            await again(site, one)
            row = await site.until(one, "released")

            assert row["releasing_at"] == failed["releasing_at"]
            assert row["release_attempt"] == 2
            assert (await kinds(site, one))[-1] == (TAKEN, 201)
            told = await tenants.told(site.pool, one)
            assert told.count("provisioning.releasing.requested") == 2

        at_a_site(worker_url, tmp_path, test)

    @pytest.mark.parametrize("fault", [Fault.PARTIAL_PROOF, Fault.WRONG_PROOF])
    def test_a_proof_with_a_hole_is_none_however_often_it_is_said(
        self, worker_url: str, tmp_path: Path, fault: Fault
    ) -> None:
        async def test(site: Site) -> None:
            one = await site.ask(1)
            await site.until(one, "active")
            await site.give_back(one)
            row = await site.until(one, "released", "release_failed")

            assert row["status"] == "release_failed"
            assert "proof_incomplete" in row["failure_reason"]
            assert await tenants.slots(site.pool, "available") == [*range(1, 8)]

        at_a_site(worker_url, tmp_path, test, faults=faults(fault))


async def refused(site: Site, **asked: Any) -> str:
    with pytest.raises(request.SkuUnavailable) as error:
        await site.ask(**asked)
    assert await tenants.rows(site.pool, "select from allocations") == []
    return str(error.value.code)


class TestFailureTable:
    """The nine rows: the state each failure lands in, and that its recovery works."""

    @pytest.mark.parametrize("asked", [{"sku": "none-such"}, {"gpus": 3}], ids=str)
    def test_row_1_what_is_not_sold_is_refused_and_another_sku_is_given(
        self, worker_url: str, tmp_path: Path, asked: dict[str, Any]
    ) -> None:
        async def test(site: Site) -> None:
            assert await refused(site, **asked) == "sku_unavailable"
            await site.until(await site.ask(1), "active")

        at_a_site(worker_url, tmp_path, test)

    def test_row_2_no_room_on_one_node_is_refused_and_given_when_there_is(
        self, worker_url: str, tmp_path: Path
    ) -> None:
        async def test(site: Site) -> None:
            await tenants.rows(
                site.pool,
                "update slots set status = 'disabled' where slot_index > 1 returning id",
            )
            assert await refused(site, gpus=4) == "sku_unavailable"
            await tenants.rows(site.pool, "update slots set status = 'available' returning id")
            await site.until(await site.ask(4), "active")

        at_a_site(worker_url, tmp_path, test)

    @pytest.mark.parametrize(
        ("fault", "code"),
        [
            pytest.param(Fault.LEASE_CONFLICT, "lease_conflict", id="row 3 lease"),
            pytest.param(Fault.DOWNLOAD_FAILS, "image_download_failed", id="row 4 download"),
            pytest.param(Fault.SHA_MISMATCH, "image_sha_mismatch", id="row 4 sha"),
            pytest.param(Fault.VFIO_NOT_BOUND, "vfio_not_bound", id="row 5 vfio"),
            pytest.param(Fault.SSH_TIMEOUT, "ssh_timeout", id="row 6 ssh"),
            pytest.param(Fault.MARKER_MISSING, "marker_missing", id="row 7 marker"),
        ],
    )
    def test_rows_3_to_7_end_in_failed_and_the_cured_host_gives_the_next_one(
        self, worker_url: str, tmp_path: Path, fault: Fault, code: str
    ) -> None:
        async def test(site: Site) -> None:
            row = await site.until(await site.ask(8), "active", "failed")
            assert (row["status"], row["failure_code"]) == ("failed", code)

            site.agent.faults = HEALTHY
            await site.until(await site.ask(8), "active")

        at_a_site(worker_url, tmp_path, test, faults=faults(fault))

    def test_row_8_a_hard_stop_is_released_and_needs_no_recovery(
        self, worker_url: str, tmp_path: Path
    ) -> None:
        async def test(site: Site) -> None:
            one = await site.ask(8)
            await site.until(one, "active")
            await site.give_back(one)
            assert (await site.until(one, "released"))["hard_stopped"] is True
            await site.until(await site.ask(8), "active")

        at_a_site(worker_url, tmp_path, test, faults=faults(Fault.HARD_STOP))

    def test_row_9_exhausted_releases_are_recovered_by_an_admin(
        self, worker_url: str, tmp_path: Path
    ) -> None:
        async def test(site: Site) -> None:
            one = await site.ask(8)
            await site.until(one, "active")
            site.agent.faults = faults(Fault.WIPE_FAILS)
            await site.give_back(one)
            await site.until(one, "release_failed")
            with pytest.raises(request.SkuUnavailable):
                await site.ask(1)

            site.agent.faults = HEALTHY
            await force_release(site, one)
            await site.until(one, "released")
            await site.until(await site.ask(8), "active")

        at_a_site(worker_url, tmp_path, test)


class TestCancel:
    """`requested` has one way out, so a cancel passes `provisioning`, and no node hears of it."""

    def test_what_is_cancelled_before_work_begins_ends_failed_and_clean(
        self, worker_url: str, tmp_path: Path
    ) -> None:
        async def test(site: Site) -> None:
            one = await site.ask(1)
            assert (await site.give_back(one))["status"] == "requested"
            async with working(site):
                row = await site.until(one, "failed")

            assert row["failure_code"] == "cancelled"
            assert await site.node_tasks(one) == []
            assert await tenants.slots(site.pool, "available") == [*range(8)]
            assert await charged(site) == 0

        at_a_site(worker_url, tmp_path, test, works=False)

    def test_what_is_cancelled_while_the_node_works_is_released_as_soon_as_it_is_active(
        self, worker_url: str, tmp_path: Path
    ) -> None:
        async def test(site: Site) -> None:
            one = await site.ask(1)
            await site.until_true("select exists (select from node_tasks)")
            await site.give_back(one)
            await site.until(one, "released")

            assert await tenants.told(site.pool, one) == [
                "provisioning.requested",
                "provisioning.active",
                "provisioning.releasing.requested",
                "provisioning.releasing.completed",
            ]
            assert site.agent.host.standing == {}

        at_a_site(worker_url, tmp_path, test, faults=Faults(slow={Phase.SSH_WAIT: 0.5}))

    def test_what_is_cancelled_is_not_tried_again(self, worker_url: str, tmp_path: Path) -> None:
        async def test(site: Site) -> None:
            one = await site.ask(1)
            await site.until_true("select exists (select from node_tasks)")
            await site.give_back(one)
            row = await site.until(one, "failed")

            assert row["failure_code"] == "cancelled"
            assert await kinds(site, one) == [(GIVEN, 1)]

        slow = Faults(named=frozenset({Fault.DOWNLOAD_FAILS}), slow={Phase.PREFLIGHT: 0.5})
        at_a_site(worker_url, tmp_path, test, faults=slow)

    def test_a_cancel_between_two_attempts_is_seen_before_the_second(
        self, worker_url: str, tmp_path: Path
    ) -> None:
        async def test(site: Site) -> None:
            one = await site.ask(1)
            await site.until_true(
                "select exists (select from node_tasks where attempt = 10 and status = 'completed')"
            )
            await site.give_back(one)
            row = await site.until(one, "failed")

            assert (row["failure_code"], row["failure_phase"]) == ("cancelled", "retry")
            assert await kinds(site, one) == [(GIVEN, 1), (TAKEN, 10)]
            assert await tenants.slots(site.pool, "available") == [*range(8)]

        at_a_site(
            worker_url,
            tmp_path,
            test,
            faults=faults(Fault.LEASE_CONFLICT),
            patience=replace(HURRIED, provision_pauses_s=(1.0,)),
        )


class TestTasksThatRunOut:
    BRIEF: Final = replace(HURRIED, task_s=0.6)

    def test_what_the_node_had_in_hand_is_blocked_and_not_tried_again(
        self, worker_url: str, tmp_path: Path
    ) -> None:
        async def test(site: Site) -> None:
            one = await site.ask(2)
            row = await site.until(one, "active", "failed")

            assert (row["status"], row["failure_code"]) == ("failed", "task_expired")
            assert await kinds(site, one) == [(GIVEN, 1)]
            assert await tenants.slots(site.pool, "cleanup_blocked") == [0, 1]

        died = Faults(dies_in=Phase.VM_DEFINE_START)
        at_a_site(worker_url, tmp_path, test, faults=died, patience=self.BRIEF)

    def test_what_no_agent_came_for_is_tried_again_and_blocked_in_the_end(
        self, worker_url: str, tmp_path: Path
    ) -> None:
        async def test(site: Site) -> None:
            one = await site.ask(2)
            row = await site.until(one, "active", "failed")

            assert (row["status"], row["failure_code"]) == ("failed", "agent_unreachable")
            assert await kinds(site, one) == [(GIVEN, 1), (GIVEN, 2), (GIVEN, 3)]
            assert await tenants.slots(site.pool, "cleanup_blocked") == [0, 1]

        at_a_site(worker_url, tmp_path, test, patience=self.BRIEF, agent=False)

    def test_nothing_new_is_tried_after_the_whole_time_is_up(
        self, worker_url: str, tmp_path: Path
    ) -> None:
        async def test(site: Site) -> None:
            one = await site.ask(1)
            row = await site.until(one, "active", "failed")

            assert row["failure_code"] == "image_download_failed"
            assert await kinds(site, one) == [(GIVEN, 1)]

        at_a_site(
            worker_url,
            tmp_path,
            test,
            faults=faults(Fault.DOWNLOAD_FAILS),
            patience=replace(HURRIED, provision_s=0.0),
        )

    def test_a_late_success_revives_nothing_and_its_machine_is_taken_down(
        self, worker_url: str, tmp_path: Path
    ) -> None:
        async def test(site: Site) -> None:
            one = await site.ask(2)
            await site.until(one, "failed")
            assert await tenants.slots(site.pool, "cleanup_blocked") == [0, 1]
            await site.until_true("select exists (select from late_results)")
            await site.until_true("select count(*) = 8 from slots where status = 'available'")
            await site.all_quiet()

            row = await site.allocation(one)
            assert row["status"] == "failed"
            assert row["proof"]["released"] is True
            assert await kinds(site, one) == [(GIVEN, 1), (TAKEN, 11)]
            assert site.agent.host.standing == {}
            assert "provisioning.active" not in await tenants.told(site.pool, one)

        slow = Faults(slow={Phase.SSH_WAIT: 1.5})
        at_a_site(worker_url, tmp_path, test, faults=slow, patience=self.BRIEF)

    def test_a_late_failure_frees_what_was_blocked_when_the_host_is_proved_clean(
        self, worker_url: str, tmp_path: Path
    ) -> None:
        async def test(site: Site) -> None:
            one = await site.ask(1)
            row = await site.until(one, "failed")
            assert row["failure_code"] == "task_expired"
            await site.until_true("select count(*) = 8 from slots where status = 'available'")
            await site.all_quiet()

            assert await kinds(site, one) == [(GIVEN, 1), (TAKEN, 11)]
            assert (await site.allocation(one))["failure_code"] == "task_expired"

        late = Faults(named=frozenset({Fault.MARKER_MISSING}), slow={Phase.SSH_WAIT: 1.5})
        at_a_site(worker_url, tmp_path, test, faults=late, patience=self.BRIEF)

    def test_what_cannot_be_taken_down_stays_blocked(self, worker_url: str, tmp_path: Path) -> None:
        async def test(site: Site) -> None:
            one = await site.ask(1)
            await site.until(one, "failed")
            site.agent.faults = faults(Fault.WIPE_FAILS)
            await site.until_true("select count(*) = 6 from node_tasks where status <> 'queued'")
            await site.all_quiet()

            numbers = [attempt for _, attempt in await kinds(site, one)]
            assert numbers == [1, 11, 12, 13, 14, 15]
            assert await tenants.slots(site.pool, "cleanup_blocked") == [0]

        slow = Faults(slow={Phase.SSH_WAIT: 1.5})
        at_a_site(worker_url, tmp_path, test, faults=slow, patience=self.BRIEF)

    def test_a_machine_that_was_given_up_by_an_admin_is_taken_down_when_it_comes(
        self, worker_url: str, tmp_path: Path
    ) -> None:
        async def test(site: Site) -> None:
            one = await site.ask(1)
            await site.until_true("select exists (select from node_tasks)")
            await cleanup.force_cleanup(
                site.pool, tenants.NEW, one, runtime_verified_absent=True, by="usr_admin"
            )
            await site.until_true("select count(*) = 2 from node_tasks")
            await site.all_quiet()

            row = await site.allocation(one)
            assert (row["status"], row["failure_code"]) == ("failed", cleanup.FORCED)
            assert site.agent.host.standing == {}
            assert await tenants.slots(site.pool, "available") == [*range(8)]

        at_a_site(worker_url, tmp_path, test, faults=Faults(slow={Phase.SSH_WAIT: 0.5}))


class TestWorkIsDoneOnce:
    def test_its_id_is_made_of_the_event(self, worker_url: str, tmp_path: Path) -> None:
        async def test(site: Site) -> None:
            await site.until(await site.ask(1), "active")

            event = await tenants.value(
                site.pool, "select id from outbox where event_type = 'provisioning.requested'"
            )
            found = await tenants.rows(
                site.pool, f"select workflow_uuid from {SCHEMA}.workflow_status"
            )
            assert [row["workflow_uuid"] for row in found] == [f"provisioning-{event}"]

        at_a_site(worker_url, tmp_path, test)

    def test_an_event_that_comes_again_after_all_is_forgotten_begins_nothing(
        self, worker_url: str, tmp_path: Path
    ) -> None:
        async def test(site: Site) -> None:
            one = await site.ask(1)
            await site.until(one, "active")
            await site.all_quiet()
            async with transaction(site.pool) as tx:
                await tx.execute("delete from consumed")
                await tx.execute(
                    """update outbox set status = 'pending', ended_at = null,
                              not_before = clock_timestamp()
                       where event_type = 'provisioning.requested'"""
                )
            await site.until_true("select exists (select from consumed)")
            await site.all_quiet()

            assert await kinds(site, one) == [(GIVEN, 1)]
            assert (await site.allocation(one))["version"] == 3

        at_a_site(worker_url, tmp_path, test)

    def test_two_events_that_ask_for_the_same_make_one_task_and_one_step(
        self, worker_url: str, tmp_path: Path
    ) -> None:
        async def test(site: Site) -> None:
            one = await site.ask(1)
            second = outbox.Event(
                event_type=EventType.REQUESTED,
                key="another",
                correlation_id="cor_one",
                payload={"allocation_id": one},
            )
            async with transaction(site.pool) as tx:
                await outbox.append(tx, tenants.NEW, second)
            await site.until(one, "active")
            await site.until_true(f"select count(*) = 2 from {SCHEMA}.workflow_status")
            await site.all_quiet()

            assert await kinds(site, one) == [(GIVEN, 1)]
            told = await tenants.told(site.pool, one)
            assert told.count("provisioning.active") == 1
            async with transaction(site.pool) as tx:
                await tx.execute(
                    """delete from consumed using outbox
                       where outbox.id = event_id and key = 'another'"""
                )
                await tx.execute("delete from outbox where key = 'another'")

        at_a_site(worker_url, tmp_path, test)

    def test_a_release_of_an_earlier_round_does_not_touch_a_later_one(
        self, worker_url: str, tmp_path: Path
    ) -> None:
        async def test(site: Site) -> None:
            one = await site.ask(1)
            await site.until(one, "active")
            site.agent.faults = faults(Fault.WIPE_FAILS)
            await site.give_back(one)
            await site.until(one, "release_failed")
            site.agent.faults = HEALTHY
            await site.give_back(one)
            await site.until(one, "released")
            await site.all_quiet()

            rounds = [attempt // 100 for _, attempt in await kinds(site, one)]
            assert rounds == [0, 1, 1, 1, 1, 1, 2]

        at_a_site(worker_url, tmp_path, test)


class TestWaiting:
    def test_no_transaction_is_open_while_the_node_works(
        self, worker_url: str, tmp_path: Path
    ) -> None:
        async def test(site: Site) -> None:
            one = await site.ask(1)
            await site.until_true(
                "select exists (select from node_tasks where status = 'dispatched')"
            )
            await asyncio.sleep(0.3)
            oldest = 0.0
            for _ in range(10):
                await asyncio.sleep(0.05)
                age = await tenants.value(
                    site.pool,
                    """select coalesce(extract(epoch from max(clock_timestamp() - xact_start)), 0)
                       from pg_stat_activity
                       where datname = current_database() and pid <> pg_backend_pid()""",
                )
                oldest = max(oldest, float(age))
            await site.until(one, "active")

            assert oldest < 0.5

        at_a_site(worker_url, tmp_path, test, faults=Faults(slow={Phase.SSH_WAIT: 2.0}))

    def test_a_result_is_found_by_looking_when_no_bell_rings(
        self, worker_url: str, tmp_path: Path
    ) -> None:
        async def test(site: Site) -> None:
            async with working(site, bell=Bell()):
                one = await site.ask(1)
                row = await site.until(one, "active")

            (task,) = await site.node_tasks(one)
            assert (row["active_at"] - task["ended_at"]).total_seconds() < 2.0

        at_a_site(worker_url, tmp_path, test, works=False)

    def test_a_result_rings(self, worker_url: str, tmp_path: Path) -> None:
        """Without the bell it would be looked for after five seconds."""

        async def test(site: Site) -> None:
            one = await site.ask(1)
            row = await site.until(one, "active")

            (task,) = await site.node_tasks(one)
            assert (row["active_at"] - task["ended_at"]).total_seconds() < 2.0

        at_a_site(worker_url, tmp_path, test, faults=Faults(slow={Phase.SSH_WAIT: 1.0}))

    def test_a_process_that_stands_still_loses_its_locks(self, worker_url: str) -> None:
        async def stands_still(pool: Pool) -> None:
            async with short_transaction(pool) as tx:
                await tx.execute("lock table regions in exclusive mode")
                await asyncio.sleep(STALL_S + 1.0)
                async with transaction(pool) as other, asyncio.timeout(1.0):
                    await other.execute("lock table regions in exclusive mode")
                await tx.execute("select 1")

        async def test() -> None:
            async with pool_of(worker_url) as pool:
                with pytest.raises(Unavailable):
                    await stands_still(pool)

        asyncio.run(test())


class TestBilling:
    def test_a_cancel_by_billing_says_so(self, worker_url: str, tmp_path: Path) -> None:
        async def test(site: Site) -> None:
            one = await site.ask(1)
            await release.release(
                site.pool, tenants.NEW, one, actor=Actor.BILLING, by="biller", project=None
            )
            async with working(site):
                row = await site.until(one, "failed")

            assert "billing" in row["failure_reason"]

        at_a_site(worker_url, tmp_path, test, works=False)

    def test_what_a_payer_cannot_pay_for_is_taken_back(
        self, worker_url: str, tmp_path: Path
    ) -> None:
        async def test(site: Site) -> None:
            one = await site.ask(1)
            await site.until(one, "active")
            async with transaction(site.pool) as tx:
                await tx.execute(
                    """insert into ledger (account_id, amount_minor, currency, kind,
                                           allocation_id, dedupe_key)
                       values (%s, -100000, 'USD', 'charge', %s, 'all of it')""",
                    [tenants.ACCOUNT, one],
                )
                depleted = outbox.Event(
                    event_type=EventType.FORCE_RELEASE_REQUESTED,
                    key=tenants.ACCOUNT,
                    correlation_id="cor_one",
                    payload={"account_id": tenants.ACCOUNT},
                )
                await outbox.append(tx, tenants.NEW, depleted)
            row = await site.until(one, "released")

            assert row["release_initiator"] == "billing"

        at_a_site(worker_url, tmp_path, test)
