"""A place for one value."""

import asyncio

from mainstay.runtime.slot import Slot
from virtual_loop import run


def test_only_the_newest_value_is_there() -> None:
    slot: Slot[int] = Slot()

    assert [slot.put(1), slot.put(2)] == [False, True]
    assert slot.take() == 2
    assert not slot.put(3)


def test_who_waits_is_woken_once_for_each_value_taken() -> None:
    async def scenario() -> list[int]:
        slot: Slot[int] = Slot()
        taken: list[int] = []

        async def reader() -> None:
            while True:
                await slot.wait()
                taken.append(slot.take())

        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(reader())
            for number in range(3):
                slot.put(number)
                slot.put(number + 10)
                await asyncio.sleep(1)
            reading.cancel()
        return taken

    assert run(scenario()) == [10, 11, 12]
