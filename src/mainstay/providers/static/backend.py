"""Bare metal that is always there: it is joined and emptied by commands, and never deleted."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from typing_extensions import override

from mainstay.model.errors import NoCapacity, NotSupported, Unavailable
from mainstay.model.ids import ClusterId
from mainstay.providers.kit.backend import Backend, Host, Job, Slot
from mainstay.providers.static.hosts import HostsFile, read

TRY_AGAIN: Final = 75
"""The exit code by which a command says that the moment is wrong (EX_TEMPFAIL)."""

SAID_BYTES_MAX: Final = 4096


class StaticBackend(Backend):
    """Hosts of a file, read again at every look, so that adding one is editing the file.

    A command gets its words with `{host}`, `{machine}`, `{cluster}` and `{grace_s}` filled in, and
    the bootstrap blob on its standard input. No shell reads the words; do not put `{cluster}` into
    the text of one. Exit code 75 means: try again.
    """

    def __init__(self, path: Path, *, name: str = "static") -> None:
        self.name = name
        self._path = path
        self._file = HostsFile(())

    @override
    async def slots(self) -> Sequence[Slot]:
        self._file = await asyncio.to_thread(read, self._path)
        return self._file.slots

    @override
    async def describe(self, job: Job) -> bool:
        host = job.machine.host
        return any(
            slot.name == job.slot and host is not None and slot.host == host.ref
            for slot in self._file.slots
        )

    @override
    async def create(self, job: Job) -> Host:
        raise NotSupported(f"provider {self.name} makes no machines: {job.machine.id}")

    @override
    async def configure(self, job: Job, cluster: ClusterId, blob: bytes) -> None:
        await self._run("configure", job, {"cluster": cluster}, blob)

    @override
    async def ready(self, job: Job) -> bool:
        return await self._run("ready", job, {"cluster": job.machine.cluster or ""}) == 0

    @override
    async def drain(self, job: Job, grace_s: int) -> None:
        cluster = job.machine.cluster or ""
        await self._run("drain", job, {"cluster": cluster, "grace_s": str(grace_s)})

    async def _run(self, name: str, job: Job, values: Mapping[str, str], blob: bytes = b"") -> int:
        words = self._file.commands.get(name)
        if words is None:
            return 0
        host = job.machine.host
        filled = {"host": host.ref if host else "", "machine": job.machine.id, **values}
        code, said = await _command([_filled(word, filled) for word in words], blob)
        if code == TRY_AGAIN and name != "ready":
            raise Unavailable(f"{words[0]} says to try again: {said}")
        if code not in {0, TRY_AGAIN}:
            raise NoCapacity(f"{words[0]} ended with code {code}: {said or 'it said nothing'}")
        return code


def _filled(word: str, values: Mapping[str, str]) -> str:
    for key, value in values.items():
        word = word.replace(f"{{{key}}}", value)
    return word


async def _command(words: Sequence[str], blob: bytes) -> tuple[int, str]:
    """Run a program to its end; its code and the last line it said on standard error."""
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise NoCapacity(f"cannot run {words[0]}: {error}") from error
    try:
        _, said = await process.communicate(blob)
    finally:
        if process.returncode is None:  # cancelled: what it does must not go on behind our back
            process.kill()
            await process.wait()
    lines = said[-SAID_BYTES_MAX:].decode(errors="replace").strip().splitlines()
    return process.returncode or 0, lines[-1] if lines else ""
