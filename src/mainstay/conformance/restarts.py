"""One restart of the provider for all the checks that wait for it."""

import asyncio
from collections.abc import Awaitable, Callable

Begin = Callable[[], Awaitable[None]]


class Restarts:
    """Restarts the provider when everybody who is going to wait does wait."""

    def __init__(self, restart: Callable[[], Awaitable[None]] | None) -> None:
        self._restart = restart
        self._expected = 0
        self._waiting: list[tuple[Begin | None, asyncio.Future[None]]] = []
        self._ready = asyncio.Event()

    @property
    def possible(self) -> bool:
        """Whether anybody told how."""
        return self._restart is not None

    def expect(self, checks: int) -> None:
        """So many checks are going to wait."""
        self._expected = checks

    async def arrive(self, begin: Begin | None) -> None:
        """Wait for the restart; raises what `begin` or the restart raised."""
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((begin, over))
        self._look()
        await over

    def leave(self) -> None:
        """A check that will not wait any more: it is over, or it never got so far."""
        self._expected -= 1
        self._look()

    async def run(self) -> None:
        """Restart once, when everybody is there. Begins what must be under way, then strikes."""
        if self._expected == 0:
            return
        await self._ready.wait()
        going = [over for begin, over in self._waiting if await _begun(begin, over)]
        try:
            if self._restart is not None and going:
                await self._restart()
        except Exception as error:  # noqa: BLE001 - told to everybody who waits
            for over in going:
                over.set_exception(error)
        for over in going:
            if not over.done():
                over.set_result(None)

    def _look(self) -> None:
        if len(self._waiting) >= self._expected:
            self._ready.set()


async def _begun(begin: Begin | None, over: "asyncio.Future[None]") -> bool:
    """Begin what one check wants under way; if it cannot be begun, only that check is told."""
    try:
        if begin is not None:
            await begin()
    except Exception as error:  # noqa: BLE001 - told to the one who waits
        over.set_exception(error)
    return not over.done()
