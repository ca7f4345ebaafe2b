"""`mainstay conformance`: a run of the suite against a provider on the network."""

import asyncio
import secrets
import shlex
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Final

from mainstay.conformance.check import Check
from mainstay.conformance.limits import Limits
from mainstay.conformance.report import Report, Result
from mainstay.conformance.suite import Run, examine
from mainstay.conformance.table import CHECKS
from mainstay.model.errors import Rejected
from mainstay.runtime.clock import SystemClock
from mainstay.wire.raw_calls import GrpcLine, open_line
from mainstay.wire.transport import Over

RESTART_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What somebody asked for on the command line."""

    address: str
    over: Over
    limits: Limits = field(default_factory=Limits)
    torment: bool = False
    restart_command: str = ""
    only: Sequence[str] = ()
    seed: int = 1
    progress: Callable[[str], None] | None = None


async def examined(asked: Asked) -> Report:
    """The report. Every run has a name of its own: a provider remembers the fences of the last."""

    def connect() -> AbstractAsyncContextManager[GrpcLine]:
        return open_line(asked.address, asked.over, timeout_s=asked.limits.call_s)

    def told(result: Result) -> None:
        if asked.progress is not None:
            asked.progress(f"{result.check.id}: {result.outcome}")

    run = Run(
        name=asked.address,
        connect=connect,
        checks=_chosen(asked.only),
        clock=SystemClock(),
        limits=asked.limits,
        restart=_restart(asked.restart_command),
        torment=asked.torment,
        seed=asked.seed,
        stamp=secrets.token_hex(4),
        told=told,
    )
    return await examine(run)


def _chosen(only: Sequence[str]) -> Sequence[Check]:
    known = {check.id: check for check in CHECKS}
    for name in only:
        if name not in known:
            raise Rejected(f"no such check: {name} (the report of a run lists them)")
    return [known[name] for name in only] or CHECKS


def _restart(command: str) -> Callable[[], Awaitable[None]] | None:
    """A program run to its end; what it says goes where our own complaints go."""
    words = shlex.split(command)
    if not words:
        return None

    async def restart() -> None:
        try:
            process = await asyncio.create_subprocess_exec(
                *words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL
            )
        except OSError as error:
            raise Rejected(f"cannot run {words[0]}: {error.strerror}") from error
        try:
            async with asyncio.timeout(RESTART_S):
                code = await process.wait()
        except TimeoutError as error:
            process.kill()
            await process.wait()
            raise Rejected(f"{words[0]} did not end within {RESTART_S:g} s") from error
        if code != 0:
            raise Rejected(f"{words[0]} ended with code {code}: the provider was not restarted")

    return restart
