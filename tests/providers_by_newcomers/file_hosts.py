"""Containers that are files, one for each host: written from docs/how-to/write-a-provider.md alone.

It shares no code with the template, so that the page is held to what it says.
"""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typing_extensions import override

from mainstay.model.calls import Call
from mainstay.model.errors import NoCapacity, Unavailable
from mainstay.model.profile import CapacityType, Profile, labels_of
from mainstay.model.resources import Resources
from mainstay.providers.kit.backend import Backend, Host, Job, Slot

NAMES = [f"container-{letter}{number}" for letter in "abcde" for number in range(10)]
SMALL = Profile(
    "container",
    "cellar",
    CapacityType.SPOT,
    Resources({"cpu": "500m", "memory": "1Gi"}),
    labels_of({"runtime": "files"}),
)
START_S = 0.15


class FileHosts(Backend):
    """A file is a container; while it starts, its name ends in `.starting`."""

    name = "file-hosts"
    deletable = frozenset({CapacityType.SPOT})
    resumable = frozenset({Call.CREATE, Call.DRAIN, Call.DELETE})

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @override
    async def slots(self) -> list[Slot]:
        return [await asyncio.to_thread(self._slot, name) for name in NAMES]

    @override
    async def describe(self, job: Job) -> bool:
        if job.machine.host is None:
            return job.slot in NAMES
        found = await asyncio.to_thread(self._read, job.slot)
        return found is not None and found["host"] == job.machine.host.ref

    @override
    async def create(self, job: Job) -> Host:
        host = f"{job.slot}.{job.operation}"  # the same operation, the same container
        starting = self._path(job.slot).with_suffix(".starting")
        await asyncio.to_thread(self._write, starting, {"host": host, "cluster": ""})
        await asyncio.sleep(START_S)
        try:
            await asyncio.to_thread(starting.rename, self._path(job.slot))
        except FileNotFoundError as error:
            raise NoCapacity(f"container {host} was removed while it started") from error
        return Host(host, Resources({"cpu": "450m", "memory": "1Gi"}))

    @override
    async def configure(self, job: Job, cluster: str, blob: bytes) -> None:
        await self._serve(job, cluster)

    @override
    async def ready(self, job: Job) -> bool:
        found = await asyncio.to_thread(self._read, job.slot)
        return found is not None and found["cluster"] == job.machine.cluster

    @override
    async def drain(self, job: Job, grace_s: int) -> None:
        await asyncio.sleep(min(grace_s, START_S))
        await self._serve(job, "")

    @override
    async def delete(self, job: Job) -> None:
        await asyncio.to_thread(self._path(job.slot).unlink, missing_ok=True)

    async def _serve(self, job: Job, cluster: str) -> None:
        found = await asyncio.to_thread(self._read, job.slot)
        if found is None or job.machine.host is None or found["host"] != job.machine.host.ref:
            raise NoCapacity(f"the container of {job.machine.id} is gone")
        changed = {**found, "cluster": cluster}
        await asyncio.to_thread(self._write, self._path(job.slot), changed)

    def _slot(self, name: str) -> Slot:
        found = self._read(name) or {"host": "", "cluster": ""}
        return Slot(
            name=name, profile=SMALL, price_per_hour=0.01, interruption_probability=0.02, **found
        )

    def _path(self, slot: str) -> Path:
        return self.folder / f"{slot}.json"

    def _read(self, slot: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(self._path(slot).read_text())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Unavailable(f"the folder cannot be read: {error}") from error
        return found

    def _write(self, path: Path, container: Mapping[str, Any]) -> None:
        try:
            unfinished = path.with_suffix(f"{path.suffix}.tmp")
            unfinished.write_text(json.dumps(container))
            unfinished.replace(path)
        except OSError as error:
            raise Unavailable(f"the folder cannot be written: {error}") from error


def make_backend(folder: Path = Path()) -> Backend:
    """Containers in the working directory."""
    return FileHosts(folder)
