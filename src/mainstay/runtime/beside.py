"""Several coroutines that live and die together, around one that counts."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import TypeVar

AnswerT = TypeVar("AnswerT")


async def beside(main: Awaitable[AnswerT], *others: Coroutine[object, object, None]) -> AnswerT:
    """`main` to its end, with the others next to it, which are cancelled then.

    The first error of any of them ends all, and is raised as it is: not as a group.
    """
    try:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(other) for other in others]
            answer = await main
            for task in running:
                task.cancel()
    except BaseExceptionGroup as group:
        if _is_to_end():
            raise asyncio.CancelledError from None  # a group would let it go on
        raise _first(group) from None
    return answer


def _is_to_end() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
