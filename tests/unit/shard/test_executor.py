"""The executor: what it takes on, what it lets go, and that nobody holds up anybody else."""

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from typing_extensions import override

from builders import a_machine, a_need, a_need_profile
from mainstay.model.action import ActionKind
from mainstay.model.calls import Call
from mainstay.model.errors import Fenced, IllegalTransition, Rejected
from mainstay.model.ids import MachineId
from mainstay.model.machine import Machine
from mainstay.model.need import Need
from mainstay.model.state import State
from mainstay.shard.actions.doings import DOINGS
from mainstay.shard.events import Event
from mainstay.shard.executor import Executor, ExecutorOptions, Offered
from mainstay.shard.hands.backoff import BackOff
from mainstay.shard.moves import Moves
from mainstay.shard.orders import Order
from mainstay.shard.outcomes import Disposition, Outcome
from shard_hands import (
    WEB,
    FakeLink,
    Hands,
    M,
    a_link,
    an_order,
    carried_out,
    finished,
    hands,
    in_time,
    while_running,
)

D = Disposition
BOOTSTRAP = an_order(ActionKind.BOOTSTRAP)


def fleet(count: int, *, name: str = "metal", state: State = State.IDLE) -> FakeLink:
    return FakeLink(*(a_machine(state, id=f"{name}-{at}") for at in range(count)), name=name)


def deletes(link: FakeLink, *, cycle: int = 1) -> list[Order]:
    return [
        an_order(ActionKind.DELETE, machine, source=link.name, cycle=cycle)
        for machine in link.machines
    ]


class TestDefaults:
    def test_the_queue_is_twice_the_workers_and_an_action_has_30_seconds(self) -> None:
        options = ExecutorOptions()

        assert (options.workers, options.queue_length_max, options.deadline_s) == (32, 64, 30.0)
        assert ExecutorOptions(workers=5).queue_length_max == 10
        assert ExecutorOptions(queue=3).queue_length_max == 3

    def test_every_kind_of_action_has_a_flow(self) -> None:
        assert set(DOINGS) == set(ActionKind)


class TestOffer:
    def test_it_never_waits_and_says_what_became_of_everything(self) -> None:
        async def scenario() -> None:
            world = hands(fleet(5))
            executor = world.executor(workers=1)
            orders = deletes(world.link)
            offered = executor.offer([*orders[:1], *orders], cycle=3)
            assert offered == Offered(accepted=2, dropped=3, deduplicated=1)
            assert executor.depth == {"metal": 2}
            assert executor.in_flight == {"metal": 0}
            assert world.link.calls == []
            assert world.journal.let_go() == [
                (D.DEDUPLICATED, "in_flight"), *[(D.DROPPED, "queue_full")] * 3,
            ]  # fmt: skip

        in_time(scenario)

    @pytest.mark.parametrize("kind", list(ActionKind))
    @pytest.mark.parametrize("state", [s for s in State if s is not State.UNSPECIFIED])
    def test_S70_an_order_whose_machine_has_moved_on_is_deduplicated_without_a_call(
        self, kind: ActionKind, state: State
    ) -> None:
        async def scenario() -> None:
            world = hands(a_link(state))
            order = an_order(kind)
            order = dataclasses.replace(order, need=a_need())
            wanted = {
                ActionKind.BOOTSTRAP: State.IDLE,
                ActionKind.DELETE: State.IDLE,
                ActionKind.PROVISION: State.SPECULATIVE,
                ActionKind.RECLAIM: State.CONFIGURED,
                ActionKind.PREEMPT: State.CONFIGURED,
            }[kind]
            offered = world.executor().offer([order], cycle=1)
            if state is wanted:
                assert offered == Offered(accepted=1)
            else:
                assert offered == Offered(deduplicated=1)
                assert world.journal.let_go() == [(D.DEDUPLICATED, "stale_state")]
                assert M not in world.tools.ledger
            assert world.link.calls == []

        in_time(scenario)

    def test_a_machine_that_cannot_be_looked_up_is_left_to_the_worker(self) -> None:
        async def scenario() -> None:
            world = hands(a_link(State.IDLE))
            world.tools.inventory.remove(M)
            executor = world.executor()
            assert executor.offer([BOOTSTRAP], cycle=1) == Offered(accepted=1)
            await finished(executor)
            assert world.journal.outcomes() == [Outcome.UNKNOWN_MACHINE]

        in_time(scenario)

    def test_an_order_for_a_provider_that_is_not_ours_is_dropped(self) -> None:
        async def scenario() -> None:
            world = hands(a_link(State.IDLE))
            order = an_order(ActionKind.BOOTSTRAP, source="elsewhere")
            assert world.executor().offer([order], cycle=1) == Offered(dropped=1)
            assert world.journal.let_go() == [(D.DROPPED, "no_provider")]

        in_time(scenario)

    def test_a_machine_in_flight_is_not_taken_twice_and_can_be_taken_again_afterwards(self) -> None:
        async def scenario() -> None:
            link = a_link(State.IDLE)
            link.will(Call.DELETE, 5.0)
            world = hands(link)
            executor = world.executor()
            delete = an_order(ActionKind.DELETE)

            async def offers() -> None:
                executor.offer([delete], cycle=1)
                await asyncio.sleep(1)
                assert executor.in_flight == {"metal": 1}
                assert executor.offer([delete], cycle=2) == Offered(deduplicated=1)
                await asyncio.sleep(10)
                assert M not in world.tools.ledger
                assert executor.in_flight == {"metal": 0}
                again = an_order(ActionKind.PROVISION, cycle=3)
                assert executor.offer([again], cycle=3) == Offered(accepted=1)
                await asyncio.sleep(10)

            await while_running(executor, offers())
            assert world.journal.outcomes() == [Outcome.SUCCESS, Outcome.SUCCESS]

        in_time(scenario)

    def test_the_record_names_the_deciding_and_the_current_cycle_and_how_long_it_took(self) -> None:
        async def scenario() -> None:
            link = a_link(State.IDLE)
            link.will(Call.DELETE, 5.0)
            world = hands(link)
            executor = world.executor()

            async def offers() -> None:
                executor.offer([an_order(ActionKind.DELETE, cycle=4)], cycle=4)
                await asyncio.sleep(1)
                executor.offer([], cycle=6)
                await asyncio.sleep(10)

            await while_running(executor, offers())
            (record,) = world.journal.records
            assert (record.order.cycle, record.cycle) == (4, 6)
            assert record.seconds == pytest.approx(5.0)

        in_time(scenario)


class TestNextPlan:
    def test_what_waits_and_is_not_repeated_is_overtaken(self) -> None:
        async def scenario() -> None:
            world = hands(fleet(3))
            executor = world.executor()
            orders = deletes(world.link)
            executor.offer(orders, cycle=1)
            again = [dataclasses.replace(orders[1], cycle=2)]
            assert executor.offer(again, cycle=2) == Offered(deduplicated=1, overtaken=2)
            assert executor.depth == {"metal": 1}
            assert len(world.tools.ledger) == 1
            await finished(executor)
            assert [request.machine for _, request in world.link.calls] == ["metal-1"]
            assert world.journal.let_go() == [
                (D.DROPPED, "overtaken"), (D.DROPPED, "overtaken"), (D.DEDUPLICATED, "in_flight"),
            ]  # fmt: skip

        in_time(scenario)

    def test_a_repeated_order_keeps_its_place_and_its_cycle(self) -> None:
        async def scenario() -> None:
            world = hands(fleet(3))
            executor = world.executor(workers=1, queue=5)
            orders = deletes(world.link)
            executor.offer(orders, cycle=1)
            executor.offer(reversed(deletes(world.link, cycle=2)), cycle=2)
            await finished(executor)
            asked = [request.machine for _, request in world.link.calls]
            assert asked == ["metal-0", "metal-1", "metal-2"]
            done = [each for each in world.journal.records if each.disposition is D.EXECUTED]
            assert {(each.order.cycle, each.cycle) for each in done} == {(1, 2)}

        in_time(scenario)

    @pytest.mark.parametrize(
        ("change", "repeated"),
        [
            (lambda order: order, True),
            (lambda order: an_order(ActionKind.PREEMPT, need=order.need, grace_s=99), True),
            (lambda order: an_order(ActionKind.RECLAIM), False),
            (
                lambda order: an_order(
                    ActionKind.PREEMPT, need=a_need(profile=a_need_profile(priority=5))
                ),
                False,
            ),
            (lambda order: an_order(ActionKind.PREEMPT, need=a_need(cluster="b")), False),
        ],
    )
    def test_the_same_machine_for_something_else_is_another_order(
        self, change: Callable[[Order], Order], repeated: bool
    ) -> None:
        async def scenario() -> None:
            world = hands(a_link(State.CONFIGURED))
            executor = world.executor()
            order = an_order(ActionKind.PREEMPT, grace_s=10)
            executor.offer([order], cycle=1)
            offered = executor.offer([change(order)], cycle=2)
            expected = Offered(deduplicated=1) if repeated else Offered(accepted=1, overtaken=1)
            assert offered == expected

        in_time(scenario)

    def test_what_has_begun_is_never_overtaken(self) -> None:
        async def scenario() -> None:
            link = a_link(State.IDLE)
            link.will(Call.DELETE, 5.0)
            world = hands(link)
            executor = world.executor()

            async def offers() -> None:
                executor.offer([an_order(ActionKind.DELETE)], cycle=1)
                await asyncio.sleep(1)
                assert executor.offer([], cycle=2) == Offered()
                await asyncio.sleep(10)

            await while_running(executor, offers())
            assert world.journal.outcomes() == [Outcome.SUCCESS]

        in_time(scenario)

    @pytest.mark.parametrize("need", [None, a_need(group="another")], ids=["its own", "another"])
    def test_what_begins_while_a_plan_is_made_is_not_acquired_once_more_for_its_need(
        self, need: Need | None
    ) -> None:
        """The plan did not see it as supply, and chose another machine: the next one decides."""

        async def scenario() -> None:
            world = hands(fleet(3))
            executor = world.executor(workers=1)

            async def offers() -> None:
                executor.offer([bootstrap("metal-0")], cycle=1)
                executor.look()
                await asyncio.sleep(1)
                plan = [bootstrap("metal-1", need), bootstrap("metal-2", need)]
                offered = executor.offer(plan, cycle=2)
                assert offered == (Offered(accepted=2) if need else Offered(dropped=2))
                assert world.journal.let_go() == ([] if need else [(D.DROPPED, "overtaken")] * 2)
                executor.look()
                assert executor.offer(plan, cycle=3).dropped == 0

            await while_running(executor, offers())

        in_time(scenario)

    def test_what_begins_while_a_plan_is_made_that_repeats_it_stands_in_nobodys_way(self) -> None:
        async def scenario() -> None:
            world = hands(fleet(2))
            executor = world.executor(workers=1)

            async def offers() -> None:
                executor.offer([bootstrap("metal-0")], cycle=1)
                executor.look()
                await asyncio.sleep(1)
                plan = [bootstrap("metal-0"), bootstrap("metal-1")]
                assert executor.offer(plan, cycle=2) == Offered(accepted=1, deduplicated=1)

            await while_running(executor, offers())

        in_time(scenario)


def bootstrap(machine: str, need: Need | None = None) -> Order:
    return an_order(ActionKind.BOOTSTRAP, machine, need=need)


class TestRoom:
    def test_whoever_was_dropped_hears_once_when_the_queue_is_half_empty(self) -> None:
        async def scenario() -> None:
            heard: list[int] = []
            link = fleet(9)
            link.will(Call.DELETE, *[1.0] * 9)
            world = hands(link)
            executor: Executor = world.executor(
                workers=1, queue=4, on_room=lambda: heard.append(executor.depth["metal"])
            )

            async def offers() -> None:
                executor.offer(deletes(link), cycle=1)
                await asyncio.sleep(100)

            await while_running(executor, offers())
            assert heard == [2]

        in_time(scenario)

    def test_nobody_hears_when_nothing_was_dropped(self) -> None:
        async def scenario() -> None:
            heard: list[int] = []
            world = hands(fleet(4))
            executor = world.executor(workers=1, queue=4, on_room=lambda: heard.append(1))
            executor.offer(deletes(world.link), cycle=1)
            await finished(executor)
            assert heard == []

        in_time(scenario)

    def test_dropped_orders_can_be_offered_again_and_then_fit(self) -> None:
        async def scenario() -> None:
            link = fleet(6)
            world = hands(link)
            executor = world.executor(workers=1, queue=4)

            async def offers() -> None:
                for cycle in (1, 2):
                    waiting = [each for each in deletes(link) if is_idle(world, each)]
                    executor.offer(waiting, cycle=cycle)
                    await asyncio.sleep(100)

            await while_running(executor, offers())
            assert {machine.state for machine in link.machines.values()} == {State.SPECULATIVE}

        in_time(scenario)


class TestProviders:
    def test_one_that_hangs_delays_nobody(self) -> None:
        async def scenario() -> None:
            hung, well = fleet(40, name="hung"), fleet(4, name="well")
            hung.will(Call.DELETE, *[1000.0] * 200)
            world = hands(hung, well)
            executor = world.executor(workers=2, queue=10)

            async def offers() -> None:
                offered = executor.offer([*deletes(hung), *deletes(well)], cycle=1)
                assert offered == Offered(accepted=14, dropped=30)
                await asyncio.sleep(0.1)

            await while_running(executor, offers())
            assert {machine.state for machine in well.machines.values()} == {State.SPECULATIVE}
            assert executor.depth == {"hung": 0, "well": 0}

        in_time(scenario)

    def test_there_are_never_more_calls_at_once_than_workers(self) -> None:
        async def scenario() -> None:
            link = fleet(20)
            world = hands(link)
            most = 0

            def counts(machine: Machine) -> Machine:
                nonlocal most
                most = max(most, len(link.busy))
                return machine

            link.will(Call.DELETE, *[counts] * 20)
            executor = world.executor(workers=3, queue=20)
            executor.offer(deletes(link), cycle=1)
            await finished(executor)
            assert 1 <= most <= 3
            assert len(link.calls) == 20

        in_time(scenario)


class TestClusters:
    """Who waits for a cluster has no worker meanwhile."""

    def test_one_that_hangs_holds_up_nobody(self) -> None:
        async def scenario() -> None:
            link = fleet(12)
            world = hands(link)
            world.clusters.answers.extend([1000.0] * 8)
            executor = world.executor(workers=2, queue=20)

            async def offers() -> None:
                hung = a_need(cluster="hung")
                waiting = [an_order(ActionKind.BOOTSTRAP, f"metal-{at}", need=hung)
                           for at in range(8)]  # fmt: skip
                others = [an_order(ActionKind.BOOTSTRAP, f"metal-{at}") for at in range(8, 12)]
                assert executor.offer([*waiting, *others], cycle=1) == Offered(accepted=12)
                await asyncio.sleep(1)
                assert executor.in_flight == {"metal": 8}
                assert executor.depth == {"metal": 0}
                assert world.journal.outcomes() == [Outcome.SUCCESS] * 4
                await asyncio.sleep(30)
                assert world.journal.outcomes()[4:] == [Outcome.ROLLED_BACK] * 8
                assert executor.in_flight == {"metal": 0}

            await while_running(executor, offers())

        in_time(scenario)

    def test_answers_that_come_at_once_make_no_more_calls_at_once_than_workers(self) -> None:
        async def scenario() -> None:
            link = fleet(9)
            link.will(Call.CONFIGURE, *[3.0] * 9)
            world = hands(link)
            world.clusters.answers.extend([5.0] * 9)
            executor = world.executor(workers=3, queue=20)

            async def offers() -> None:
                orders = [an_order(ActionKind.BOOTSTRAP, f"metal-{at}") for at in range(9)]
                executor.offer(orders, cycle=1)
                await asyncio.sleep(5.5)
                assert [len(world.clusters.asked), len(link.busy)] == [9, 3]
                await asyncio.sleep(3)
                assert [len(link.calls), len(link.busy)] == [6, 3]
                await asyncio.sleep(6)

            await while_running(executor, offers())
            assert world.journal.outcomes() == [Outcome.SUCCESS] * 9

        in_time(scenario)

    def test_many_answers_at_once_take_turns_with_what_waits(self) -> None:
        async def scenario() -> None:
            joining = [a_machine(State.IDLE, id=f"i-{at}") for at in range(40)]
            link = FakeLink(*joining, a_machine(State.CONFIGURED, id="victim"))
            link.will(Call.CONFIGURE, *[1.0] * 40)
            world = hands(link)
            world.clusters.answers.extend([2.0] * 40)
            executor = world.executor(workers=2, queue=50)

            async def offers() -> None:
                orders = [an_order(ActionKind.BOOTSTRAP, each.id) for each in joining]
                executor.offer(orders, cycle=1)
                await asyncio.sleep(2.5)
                executor.also([an_order(ActionKind.PREEMPT, "victim")])
                await asyncio.sleep(1)
                assert [str(m.machine) for m in link.asked(Call.DRAIN)] == ["victim"]
                assert len(link.asked(Call.CONFIGURE)) <= 4

            await while_running(executor, offers())

        in_time(scenario)

    def test_who_gets_no_worker_before_its_deadline_makes_no_call_and_is_given_back(self) -> None:
        async def scenario() -> None:
            link = fleet(9)
            link.will(Call.CONFIGURE, *[8.2] * 9)
            world = hands(link)
            world.clusters.answers.extend([5.0] * 9)
            executor = world.executor(workers=1, queue=20)

            async def offers() -> None:
                orders = [an_order(ActionKind.BOOTSTRAP, f"metal-{at}") for at in range(9)]
                executor.offer(orders, cycle=1)
                await asyncio.sleep(29.5)  # calls begin after 5, 13.2 and 21.4 seconds
                assert world.journal.outcomes() == [Outcome.SUCCESS] * 2
                await asyncio.sleep(1)
                rolled_back = [Outcome.ROLLED_BACK] * 6
                assert world.journal.outcomes()[2:] == [Outcome.SUCCESS, *rolled_back]

            await while_running(executor, offers())
            assert len(link.calls) == 3
            assert executor.in_flight == {"metal": 0}
            states = [world.machine(f"metal-{at}").state for at in range(9)]
            assert sorted(states) == [State.IDLE] * 6 + [State.CONFIGURED] * 3

        in_time(scenario)

    def test_after_all_that_there_are_as_many_workers_as_before(self) -> None:
        async def scenario() -> None:
            link = fleet(12)
            link.will(Call.CONFIGURE, *[9.0] * 4)
            world = hands(link)
            world.clusters.answers.extend([5.0] * 4 + [Rejected("no"), 1000.0])
            executor = world.executor(workers=1, queue=20, deadline_s=10.0)

            async def offers() -> None:
                orders = [an_order(ActionKind.BOOTSTRAP, f"metal-{at}") for at in range(6)]
                executor.offer(orders, cycle=1)
                await asyncio.sleep(30)
                assert executor.in_flight == {"metal": 0}
                link.will(Call.DELETE, *[3.0] * 6)
                deleted = [an_order(ActionKind.DELETE, f"metal-{at}") for at in range(6, 12)]
                executor.offer(deleted, cycle=2)
                await asyncio.sleep(1)
                assert len(link.busy) == 1
                await asyncio.sleep(30)

            await while_running(executor, offers())
            assert world.journal.outcomes()[-6:] == [Outcome.SUCCESS] * 6

        in_time(scenario)

    def test_what_a_cluster_did_not_give_is_given_back_though_no_worker_is_free(self) -> None:
        async def scenario() -> None:
            link = fleet(2)
            link.will(Call.CONFIGURE, 9.0)
            world = hands(link)
            world.clusters.answers.extend([1000.0, 0.0])
            executor = world.executor(workers=1, queue=20, deadline_s=5.0)

            async def offers() -> None:
                executor.offer([an_order(ActionKind.BOOTSTRAP, "metal-1")], cycle=1)
                await asyncio.sleep(1)
                executor.offer([an_order(ActionKind.BOOTSTRAP, "metal-0")], cycle=2)
                await asyncio.sleep(4.5)
                assert len(link.busy) == 1
                assert world.journal.outcomes() == [Outcome.ROLLED_BACK]
                assert world.machine("metal-1").state is State.IDLE
                assert world.tools.backoff.left_s(5.5) == {WEB: 0.5}

            await while_running(executor, offers())

        in_time(scenario)

    def test_an_answer_counts_when_it_comes_and_ends_no_pause_that_began_after_it(self) -> None:
        async def scenario() -> None:
            link = fleet(3)
            link.will(Call.CONFIGURE, 9.0, 9.0)
            world = hands(link)
            world.clusters.answers.extend([1.0, 2.0, 1000.0])
            executor = world.executor(workers=1, queue=20, deadline_s=12.0)
            backoff, clock = world.tools.backoff, world.tools.clock

            async def offers() -> None:
                orders = [an_order(ActionKind.BOOTSTRAP, f"metal-{at}") for at in range(2)]
                executor.offer(orders, cycle=1)
                await asyncio.sleep(3)  # the second has its answer, and no worker before 10 s
                backoff.failed(WEB)
                backoff.failed(WEB)
                pause = backoff.left_s(clock.elapsed_s())
                await asyncio.sleep(7.5)
                assert len(link.calls) == 2
                backoff.failed(WEB)
                assert pause == {WEB: 1.0}
                assert backoff.left_s(clock.elapsed_s()) == {WEB: 2.0}

            await while_running(executor, offers())

        in_time(scenario)

    def test_an_answer_that_waits_for_a_worker_counts_as_a_question(self) -> None:
        async def scenario() -> None:
            link = fleet(4)
            link.will(Call.DELETE, 4.0)
            link.will(Call.CONFIGURE, 4.0)
            world = hands(link)
            world.clusters.answers.extend([1.0] * 3)
            clock = world.tools.clock
            backoff = BackOff(clock, questions_max=3)
            world.tools = dataclasses.replace(world.tools, backoff=backoff)
            executor = world.executor(workers=1, queue=20)

            async def offers() -> None:
                orders = [an_order(ActionKind.BOOTSTRAP, f"metal-{at}") for at in range(3)]
                executor.offer(orders, cycle=1)
                await asyncio.sleep(0.5)
                executor.also([an_order(ActionKind.DELETE, "metal-3")])
                await asyncio.sleep(1.5)
                assert backoff.backed_off(clock.elapsed_s()) == {WEB}
                await asyncio.sleep(3)
                assert backoff.backed_off(clock.elapsed_s()) == frozenset()

            await while_running(executor, offers())

        in_time(scenario)

    def test_stopping_ends_those_who_wait_for_one(self) -> None:
        async def scenario() -> None:
            world = hands(fleet(6))
            world.clusters.answers.extend([20.0] * 6)
            executor = world.executor(workers=1, queue=20)
            orders = [an_order(ActionKind.BOOTSTRAP, f"metal-{at}") for at in range(6)]
            executor.offer(orders, cycle=1)
            await finished(executor, wait_s=1)
            assert world.journal.outcomes() == [Outcome.CANCELLED] * 6
            assert {world.machine(f"metal-{at}").state for at in range(6)} == {State.IDLE}
            assert len(world.tools.ledger) == 0

        in_time(scenario)


class TestKinds:
    """Acquisitions, preempts and releases never keep one another out."""

    @pytest.mark.parametrize(
        ("many", "one"),
        [
            (ActionKind.BOOTSTRAP, ActionKind.RECLAIM),
            (ActionKind.BOOTSTRAP, ActionKind.PREEMPT),
            (ActionKind.RECLAIM, ActionKind.BOOTSTRAP),
            (ActionKind.PREEMPT, ActionKind.DELETE),
        ],
    )
    def test_a_queue_that_is_always_full_of_one_lets_the_others_through(
        self, many: ActionKind, one: ActionKind
    ) -> None:
        async def scenario() -> None:
            crowd = [a_machine(DOINGS[many].starts_in, id=f"m-{at}") for at in range(400)]
            link = FakeLink(*crowd, a_machine(DOINGS[one].starts_in, id="the-one"))
            for call in Call:
                link.will(call, *[7.0] * 500)
            world = hands(link)
            executor = world.executor(workers=2, queue=8)

            async def cycles() -> None:
                for cycle in range(1, 6):
                    left = [each.id for each in crowd if world.machine(each.id) == each]
                    orders = [an_order(many, name, cycle=cycle) for name in left]
                    offered = executor.offer([*orders, an_order(one, "the-one")], cycle=cycle)
                    assert offered.dropped
                    await asyncio.sleep(10)

            await while_running(executor, cycles())
            done = [each.order.action.machine for each in world.journal.records if each.outcome]
            assert "the-one" in done[:6]

        in_time(scenario)

    def test_a_full_queue_has_a_quarter_more_for_each_of_the_others(self) -> None:
        async def scenario() -> None:
            idle = [a_machine(State.IDLE, id=f"i-{at}") for at in range(20)]
            serving = [a_machine(State.CONFIGURED, id=f"c-{at}") for at in range(20)]
            executor = hands(FakeLink(*idle, *serving)).executor(workers=1, queue=8)
            orders = [
                *(an_order(ActionKind.BOOTSTRAP, f"i-{at}") for at in range(20)),
                *(an_order(ActionKind.PREEMPT, f"c-{at}") for at in range(10)),
                *(an_order(ActionKind.RECLAIM, f"c-{at}") for at in range(10, 20)),
            ]
            assert executor.offer(orders, cycle=1).accepted == 8 + 2 + 2

        in_time(scenario)


class TestDefects:
    def test_a_defect_is_contained_and_the_others_go_on(self) -> None:
        async def scenario() -> None:
            link = fleet(3)
            link.will(Call.DELETE, ZeroDivisionError("ours"))
            world = hands(link)
            executor = world.executor(workers=1, queue=5)
            executor.offer(deletes(link), cycle=1)
            await finished(executor)
            assert world.machine("metal-0").state is State.FAILED
            assert world.machine("metal-0").last_error == "ZeroDivisionError: ours"
            assert world.journal.reasons(Event.WORKER_FAILED) == ["delete"]
            assert world.journal.outcomes() == [
                Outcome.TRANSITION_ERROR, Outcome.SUCCESS, Outcome.SUCCESS,
            ]  # fmt: skip
            assert len(world.tools.ledger) == 0
            assert world.failures.bad == []

        in_time(scenario)

    def test_a_move_that_the_table_does_not_have_is_a_transition_error(self) -> None:
        async def scenario() -> None:
            world = hands(a_link(State.IDLE))

            class Stuck(Moves):
                @override
                def to(self, machine: MachineId, state: State, **changes: Any) -> Machine:
                    raise IllegalTransition("nowhere to go")

            tools = world.tools
            moves = Stuck(tools.inventory, tools.ledger, tools.clusters, tools.clock)
            world.tools = dataclasses.replace(tools, moves=moves)
            await carried_out(world, an_order(ActionKind.DELETE))
            assert world.journal.outcomes() == [Outcome.TRANSITION_ERROR]
            assert world.machine().state is State.IDLE

        in_time(scenario)


class TestFenced:
    def test_after_the_fence_nothing_more_is_executed(self) -> None:
        async def scenario() -> None:
            link, other = fleet(4), fleet(1, name="other")
            link.will(Call.DELETE, Fenced("stale", epoch=8))
            world = hands(link, other)
            executor = world.executor(workers=1, queue=10)

            async def offers() -> None:
                executor.offer(deletes(link), cycle=1)
                await asyncio.sleep(1)
                offered = executor.offer([*deletes(link)[1:], *deletes(other)], cycle=2)
                assert offered == Offered(held=4)

            await while_running(executor, offers())
            assert len(link.calls) == 1
            assert other.calls == []
            assert world.journal.outcomes() == [Outcome.FENCED]
            assert world.journal.let_go() == [(D.SUPPRESSED, "fenced")] * 7
            assert len(world.tools.ledger) == 0

        in_time(scenario)

    def test_a_fence_that_names_no_higher_epoch_stops_that_provider_alone(self) -> None:
        async def scenario() -> None:
            link, other = fleet(2), fleet(1, name="other")
            link.will(Call.DELETE, Fenced("stale"))
            world = hands(link, other)
            executor = world.executor(workers=1, queue=10)

            async def offers() -> None:
                executor.offer(deletes(link)[:1], cycle=1)
                await asyncio.sleep(1)
                offered = executor.offer([*deletes(link)[1:], *deletes(other)], cycle=2)
                assert offered == Offered(held=1, accepted=1)
                await asyncio.sleep(1)

            await while_running(executor, offers())
            assert len(other.calls) == 1

        in_time(scenario)


class TestStopping:
    def test_what_waits_is_let_go_and_what_runs_is_told_as_cancelled(self) -> None:
        async def scenario() -> None:
            link = fleet(3)
            link.will(Call.DELETE, 5.0)
            world = hands(link)
            executor = world.executor(workers=1, queue=10)
            executor.offer(deletes(link), cycle=1)
            await finished(executor, wait_s=1)
            assert world.journal.outcomes() == [Outcome.CANCELLED]
            assert world.journal.let_go() == [(D.DROPPED, "stopped")] * 2
            assert len(world.tools.ledger) == 0

        in_time(scenario)

    @pytest.mark.parametrize("turns", range(6))
    def test_an_order_leaves_one_record_however_little_of_it_was_begun(self, turns: int) -> None:
        async def scenario() -> None:
            link = fleet(1)
            link.will(Call.DELETE, 5.0)
            world = hands(link)
            executor = world.executor(workers=1)
            running = asyncio.ensure_future(executor.run())
            await asyncio.sleep(1)
            executor.offer(deletes(link), cycle=1)
            for _ in range(turns):
                await asyncio.sleep(0)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert len(world.journal.records) == 1
            assert len(world.tools.ledger) == 0

        in_time(scenario)


def is_idle(world: Hands, order: Order) -> bool:
    return world.machine(order.action.machine).state is State.IDLE
