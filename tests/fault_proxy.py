"""A TCP proxy whose connections can be cut, or made to hang, in one direction or both.

It lives in a thread with a loop of its own, so that a test without a loop can use it too.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from typing import Final

CHUNK: Final = 1 << 16


class Direction(Enum):
    """Seen from whoever connects."""

    THERE = 0
    BACK = 1


class FaultProxy:
    """Before one `host:port`."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._host, self._port = host, int(port)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._gates: dict[Direction, asyncio.Event] = {}
        self._open: set[asyncio.StreamWriter] = set()
        self._passing: set[asyncio.Task[None]] = set()
        self._is_cut = False
        self._server: asyncio.Server | None = None
        self.address = ""

    def pass_all(self) -> None:
        """As if it were not there."""
        self._call(self._let_pass)

    def hang(self, *directions: Direction) -> None:
        """Nothing comes through and nothing is closed: as a network that loses everything."""
        self._call(lambda: self._hold(directions or tuple(Direction)))

    def cut(self) -> None:
        """Every connection is closed, and so is every new one: as a process that is not there."""
        self._call(self._sever)

    def start(self) -> None:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._serve(), self._loop).result(10)

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _call(self, change: Callable[[], None]) -> None:
        async def changed() -> None:
            change()

        asyncio.run_coroutine_threadsafe(changed(), self._loop).result(10)

    def _let_pass(self) -> None:
        self._is_cut = False
        for gate in self._gates.values():
            gate.set()

    def _hold(self, directions: tuple[Direction, ...]) -> None:
        self._is_cut = False
        for direction in directions:
            self._gates[direction].clear()

    def _sever(self) -> None:
        self._is_cut = True
        for writer in self._open:
            writer.transport.abort()

    async def _serve(self) -> None:
        self._gates = {direction: asyncio.Event() for direction in Direction}
        self._let_pass()
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _end(self) -> None:
        """Who is being accepted is waited for: cancelled, or with the server closed, the loop would
        leave the socket open.
        """
        assert self._server
        self._sever()
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in self._passing:
                task.cancel()
            await asyncio.wait(others)
        self._server.close()
        await asyncio.sleep(0)  # until what was aborted is closed

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        passing = self._loop.create_task(self._pass(reader, writer))
        self._passing.add(passing)
        passing.add_done_callback(self._passing.discard)
        passing.add_done_callback(lambda _: writer.transport.abort())

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.CancelledError):
            far_reader, far_writer = await asyncio.open_connection(self._host, self._port)
            self._open |= {writer, far_writer}
            try:
                async with asyncio.TaskGroup() as pumps:
                    pumps.create_task(self._pump(reader, far_writer, Direction.THERE))
                    pumps.create_task(self._pump(far_reader, writer, Direction.BACK))
            finally:
                self._open -= {writer, far_writer}
                far_writer.transport.abort()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: Direction
    ) -> None:
        with suppress(OSError):
            while chunk := await reader.read(CHUNK):
                await self._gates[direction].wait()
                writer.write(chunk)
                await writer.drain()
        writer.close()


@contextmanager
def fault_proxy(target: str) -> Iterator[FaultProxy]:
    """A proxy that runs while the block does; `target` is `host:port`."""
    proxy = FaultProxy(target)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()
