"""The simulated agent against the control plane: what it runs, what it refuses, how it dies."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from agents import NodeSide, application, shown
from mainstay.model.errors import Unavailable
from mainstay.runtime.clock import StepClock, SystemClock
from mainstay.tenancy import bell, late_results, request, signing, tasks
from mainstay.tenancy.agent_api import LocalApi
from mainstay.tenancy.agent_faults import FAILING, HEALTHY, AgentDied, Fault, Faults, faults
from mainstay.tenancy.agent_host import LEASE_S, Host, Lease
from mainstay.tenancy.agent_sim import SKEW_S, SimulatedAgent
from mainstay.tenancy.authority import NODE_S, RENEW_BEFORE_S
from mainstay.tenancy.database.connect import Pool, Row, transaction
from mainstay.tenancy.enrolment import NotThisNode
from mainstay.tenancy.states import TaskStatus
from mainstay.tenancy.tasks import ResultConflict
from mainstay.tenancy.work import GIVES, PHASES, TAKES_BACK, Phase, TaskResult, TaskType
from postgres import database_url, server
from tenants import NEW, node, order, rows, run, value

__all__ = ["database_url", "server"]

Scenario = Callable[[NodeSide], Awaitable[None]]
Play = Callable[[Scenario], None]
GPU = "gpu:0000:01:00.0"


@pytest.fixture
def play(database_url: str, tmp_path: Path) -> Play:
    def played(scenario: Scenario) -> None:
        async def inside(pool: Pool) -> None:
            await node(pool)
            await node(pool, "node-b")
            await scenario(await NodeSide(pool, tmp_path).open())

        run(database_url, inside)

    return played


async def allocated(side: NodeSide) -> str:
    row = await request.request(side.pool, NEW, order(1))
    return str(row["id"])


async def ended(side: NodeSide, task: str) -> Row:
    (row,) = await rows(side.pool, "select * from node_tasks where id = %s", [task])
    return row


async def taken(agent: SimulatedAgent) -> TaskResult:
    result = await agent.once()
    assert result is not None
    return result


def untouched(host: Host) -> bool:
    return not (host.standing or host.leases or host.begun or host.results)


async def refuses(side: NodeSide, agent: SimulatedAgent, code: str) -> None:
    """The next task is refused: nothing runs, and the control plane is told why."""
    result = await taken(agent)

    assert result.error_code == code
    assert untouched(agent.host)
    (row,) = await rows(side.pool, "select * from node_tasks")
    assert (row["status"], row["error_code"]) == ("failed", code)
    assert row["result"]["phase"] == "verify_task"
    assert row["result"]["clean"] is True


class TestWhatItBelieves:
    def test_scenario_17_altered_params_run_nothing_and_the_refusal_is_reported(
        self, play: Play
    ) -> None:
        async def scenario(side: NodeSide) -> None:
            agent = await side.agent()
            await side.queue(allocation=await allocated(side))
            await rows(
                side.pool,
                """update node_tasks set params = jsonb_set(params, '{slots}', '[]')
                   returning id""",
            )

            await refuses(side, agent, "bad_signature")

        play(scenario)

    def test_scenario_17_an_unknown_key_runs_nothing(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            agent = await side.agent()
            async with transaction(side.pool) as tx:
                new = await signing.stage(tx, NEW, side.signer)
                await signing.activate(tx, new, staged_for_s=0)
            await side.queue(allocation=await allocated(side))

            await refuses(side, agent, "bad_signature")

        play(scenario)

    def test_scenario_17_an_expired_task_runs_nothing(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            late = StepClock(SystemClock().now_s() + 60 + SKEW_S + 5)
            agent = await side.agent(clock=late)
            await side.queue(allocation=await allocated(side), expires_in_s=60)

            await refuses(side, agent, "task_expired")

        play(scenario)

    def test_clocks_may_differ_by_a_minute_either_way_and_no_more(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            now_s = SystemClock().now_s()
            seen = []
            for attempt, ahead_s in enumerate((-90, -50, 100, 140), start=1):
                agent = await side.agent(clock=StepClock(now_s + ahead_s))
                await side.queue(TaskType.HEALTH_PROBE, attempt=attempt, expires_in_s=60)
                seen.append((await taken(agent)).error_code)

            assert seen == ["task_expired", None, None, "task_expired"]

        play(scenario)

    def test_scenario_17_with_the_previous_key_in_grace_a_valid_task_still_runs(
        self, play: Play
    ) -> None:
        async def scenario(side: NodeSide) -> None:
            task = await side.queue(allocation=await allocated(side))
            async with transaction(side.pool) as tx:
                new = await signing.stage(tx, NEW, side.signer)
                await signing.activate(tx, new, staged_for_s=0)
            agent = await side.agent()

            result = await taken(agent)

            assert result.status is TaskStatus.COMPLETED
            row = await ended(side, task)
            assert row["status"] == "completed"
            assert row["signer_version_id"] != new

        play(scenario)

    def test_a_revoked_key_is_not_believed_once_the_agent_has_heard(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            agent = await side.agent()
            await side.queue(allocation=await allocated(side))
            async with transaction(side.pool) as tx:
                for version in list(await signing.believed(tx)):
                    await signing.revoke(tx, version)
            await agent.renew()

            await refuses(side, agent, "bad_signature")

        play(scenario)

    def test_a_task_for_another_node_or_of_no_known_type_runs_nothing(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            agent = await side.agent()
            (version,) = agent.host.believed
            await side.queue()
            claimed = await side.api_of(agent).wait("node-a", wait_s=0)
            assert claimed is not None

            for change, code in (
                ({"node_id": "node-b"}, "wrong_node"),
                ({"task_type": "shell.run"}, "unknown_task_type"),
            ):
                forged = {**claimed, **change}
                forged["signature"] = side.signer.sign_as(version, forged).signature
                agent.host.results.clear()
                result = await SimulatedAgent(
                    Silent(side.pool, side.authority), "node-a", HEALTHY, side.clock,
                    agent._random, host=agent.host,
                ).perform(forged)  # fmt: skip
                assert result.error_code == code
                assert untouched(agent.host)

        play(scenario)

    def test_a_task_is_run_once_however_often_it_comes(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            agent = await side.agent()
            await side.queue(allocation=await allocated(side))
            envelope = await side.api_of(agent).wait("node-a", wait_s=0)
            assert envelope is not None

            first = await agent.perform(envelope)
            agent.faults = faults(Fault.SSH_TIMEOUT)
            again = await agent.perform(envelope)

            assert again == first
            assert first.status is TaskStatus.COMPLETED

        play(scenario)


class Silent(LocalApi):
    """Takes results and does nothing with them."""

    @override
    async def result(self, node: str, task: str, result: TaskResult) -> None:
        return


class TestItsWork:
    @pytest.mark.parametrize("kind", sorted(GIVES))
    def test_what_it_gives_is_ready_after_all_phases_in_order(
        self, play: Play, kind: TaskType
    ) -> None:
        async def scenario(side: NodeSide) -> None:
            agent = await side.agent()
            allocation = await allocated(side)
            task = await side.queue(kind, allocation=allocation)

            await taken(agent)

            result = (await ended(side, task))["result"]
            assert result["ready"] is True
            assert (result["host"], result["ssh_port"]) == ("10.100.0.9", 22)
            done = [phase["name"] for phase in result["phases"]]
            assert [*done, "report"] == [str(phase) for phase in PHASES[kind]]
            assert {phase["status"] for phase in result["phases"]} == {"ok"}
            assert agent.host.leases[GPU].allocation == allocation

        play(scenario)

    @pytest.mark.parametrize("kind", sorted(TAKES_BACK))
    def test_what_it_takes_back_is_proved_and_proved_again_on_a_clean_host(
        self, play: Play, kind: TaskType
    ) -> None:
        async def scenario(side: NodeSide) -> None:
            agent = await side.agent()
            allocation = await allocated(side)
            await side.queue(allocation=allocation)
            await taken(agent)
            proofs = []
            for attempt in (1, 2):
                task = await side.queue(kind, allocation=allocation, attempt=attempt)
                await taken(agent)
                assert agent.host.is_clean(allocation)
                proofs.append(proof(await ended(side, task)))

            whole = {"released": True, "hard_stopped": False, "wiped": True,
                     "leases_released": True}  # fmt: skip
            assert proofs == [whole, whole]

        play(scenario)

    def test_it_looks_at_its_host_when_asked(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            agent = await side.agent()
            found = await side.queue(TaskType.TOPOLOGY_DISCOVER)
            await taken(agent)
            probed = await side.queue(TaskType.HEALTH_PROBE)
            await taken(agent)

            result = (await ended(side, found))["result"]
            assert result["prerequisites"]["kvm_available"] is True
            assert [slot["numa_node"] for slot in result["slots"]] == [0] * 4 + [1] * 4
            assert (await ended(side, probed))["result"]["healthy"] is True

        play(scenario)

    def test_it_works_on_many_tasks_at_once_until_it_is_stopped(
        self, play: Play, database_url: str
    ) -> None:
        async def scenario(side: NodeSide) -> None:
            async with bell.listening(database_url) as side.bell, asyncio.TaskGroup() as group:
                agent = await side.agent(Faults(phase_s=0.001))
                working = group.create_task(agent.run())
                queued = [
                    await side.queue(TaskType.HEALTH_PROBE, attempt=attempt)
                    for attempt in range(1, 21)
                ]
                found = [await tasks.outcome(side.pool, task, wait_s=20) for task in queued]
                working.cancel()

            assert {row and row["status"] for row in found} == {"completed"}

        play(scenario)


def proof(row: Row) -> dict[str, Any]:
    return {
        part: row["result"][part]
        for part in ("released", "hard_stopped", "wiped", "leases_released")
    }


class TestFaults:
    @pytest.mark.parametrize("fault", [fault for fault in FAILING if fault is not Fault.WIPE_FAILS])
    def test_a_phase_that_fails_is_named_and_what_was_begun_is_undone(
        self, play: Play, fault: Fault
    ) -> None:
        async def scenario(side: NodeSide) -> None:
            agent = await side.agent(faults(fault, times=1))
            allocation = await allocated(side)
            task = await side.queue(allocation=allocation)
            await taken(agent)
            row = await ended(side, task)
            failing = FAILING[fault]

            assert (row["status"], row["error_code"]) == ("failed", failing.code)
            assert row["error_detail"] == failing.detail
            assert (row["result"]["phase"], row["result"]["clean"]) == (failing.phase, True)
            assert row["result"]["phases"][-1]["status"] == "failed"
            undone = [step["phase"] for step in row["result"]["undo"]]
            done = [phase["name"] for phase in row["result"]["phases"]]
            assert undone == [phase for phase in reversed(done) if phase in undone]
            assert agent.host.is_clean(allocation)

            await side.queue(allocation=allocation, attempt=2)
            assert (await taken(agent)).status is TaskStatus.COMPLETED

        play(scenario)

    def test_an_undo_that_fails_says_so_and_a_release_cleans_up(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            agent = await side.agent(faults(Fault.SSH_TIMEOUT, Fault.UNDO_FAILS, times=1))
            allocation = await allocated(side)
            task = await side.queue(allocation=allocation)
            await taken(agent)
            result = (await ended(side, task))["result"]

            assert result["clean"] is False
            assert {step["undone"] for step in result["undo"]} == {True, False}
            assert not agent.host.is_clean(allocation)

            await side.queue(TaskType.VM_RELEASE, allocation=allocation)
            await taken(agent)
            assert agent.host.is_clean(allocation)

        play(scenario)

    @pytest.mark.parametrize(
        ("fault", "status", "said"),
        [
            (Fault.HARD_STOP, "completed", (True, True, True, True)),
            (Fault.PARTIAL_PROOF, "completed", (True, False, False, True)),
            (Fault.WRONG_PROOF, "completed", ("true", "true", "true", "true")),
            (Fault.WIPE_FAILS, "failed", (True, False, False, False)),
        ],
    )
    def test_a_release_proves_what_it_did_and_no_more(
        self, play: Play, fault: Fault, status: str, said: tuple[Any, ...]
    ) -> None:
        async def scenario(side: NodeSide) -> None:
            agent = await side.agent(faults(fault))
            allocation = await allocated(side)
            await side.queue(allocation=allocation)
            await taken(agent)
            task = await side.queue(TaskType.VM_RELEASE, allocation=allocation)
            await taken(agent)
            row = await ended(side, task)

            assert row["status"] == status
            assert tuple(proof(row).values()) == said

        play(scenario)

    def test_a_result_said_twice_counts_once(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            agent = await side.agent(faults(Fault.DUPLICATE_RESULT))
            task = await side.queue(TaskType.HEALTH_PROBE)
            await taken(agent)

            assert agent.contradicted is None
            assert (await ended(side, task))["status"] == "completed"

        play(scenario)

    def test_a_result_said_otherwise_the_second_time_is_refused(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            agent = await side.agent(faults(Fault.CONTRADICTORY_RESULT))
            task = await side.queue(TaskType.HEALTH_PROBE)
            await taken(agent)

            assert isinstance(agent.contradicted, ResultConflict)
            assert "again" not in (await ended(side, task))["result"]

        play(scenario)

    def test_a_slow_phase_shows_in_its_times(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            agent = await side.agent(Faults(slow={Phase.LOOK: 0.05}))
            task = await side.queue(TaskType.HEALTH_PROBE)
            await taken(agent)

            row = await ended(side, task)
            (look,) = [phase for phase in row["result"]["phases"] if phase["name"] == "look"]
            assert look["started_at"] < look["ended_at"]
            assert (row["ended_at"] - row["dispatched_at"]).total_seconds() >= 0.05

        play(scenario)

    def test_chance_hits_some_tasks_and_the_same_ones_for_the_same_seed(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            some = Faults(named=frozenset({Fault.HARD_STOP}), chance=0.5)
            first, second = await side.agent(some), await side.agent(some)

            hits = [[bool(agent._drawn().named) for _ in range(20)] for agent in (first, second)]

            assert hits[0] == hits[1]
            assert set(hits[0]) == {True, False}

        play(scenario)


class TestLeases:
    def test_an_expired_lease_is_a_conflict_once_and_then_cleared(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            agent = await side.agent()
            agent.host.leases[GPU] = Lease(GPU, "alc_dead", side.clock.now_s() - 1)
            allocation = await allocated(side)
            said = []
            for attempt in (1, 2):
                await side.queue(allocation=allocation, attempt=attempt)
                said.append((await taken(agent)).error_code)

            assert said == ["lease_conflict", None]

        play(scenario)

    def test_a_live_lease_is_a_conflict_every_time(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            agent = await side.agent()
            agent.host.leases[GPU] = Lease(GPU, "alc_other", side.clock.now_s() + LEASE_S)
            allocation = await allocated(side)
            said = []
            for attempt in (1, 2, 3):
                await side.queue(allocation=allocation, attempt=attempt)
                said.append((await taken(agent)).error_code)

            assert said == ["lease_conflict"] * 3
            assert agent.host.leases[GPU].allocation == "alc_other"

        play(scenario)


class TestDeath:
    @pytest.mark.parametrize("kind", sorted(GIVES))
    def test_whichever_phase_it_dies_in_the_next_agent_undoes_it_and_says_so(
        self, play: Play, kind: TaskType
    ) -> None:
        async def scenario(side: NodeSide) -> None:
            host = (await side.agent()).host
            allocation = await allocated(side)
            for attempt, phase in enumerate(PHASES[kind], start=1):
                task = await side.queue(kind, allocation=allocation, attempt=attempt)
                await dies(side, host, phase)
                assert (await ended(side, task))["status"] == "dispatched"

                await (await side.agent(host=host)).resume()

                row = await ended(side, task)
                if phase is Phase.REPORT:  # all was done, and kept to be said
                    assert row["status"] == "completed"
                    continue
                assert (row["status"], row["error_code"]) == ("failed", "agent_restarted")
                assert row["result"]["clean"] is True, phase
                assert host.is_clean(allocation), phase

        play(scenario)

    @pytest.mark.parametrize("kind", sorted(TAKES_BACK))
    def test_whichever_phase_of_a_release_it_dies_in_the_next_agent_finishes_it(
        self, play: Play, kind: TaskType
    ) -> None:
        async def scenario(side: NodeSide) -> None:
            host = (await side.agent()).host
            allocation = await allocated(side)
            for attempt, phase in enumerate(PHASES[kind], start=1):
                await side.queue(allocation=allocation, attempt=attempt)
                await taken(await side.agent(host=host))
                task = await side.queue(kind, allocation=allocation, attempt=attempt)
                await dies(side, host, phase)

                await (await side.agent(host=host)).resume()

                row = await ended(side, task)
                assert row["status"] == "completed", phase
                assert proof(row)["wiped"] is True
                assert host.is_clean(allocation), phase

        play(scenario)

    def test_an_agent_that_dies_at_work_stops_and_its_successor_begins_with_what_it_left(
        self, play: Play
    ) -> None:
        async def scenario(side: NodeSide) -> None:
            agent = await side.agent(Faults(dies_in=Phase.SSH_WAIT))
            task = await side.queue(allocation=await allocated(side))

            with pytest.raises(AgentDied):
                await agent.run()
            async with asyncio.TaskGroup() as group:
                successor = await side.agent(host=agent.host)
                working = group.create_task(successor.run())
                row = await tasks.outcome(side.pool, task, wait_s=20)
                working.cancel()

            assert row is not None
            assert row["error_code"] == "agent_restarted"

        play(scenario)

    def test_a_success_that_comes_too_late_is_taken_down_and_kept_as_evidence(
        self, play: Play
    ) -> None:
        async def scenario(side: NodeSide) -> None:
            agent = await side.agent()
            allocation = await allocated(side)
            task = await side.queue(allocation=allocation)
            envelope = await side.api_of(agent).wait("node-a", wait_s=0)
            assert envelope is not None
            await rows(side.pool, "update node_tasks set expires_at = created_at returning id")
            await tasks.expire(side.pool)

            result = await agent.perform(envelope)

            assert result.status is TaskStatus.COMPLETED
            assert agent.host.is_clean(allocation)
            assert (await ended(side, task))["status"] == "expired"
            (late,) = await late_results.listed(side.pool)
            assert (late["allocation_id"], late["status"]) == (allocation, "completed")

        play(scenario)

    def test_a_made_up_task_that_is_over_takes_nobody_down(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            agent = await side.agent()
            allocation = await allocated(side)
            await side.queue(allocation=allocation)
            await taken(agent)
            await side.queue(allocation=allocation, attempt=2)
            forged = await side.api_of(agent).wait("node-a", wait_s=0)
            assert forged is not None
            await rows(
                side.pool,
                """update node_tasks set expires_at = created_at where attempt = 2
                   returning id""",
            )
            await tasks.expire(side.pool)

            await agent.perform({**forged, "signature": ""})

            assert not agent.host.is_clean(allocation)

        play(scenario)


async def dies(side: NodeSide, host: Host, phase: Phase) -> None:
    agent = await side.agent(Faults(dies_in=phase), host=host)
    with pytest.raises(AgentDied, match=phase):
        await agent.once()


class Flaky(LocalApi):
    """The first call of each kind fails."""

    answered: frozenset[str] = frozenset()

    def _fail_once(self, call: str) -> None:
        if call not in self.answered:
            self.answered |= {call}
            raise Unavailable("the network is down")

    @override
    async def in_hand(self, node: str) -> Any:
        self._fail_once("in_hand")
        return await super().in_hand(node)

    @override
    async def wait(self, node: str, *, wait_s: float, holds: frozenset[str] | None = None) -> Any:
        self._fail_once("wait")
        return await super().wait(node, wait_s=wait_s, holds=holds)

    @override
    async def result(self, node: str, task: str, result: TaskResult) -> None:
        self._fail_once("result")
        await super().result(node, task, result)


class TestConnection:
    def test_it_keeps_trying_when_nobody_answers(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            before = await side.agent()
            api = Flaky(side.pool, side.authority)
            agent = SimulatedAgent(
                api, "node-a", HEALTHY, side.clock, before._random, host=before.host
            )
            task = await side.queue(TaskType.HEALTH_PROBE)
            async with asyncio.TaskGroup() as group:
                working = group.create_task(agent.run())
                row = await tasks.outcome(side.pool, task, wait_s=20)
                working.cancel()

            assert row is not None
            assert row["status"] == "completed"
            assert api.answered == {"in_hand", "wait", "result"}

        play(scenario)

    def test_it_renews_its_certificate_an_hour_before_the_end(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            now_s = SystemClock().now_s()
            clock = StepClock(now_s + NODE_S - RENEW_BEFORE_S - 60)
            agent = await side.agent(clock=clock)
            first = agent.host.certificate
            await working_once(side, agent, 1)
            unchanged = agent.host.certificate
            clock.advance(120)
            await working_once(side, agent, 2)

            assert unchanged == first
            assert agent.host.certificate != first
            current = await value(
                side.pool, "select cert_fingerprint from nodes where id = 'node-a'"
            )
            assert current == agent_fingerprint(agent)

        play(scenario)

    def test_it_stops_when_it_is_not_the_node_any_more(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            agent = await side.agent()
            await side.certificate()

            with pytest.raises(NotThisNode):
                await agent.run()

        play(scenario)

    def test_a_certificate_of_its_own_making_gets_nowhere(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            agent = await side.agent()
            other = NodeSide(side.pool, side.folder / "elsewhere", side.clock)
            forged = other.authority.issue(application().csr, "node-a")

            with pytest.raises(NotThisNode):
                await tasks.claim(side.pool, "node-a", forged.fingerprint, wait_s=0)

            assert agent_fingerprint(agent) != forged.fingerprint

        play(scenario)


async def working_once(side: NodeSide, agent: SimulatedAgent, attempt: int) -> None:
    task = await side.queue(TaskType.HEALTH_PROBE, attempt=attempt)
    async with asyncio.TaskGroup() as group:
        working = group.create_task(agent.run())
        await tasks.outcome(side.pool, task, wait_s=20)
        working.cancel()


def agent_fingerprint(agent: SimulatedAgent) -> str:
    return shown(agent.host.certificate)
