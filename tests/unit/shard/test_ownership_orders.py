"""Orders that are of no plan: no plan replaces them."""

import dataclasses

from mainstay.model.action import ActionKind
from mainstay.model.state import State
from mainstay.shard.executor import Executor
from mainstay.shard.outcomes import Disposition
from mainstay.shard.restrictions import Stance
from shard_hands import M, a_link, an_order, finished, hands, in_time

PREEMPT = an_order(ActionKind.PREEMPT)


def test_the_next_plan_does_not_overtake_them() -> None:
    async def scenario() -> None:
        world = hands(a_link(State.CONFIGURED))
        executor = world.executor()
        assert executor.also([PREEMPT]) == 1
        assert executor.offer([], cycle=2).overtaken == 0
        assert executor.depth == {"metal": 1}
        assert M in world.tools.ledger

    in_time(scenario)


def test_one_that_is_in_hand_is_no_news() -> None:
    async def scenario() -> None:
        world = hands(a_link(State.CONFIGURED))
        executor = world.executor()
        assert [executor.also([PREEMPT]) for _ in range(3)] == [1, 0, 0]
        assert world.journal.let_go() == []

    in_time(scenario)


def test_one_that_is_held_back_is_told_and_not_begun() -> None:
    async def scenario() -> None:
        world = hands(a_link(State.CONFIGURED))
        tools = dataclasses.replace(world.tools, stance=lambda _: Stance.PAUSE)
        assert Executor(tools, ["metal"]).also([PREEMPT]) == 0
        assert world.journal.let_go() == [(Disposition.SUPPRESSED, "pause")]

    in_time(scenario)


def test_once_begun_it_is_an_order_like_any_other() -> None:
    async def scenario() -> None:
        world = hands(a_link(State.CONFIGURED))
        executor = world.executor()
        executor.also([PREEMPT])
        await finished(executor)
        assert M not in world.tools.ledger
        assert world.tools.inventory.machine(M).state is not State.CONFIGURED

    in_time(scenario)
