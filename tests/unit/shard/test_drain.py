"""Reclaim and Preempt: the cluster hears first, then the provider empties the machine."""

import pytest

from builders import a_need, a_need_profile, an_assignment
from mainstay.model.action import ActionKind
from mainstay.model.assignment import NO_ASSIGNMENT, Assignment, overlay
from mainstay.model.calls import Call, DrainRequest, ListRequest
from mainstay.model.errors import NotSupported, Rejected
from mainstay.model.machine import Machine
from mainstay.model.state import State
from mainstay.shard.events import Event
from mainstay.shard.orders import Order
from mainstay.shard.outcomes import Outcome
from shard_hands import (
    WEB,
    FakeLink,
    Hands,
    M,
    a_link,
    an_order,
    carried_out,
    changed,
    finished,
    hands,
    in_time,
)

SERVING = an_assignment()
BATCH = a_need(cluster="batch", profile=a_need_profile(priority=900))
RECLAIM = an_order(ActionKind.RECLAIM, grace_s=600)
PREEMPT = an_order(ActionKind.PREEMPT, need=BATCH, grace_s=10)


def a_serving(*, slow: bool = False) -> FakeLink:
    return a_link(State.CONFIGURED, assignment=SERVING, slow=slow)


class TestTelling:
    def test_the_cluster_is_told_before_the_machine_drains_and_before_the_provider_is_asked(
        self,
    ) -> None:
        async def scenario() -> None:
            link = a_serving()
            world = hands(link)
            seen: list[int] = []

            def counts(told: Machine) -> Machine:
                seen.append(len(world.clusters.reclaims))
                return told

            link.will(Call.DRAIN, counts)
            await carried_out(world, RECLAIM)
            assert seen == [1]
            assert [state for _, state, _, _ in world.clusters.reclaims] == [State.CONFIGURED]

        in_time(scenario)

    def test_a_voluntary_reclaim_carries_no_priority_and_the_grace_of_the_plan(self) -> None:
        async def scenario() -> None:
            world = await carried_out(hands(a_serving()), RECLAIM)
            assert world.clusters.reclaims == [(M, State.CONFIGURED, 600, None)]
            assert graces(world) == [600]

        in_time(scenario)

    def test_a_preemption_carries_the_priority_of_whoever_takes_it(self) -> None:
        async def scenario() -> None:
            world = await carried_out(hands(a_serving()), PREEMPT)
            assert world.clusters.reclaims == [(M, State.CONFIGURED, 10, 900)]
            assert graces(world) == [10]

        in_time(scenario)

    @pytest.mark.parametrize("order", [RECLAIM, PREEMPT])
    def test_with_nobody_there_the_drain_runs_with_the_default_grace_and_is_noticed(
        self, order: Order
    ) -> None:
        async def scenario() -> None:
            world = hands(a_serving())
            world.clusters.absent.add(WEB)
            await carried_out(world, order)
            assert graces(world) == [30]
            assert world.journal.reasons(Event.EVICTION_SKIPPED) == [order.action.kind.value]
            assert world.journal.outcomes() == [Outcome.SUCCESS]

        in_time(scenario)

    def test_with_somebody_there_nothing_is_noticed(self) -> None:
        async def scenario() -> None:
            world = await carried_out(hands(a_serving()), RECLAIM)
            assert world.journal.reasons(Event.EVICTION_SKIPPED) == []

        in_time(scenario)


class TestStates:
    def test_an_ack_at_idle_clears_cluster_and_commitment_and_tells_the_one_it_left(self) -> None:
        async def scenario() -> None:
            world = await carried_out(hands(a_serving()), PREEMPT)
            machine = world.machine()
            assert (machine.state, machine.cluster) == (State.IDLE, None)
            assert machine.assignment == NO_ASSIGNMENT
            assert world.clusters.states_told(WEB) == [State.DRAINING, State.IDLE]
            assert world.clusters.states_told(BATCH.cluster) == []
            assert world.failures.good == [M]
            assert world.configured == []

        in_time(scenario)

    def test_S72_an_ack_at_draining_keeps_cluster_and_commitment(self) -> None:
        async def scenario() -> None:
            world = await carried_out(hands(a_serving(slow=True)), PREEMPT)
            machine = world.machine()
            assert (machine.state, machine.cluster) == (State.DRAINING, WEB)
            assert machine.assignment == overlay(SERVING, Assignment(drained_for=BATCH.ref))
            assert world.journal.outcomes() == [Outcome.ACCEPTED]
            assert world.clusters.states_told() == [State.DRAINING]

        in_time(scenario)

    def test_S72_the_list_that_then_says_idle_empties_it(self) -> None:
        async def scenario() -> None:
            link = a_serving(slow=True)
            world = await carried_out(hands(link), PREEMPT)
            link.finish()
            world.tools.inventory.merge(await link.listing(ListRequest()), now=0.0)
            machine = world.machine()
            assert (machine.state, machine.cluster) == (State.IDLE, None)
            assert machine.assignment == NO_ASSIGNMENT

        in_time(scenario)

    def test_a_reclaim_for_nobody_names_nobody(self) -> None:
        async def scenario() -> None:
            world = await carried_out(hands(a_serving(slow=True)), RECLAIM)
            assert world.machine().assignment == SERVING

        in_time(scenario)

    def test_the_need_is_stamped_before_the_provider_is_asked(self) -> None:
        async def scenario() -> None:
            link = a_serving()
            world = hands(link)
            seen: list[Machine] = []

            def sees(told: Machine) -> Machine:
                seen.append(world.machine())
                return told

            link.will(Call.DRAIN, sees)
            await carried_out(world, PREEMPT)
            assert seen[0].assignment.drained_for == BATCH.ref

        in_time(scenario)

    def test_a_machine_that_is_drained_already_is_left_alone_and_nobody_is_told(self) -> None:
        async def scenario() -> None:
            link = a_serving()
            world = hands(link)
            executor = world.executor()
            executor.offer([RECLAIM], cycle=1)
            world.tools.moves.to(M, State.DRAINING)
            await finished(executor)
            assert world.journal.outcomes() == [Outcome.STALE_STATE]
            assert (link.calls, world.clusters.reclaims) == ([], [])

        in_time(scenario)

    @pytest.mark.parametrize(
        ("error", "outcome"),
        [
            (Rejected("stuck"), Outcome.PROVIDER_ERROR),
            (NotSupported("no drain here"), Outcome.NOT_SUPPORTED),
        ],
    )
    def test_a_refusal_is_failed_and_its_cluster_is_told(
        self, error: Rejected, outcome: Outcome
    ) -> None:
        async def scenario() -> None:
            link = a_serving()
            link.will(Call.DRAIN, error)
            world = await carried_out(hands(link), RECLAIM)
            assert world.machine().last_error == f"drain: {error.message}"
            assert world.journal.outcomes() == [outcome]
            assert world.clusters.states_told() == [State.DRAINING, State.FAILED]
            assert len(link.calls) == 1

        in_time(scenario)

    def test_an_old_ack_leaves_it_draining(self) -> None:
        async def scenario() -> None:
            link = a_serving()
            link.will(Call.DRAIN, changed(state=State.CONFIGURING, cluster=WEB))
            world = await carried_out(hands(link), PREEMPT)
            assert world.machine().state is State.DRAINING
            assert world.machine().assignment.drained_for == BATCH.ref

        in_time(scenario)


def graces(world: Hands) -> list[int]:
    requests = world.link.asked(Call.DRAIN)
    return [each.grace_s for each in requests if isinstance(each, DrainRequest)]
