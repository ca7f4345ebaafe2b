"""Steps that a provider accepted and never finished: a deadline, one Get, then Failed."""

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from builders import a_machine, a_need, an_assignment
from mainstay.engine.lookup import rows_of
from mainstay.model.action import ActionKind
from mainstay.model.assignment import NO_ASSIGNMENT
from mainstay.model.calls import Call
from mainstay.model.commitment import commitment, full_commitment
from mainstay.model.errors import Unavailable, UnknownMachine
from mainstay.model.ids import MachineId
from mainstay.model.profile import HostRef
from mainstay.model.state import TRANSITIONAL, State
from mainstay.shard.events import Event
from mainstay.shard.hands.overdue import DEADLINES_S, Overdue
from shard_hands import WEB, FakeLink, Hands, M, a_link, an_order, carried_out, hands, in_time

DEADLINES = {
    State.CREATING: 1800.0,
    State.CONFIGURING: 900.0,
    State.DRAINING: 2400.0,
    State.DELETING: 900.0,
}
S = State
EVERY_S = 10.0


def test_each_state_that_is_on_its_way_has_a_deadline() -> None:
    assert dict(DEADLINES_S) == DEADLINES
    assert set(DEADLINES) == TRANSITIONAL


async def watched(
    world: Hands, seconds: float, *, at: Callable[[float], None] | None = None
) -> None:
    """Look every ten seconds, for so long."""
    overdue = Overdue(world.tools, world.links)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(overdue.run())
        began = world.tools.clock.elapsed_s()
        while world.tools.clock.elapsed_s() - began <= seconds:
            if at is not None:
                at(world.tools.clock.elapsed_s() - began)
            overdue.look(world.tools.inventory.snapshot(), world.tools.clock.elapsed_s())
            await asyncio.sleep(EVERY_S)
        running.cancel()


def a_stuck(state: State) -> FakeLink:
    return a_link(state, slow=True)


class TestDeadline:
    @pytest.mark.parametrize("state", sorted(DEADLINES))
    def test_a_step_within_its_deadline_is_left_alone(self, state: State) -> None:
        async def scenario() -> None:
            world = hands(a_stuck(state))
            await watched(world, DEADLINES[state] - EVERY_S)
            assert world.machine().state is state
            assert world.link.gets == []

        in_time(scenario)

    @pytest.mark.parametrize("state", sorted(DEADLINES))
    def test_one_that_is_still_on_its_way_then_is_failed_with_a_diagnosis(
        self, state: State
    ) -> None:
        async def scenario() -> None:
            world = hands(a_stuck(state))
            await watched(world, DEADLINES[state])
            machine = world.machine()
            assert machine.state is State.FAILED
            assert machine.last_error.startswith(f"{state} for {DEADLINES[state]:.0f} s")
            assert f"it is {state}" in machine.last_error
            assert world.link.gets == [M]
            assert world.journal.reasons(Event.STEP_OVERDUE) == [state.name.lower()]
            assert world.failures.bad == [M]
            assert M not in world.tools.ledger

        in_time(scenario)

    def test_one_that_its_provider_does_not_know_is_failed_too_and_blamed_on_nobody(self) -> None:
        async def scenario() -> None:
            link = a_stuck(State.CREATING)
            link.will(Call.GET, UnknownMachine("gone"))
            world = hands(link)
            await watched(world, 1800)
            assert world.machine().state is State.FAILED
            assert "gone" in world.machine().last_error
            assert world.failures.bad == []

        in_time(scenario)

    def test_one_that_cannot_be_asked_for_is_asked_for_again(self) -> None:
        async def scenario() -> None:
            link = a_stuck(State.CREATING)
            link.will(Call.GET, *[Unavailable("no route")] * 10)
            world = hands(link)

            def is_done(now_s: float) -> None:
                if now_s == 1850:
                    assert len(link.gets) == 5
                    link.finish()

            await watched(world, 1800 + 110, at=is_done)
            assert world.machine().state is State.IDLE

        in_time(scenario)

    def test_a_provider_that_lists_and_answers_nothing_else_does_not_keep_it_for_ever(self) -> None:
        async def scenario() -> None:
            link = a_stuck(State.CREATING)
            link.will(Call.GET, *[Unavailable("no route")] * 100)
            world = hands(link)

            def is_patient(now_s: float) -> None:
                if now_s == 1800 + 290:
                    assert world.machine().state is State.CREATING

            await watched(world, 1800 + 310, at=is_patient)
            assert world.machine().state is State.FAILED
            assert "no route" in world.machine().last_error

        in_time(scenario)

    def test_nor_does_one_that_lists_and_whose_other_answers_never_come(self) -> None:
        async def scenario() -> None:
            link = a_stuck(State.CREATING)
            link.will(Call.GET, *[3600.0] * 100)
            world = hands(link)

            def is_patient(now_s: float) -> None:
                if now_s == 1800 + 290:
                    assert world.machine().state is State.CREATING

            await watched(world, 1800 + 330, at=is_patient)
            assert world.machine().state is State.FAILED
            assert "did not answer within 10 s" in world.machine().last_error
            assert M not in world.tools.ledger

        in_time(scenario)

    def test_time_in_which_its_provider_does_not_answer_does_not_count(self) -> None:
        async def scenario() -> None:
            world = hands(a_stuck(State.CREATING))
            overdue, away = Overdue(world.tools, world.links), frozenset({"metal"})
            async with asyncio.TaskGroup() as tasks:
                running = tasks.create_task(overdue.run())
                for now_s in range(0, 3_000, 10):
                    silent = away if 1_000 <= now_s < 2_100 else frozenset[str]()
                    overdue.look(world.tools.inventory.snapshot(), float(now_s), silent=silent)
                    await asyncio.sleep(EVERY_S)
                    if now_s < 2_900:
                        assert world.machine().state is State.CREATING
                        assert world.link.gets == []
                running.cancel()
            assert world.machine().state is State.FAILED

        in_time(scenario)

    def test_what_was_touched_between_two_looks_counts_though_lists_need_it_no_more(self) -> None:
        async def scenario() -> None:
            world = hands(a_stuck(State.CREATING))
            overdue, inventory = Overdue(world.tools, world.links), world.tools.inventory
            overdue.look(inventory.snapshot(), 0.0)
            world.tools.ledger.touch(M)
            world.tools.ledger.forget_before(1e6)
            overdue.look(inventory.snapshot(), 1_000.0)
            overdue.look(inventory.snapshot(), 2_000.0)
            assert overdue._late["metal"].empty()

        in_time(scenario)

    def test_a_machine_counts_from_when_it_was_last_in_our_hands(self) -> None:
        async def scenario() -> None:
            world = hands(a_link(State.SPECULATIVE, slow=True))
            overdue = Overdue(world.tools, world.links)
            await carried_out(world, an_order(ActionKind.PROVISION), wait_s=600)
            assert world.machine().state is State.CREATING
            async with asyncio.TaskGroup() as tasks:
                running = tasks.create_task(overdue.run())
                for _ in range(2):
                    overdue.look(world.tools.inventory.snapshot(), world.tools.clock.elapsed_s())
                    await asyncio.sleep(1000)
                    world.tools.ledger.touch(M)
                overdue.look(world.tools.inventory.snapshot(), world.tools.clock.elapsed_s())
                await asyncio.sleep(1)
                running.cancel()
            assert world.machine().state is State.CREATING

        in_time(scenario)

    @pytest.mark.parametrize(("after_s", "state"), [(890, S.CONFIGURING), (910, S.FAILED)])
    def test_each_new_step_begins_its_own_count(self, after_s: float, state: State) -> None:
        async def scenario() -> None:
            world = hands(a_stuck(State.CREATING))

            def made(now_s: float) -> None:
                if now_s == 1700:
                    world.tools.moves.to(M, State.IDLE, host=HostRef("metal", "h"))
                    world.tools.moves.to(M, State.CONFIGURING, cluster=WEB)

            await watched(world, 1700 + after_s, at=made)
            assert world.machine().state is state

        in_time(scenario)

    def test_a_machine_in_flight_is_not_taken_out_of_our_own_hands(self) -> None:
        async def scenario() -> None:
            world = hands(a_stuck(State.CONFIGURING))
            world.tools.ledger.take(M)
            await watched(world, 5000)
            assert world.machine().state is State.CONFIGURING
            assert world.link.gets == []

        in_time(scenario)

    def test_one_that_is_taken_in_hand_meanwhile_is_asked_for_when_it_is_late_again(self) -> None:
        async def scenario() -> None:
            world = hands(a_stuck(State.DELETING))
            overdue = Overdue(world.tools, world.links)
            for now_s in (0.0, 900.0, 910.0, 920.0):
                overdue.look(world.tools.inventory.snapshot(), now_s)
            assert overdue._late["metal"].qsize() == 1
            world.tools.ledger.take(M)
            async with asyncio.TaskGroup() as tasks:
                running = tasks.create_task(overdue.run())
                await asyncio.sleep(1000)
                assert world.link.gets == []
                assert M in world.tools.ledger
                world.tools.ledger.give_back(M)
                for _ in range(2):
                    overdue.look(world.tools.inventory.snapshot(), world.tools.clock.elapsed_s())
                    await asyncio.sleep(900)
                overdue.look(world.tools.inventory.snapshot(), world.tools.clock.elapsed_s())
                await asyncio.sleep(1)
                running.cancel()
            assert world.link.gets == [M]

        in_time(scenario)

    def test_a_machine_that_is_removed_and_comes_back_counts_anew(self) -> None:
        async def scenario() -> None:
            world = hands(a_stuck(State.CREATING))
            ours = world.machine()

            def again(now_s: float) -> None:
                if now_s == 1000:
                    world.tools.inventory.remove(M)
                if now_s == 1010:
                    world.tools.inventory.add(ours, now=0.0, source="metal")

            await watched(world, 1010 + 1790, at=again)
            assert world.machine().state is State.CREATING

        in_time(scenario)

    def test_two_that_come_back_in_each_others_place_count_both(self) -> None:
        async def scenario() -> None:
            world = hands(a_stuck(State.CREATING))
            inventory, ours = world.tools.inventory, world.machine()
            other = dataclasses.replace(ours, id=MachineId("m-2"))
            inventory.add(other, now=0.0, source="metal")

            def again(now_s: float) -> None:
                if now_s == 1000:
                    before = rows_of(inventory.snapshot(), [M, other.id])
                    for name in (M, other.id):
                        inventory.remove(name)
                    for machine in (ours, other):
                        inventory.add(machine, now=0.0, source="metal")
                    after = rows_of(inventory.snapshot(), [other.id, M])
                    assert before.tolist() == after.tolist(), "or this proves nothing"

            await watched(world, 1000 + 2000, at=again)
            assert set(world.link.gets) == {M, other.id}

        in_time(scenario)

    def test_a_provider_that_hangs_holds_up_only_its_own(self) -> None:
        async def scenario() -> None:
            hung = FakeLink(
                *(a_machine(State.DELETING, id=f"h-{at}") for at in range(50)), name="hung"
            )
            hung.will(Call.GET, *[1000.0] * 100)
            well = FakeLink(a_machine(State.DELETING, id="w-1"), name="well")
            world = hands(hung, well)
            overdue = Overdue(world.tools, world.links)
            async with asyncio.TaskGroup() as tasks:
                running = tasks.create_task(overdue.run())
                overdue.look(world.tools.inventory.snapshot(), 0.0)
                overdue.look(world.tools.inventory.snapshot(), 900.0)
                await asyncio.sleep(1)
                running.cancel()
            assert world.machine("w-1").state is State.FAILED
            assert world.machine("h-0").state is State.DELETING

        in_time(scenario)


class TestFinishedByGet:
    @pytest.mark.parametrize(
        ("state", "after"),
        [
            (State.CREATING, State.IDLE),
            (State.CONFIGURING, State.CONFIGURED),
            (State.DRAINING, State.IDLE),
            (State.DELETING, State.SPECULATIVE),
        ],
    )
    def test_a_step_that_turns_out_to_be_done_is_done(self, state: State, after: State) -> None:
        async def scenario() -> None:
            meant = {
                State.CREATING: commitment(a_need()),
                State.CONFIGURING: full_commitment(a_need()),
                State.DRAINING: an_assignment(),
                State.DELETING: NO_ASSIGNMENT,
            }[state]
            bound: dict[str, Any] = (
                {"cluster": WEB} if state in {State.CONFIGURING, State.DRAINING} else {}
            )
            link = a_link(state, assignment=meant, **bound)
            world = hands(link)
            link.finish()
            await watched(world, DEADLINES[state])
            machine = world.machine()
            assert machine.state is after
            assert world.journal.reasons(Event.STEP_OVERDUE) == []
            assert world.failures.good == [M]
            configured = after is State.CONFIGURED
            assert machine.assignment == (meant if configured else NO_ASSIGNMENT)
            assert world.configured == [M] * configured

        in_time(scenario)

    def test_one_that_has_failed_there_keeps_the_providers_diagnosis(self) -> None:
        async def scenario() -> None:
            link = a_stuck(State.CREATING)
            world = hands(link)
            link.machines[M] = a_machine(State.FAILED, last_error="no power")
            await watched(world, 1800)
            assert world.machine().last_error == "create: no power"

        in_time(scenario)

    def test_one_that_cannot_have_come_to_where_it_is_is_failed(self) -> None:
        async def scenario() -> None:
            link = a_stuck(State.CREATING)
            world = hands(link)
            link.machines[M] = a_machine(State.SPECULATIVE)
            await watched(world, 1800)
            assert world.machine().state is State.FAILED
            assert "it is Speculative" in world.machine().last_error

        in_time(scenario)

    def test_one_that_a_list_finishes_meanwhile_is_left_alone(self) -> None:
        async def scenario() -> None:
            link = a_stuck(State.CREATING)
            world = hands(link)

            def listed(now_s: float) -> None:
                if now_s == 1800:
                    world.tools.moves.to(M, State.IDLE, host=HostRef("metal", "h"))

            await watched(world, 1900, at=listed)
            assert world.machine().state is State.IDLE
            assert link.gets == []

        in_time(scenario)


def test_a_defect_in_finishing_one_machine_ends_no_other_and_it_is_asked_for_again() -> None:
    async def scenario() -> None:
        link = a_stuck(State.CONFIGURING)
        world = hands(link)
        link.will(Call.GET, RuntimeError("on purpose"))
        await watched(world, DEADLINES[State.CONFIGURING] + 5)
        assert world.journal.reasons(Event.WORKER_FAILED) == ["overdue"]
        assert world.machine().state is State.CONFIGURING
        assert M not in world.tools.ledger

        await watched(world, 2 * DEADLINES[State.CONFIGURING])
        assert world.machine().state is State.FAILED

    in_time(scenario)
