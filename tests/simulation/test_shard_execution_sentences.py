"""Sentences about how a whole shard carries out what it decided, and how each action can end."""

import asyncio
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from mainstay.engine.preempt import LONGEST_GRACE_S
from mainstay.model.calls import BLOB_BYTES_MAX, Call, ConfigureRequest, CreateRequest
from mainstay.model.frames import BootstrapAnswer, BootstrapAsked, ShardFrame
from mainstay.model.machine import Machine
from mainstay.model.state import State
from mainstay.providers.kit.steps import placed
from mainstay.providers.sim.latency import CLOUD, Latency
from mainstay.providers.sim.spec import SimSpec
from mainstay.shard.events import Event
from mainstay.shard.outcomes import Outcome
from meddled_links import disposed, line, meddled_lines, outcomes, quick
from virtual_loop import LoopClock, run
from whole_shard import WEB, AnsweringLine, Whole, a_provider, running, sims

__all__ = ["meddled_lines"]


def stuck(call: Call, *, slots: int = 0, idle: int = 0) -> SimSpec:
    """A provider that accepts a step and does not come to its end."""
    never = {**CLOUD, call: Latency(1e6, 0.0)}
    return dataclasses.replace(a_provider(slots=slots, idle=idle), latencies=never)


def slow_to_configure() -> SimSpec:
    """A provider that needs a minute for it."""
    latencies = {**CLOUD, Call.CONFIGURE: Latency(60.0, 0.0)}
    return dataclasses.replace(a_provider(slots=0, idle=1), latencies=latencies)


def still_on_its_way(machine: Machine) -> Machine:
    """As it was before its step had ended."""
    done = machine.state is State.CONFIGURED
    return dataclasses.replace(machine, state=State.CONFIGURING) if done else machine


def after_the_decision(whole: Whole, does: Callable[[], None]) -> None:
    """Have something happen once, when a plan is made and not yet offered."""
    parts = whole.assembled.shard._parts
    publish = parts.publish

    def published(hints: Any) -> None:
        object.__setattr__(parts, "publish", publish)
        publish(hints)
        does()

    object.__setattr__(parts, "publish", published)


class StrangeLine(AnsweringLine):
    """A stream whose cluster gives every question the same answer, if it gives any."""

    answer: dict[str, Any] | None = None

    @override
    async def _send(self, frame: ShardFrame) -> None:
        await super()._send(frame)
        if isinstance(frame, BootstrapAsked) and self.answer:
            self.session.heard(BootstrapAnswer(frame.request, **self.answer))


class TestThePool:
    def test_so_many_call_at_once_twice_as_many_wait_and_the_rest_is_decided_again(
        self, tmp_path: Path
    ) -> None:
        async def scenario() -> None:
            async with sims(a_provider(slots=40)) as providers:
                async with running(tmp_path, providers, workers=3) as whole, whole.cluster() as web:
                    await asyncio.sleep(15)
                    link = line(whole)
                    link.travel_s = {machine.id: 4.0 for machine in whole.machines()}
                    web.ask_for(40)
                    await asyncio.sleep(1)
                    offered = [each.offered for _, each in whole.cycles if each.offered.accepted]
                    assert offered[0].accepted == 6  # nobody has begun yet
                    assert len(link.under_way) == 3
                    assert whole.assembled.live.executor.in_flight == {"sim": 3}
                    assert whole.assembled.live.executor.depth == {"sim": 6}
                    assert disposed(whole, "dropped", "provision") >= 31
                    await asyncio.sleep(120)
                    creates = link.attempts(CreateRequest)
                    assert len(creates) == len({each.machine for each in creates}) == 40

        run(scenario())

    def test_what_waits_or_runs_is_not_begun_again(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with sims(a_provider(slots=6)) as providers:
                async with running(tmp_path, providers, workers=1) as whole, whole.cluster() as web:
                    await asyncio.sleep(15)
                    link = line(whole)
                    link.travel_s = {machine.id: 9.0 for machine in whole.machines()}
                    web.ask_for(3)
                    await asyncio.sleep(20)
                    assert disposed(whole, "deduplicated", "provision") >= 2
                    await asyncio.sleep(60)
                    assert not link.overlaps
                    creates = link.attempts(CreateRequest)
                    assert len(creates) == len({each.machine for each in creates}) == 3

        run(scenario())

    @pytest.mark.parametrize(("after_s", "state"), [(29.5, State.CONFIGURING), (31, State.IDLE)])
    def test_an_action_has_thirty_seconds(
        self, tmp_path: Path, after_s: float, state: State
    ) -> None:
        async def scenario() -> None:
            async with sims(quick(idle=1)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await asyncio.sleep(15)
                    web.line.answers = False
                    web.ask_for(1)
                    await asyncio.sleep(after_s)
                    assert [machine.state for machine in whole.machines()] == [state]

        run(scenario())


class TestOffer:
    def test_a_machine_that_moved_on_since_the_decision_is_left_alone(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with sims(quick(idle=1)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await asyncio.sleep(15)
                    inventory = whole.assembled.live.inventory
                    (machine,) = whole.machines()

                    def moves_on() -> None:
                        moved = dataclasses.replace(machine, state=State.DELETING)
                        inventory.apply(moved, now=LoopClock().now_s())

                    after_the_decision(whole, moves_on)
                    web.ask_for(1)
                    await asyncio.sleep(0.5)
                    record = whole.journal.records()[-1]
                    assert (record.disposition, record.reason) == ("deduplicated", "stale_state")
                    assert disposed(whole, "deduplicated", "bootstrap") == 1
                    assert not web.line.heard(BootstrapAsked)

        run(scenario())

    def test_where_that_cannot_be_told_the_order_goes_on_and_ends_by_itself(
        self, tmp_path: Path
    ) -> None:
        """The guard fails open: whoever carries the order out has the last word."""

        async def scenario() -> None:
            async with sims(quick(idle=1)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await asyncio.sleep(15)
                    inventory, (machine,) = whole.assembled.live.inventory, whole.machines()
                    after_the_decision(whole, lambda: inventory.remove(machine.id))
                    web.ask_for(1)
                    await asyncio.sleep(0.5)
                    assert outcomes(whole, Outcome.UNKNOWN_MACHINE) == 1
                    assert disposed(whole, "deduplicated", "bootstrap") == 0
                    assert not whole.sent()

        run(scenario())

    def test_a_machine_that_serves_the_need_when_its_turn_comes_is_done(
        self, tmp_path: Path
    ) -> None:
        async def scenario() -> None:
            async with sims(quick(idle=2)) as providers:
                async with running(tmp_path, providers, workers=1) as whole, whole.cluster() as web:
                    await asyncio.sleep(15)
                    web.ask_for(1)
                    await asyncio.sleep(30)
                    (serving,) = whole.machines(State.CONFIGURED)
                    (other,) = whole.machines(State.IDLE)
                    inventory = whole.assembled.live.inventory
                    executor = whole.assembled.live.executor

                    def serves() -> None:
                        """The order is in the queue, and not begun."""
                        asyncio.get_running_loop().call_soon(joined)

                    def joined() -> None:
                        assert executor.depth == {"sim": 1}
                        for state in (State.CONFIGURING, State.CONFIGURED):
                            done = dataclasses.replace(serving, id=other.id, state=state)
                            inventory.apply(done, now=LoopClock().now_s())

                    after_the_decision(whole, serves)
                    sent = whole.sent()
                    web.ask_for(2)
                    await asyncio.sleep(0.5)
                    assert outcomes(whole, Outcome.ALREADY_DONE) == 1
                    assert whole.sent() == sent

        run(scenario())

    def test_what_a_machine_is_meant_for_is_known_before_anybody_has_answered(
        self, tmp_path: Path
    ) -> None:
        """So it is supply in the next cycle, and no second one is taken."""

        async def scenario() -> None:
            async with sims(quick(idle=5)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await asyncio.sleep(15)
                    web.line.answers = False
                    web.ask_for(1)
                    await asyncio.sleep(0.5)
                    (machine,) = whole.machines(State.CONFIGURING)
                    plan = whole.cycles[-1][1].thought.plan
                    assert machine.cluster == WEB
                    meant = plan.actions[0].need
                    assert meant is not None
                    assert machine.assignment.fingerprint == meant.fingerprint
                    await asyncio.sleep(25)
                    assert len(web.line.heard(BootstrapAsked)) == 1
                    assert not whole.cycles[-1][1].thought.plan.actions

        run(scenario())


class TestAcksOnTheWay:
    def test_a_step_that_is_only_accepted_is_finished_from_a_list_also_in_the_next_life(
        self, tmp_path: Path
    ) -> None:
        async def scenario() -> None:
            async with sims(a_provider(slots=4)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    web.ask_for(1)
                    await asyncio.sleep(5)
                    (machine,) = whole.machines(State.CREATING)
                    assert outcomes(whole, Outcome.ACCEPTED, "provision") == 1
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    web.ask_for(1)
                    await asyncio.sleep(1)
                    assert whole.machine(machine.id).state is State.CREATING
                    await asyncio.sleep(300)
                    assert whole.machine(machine.id).state is State.CONFIGURED
                    sent = [type(each) for each in whole.links["sim"].sent]
                    assert sent == [ConfigureRequest]

        run(scenario())

    @pytest.mark.parametrize(
        ("call", "state"), [(Call.CREATE, State.CREATING), (Call.CONFIGURE, State.CONFIGURING)]
    )
    @pytest.mark.parametrize("restarts", [False, True])
    def test_one_that_never_ends_is_failed_at_its_deadline_with_a_diagnosis(
        self, tmp_path: Path, call: Call, state: State, restarts: bool
    ) -> None:
        """After a restart it counts from its first sight."""
        settings = {"creating_deadline_s": 100.0, "configuring_deadline_s": 100.0}
        slots, idle = (1, 0) if call is Call.CREATE else (0, 1)

        async def scenario() -> None:
            async with sims(stuck(call, slots=slots, idle=idle)) as providers:
                if restarts:
                    async with running(tmp_path, providers, **settings) as whole:
                        async with whole.cluster() as web:
                            web.ask_for(1)
                            await asyncio.sleep(60)
                async with running(tmp_path, providers, **settings) as whole:
                    async with whole.cluster() as web:
                        web.ask_for(1)
                        await asyncio.sleep(95)
                        (machine,) = whole.machines()
                        assert machine.state is state
                        await asyncio.sleep(20)
                        machine = whole.machine(machine.id)
                        assert machine.state is State.FAILED
                        assert f"{state} for 1" in machine.last_error
                        assert "too long" in machine.last_error
                        name = "mainstay_shard_steps_overdue_total"
                        assert whole.metric(name, state=state.name.lower()) == 1

        run(scenario())

    @pytest.mark.parametrize("restarts", [False, True])
    def test_one_that_lists_show_on_its_way_for_ever_is_finished_by_asking_at_its_deadline(
        self, tmp_path: Path, restarts: bool
    ) -> None:
        """Also in the next life: the change was named once, by a list that had it wrong."""
        settings = {"configuring_deadline_s": 100.0}

        async def scenario() -> None:
            async with sims(slow_to_configure()) as providers:
                if restarts:
                    async with running(tmp_path, providers, **settings) as whole:
                        async with whole.cluster() as web:
                            web.ask_for(1)
                            await asyncio.sleep(30)
                async with running(tmp_path, providers, **settings) as whole:
                    line(whole).lists_as = still_on_its_way
                    async with whole.cluster() as web:
                        web.ask_for(1)
                        await asyncio.sleep(95)
                        (machine,) = whole.machines()
                        assert machine.state is State.CONFIGURING
                        await asyncio.sleep(100)
                        after = whole.machine(machine.id)
                        assert (after.state, after.cluster) == (State.CONFIGURED, WEB)
                        assert after.assignment == machine.assignment
                        assert web.states()[machine.id] is State.CONFIGURED
                        assert not whole.journal.of(Event.STEP_OVERDUE)
                        assert len(line(whole).attempts(ConfigureRequest)) == (not restarts)

        run(scenario())

    @pytest.mark.parametrize(
        ("call", "state", "deadline_s"),
        [
            (Call.DRAIN, State.DRAINING, 100.0 + LONGEST_GRACE_S),
            (Call.DELETE, State.DELETING, 100.0),
        ],
    )
    def test_so_is_one_that_leaves_and_never_ends(
        self, tmp_path: Path, call: Call, state: State, deadline_s: float
    ) -> None:
        settings = {"draining_deadline_s": 100.0, "deleting_deadline_s": 100.0}

        async def scenario() -> None:
            async with (
                sims(stuck(call, slots=1)) as providers,
                running(tmp_path, providers, hold_on_demand_s=30.0, **settings) as whole,
                whole.cluster() as web,
            ):
                web.ask_for(1)
                await asyncio.sleep(300)
                assert [each.state for each in whole.machines()] == [State.CONFIGURED]
                web.ask_for(0)
                for _ in range(600):
                    await asyncio.sleep(0 if whole.machines(state) else 1)
                await asyncio.sleep(deadline_s - 5)
                (machine,) = whole.machines(state)
                await asyncio.sleep(20)
                assert whole.machine(machine.id).state is State.FAILED
                assert "too long" in whole.machine(machine.id).last_error
                name = "mainstay_shard_steps_overdue_total"
                assert whole.metric(name, state=state.name.lower()) == 1

        run(scenario())

    def test_an_ack_at_idle_is_a_race_of_its_own_and_no_error(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with sims(a_provider(slots=0, idle=1)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await asyncio.sleep(15)
                    line(whole).acks = lambda each: dataclasses.replace(
                        each, state=State.IDLE, cluster=None, shard_metadata={}
                    )
                    web.ask_for(1)
                    await asyncio.sleep(0.5)
                    line(whole).acks = lambda each: each
                    assert outcomes(whole, Outcome.RACED_TO_IDLE) == 1
                    await asyncio.sleep(200)
                    assert [each.state for each in whole.machines()] == [State.CONFIGURED]
                    assert outcomes(whole, Outcome.TRANSITION_ERROR) == 0
                    assert not whole.journal.of(Event.MACHINE_FAILED)

        run(scenario())


class TestDefects:
    """`transition_error` says that somebody has to look, so nothing else is counted there."""

    def test_a_defect_is_a_transition_error_and_no_race_repetition_or_full_queue_is(
        self, tmp_path: Path
    ) -> None:
        async def scenario() -> None:
            async with sims(quick(idle=12)) as providers:
                async with running(tmp_path, providers, workers=1) as whole, whole.cluster() as web:
                    await asyncio.sleep(15)
                    link, names = line(whole), [each.id for each in whole.machines()]
                    raced, broken = names[:2]

                    def acked(record: Machine) -> Machine:
                        if record.id == broken:
                            raise ArithmeticError("an answer that nobody has thought of")
                        return placed(record, State.IDLE) if record.id == raced else record

                    link.travel_s, link.acks = dict.fromkeys(names, 4.0), acked
                    web.ask_for(12)
                    await asyncio.sleep(200)

                    assert outcomes(whole, Outcome.RACED_TO_IDLE) >= 1
                    assert disposed(whole, "dropped", "bootstrap") >= 1
                    assert disposed(whole, "deduplicated", "bootstrap") >= 1
                    assert outcomes(whole, Outcome.TRANSITION_ERROR) == 1
                    (record,) = [
                        each
                        for each in whole.journal.records()
                        if each.outcome is Outcome.TRANSITION_ERROR
                    ]
                    assert record.order.action.machine == broken
                    assert "an answer that nobody has thought of" in record.detail
                    assert whole.journal.of(Event.WORKER_FAILED) == ["bootstrap"]
                    assert whole.journal.of(Event.MACHINE_FAILED) == ["transition_error"]
                    others = {*names} - {raced, broken}
                    assert {whole.machine(each).state for each in others} == {State.CONFIGURED}

        run(scenario())

    @pytest.mark.parametrize("state", [State.CREATING, State.DELETING, State.DRAINING])
    def test_an_ack_that_is_not_about_this_step_is_an_old_one_and_forces_nothing(
        self, tmp_path: Path, state: State
    ) -> None:
        async def scenario() -> None:
            async with sims(quick(idle=1)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await asyncio.sleep(15)
                    line(whole).acks = lambda each: placed(each, state)
                    web.ask_for(1)
                    await asyncio.sleep(0.5)
                    assert [each.state for each in whole.machines()] == [State.CONFIGURING]
                    await asyncio.sleep(30)

                    assert [each.state for each in whole.machines()] == [State.CONFIGURED]
                    assert outcomes(whole, Outcome.ACCEPTED) == 1
                    assert outcomes(whole, Outcome.TRANSITION_ERROR) == 0

        run(scenario())


class TestBeforeTheProviderIsAsked:
    @pytest.mark.parametrize(
        ("answer", "outcome"),
        [
            ({"error": "no token"}, Outcome.BLOB_ERROR),
            ({"blob": b"x" * (BLOB_BYTES_MAX + 1)}, Outcome.BLOB_ERROR),
            ({}, Outcome.ROLLED_BACK),
        ],
        ids=["refuses", "too large", "silent"],
    )
    def test_every_failure_gives_the_machine_back_and_only_that_cluster_waits(
        self,
        tmp_path: Path,
        answer: dict[str, Any],
        outcome: Outcome,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr("whole_shard.AnsweringLine", StrangeLine)

        async def scenario() -> None:
            async with (
                sims(quick(idle=4)) as providers,
                running(tmp_path, providers, action_deadline_s=2.0) as whole,
                whole.cluster("bad") as bad,
                whole.cluster() as web,
            ):
                await asyncio.sleep(15)
                assert isinstance(bad.line, StrangeLine)
                bad.line.answers, bad.line.answer = False, answer
                bad.ask_for(2, priority=1000)
                await asyncio.sleep(5)
                assert outcomes(whole, outcome) == 2
                assert whole.sent() == 0
                assert {machine.state for machine in whole.machines()} == {State.IDLE}

                web.ask_for(2)
                await asyncio.sleep(300)
                assert [m.cluster for m in whole.machines(State.CONFIGURED)] == [WEB] * 2
                assert not whole.machines(State.FAILED)
                asked = len(bad.line.heard(BootstrapAsked))
                assert 6 <= asked <= 14  # in 30 ticks, for two machines: pauses double

        run(scenario())

    def test_with_no_session_the_machine_is_given_back(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with sims(quick(idle=2)) as providers, running(tmp_path, providers) as whole:
                await asyncio.sleep(15)
                async with whole.cluster() as web:
                    web.ask_for(1)
                    await asyncio.sleep(0.005)
                await asyncio.sleep(1)
                assert outcomes(whole, Outcome.NO_SESSION) == 1
                assert whole.sent() == 0
                assert {machine.state for machine in whole.machines()} == {State.IDLE}

        run(scenario())
