"""Coroutines that live and die together."""

import asyncio

import pytest

from mainstay.runtime.beside import beside
from virtual_loop import run


class Sleeper:
    """Sleeps for an hour, and knows whether it was let."""

    cancelled = False

    async def sleep(self) -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            self.cancelled = True
            raise


async def fail(after_s: float) -> None:
    await asyncio.sleep(after_s)
    raise KeyError(after_s)


def test_the_end_of_the_one_that_counts_ends_the_others() -> None:
    sleeper = Sleeper()

    assert run(beside(asyncio.sleep(1, "done"), sleeper.sleep(), sleeper.sleep())) == "done"
    assert sleeper.cancelled


def test_an_error_of_any_ends_all_and_is_raised_as_it_is() -> None:
    sleeper = Sleeper()

    with pytest.raises(KeyError, match="1"):
        run(beside(sleeper.sleep(), fail(1)))
    with pytest.raises(KeyError, match="2"):
        run(beside(fail(2), sleeper.sleep()))
    with pytest.raises(KeyError, match="3"):
        run(beside(sleeper.sleep(), beside(sleeper.sleep(), fail(3))))
    assert sleeper.cancelled


def test_another_that_ends_by_itself_ends_nobody() -> None:
    async def brief() -> None:
        await asyncio.sleep(0)

    assert run(beside(asyncio.sleep(5, "done"), brief())) == "done"


def test_who_cancels_it_cancels_all() -> None:
    async def scenario() -> None:
        sleeper = Sleeper()
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(beside(sleeper.sleep(), sleeper.sleep()))
            await asyncio.sleep(1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert sleeper.cancelled

    run(scenario())


def test_who_cancels_it_is_obeyed_even_when_something_fails_at_that_moment() -> None:
    """Or a loop around it would go on as if nothing had been said."""

    async def fail_when_cancelled() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            raise KeyError("late")

    async def scenario() -> None:
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(beside(asyncio.sleep(3600), fail_when_cancelled()))
            await asyncio.sleep(1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    run(scenario())
