"""The executor on a simulated cloud: steps that take minutes, acks that are late, lost or old."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from builders import a_need
from mainstay.model.action import ActionKind
from mainstay.model.assignment import NO_ASSIGNMENT
from mainstay.model.calls import DrainRequest, Fence
from mainstay.model.commitment import commitment, full_commitment
from mainstay.model.errors import Fenced
from mainstay.model.state import State
from mainstay.providers.sim.spec import SimSpec
from mainstay.shard.events import Event
from mainstay.shard.executor import Offered
from mainstay.shard.orders import Order
from mainstay.shard.outcomes import Disposition, Outcome
from shard_hands import WEB, an_order
from shard_over_sim import SOURCE, Working, a_cloud, name, working
from virtual_loop import run

K, S = ActionKind, State
HELD = name(0, "reserved")
SLOT = name(0)


def an_order_for(kind: ActionKind, machine: str = HELD) -> Order:
    return an_order(kind, machine, source=SOURCE, grace_s=5)


def on_sim(spec: SimSpec, scenario: Callable[[Working], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with working(spec) as work:
            await scenario(work)

    run(whole())


class TestLife:
    def test_a_slot_is_made_joins_leaves_and_goes_back_each_step_finished_by_a_list(self) -> None:
        async def scenario(work: Working) -> None:
            states = []
            for kind in (K.PROVISION, K.BOOTSTRAP, K.RECLAIM, K.DELETE):
                assert work.executor.offer([an_order_for(kind, SLOT)], cycle=1).accepted == 1
                await asyncio.sleep(1)
                states.append(work.machine(SLOT).state)
                await work.go_on(200)
                states.append(work.machine(SLOT).state)
            assert states == [
                S.CREATING, S.IDLE, S.CONFIGURING, S.CONFIGURED,
                S.DRAINING, S.IDLE, S.DELETING, S.SPECULATIVE,
            ]  # fmt: skip
            assert work.journal.outcomes() == [Outcome.ACCEPTED] * 4
            assert work.configured == [SLOT]
            assert work.clusters.states_told(WEB) == [
                S.CONFIGURING, S.CONFIGURED, S.DRAINING, S.IDLE,
            ]  # fmt: skip

        on_sim(a_cloud(), scenario)

    def test_S72_a_drain_that_takes_its_time_keeps_the_cluster_until_the_list_says_idle(
        self,
    ) -> None:
        async def scenario(work: Working) -> None:
            work.executor.offer([an_order_for(K.BOOTSTRAP)], cycle=1)
            await work.go_on(200)
            need = a_need(cluster="batch")
            preempt = an_order(K.PREEMPT, HELD, need=need, source=SOURCE, grace_s=10)
            work.executor.offer([preempt], cycle=2)
            await asyncio.sleep(1)
            draining = work.machine(HELD)
            assert (draining.state, draining.cluster) == (State.DRAINING, WEB)
            assert draining.assignment.drained_for == need.ref
            assert draining.assignment.fingerprint == a_need().profile.fingerprint
            await work.go_on(200)
            idle = work.machine(HELD)
            assert (idle.state, idle.cluster, idle.assignment) == (
                State.IDLE, None, NO_ASSIGNMENT,
            )  # fmt: skip
            assert work.clusters.told[-1][0] == WEB
            assert work.clusters.told[-1][1].state is State.IDLE

        on_sim(a_cloud(held=1), scenario)

    def test_what_it_is_for_is_known_while_it_is_made_and_when_it_serves(self) -> None:
        async def scenario(work: Working) -> None:
            work.executor.offer([an_order_for(K.PROVISION, SLOT)], cycle=1)
            work.executor.offer([an_order_for(K.BOOTSTRAP, HELD)], cycle=1)
            await asyncio.sleep(1)
            await work.look()
            assert work.machine(HELD).assignment == full_commitment(a_need())
            await work.go_on(200)
            assert work.machine(HELD).assignment == full_commitment(a_need())

        on_sim(a_cloud(held=1), scenario)


class TestRestart:
    def test_steps_that_were_under_way_are_finished_by_the_next_life(self) -> None:
        async def whole() -> None:
            spec = a_cloud(held=1)
            async with working(spec) as first:
                orders = [an_order_for(K.PROVISION, SLOT), an_order_for(K.BOOTSTRAP)]
                first.executor.offer(orders, cycle=1)
                await asyncio.sleep(1)
                async with working(spec, epoch=8, sim=first.sim) as second:
                    assert second.machine(SLOT).state is State.CREATING
                    assert second.machine(SLOT).assignment == commitment(a_need())
                    assert second.machine(HELD).state is State.CONFIGURING
                    await second.go_on(200)
                    assert second.machine(SLOT).state is State.IDLE
                    assert second.machine(HELD).assignment == full_commitment(a_need())
                    assert second.configured == [HELD]

        run(whole())

    def test_one_that_never_finishes_meets_its_deadline_in_the_next_life_too(self) -> None:
        async def whole() -> None:
            spec = a_cloud()
            async with working(spec, patient=True) as first:
                first.sim.change({"slowness": "100000"})
                first.executor.offer([an_order_for(K.PROVISION, SLOT)], cycle=1)
                await asyncio.sleep(1000)
                async with working(spec, epoch=8, sim=first.sim) as second:
                    await second.go_on(1790)
                    assert second.machine(SLOT).state is State.CREATING
                    await second.go_on(10)
                    await second.go_on(10)
                    assert second.journal.reasons(Event.STEP_OVERDUE) == ["creating"]
                    assert "Creating for 1800 s" in str(second.journal.facts(Event.STEP_OVERDUE))

        run(whole())


class TestBadLine:
    @pytest.mark.parametrize("kind", [K.BOOTSTRAP, K.PROVISION])
    def test_a_call_whose_ack_is_lost_is_repeated_and_is_the_same_step(
        self, kind: ActionKind
    ) -> None:
        async def scenario(work: Working) -> None:
            machine = HELD if kind is K.BOOTSTRAP else SLOT
            work.sim.change({"lost_acks": "1"})
            work.executor.offer([an_order_for(kind, machine)], cycle=1)
            await asyncio.sleep(2)
            work.sim.change({"lost_acks": "0"})
            await asyncio.sleep(10)
            assert work.journal.outcomes() == [Outcome.ACCEPTED]
            numbers = [request.fence.sequence for request in work.link.sent]
            assert numbers == list(range(1, len(numbers) + 1))
            assert len(numbers) > 1
            await work.go_on(200)
            assert work.machine(machine).state in {State.CONFIGURED, State.IDLE}
            assert work.journal.reasons(Event.SHARD_FENCED) == []

        on_sim(a_cloud(held=1), scenario)

    def test_acks_that_are_lost_for_good_are_given_up_and_the_list_says_what_became_of_it(
        self,
    ) -> None:
        async def scenario(work: Working) -> None:
            work.sim.change({"lost_acks": "1"})
            work.executor.offer([an_order_for(K.BOOTSTRAP)], cycle=1)
            await asyncio.sleep(31)
            machine = work.machine(HELD)
            assert machine.state is State.FAILED
            assert machine.last_error.startswith("configure: simulated fault: no answer")
            assert work.failures.bad == []
            await work.go_on(200)
            alive = work.machine(HELD)
            assert (alive.state, alive.cluster) == (State.CONFIGURED, WEB)
            assert alive.assignment == full_commitment(a_need())

        on_sim(a_cloud(held=1), scenario)

    def test_late_acks_do_no_harm(self) -> None:
        async def scenario(work: Working) -> None:
            work.sim.change({"late_acks_s": "60"})
            names = [name(at, "reserved") for at in range(8)]
            for cycle in range(1, 5):  # who has no worker in time is given back, and tried again
                idle = [each for each in names if work.machine(each).state is State.IDLE]
                work.executor.offer([an_order_for(K.BOOTSTRAP, each) for each in idle], cycle=cycle)
                await work.go_on(80)
            assert {machine.state for machine in work.machines()} == {State.CONFIGURED}
            assert work.journal.reasons(Event.SHARD_FENCED) == []
            assert work.link.overlaps == []

        on_sim(a_cloud(slots=0, held=8), scenario)

    def test_an_ack_of_the_step_before_is_no_news(self) -> None:
        async def scenario(work: Working) -> None:
            work.executor.offer([an_order_for(K.PROVISION, SLOT)], cycle=1)
            await work.go_on(200)
            work.sim.change({"duplicate_acks": "1"})
            work.executor.offer([an_order_for(K.BOOTSTRAP, SLOT)], cycle=2)
            await asyncio.sleep(1)
            machine = work.machine(SLOT)
            assert (machine.state, machine.cluster) == (State.CONFIGURING, WEB)
            assert machine.assignment == full_commitment(a_need())
            assert work.journal.records[-1].detail == "an old answer: Creating"
            await work.go_on(200)
            assert work.machine(SLOT).state is State.CONFIGURED

        on_sim(a_cloud(), scenario)


class TestBadCloud:
    def test_a_stock_out_sets_the_slot_aside_and_blames_nobody(self) -> None:
        async def scenario(work: Working) -> None:
            work.sim.change({"stock_outs": "*/*"})
            work.executor.offer([an_order_for(K.PROVISION, SLOT)], cycle=1)
            await asyncio.sleep(1)
            assert work.journal.outcomes() == [Outcome.NO_CAPACITY]
            assert "out of stock" in work.machine(SLOT).last_error
            assert work.failures.bad == []
            await work.go_on(60)
            assert work.machine(SLOT).state is State.SPECULATIVE

        on_sim(a_cloud(), scenario)

    def test_a_step_that_fails_at_the_provider_is_failed_with_its_diagnosis(self) -> None:
        async def scenario(work: Working) -> None:
            work.sim.change({"failures": "configure=1"})
            work.executor.offer([an_order_for(K.BOOTSTRAP)], cycle=1)
            await asyncio.sleep(1)
            assert work.journal.outcomes() == [Outcome.ACCEPTED]
            await work.go_on(200)
            machine = work.machine(HELD)
            assert machine.state is State.FAILED
            assert "simulated fault" in machine.last_error
            assert work.failures.bad == [HELD]

        on_sim(a_cloud(held=1), scenario)

    def test_a_delete_of_what_is_held_for_ever_is_refused_and_failed(self) -> None:
        async def scenario(work: Working) -> None:
            work.executor.offer([an_order_for(K.DELETE)], cycle=1)
            await asyncio.sleep(1)
            assert work.machine(HELD).state is State.FAILED
            assert work.journal.outcomes() == [Outcome.NOT_SUPPORTED]
            assert len(work.link.sent) == 1

        on_sim(a_cloud(held=1), scenario)


class TestFences:
    def test_S75_calls_to_several_machines_may_overtake_each_other(self) -> None:
        async def scenario(work: Working) -> None:
            a, b = name(0, "reserved"), name(1, "reserved")
            work.link.travel_s[a] = 2.0
            work.executor.offer([an_order_for(K.BOOTSTRAP, each) for each in (a, b)], cycle=1)
            await asyncio.sleep(5)
            assert [(each.machine, each.fence.sequence) for each in work.link.sent] == [
                (a, 1), (b, 2),
            ]  # fmt: skip
            assert work.journal.outcomes() == [Outcome.ACCEPTED] * 2
            with pytest.raises(Fenced) as refused:
                await work.sim.provider.drain(DrainRequest(b, 5, Fence("shard-a", 7, 1)))
            assert refused.value.epoch == 7

        on_sim(a_cloud(held=2), scenario)

    def test_a_newer_life_of_the_shard_stops_the_older_one_which_goes_on_looking(self) -> None:
        async def whole() -> None:
            spec = a_cloud(held=3)
            first, second, third = (name(at, "reserved") for at in range(3))
            async with (
                working(spec, epoch=7) as old,
                working(spec, epoch=8, sim=old.sim) as new,
            ):
                new.executor.offer([an_order_for(K.BOOTSTRAP, first)], cycle=1)
                await asyncio.sleep(1)
                old.executor.offer([an_order_for(K.BOOTSTRAP, second)], cycle=1)
                await asyncio.sleep(1)
                assert old.journal.outcomes() == [Outcome.FENCED]
                assert old.tools.acting.why == "epoch 8 of this shard acts, we are epoch 7"
                assert len(old.journal.reasons(Event.SHARD_FENCED)) == 1

                offered = old.executor.offer([an_order_for(K.BOOTSTRAP, third)], cycle=2)
                assert offered == Offered(held=1)
                assert old.journal.records[-1].disposition is Disposition.SUPPRESSED
                await asyncio.sleep(1)
                assert len(old.link.sent) == 1
                await old.go_on(200)
                assert old.machine(first).state is State.CONFIGURED
                assert old.machine(second).state is State.IDLE
                assert new.tools.acting.why == ""

        run(whole())
