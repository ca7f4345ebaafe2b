"""Until somebody says stop."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def until_told() -> AsyncIterator[asyncio.Event]:
    """An event that is set by SIGTERM or SIGINT."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        yield stop
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
