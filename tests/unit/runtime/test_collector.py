"""Full passes of the garbage collector come when they are meant to, and leave nothing behind."""

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable

from mainstay.runtime.collector import EVERY_S, collect_often
from virtual_loop import run

WHOLE_EVERY = 3


class Loop:
    """Something that points at itself: garbage that only a pass finds."""

    def __init__(self) -> None:
        self.itself = self


def full_passes() -> int:
    return int(gc.get_stats()[2]["collections"])


def beside(scenario: Callable[[], Awaitable[None]]) -> None:
    """The scenario, while passes are made."""

    async def both() -> None:
        async with asyncio.TaskGroup() as tasks:
            collecting = tasks.create_task(collect_often(whole_every=WHOLE_EVERY))
            await asyncio.sleep(0.5)
            await scenario()
            collecting.cancel()

    run(both())


def test_none_comes_between_them_however_much_is_made() -> None:
    async def scenario() -> None:
        before = full_passes()
        kept = [[number] for number in range(200_000)]
        assert (full_passes(), len(kept)) == (before, 200_000)
        await asyncio.sleep(EVERY_S)
        assert full_passes() == before + 1

    beside(scenario)


def test_what_points_at_itself_is_gone_after_the_next_pass() -> None:
    async def scenario() -> None:
        gone = weakref.ref(Loop())
        assert gone() is not None
        await asyncio.sleep(EVERY_S)
        assert gone() is None

    beside(scenario)


def test_what_has_outlived_one_is_looked_at_again_now_and_then() -> None:
    async def scenario() -> None:
        old = Loop()
        gone = weakref.ref(old)
        await asyncio.sleep(EVERY_S)
        del old
        await asyncio.sleep(EVERY_S)
        assert gone() is not None, "or each pass would be over everything"
        await asyncio.sleep(EVERY_S)
        assert gone() is None

    beside(scenario)


def test_in_the_end_all_is_as_it_was() -> None:
    before = gc.get_threshold()

    async def scenario() -> None:
        await asyncio.sleep(EVERY_S)
        assert gc.get_threshold() != before
        assert gc.get_freeze_count() > 0

    beside(scenario)

    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
