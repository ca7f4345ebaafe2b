"""What the flows share: what each refusal means, and machines that change under our hands."""

import asyncio
import dataclasses
from collections.abc import Callable

import pytest

from builders import a_machine
from mainstay.model.action import ActionKind
from mainstay.model.calls import Call
from mainstay.model.errors import (
    Fenced,
    IllegalTransition,
    InvalidMachine,
    MainstayError,
    NoCapacity,
    NotSupported,
    Rejected,
    Unavailable,
    UnknownMachine,
)
from mainstay.model.machine import Machine
from mainstay.model.state import State
from mainstay.shard.events import Event
from mainstay.shard.hands.calling import CallOptions
from mainstay.shard.hands.flows import reaction_to
from mainstay.shard.outcomes import Outcome
from mainstay.shard.restrictions import Stance
from shard_hands import (
    FakeLink,
    Hands,
    M,
    a_link,
    an_order,
    carried_out,
    hands,
    in_time,
    while_running,
)

DELETE = an_order(ActionKind.DELETE)


@pytest.mark.parametrize(
    ("error", "outcome", "hardware"),
    [
        (Fenced("x"), Outcome.FENCED, False),
        (NoCapacity("x"), Outcome.NO_CAPACITY, False),
        (Unavailable("x"), Outcome.PROVIDER_ERROR, False),
        (NotSupported("x"), Outcome.NOT_SUPPORTED, False),
        (UnknownMachine("x"), Outcome.UNKNOWN_MACHINE, False),
        (IllegalTransition("x"), Outcome.PROVIDER_ERROR, False),
        (InvalidMachine("x", rule="price"), Outcome.REFUSED_ACK, True),
        (Rejected("x"), Outcome.PROVIDER_ERROR, True),
        (MainstayError("x"), Outcome.PROVIDER_ERROR, True),
    ],
)
def test_each_refusal_has_an_outcome_and_only_some_blame_the_machine(
    error: MainstayError, outcome: Outcome, hardware: bool
) -> None:
    assert reaction_to(error) == (outcome, hardware)


def test_an_attempt_has_ten_seconds() -> None:
    assert CallOptions().timeout_s == 10.0


class TestUnderOurHands:
    def test_a_machine_that_is_gone_when_its_call_is_refused_is_gone(self) -> None:
        async def scenario() -> None:
            world = refusing(lambda world: world.tools.inventory.remove(M))
            await carried_out(world, DELETE)
            assert world.journal.outcomes() == [Outcome.UNKNOWN_MACHINE]
            assert world.journal.reasons(Event.WORKER_FAILED) == []

        in_time(scenario)

    def test_one_that_has_come_to_rest_when_its_call_is_refused_is_left_there(self) -> None:
        async def scenario() -> None:
            world = refusing(lambda world: world.tools.moves.to(M, State.SPECULATIVE))
            await carried_out(world, DELETE)
            assert world.machine().state is State.SPECULATIVE
            assert world.journal.outcomes() == [Outcome.STALE_STATE]
            assert world.journal.reasons(Event.WORKER_FAILED) == []
            assert "in use" in world.journal.records[0].detail

        in_time(scenario)


class TestFigures:
    def test_what_is_under_way_and_how_long_it_took_is_counted(self) -> None:
        async def scenario() -> None:
            await asyncio.sleep(50)
            link = FakeLink(*(a_machine(State.IDLE, id=f"m-{at}") for at in range(2)))
            link.will(Call.DELETE, 4.0, 6.0)
            world = hands(link)
            executor = world.executor(workers=2)

            async def offers() -> None:
                executor.offer([an_order(ActionKind.DELETE, f"m-{at}") for at in range(2)], cycle=1)
                await asyncio.sleep(1)
                assert executor.in_flight == {"metal": 2}
                await asyncio.sleep(4)
                assert executor.in_flight == {"metal": 1}
                await asyncio.sleep(4)
                assert executor.in_flight == {"metal": 0}

            await while_running(executor, offers())
            assert [round(each.seconds, 3) for each in world.journal.records] == [4.0, 6.0]

        in_time(scenario)


def refusing(meanwhile: Callable[[Hands], object]) -> Hands:
    """A provider that refuses a delete, after something has happened to the machine."""
    link = a_link(State.IDLE)
    world = hands(link)

    def refuses(told: Machine) -> Machine:
        meanwhile(world)
        raise Rejected("in use")

    link.will(Call.DELETE, refuses)
    return world


class TestPauseBetweenAttempts:
    @pytest.mark.parametrize("stance", [Stance.PAUSE, Stance.SHADOW])
    @pytest.mark.parametrize(
        ("kind", "call", "before", "during"),
        [
            (ActionKind.PROVISION, Call.CREATE, State.SPECULATIVE, State.CREATING),
            (ActionKind.BOOTSTRAP, Call.CONFIGURE, State.IDLE, State.CONFIGURING),
            (ActionKind.RECLAIM, Call.DRAIN, State.CONFIGURED, State.DRAINING),
            (ActionKind.PREEMPT, Call.DRAIN, State.CONFIGURED, State.DRAINING),
            (ActionKind.DELETE, Call.DELETE, State.IDLE, State.DELETING),
        ],
    )
    def test_no_further_attempt_goes_out_and_the_machine_is_asked_for(
        self, kind: ActionKind, call: Call, before: State, during: State, stance: Stance
    ) -> None:
        """One before may have been accepted: the machine is neither failed nor given back."""

        async def scenario() -> None:
            link = a_link(before)
            link.will(call, Unavailable("no route"), Unavailable("no route"))
            world = hands(link)
            owed: list[tuple[str, str]] = []
            world.tools = dataclasses.replace(
                world.tools,
                stance=lambda _: stance if len(link.calls) >= 2 else Stance.ACT,
                owe=lambda machine, source: owed.append((machine, source)),
            )
            await carried_out(world, an_order(kind))
            assert [each for each, _ in link.calls] == [call] * 2
            assert world.machine().state is during
            assert world.journal.outcomes() == [Outcome.HELD_BACK]
            assert owed == [(M, "metal")]
            assert world.failures.bad == []
            assert M not in world.tools.ledger

        in_time(scenario)
