"""Kill -9 between any two steps of the worker: another one takes over, and it ends as it should."""

import asyncio
import os
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

import tenants
from mainstay.tenancy import cleanup
from mainstay.tenancy.agent_faults import Fault, Faults, faults
from mainstay.tenancy.work import Phase
from mainstay.tenancy.worker.steps import STEPS
from postgres import server
from workers import (
    HURRIED,
    Death,
    Nursery,
    Site,
    at_a_site,
    nursery,
    one_nursery,
    worker_template,
    worker_url,
    working,
)

__all__ = ["nursery", "one_nursery", "server", "worker_template", "worker_url"]

THERE_AND_BACK: Final = (
    "begin", "give", "wait", "conclude", "take_back", "wait", "conclude_release",
)  # fmt: skip
"""The steps of an allocation that is given and given back."""

WITH_A_RETRY: Final = (
    "begin", "give", "wait", "conclude", "undo", "wait", "undone", "give", "wait", "conclude",
)  # fmt: skip
"""The same up to active, when the first attempt fails."""

GIVEN_UP: Final = ("begin", "give", "wait", "conclude", "clear", "wait", "cleared")
"""When an admin gives it up while the node makes it."""

TOLD_TO_RELEASED: Final = [
    "provisioning.requested",
    "provisioning.active",
    "provisioning.releasing.requested",
    "provisioning.releasing.completed",
]


def deaths(path: tuple[str, ...], *, since: int = 0) -> list[Death]:
    """Before each step of a path, and after what it did but before the engine knows of it."""
    turns: Counter[str] = Counter()
    found = []
    for position, step in enumerate(path):
        turns[step] += 1
        if position >= since:
            found += [Death(step, after, turns[step]) for after in (False, True)]
    return found


def test_the_paths_have_every_step_there_is() -> None:
    assert {*THERE_AND_BACK, *WITH_A_RETRY, *GIVEN_UP} == STEPS.keys()


async def works_until_dead(site: Site, nursery: Nursery, pid: int) -> None:
    """The first worker dies as it was told; from now on another one works."""
    await nursery.died(pid)
    nursery.start(site)


@pytest.mark.parametrize("death", deaths(THERE_AND_BACK), ids=str)
def test_a_worker_killed_on_the_way_there_and_back_changes_nothing(
    worker_url: str, tmp_path: Path, nursery: Nursery, death: Death
) -> None:
    async def test(site: Site) -> None:
        first = nursery.start(site, death)
        async with asyncio.TaskGroup() as group:
            group.create_task(works_until_dead(site, nursery, first))
            one = await site.ask(2)
            await site.until(one, "active")
            await site.give_back(one)
            row = await site.until(one, "released")
        await site.all_quiet()

        assert await tenants.told(site.pool, one) == TOLD_TO_RELEASED
        kinds = [(task["task_type"], task["attempt"]) for task in await site.node_tasks(one)]
        assert kinds == [("slice.vm_provision", 1), ("slice.vm_release", 101)]
        assert row["version"] == 5
        assert await tenants.slots(site.pool, "available") == [*range(8)]

    at_a_site(worker_url, tmp_path, test, works=False)


@pytest.mark.parametrize("death", deaths(WITH_A_RETRY, since=3), ids=str)
def test_a_worker_killed_between_two_attempts_makes_no_third(
    worker_url: str, tmp_path: Path, nursery: Nursery, death: Death
) -> None:
    async def test(site: Site) -> None:
        first = nursery.start(site, death)
        async with asyncio.TaskGroup() as group:
            group.create_task(works_until_dead(site, nursery, first))
            one = await site.ask(1)
            await site.until(one, "active", "failed")
        await site.all_quiet()

        assert await tenants.told(site.pool, one) == TOLD_TO_RELEASED[:2]
        kinds = [(task["task_type"], task["attempt"]) for task in await site.node_tasks(one)]
        assert kinds == [
            ("slice.vm_provision", 1),
            ("slice.vm_release", 10),
            ("slice.vm_provision", 2),
        ]

    at_a_site(worker_url, tmp_path, test, works=False, faults=faults(Fault.LEASE_CONFLICT, times=1))


@pytest.mark.parametrize("death", deaths(GIVEN_UP, since=3), ids=str)
def test_a_worker_killed_while_it_takes_down_what_nobody_wants_leaves_nothing_of_it(
    worker_url: str, tmp_path: Path, nursery: Nursery, death: Death
) -> None:
    async def test(site: Site) -> None:
        first = nursery.start(site, death)
        async with asyncio.TaskGroup() as group:
            group.create_task(works_until_dead(site, nursery, first))
            one = await site.ask(1)
            await site.until_true("select exists (select from node_tasks)")
            await cleanup.force_cleanup(
                site.pool, tenants.NEW, one, runtime_verified_absent=False, by="usr_admin"
            )
        await site.all_quiet()

        row = await site.allocation(one)
        assert (row["status"], row["failure_code"]) == ("failed", cleanup.FORCED)
        assert row["proof"]["wiped"] is True
        assert await tenants.slots(site.pool, "available") == [*range(8)]
        assert site.agent.host.standing == {}
        assert await tenants.told(site.pool, one) == [
            "provisioning.requested",
            "provisioning.failed",
        ]

    slow = Faults(slow={Phase.SSH_WAIT: 0.5})
    at_a_site(worker_url, tmp_path, test, works=False, faults=slow)


def test_a_cancel_after_the_node_was_told_waits_for_the_node_whoever_died(
    worker_url: str, tmp_path: Path, nursery: Nursery
) -> None:
    """The step that told it is taken again: it must not say that nobody was told."""

    async def test(site: Site) -> None:
        first = nursery.start(site, Death("give", after=True))
        one = await site.ask(1)
        await nursery.died(first)
        await site.give_back(one)
        nursery.start(site)
        await site.until(one, "released", "failed")

        assert await tenants.told(site.pool, one) == TOLD_TO_RELEASED
        assert site.agent.host.standing == {}

    at_a_site(worker_url, tmp_path, test, works=False)


class TestScenario13WorkerCrashDuringHostWork:
    def test_no_second_task_is_sent_and_the_result_makes_it_active(
        self, worker_url: str, tmp_path: Path, nursery: Nursery
    ) -> None:
        async def test(site: Site) -> None:
            first = nursery.start(site)
            one = await site.ask(1)
            await site.until_true(
                "select exists (select from node_tasks where status = 'dispatched')"
            )
            nursery.kill(first)
            nursery.start(site)
            row = await site.until(one, "active", "failed")

            (task,) = await site.node_tasks(one)
            assert row["status"] == "active"
            assert row["active_at"] > task["ended_at"]

        slow = Faults(slow={Phase.SSH_WAIT: 1.5})
        at_a_site(worker_url, tmp_path, test, works=False, faults=slow)


class TestTakingOver:
    def test_a_worker_that_runs_beside_a_dead_one_has_its_work_within_seconds(
        self, worker_url: str, tmp_path: Path, nursery: Nursery
    ) -> None:
        async def test(site: Site) -> None:
            first = nursery.start(site)
            one = await site.ask(1)
            await site.until_true(
                "select exists (select from node_tasks where status = 'dispatched')"
            )
            async with working(site):
                await site.until_true("select count(*) = 2 from executors")
                nursery.kill(first)
                async with asyncio.timeout(10):
                    await site.until_true(
                        "select count(*) = 0 from workflows.workflow_status where executor_id = ("
                        " select id from executors order by started_at limit 1)"
                    )
                await site.until(one, "active")

        slow = Faults(slow={Phase.SSH_WAIT: 3.0})
        at_a_site(worker_url, tmp_path, test, works=False, faults=slow)

    def test_a_worker_that_only_seemed_dead_finds_its_work_done(
        self, worker_url: str, tmp_path: Path, nursery: Nursery
    ) -> None:
        async def test(site: Site) -> None:
            first = nursery.start(site)
            one = await site.ask(1)
            await site.until_true("select exists (select from node_tasks)")
            os.kill(first, signal.SIGSTOP)
            nursery.start(site)
            await site.until(one, "active")
            os.kill(first, signal.SIGCONT)
            await site.give_back(one)
            await site.until(one, "released")
            await site.all_quiet()

            assert await tenants.told(site.pool, one) == TOLD_TO_RELEASED
            assert len(await site.node_tasks(one)) == 2

        slow = Faults(slow={Phase.SSH_WAIT: 0.5})
        at_a_site(worker_url, tmp_path, test, works=False, faults=slow)

    def test_a_worker_that_leaves_hands_its_work_over_at_once(
        self, worker_url: str, tmp_path: Path, nursery: Nursery
    ) -> None:
        async def test(site: Site) -> None:
            async with working(site):
                one = await site.ask(1)
                await site.until_true(
                    "select exists (select from node_tasks where status = 'dispatched')"
                )
            assert await tenants.rows(site.pool, "select from executors") == []
            nursery.start(site)
            await site.until(one, "active")

        slow = Faults(slow={Phase.SSH_WAIT: 1.0})
        at_a_site(worker_url, tmp_path, test, works=False, faults=slow)

    def test_an_agent_that_is_gone_does_not_keep_the_work_for_ever(
        self, worker_url: str, tmp_path: Path, nursery: Nursery
    ) -> None:
        """The task ran out while no worker lived: the next one finds it."""

        async def test(site: Site) -> None:
            first = nursery.start(site)
            one = await site.ask(1)
            await site.until_true(
                "select exists (select from node_tasks where status = 'dispatched')"
            )
            nursery.kill(first)
            await asyncio.sleep(1.0)
            nursery.start(site)
            row = await site.until(one, "failed")

            assert row["failure_code"] == "task_expired"
            assert await tenants.slots(site.pool, "cleanup_blocked") == [0]

        dying = Faults(dies_in=Phase.SSH_WAIT)
        at_a_site(
            worker_url,
            tmp_path,
            test,
            works=False,
            faults=dying,
            patience=replace(HURRIED, task_s=1.0),
        )
