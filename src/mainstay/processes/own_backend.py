"""A backend that somebody else wrote: found by its name, served, examined."""

import asyncio
import importlib
import sys
import tempfile
import traceback
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from random import Random
from typing import Final

from mainstay.conformance.check import Check
from mainstay.conformance.limits import Limits
from mainstay.conformance.report import Report
from mainstay.conformance.suite import Run, examine
from mainstay.conformance.table import CHECKS
from mainstay.model.errors import MainstayError, Rejected
from mainstay.model.ids import is_id
from mainstay.providers.kit.backend import Backend
from mainstay.providers.kit.server import running
from mainstay.providers.kit.store import SqliteStore
from mainstay.runtime.clock import SystemClock
from mainstay.wire.provider_server import provider_handler
from mainstay.wire.raw_calls import open_line
from mainstay.wire.tls import Plaintext
from mainstay.wire.transport import serving

LOOPBACK: Final = "127.0.0.1:0"


def found(target: str, folder: Path) -> Backend:
    """The backend that `module:function` makes; modules in `folder` are found, too."""
    module, colon, name = target.partition(":")
    if not (module and colon and name.isidentifier()):
        raise Rejected(f"not a backend: {target} (write MODULE:FUNCTION)")
    sys.path.insert(0, str(folder.resolve()))
    try:
        make = getattr(importlib.import_module(module), name, None)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            advice = "run in the folder it is in, or install it"
            raise Rejected(f"no module {error.name}: {target} ({advice})") from error
        raise Rejected(f"cannot import {module}: {_told(error)}") from error
    if make is None or not callable(make):
        raise Rejected(f"module {module} has no function {name}: {target}")
    try:
        backend = make()
    except Exception as error:
        raise Rejected(f"{target} failed: {_told(error)}") from error
    return _checked(backend, target)


def _checked(backend: object, target: str) -> Backend:
    if not isinstance(backend, Backend):
        kind = type(backend).__name__
        raise Rejected(f"{target} makes no mainstay.providers.kit.backend.Backend: {kind}")
    name = getattr(backend, "name", "")
    if not (isinstance(name, str) and is_id(name)) or "/" in name:
        raise Rejected(f"the backend of {target} needs a name without spaces or slashes: {name!r}")
    return backend


def _told(error: Exception) -> str:
    """One line that leads its author to the place."""
    if isinstance(error, MainstayError):
        return error.message
    theirs = [
        f" ({Path(frame.filename).name} line {frame.lineno})"
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename != __file__ and not frame.filename.startswith("<")
    ]
    return f"{type(error).__name__}: {error}{theirs[-1] if theirs else ''}"


async def examined(
    make_backend: Callable[[], Backend],
    *,
    checks: Sequence[Check] = CHECKS,
    limits: Limits | None = None,
    torment: bool = False,
    seed: int = 1,
) -> Report:
    """The conformance suite against a backend in this process, by a real connection.

    The provider is restarted on the way, with the same store and a backend that is made anew, so
    `make_backend` must find again the hardware that it had.
    """
    bounds = limits or Limits()
    with tempfile.TemporaryDirectory() as folder:
        async with _whole() as tasks:
            served = _Served(make_backend, Path(folder) / "store.db", tasks)
            await served.start()
            run = Run(
                name=served.name,
                connect=lambda: open_line(served.address, Plaintext(), timeout_s=bounds.call_s),
                checks=checks,
                clock=SystemClock(),
                limits=bounds,
                restart=served.restart,
                torment=torment,
                seed=seed,
            )
            report = await examine(run)
            await served.stop()
    return report


@asynccontextmanager
async def _whole() -> AsyncIterator[asyncio.TaskGroup]:
    """A group of tasks of which one failure is told as it was raised."""
    try:
        async with asyncio.TaskGroup() as tasks:
            yield tasks
    except BaseExceptionGroup as group:
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from None
        raise


class _Served:
    """A provider in a task of its own, which a restart replaces by another."""

    def __init__(
        self, make_backend: Callable[[], Backend], state: Path, tasks: asyncio.TaskGroup
    ) -> None:
        self._make_backend = make_backend
        self._state = state
        self._tasks = tasks
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.address = LOOPBACK
        self.name = ""

    async def start(self) -> None:
        """Serve; back when calls are answered."""
        ready = asyncio.Event()
        self._stop = asyncio.Event()
        self._task = self._tasks.create_task(self._run(ready), name="own backend")
        await ready.wait()

    async def stop(self) -> None:
        """Stop serving; what is at work stays as it stands."""
        self._stop.set()
        if self._task is not None:
            await self._task

    async def restart(self) -> None:
        """The same store, a new backend, at the same address."""
        await self.stop()
        await self.start()

    async def _run(self, ready: asyncio.Event) -> None:
        stop, backend = self._stop, self._make_backend()
        self.name = backend.name
        with closing(SqliteStore(self._state)) as store:
            async with (
                running(backend, store, SystemClock(), random=Random()) as server,
                serving([provider_handler(server)], self.address, Plaintext()) as at,
            ):
                self.address = at
                ready.set()
                await stop.wait()
