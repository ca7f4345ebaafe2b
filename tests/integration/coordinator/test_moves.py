"""Machines that change shards, with real processes: the gentlest way first, one owner at any time,
and the end is the same whoever dies on the way. Who has which machine is looked at all the while.

Shard a has most of the machines, b has one and asks for more.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from random import Random
from typing import Final

import pytest

from coordinators import eventually
from linked_shards import machines, serves
from mainstay.model.state import State
from moving import BOUGHT, MORE, SLOTS, Fleet, running, settle_in
from outside import soak_factor
from running import Home, at_home

BY_IDLE: Final = (1, "a", "b", "done")
BY_SLOTS: Final = (2, "a", "b", "done")
BY_DRAINING: Final = (3, "a", "b", "done")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with at_home(tmp_path) as found:
        settle_in(found)
        yield found


def test_an_idle_machine_of_one_shard_moves_to_another_that_is_short_and_serves_there(
    home: Home,
) -> None:
    async def scenario() -> None:
        async with running(home) as fleet:
            fleet.low(1)
            await eventually(serves(fleet.linked.a, 1))
            idle = await machines(fleet.linked.a, State.IDLE)
            fleet.high(2)
            await fleet.serve(a=1, b=2)

            (move,) = await fleet.settled()
            assert (move.tier, move.donor, move.recipient, move.state) == BY_IDLE
            assert {*move.machines} <= idle
            assert {*move.machines} <= await machines(fleet.linked.b, State.CONFIGURED)
            assert fleet.hands["batch"].told == []

    asyncio.run(scenario())


def test_slots_move_where_no_machine_is_idle_and_are_bought_by_who_was_short(home: Home) -> None:
    async def scenario() -> None:
        async with running(home) as fleet:
            fleet.low(BOUGHT)
            await eventually(serves(fleet.linked.a, BOUGHT))
            slots = await machines(fleet.linked.a, State.SPECULATIVE)
            fleet.high(3)
            await fleet.serve(a=BOUGHT, b=3)

            (move,) = await fleet.settled()
            assert (move.tier, move.donor, move.recipient, move.state) == BY_SLOTS
            assert len(move.machines) == 2
            assert {*move.machines} <= slots
            assert {*move.machines} <= await machines(fleet.linked.b, State.CONFIGURED)
            assert fleet.hands["batch"].told == []

    asyncio.run(scenario())


def test_where_nothing_is_free_what_matters_less_is_drained_with_notice_and_serves_elsewhere(
    home: Home,
) -> None:
    async def scenario() -> None:
        async with running(home) as fleet:
            fleet.low(BOUGHT + SLOTS)
            await eventually(serves(fleet.linked.a, BOUGHT + SLOTS))
            fleet.high(2)
            await fleet.serve(a=BOUGHT + SLOTS - 1, b=2)

            (move,) = [move for move in await fleet.settled() if move.machines]
            assert (move.tier, move.donor, move.recipient, move.state) == BY_DRAINING
            assert {*move.machines} <= await machines(fleet.linked.b, State.CONFIGURED)
            (told,) = fleet.hands["batch"].told
            assert {*told.nodes} == {*move.machines}
            assert told.preemptor_priority == MORE
            assert told.grace_s > 0

    asyncio.run(scenario())


async def idle_moves(fleet: Fleet) -> tuple[int, int]:
    fleet.low(2)
    await eventually(serves(fleet.linked.a, 2))
    fleet.high(2)
    return 2, 2


async def slots_move(fleet: Fleet) -> tuple[int, int]:
    fleet.high(2, 1)
    return 2, 3


async def less_is_drained(fleet: Fleet) -> tuple[int, int]:
    fleet.low(3)
    await eventually(serves(fleet.linked.a, 3), patience_s=60)
    fleet.high(2, 1, 1)
    return 2, 4


STEPS: Final[tuple[Callable[[Fleet], Awaitable[tuple[int, int]]], ...]] = (
    idle_moves,
    slots_move,
    less_is_drained,
)
"""Each makes one more machine move; so many serve then, in a and in b."""

VICTIMS: Final = ("a", "b", "c")


@pytest.mark.parametrize("seed", range(len(VICTIMS) if soak_factor() > 1 else 1))
def test_moves_end_the_same_whoever_is_killed_while_they_are_under_way(
    home: Home, seed: int
) -> None:
    """Donor, recipient and coordinator, one in each kind of move, at a moment that the seed says;
    long runs kill each of them in each.
    """
    random = Random(seed)

    async def scenario() -> None:
        async with running(home) as fleet:
            for at, step in enumerate(STEPS):
                victim, known = VICTIMS[(at + seed) % len(VICTIMS)], await fleet.known()
                a, b = await step(fleet)
                await fleet.begun(known, b)
                await asyncio.sleep(random.uniform(0.0, 1.5))
                fleet.linked.kill(victim)
                await fleet.linked.start(victim)
                await fleet.serve(a=a, b=b)
                await fleet.settled()
            assert fleet.linked.running["c"].metric("mainstay_coordinator_conflicts") == 0

    asyncio.run(scenario())
