"""How a shard waits for its providers when it starts."""

import asyncio
import contextlib
import math
from collections.abc import Sequence

from mainstay.shard.facts import Health
from mainstay.shard.lists.feeds import Feed


async def wait_first(
    feeds: Sequence[Feed], *, patience_s: float, others_s: float = math.inf
) -> bool:
    """Wait until every provider has answered or failed once; for `patience_s` at most, and for no
    more than `others_s` once one has answered. Whether all have.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(patience_s) as patience, asyncio.TaskGroup() as tasks:
            for feed in feeds:
                tasks.create_task(_hear(feed, patience, others_s))
    return all(feed.answered for feed in feeds)


async def _hear(feed: Feed, patience: asyncio.Timeout, others_s: float) -> None:
    """Wait for one provider; when it answers, there is less patience with the others."""
    feed.ask()
    await feed.first()
    if feed.health is Health.ANSWERING and not patience.expired():
        others_at_s = asyncio.get_running_loop().time() + others_s
        patience.reschedule(min(patience.when() or math.inf, others_at_s))
