"""One call at a time for each key, and only the newest."""

import asyncio
from collections.abc import Awaitable, Callable

from mainstay.session.newest import Newest
from virtual_loop import run


class Hall:
    """Handles slowly, and notes who was in at the same time."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.inside: list[str] = []
        self.most = 0
        self.clash = False

    async def handle(self, value: str) -> None:
        self.clash |= value[0] in {other[0] for other in self.inside}
        self.inside.append(value)
        self.most = max(self.most, len(self.inside))
        await asyncio.sleep(1)
        self.inside.remove(value)
        self.done.append(value)


def in_hall(scenario: Callable[[Newest[str]], Awaitable[None]], *, workers_max: int = 32) -> Hall:
    hall = Hall()

    async def whole() -> None:
        async with asyncio.TaskGroup() as tasks:
            await scenario(Newest(hall.handle, tasks, workers_max=workers_max))

    run(whole())
    return hall


def test_different_keys_are_handled_side_by_side() -> None:
    async def scenario(newest: Newest[str]) -> None:
        for value in ("a1", "b1", "c1"):
            newest.put(value[0], value)

    assert in_hall(scenario).most == 3


def test_of_one_key_one_at_a_time_and_what_is_overtaken_is_never_done() -> None:
    async def scenario(newest: Newest[str]) -> None:
        for value in ("a1", "b1"):
            newest.put(value[0], value)
        await asyncio.sleep(0.5)
        for value in ("a2", "a3", "a4"):
            newest.put(value[0], value)

    hall = in_hall(scenario)
    assert hall.done == ["a1", "b1", "a4"]
    assert not hall.clash


def test_never_more_at_a_time_than_there_are_workers() -> None:
    async def scenario(newest: Newest[str]) -> None:
        for value in "abcdefg":
            newest.put(value, value)

    hall = in_hall(scenario, workers_max=2)
    assert (hall.most, sorted(hall.done)) == (2, list("abcdefg"))


def test_what_is_put_when_all_is_done_is_handled_too() -> None:
    async def scenario(newest: Newest[str]) -> None:
        newest.put("a", "a1")
        await asyncio.sleep(5)
        newest.put("a", "a2")

    assert in_hall(scenario, workers_max=1).done == ["a1", "a2"]


def test_a_free_worker_leaves_alone_what_another_has_in_hand() -> None:
    async def scenario(newest: Newest[str]) -> None:
        newest.put("a", "a1")
        await asyncio.sleep(0.2)
        newest.put("a", "a2")
        newest.put("b", "b1")

    hall = in_hall(scenario)
    assert not hall.clash
    assert hall.done == ["a1", "b1", "a2"]
