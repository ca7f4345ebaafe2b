"""The provider toy: what touches hardware.

Fences, repetitions, states and lists are the kit's. Make it yours from top to bottom: what you
have, then the steps, then the errors.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from typing_extensions import override

from mainstay.model.calls import Call
from mainstay.model.errors import NoCapacity, Unavailable
from mainstay.model.ids import ClusterId
from mainstay.model.profile import CapacityType, Profile
from mainstay.model.resources import Resources
from mainstay.providers.kit.backend import Backend, Host, Job, Slot
from mainstay.providers.template.toy_hardware import Hardware, NoSuchHost, PretendHost, TooManyCalls

PLACES: Final = tuple(f"toy-{number}" for number in range(60))
"""Names of slots; they become machine ids, so never change one."""

PROFILE: Final = Profile(
    "small", "zone-a", CapacityType.ON_DEMAND, Resources({"cpu": "4", "memory": "16Gi"})
)
PRICE_PER_HOUR: Final = 0.1
POLL_S: Final = 0.05


def make_backend(folder: Path = Path()) -> Backend:
    """What `mainstay provider serve` calls; read your settings here."""
    return ToyBackend(Hardware(folder / "toy-hardware.json"))


class ToyBackend(Backend):
    """Hosts that are started when they are needed and given back afterwards."""

    name = "toy"
    deletable = frozenset({CapacityType.ON_DEMAND})
    resumable = frozenset({Call.CREATE, Call.DRAIN, Call.DELETE})

    def __init__(self, hardware: Hardware) -> None:
        self._hardware = hardware

    @override
    async def slots(self) -> Sequence[Slot]:
        with errors_translated():
            hosts = {host.place: host for host in await self._hardware.hosts()}
        return [slot(place, hosts.get(place)) for place in PLACES]

    @override
    async def describe(self, job: Job) -> bool:
        if job.machine.host is None:
            return job.slot in PLACES
        host = await self._host_in(job.slot)
        return host is not None and host.name == ref(job)

    @override
    async def create(self, job: Job) -> Host:
        with errors_translated():
            host = await self._hardware.start(job.slot, token=job.operation)
            while not host.running:
                await asyncio.sleep(POLL_S)
                host = await self._hardware.host(host.name)
        return Host(host.name)

    @override
    async def configure(self, job: Job, cluster: ClusterId, blob: bytes) -> None:
        with errors_translated():
            await self._hardware.join(ref(job), cluster, blob)

    @override
    async def ready(self, job: Job) -> bool:
        host = await self._host_in(job.slot)
        return host is not None and host.cluster == job.machine.cluster

    @override
    async def drain(self, job: Job, grace_s: int) -> None:
        with errors_translated():
            await self._hardware.wipe(ref(job))

    @override
    async def delete(self, job: Job) -> None:
        if host := await self._host_in(job.slot):  # by its slot: it may have come too late
            with errors_translated():
                await self._hardware.stop(host.name)

    async def _host_in(self, place: str) -> PretendHost | None:
        with errors_translated():
            return next((h for h in await self._hardware.hosts() if h.place == place), None)


def slot(place: str, host: PretendHost | None) -> Slot:
    """A place as the kit sees it: with a host in it, or the right to start one."""
    return Slot(
        name=place,
        profile=PROFILE,
        host=host.name if host else "",
        cluster=host.cluster if host else "",
        price_per_hour=PRICE_PER_HOUR,
    )


def ref(job: Job) -> str:
    """What the hardware calls the host of this machine."""
    if job.machine.host is None:
        raise NoCapacity(f"machine {job.machine.id} has no host")
    return job.machine.host.ref


@contextmanager
def errors_translated() -> Iterator[None]:
    """Errors of the hardware as the kit knows them: to be tried again, or final."""
    try:
        yield
    except TooManyCalls as error:
        raise Unavailable(str(error)) from error
    except NoSuchHost as error:
        raise NoCapacity(str(error)) from error
