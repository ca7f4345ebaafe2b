"""Very many machines that go or are retired at once: others have a turn, and may interfere."""

import asyncio
from collections.abc import Callable

import pytest

from builders import a_machine
from mainstay.model.ids import MachineId
from mainstay.model.state import State
from reconciling import FakeLink, World, play

COUNT = 1000
NAMES = [f"m-{number:04d}" for number in range(COUNT)]
LAST = MachineId(NAMES[-1])


def all_go(link: FakeLink) -> None:
    link.take_away(*NAMES)


def all_are_elsewhere(link: FakeLink) -> None:
    link.put(*[a_machine(State.SPECULATIVE, id=name) for name in NAMES])


WAYS = pytest.mark.parametrize("happens", [all_go, all_are_elsewhere])


async def looked_beside(w: World, at_first: Callable[[], object] = lambda: None) -> list[int]:
    """How many machines others saw, turn by turn, while a look took in what has happened."""
    seen: list[int] = []

    async def others() -> None:
        while True:
            if seen and len(w.inventory) != seen[0] and seen[-1] == seen[0]:
                at_first()
            seen.append(len(w.inventory))
            await asyncio.sleep(0)

    watching = asyncio.ensure_future(others())
    await w.look()
    watching.cancel()
    return seen


@WAYS
def test_others_have_a_turn_meanwhile(happens: Callable[[FakeLink], None]) -> None:
    async def scenario(w: World) -> None:
        await w.first()
        happens(w.links["metal"])
        seen = await looked_beside(w)
        assert len({count for count in seen if 0 < count < COUNT}) >= 2

    play(scenario, FakeLink(*[a_machine(State.CONFIGURED, id=name) for name in NAMES]))


@WAYS
def test_what_came_into_our_hands_meanwhile_is_left_alone_and_asked_for(
    happens: Callable[[FakeLink], None],
) -> None:
    async def scenario(w: World) -> None:
        await w.first()
        before = w.inventory.machine(LAST)
        happens(w.links["metal"])
        await looked_beside(w, lambda: w.ledger.take(LAST))
        assert w.inventory.machine(LAST) == before

        w.ledger.give_back(LAST)
        await w.cycles(3)
        left = w.state(LAST) if w.has(LAST) else None
        assert left == (None if happens is all_go else State.SPECULATIVE)

    play(scenario, FakeLink(*[a_machine(State.CONFIGURED, id=name) for name in NAMES]))
