"""Bootstrap: an idle machine joins a cluster. Harmless until the provider is asked."""

import asyncio
import dataclasses
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from builders import a_need, a_need_profile, an_assignment
from mainstay.model.action import ActionKind
from mainstay.model.assignment import NO_ASSIGNMENT
from mainstay.model.calls import BLOB_BYTES_MAX, Call, ConfigureRequest
from mainstay.model.commitment import full_commitment
from mainstay.model.errors import Rejected, Unavailable, UnknownMachine
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.machine import Machine
from mainstay.model.metadata import decode
from mainstay.model.need import Operator, Requirement
from mainstay.model.state import State
from mainstay.shard.actions.bootstrap import bootstrap
from mainstay.shard.events import Event
from mainstay.shard.outcomes import Outcome
from shard_hands import (
    WEB,
    Hands,
    M,
    a_link,
    an_order,
    carried_out,
    changed,
    finished,
    hands,
    in_time,
    while_running,
)

NEED = a_need()
BOOTSTRAP = an_order(ActionKind.BOOTSTRAP)


class TestSuccess:
    def test_the_machine_serves_the_need_and_its_cluster_is_told_each_step(self) -> None:
        async def scenario() -> None:
            world = await carried_out(hands(a_link(State.IDLE)), BOOTSTRAP)
            machine = world.machine()
            assert (machine.state, machine.cluster) == (State.CONFIGURED, WEB)
            assert machine.assignment == full_commitment(NEED)
            assert world.journal.outcomes() == [Outcome.SUCCESS]
            assert world.clusters.states_told() == [State.CONFIGURING, State.CONFIGURED]
            assert world.configured == [M]
            assert world.failures.good == [M]

        in_time(scenario)

    def test_cluster_and_commitment_are_stamped_before_the_cluster_answers(self) -> None:
        async def scenario() -> None:
            world = hands(a_link(State.IDLE))
            world.clusters.answers.append(20.0)
            await carried_out(world, BOOTSTRAP, wait_s=1)
            (early,) = [told for _, told in world.clusters.told if told.state is State.CONFIGURING]
            assert (early.cluster, early.assignment) == (WEB, full_commitment(NEED))
            assert world.link.calls == []

        in_time(scenario)

    def test_the_cluster_is_asked_with_the_requirements_and_the_deadline(self) -> None:
        async def scenario() -> None:
            requirements = (Requirement("topology.bigfleet/rack", Operator.SAME),)
            need = a_need(profile=a_need_profile(requirements=requirements))
            order = an_order(ActionKind.BOOTSTRAP, need=need)
            world = await carried_out(hands(a_link(State.IDLE)), order)
            assert world.clusters.asked == [(WEB, requirements, 30.0)]

        in_time(scenario)

    def test_the_provider_gets_the_blob_and_the_whole_commitment(self) -> None:
        async def scenario() -> None:
            world = hands(a_link(State.IDLE))
            world.clusters.answers.append(b"secret")
            await carried_out(world, BOOTSTRAP)
            (request,) = world.link.asked(Call.CONFIGURE)
            assert isinstance(request, ConfigureRequest)
            assert (request.cluster, request.blob) == (WEB, b"secret")
            assert decode(request.metadata).assignment == full_commitment(NEED)

        in_time(scenario)

    def test_one_that_is_still_joining_stays_configuring_and_is_not_counted_yet(self) -> None:
        async def scenario() -> None:
            link = a_link(State.IDLE, slow=True)
            link.will(Call.CONFIGURE, changed(price_per_hour=3.5, cluster=None))
            world = await carried_out(hands(link), BOOTSTRAP)
            machine = world.machine()
            assert (machine.state, machine.cluster) == (State.CONFIGURING, WEB)
            assert machine.assignment == full_commitment(NEED)
            assert machine.price_per_hour == 3.5
            assert world.journal.outcomes() == [Outcome.ACCEPTED]
            assert world.configured == []

        in_time(scenario)


class TestLate:
    @pytest.mark.parametrize(("waits_s", "calls"), [(29.0, 1), (31.0, 0)])
    def test_no_call_is_made_after_the_deadline_though_there_is_a_worker(
        self, waits_s: float, calls: int
    ) -> None:
        async def scenario() -> None:
            world = hands(a_link(State.IDLE))
            tools = dataclasses.replace(
                world.tools, off_work=lambda _: nullcontext(lambda _: asyncio.sleep(waits_s))
            )
            tools.ledger.take(M)
            ending = await bootstrap(BOOTSTRAP, tools, until_s=30.0)
            assert len(world.link.calls) == calls
            assert ending.outcome is (Outcome.SUCCESS if calls else Outcome.ROLLED_BACK)
            assert world.machine().state is (State.CONFIGURED if calls else State.IDLE)

        in_time(scenario)


class TestAgain:
    def test_a_machine_that_serves_the_need_already_is_done(self) -> None:
        async def scenario() -> None:
            link = a_link(State.CONFIGURED, assignment=full_commitment(NEED))
            world = hands(link)
            await forced(world)
            assert world.journal.outcomes() == [Outcome.ALREADY_DONE]
            assert (link.calls, world.clusters.asked, world.clusters.told) == ([], [], [])

        in_time(scenario)

    @pytest.mark.parametrize(
        "other",
        [
            {"cluster": ClusterId("batch"), "assignment": full_commitment(NEED)},
            {"assignment": an_assignment(fingerprint="else")},
        ],
    )
    def test_one_that_serves_somebody_else_is_not(self, other: dict[str, Any]) -> None:
        async def scenario() -> None:
            link = a_link(State.CONFIGURED, **other)
            world = hands(link)
            before = world.machine()
            await forced(world)
            assert world.journal.outcomes() == [Outcome.STALE_STATE]
            assert (link.calls, world.machine()) == ([], before)

        in_time(scenario)

    def test_one_that_is_gone_is_an_ending_of_its_own(self) -> None:
        async def scenario() -> None:
            world = hands(a_link(State.IDLE))
            world.tools.inventory.remove(M)
            await carried_out(world, BOOTSTRAP)
            assert world.journal.outcomes() == [Outcome.UNKNOWN_MACHINE]

        in_time(scenario)


class TestBeforeTheProviderIsAsked:
    def test_S71_a_cluster_that_does_not_answer_in_time_gives_the_machine_back(self) -> None:
        async def scenario() -> None:
            world = hands(a_link(State.IDLE))
            world.clusters.answers.append(30.0)
            await carried_out(world, BOOTSTRAP)
            machine = world.machine()
            assert (machine.state, machine.cluster) == (State.IDLE, None)
            assert machine.assignment == NO_ASSIGNMENT
            assert machine.host is not None
            assert len(world.tools.inventory) == 1
            assert world.link.calls == []
            assert world.journal.outcomes() == [Outcome.ROLLED_BACK]
            assert world.clusters.states_told() == [State.CONFIGURING, State.IDLE]
            assert world.failures.bad == []

        in_time(scenario)

    @pytest.mark.parametrize(
        ("how", "outcome"),
        [
            (lambda world: world.clusters.absent.add(WEB), Outcome.NO_SESSION),
            (lambda world: world.clusters.answers.append(Rejected("full")), Outcome.BLOB_ERROR),
            (
                lambda world: world.clusters.answers.append(bytes(BLOB_BYTES_MAX + 1)),
                Outcome.BLOB_ERROR,
            ),
            (lambda world: world.clusters.answers.append(Unavailable("?")), Outcome.ROLLED_BACK),
        ],
    )
    def test_every_failure_rolls_back_and_leaves_the_cluster_alone_for_a_while(
        self, how: Callable[[Hands], None], outcome: Outcome
    ) -> None:
        async def scenario() -> None:
            world = hands(a_link(State.IDLE))
            how(world)
            await carried_out(world, BOOTSTRAP, wait_s=0.5)
            assert world.machine().state is State.IDLE
            assert world.journal.outcomes() == [outcome]
            assert world.tools.backoff.backed_off(0.5) == {WEB}
            assert world.link.calls == []

        in_time(scenario)

    def test_the_largest_blob_that_a_provider_takes_is_sent(self) -> None:
        async def scenario() -> None:
            world = hands(a_link(State.IDLE))
            world.clusters.answers.append(bytes(BLOB_BYTES_MAX))
            await carried_out(world, BOOTSTRAP)
            assert world.journal.outcomes() == [Outcome.SUCCESS]

        in_time(scenario)

    def test_a_defect_rolls_back_too(self) -> None:
        async def scenario() -> None:
            world = hands(a_link(State.IDLE))
            world.clusters.answers.append(ZeroDivisionError("defect"))
            await carried_out(world, BOOTSTRAP)
            assert world.machine().state is State.IDLE
            assert world.journal.outcomes() == [Outcome.TRANSITION_ERROR]
            assert world.journal.reasons(Event.WORKER_FAILED) == ["bootstrap"]

        in_time(scenario)

    def test_the_end_of_the_process_rolls_back_too(self) -> None:
        async def scenario() -> None:
            world = hands(a_link(State.IDLE))
            world.clusters.answers.append(20.0)
            await carried_out(world, BOOTSTRAP, wait_s=1)
            assert world.machine().state is State.IDLE
            assert world.journal.outcomes() == [Outcome.CANCELLED]

        in_time(scenario)

    def test_a_shard_that_is_fenced_meanwhile_gives_the_machine_back(self) -> None:
        async def scenario() -> None:
            world = hands(a_link(State.IDLE))
            world.clusters.answers.append(5.0)
            executor = world.executor()
            executor.offer([BOOTSTRAP], cycle=1)

            async def fenced() -> None:
                await asyncio.sleep(1)
                world.tools.acting.stop("epoch 8 acts")
                await asyncio.sleep(100)

            await while_running(executor, fenced())
            assert world.machine().state is State.IDLE
            assert world.journal.outcomes() == [Outcome.FENCED]
            assert world.link.calls == []

        in_time(scenario)

    def test_a_machine_that_went_back_to_idle_under_our_hands_is_told_apart(self) -> None:
        async def scenario() -> None:
            world = hands(a_link(State.IDLE))
            world.clusters.answers.append(5.0)
            executor = world.executor()
            executor.offer([BOOTSTRAP], cycle=1)

            async def given_back() -> None:
                await asyncio.sleep(1)
                world.tools.moves.to(M, State.IDLE)
                await asyncio.sleep(100)

            await while_running(executor, given_back())
            assert world.machine().state is State.IDLE
            assert world.journal.outcomes() == [Outcome.RACED_TO_IDLE]
            assert world.link.calls == []

        in_time(scenario)

    def test_an_answer_ends_the_pause_of_its_cluster(self) -> None:
        async def scenario() -> None:
            world = hands(a_link(State.IDLE))
            world.tools.backoff.failed(WEB)
            assert world.tools.backoff.backed_off(0.5) == {WEB}
            await asyncio.sleep(1)
            await carried_out(world, BOOTSTRAP)
            assert world.tools.backoff.backed_off(0.5) == frozenset()

        in_time(scenario)

    def test_a_provider_that_has_fallen_silent_meanwhile_is_not_asked(self) -> None:
        """Its machine is given back, which before Configure costs nothing."""

        async def scenario() -> None:
            world = hands(a_link(State.IDLE))
            world.clusters.answers.append(20.0)
            request = ConfigureRequest(MachineId("m-9"), WEB, b"join")
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(carried_out(world, BOOTSTRAP))
                await asyncio.sleep(10)
                world.tools.unanswered.gave_up(world.link.name, request, 0.0, "no answer")
            assert world.machine().state is State.IDLE
            assert world.journal.outcomes() == [Outcome.ROLLED_BACK]
            assert world.link.calls == []

        in_time(scenario)


class TestAfterTheProviderWasAsked:
    def test_S71_a_refused_configure_is_failed_with_the_providers_words(self) -> None:
        async def scenario() -> None:
            link = a_link(State.IDLE)
            link.will(Call.CONFIGURE, Rejected("bad kernel"))
            world = await carried_out(hands(link), BOOTSTRAP)
            machine = world.machine()
            assert (machine.state, machine.last_error) == (State.FAILED, "configure: bad kernel")
            assert world.journal.outcomes() == [Outcome.PROVIDER_ERROR]
            assert world.clusters.states_told() == [State.CONFIGURING, State.FAILED]
            assert world.failures.bad == [M]

        in_time(scenario)

    def test_a_machine_that_the_provider_does_not_know_is_an_ending_of_its_own(self) -> None:
        async def scenario() -> None:
            link = a_link(State.IDLE)
            link.will(Call.CONFIGURE, UnknownMachine("never heard of it"))
            world = await carried_out(hands(link), BOOTSTRAP)
            assert world.machine().state is State.FAILED
            assert world.journal.outcomes() == [Outcome.UNKNOWN_MACHINE]

        in_time(scenario)

    def test_an_ack_at_idle_is_a_race_and_no_failure(self) -> None:
        async def scenario() -> None:
            link = a_link(State.IDLE)
            link.will(Call.CONFIGURE, changed(state=State.IDLE, cluster=None))
            world = await carried_out(hands(link), BOOTSTRAP)
            machine = world.machine()
            assert (machine.state, machine.assignment) == (State.IDLE, NO_ASSIGNMENT)
            assert world.journal.outcomes() == [Outcome.RACED_TO_IDLE]

        in_time(scenario)

    def test_a_machine_that_goes_back_to_idle_meanwhile_is_left_there(self) -> None:
        async def scenario() -> None:
            link = a_link(State.IDLE)
            world = hands(link)

            def gives_back(told: Machine) -> Machine:
                world.tools.moves.to(M, State.IDLE)
                return told

            link.will(Call.CONFIGURE, gives_back)
            await carried_out(world, BOOTSTRAP)
            assert world.machine().state is State.IDLE
            assert world.journal.outcomes() == [Outcome.RACED_TO_IDLE]

        in_time(scenario)

    @pytest.mark.parametrize("slow", [True, False])
    def test_an_ack_for_another_cluster_is_refused(self, slow: bool) -> None:
        """A provider that had joined it elsewhere answers so, and changes nothing."""

        async def scenario() -> None:
            link = a_link(State.IDLE, slow=slow)
            link.will(Call.CONFIGURE, changed(cluster=ClusterId("batch")))
            world = await carried_out(hands(link), BOOTSTRAP)
            assert world.machine().state is State.FAILED
            assert "batch" in world.machine().last_error
            assert world.journal.outcomes() == [Outcome.REFUSED_ACK]
            assert world.configured == []

        in_time(scenario)

    def test_an_ack_without_a_cluster_cannot_be_configured(self) -> None:
        async def scenario() -> None:
            link = a_link(State.IDLE)
            link.will(Call.CONFIGURE, changed(cluster=None))
            world = await carried_out(hands(link), BOOTSTRAP)
            assert world.journal.outcomes() == [Outcome.REFUSED_ACK]

        in_time(scenario)


async def forced(world: Hands) -> None:
    """Offered while the machine was Idle, carried out when it is not."""
    ours = world.machine()
    world.tools.inventory.remove(M)
    executor = world.executor()
    executor.offer([BOOTSTRAP], cycle=1)
    world.tools.inventory.add(ours, now=0.0, source="metal")
    await finished(executor)
