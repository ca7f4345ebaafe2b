"""The smallest backend that can go wrong: what the tests of the provider kit stand on."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Final

from typing_extensions import override

from mainstay.model.calls import Call, ConfigureRequest, CreateRequest, GetRequest, ListRequest
from mainstay.model.ids import ClusterId
from mainstay.model.profile import CapacityType, Profile
from mainstay.model.resources import Resources
from mainstay.model.state import State
from mainstay.providers.kit.backend import Backend, Host, Job, Slot
from mainstay.providers.kit.options import Options
from mainstay.providers.kit.server import ProviderServer, running
from mainstay.providers.kit.store import MemoryStore, Store
from mainstay.runtime.clock import Clock
from virtual_loop import LoopClock

ON_DEMAND: Final = Profile("gp-4", "zone-a", CapacityType.ON_DEMAND, Resources({"cpu": "4"}))
DELETABLE: Final = frozenset({CapacityType.ON_DEMAND, CapacityType.SPOT})


def a_slot(name: str = "m-1", **parts: object) -> Slot:
    """An on-demand quota slot, unless told otherwise."""
    return dataclasses.replace(Slot(name=name, profile=ON_DEMAND, price_per_hour=0.2), **parts)  # type: ignore[arg-type]


class Hardware(Backend):
    """Slots in a dictionary; each step takes `delay_s` and fails if told to."""

    deletable = DELETABLE
    resumable = frozenset({Call.CREATE, Call.DRAIN, Call.DELETE})

    def __init__(self, *slots: Slot, delay_s: float = 1.0) -> None:
        self.name = "lab"
        self.there = {slot.name: slot for slot in slots}
        self.delay_s = delay_s
        self.raises: dict[Call, list[Exception]] = {}
        self.refuses: Exception | None = None
        self.did: list[tuple[str, str]] = []
        self.hidden: set[str] = set()
        self.joins = True
        self.deaf = False
        """Whether it ignores being cancelled."""

        self.grace_s = -1
        self.blob = b""

    async def _work(self, call: Call, job: Job) -> None:
        self.did.append((call.value, job.operation))
        try:
            await asyncio.sleep(self.delay_s)
        except asyncio.CancelledError:
            if not self.deaf:
                raise
            await asyncio.sleep(self.delay_s)
        if self.raises.get(call):
            raise self.raises[call].pop(0)

    @override
    async def slots(self) -> Sequence[Slot]:
        return [slot for name, slot in self.there.items() if name not in self.hidden]

    @override
    async def describe(self, job: Job) -> bool:
        slot = self.there.get(job.slot)
        host = job.machine.host
        return slot is not None and (host is None or slot.host == host.ref)

    @override
    async def create(self, job: Job) -> Host:
        await self._work(Call.CREATE, job)
        host = f"host-of-{job.slot}"
        self.there[job.slot] = dataclasses.replace(self.there[job.slot], host=host)
        return Host(host)

    @override
    async def configure(self, job: Job, cluster: ClusterId, blob: bytes) -> Host | None:
        self.blob = blob
        await self._work(Call.CONFIGURE, job)
        return None

    @override
    async def ready(self, job: Job) -> bool:
        return self.joins

    @override
    async def drain(self, job: Job, grace_s: int) -> Host | None:
        self.grace_s = grace_s
        await self._work(Call.DRAIN, job)
        return None

    @override
    async def delete(self, job: Job) -> None:
        await self._work(Call.DELETE, job)
        self.there[job.slot] = dataclasses.replace(self.there[job.slot], host="")

    @override
    def admit(self, call: Call, job: Job) -> None:
        if self.refuses is not None:
            raise self.refuses


@asynccontextmanager
async def serving(
    backend: Backend,
    *,
    store: Store | None = None,
    options: Options | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[ProviderServer]:
    """A provider around it, in memory and in the loop's time unless told otherwise."""
    store = store or MemoryStore("lab")
    async with running(
        backend, store, clock or LoopClock(), random=Random(1), options=options
    ) as server:
        yield server


async def state_of(server: ProviderServer, machine: str = "m-1") -> State:
    return (await server.get(GetRequest(machine))).state


async def configured(server: ProviderServer, machine: str = "m-1", *, wait_s: float = 5.0) -> None:
    """Take a slot all the way to Configured."""
    await server.create(CreateRequest(machine))
    await asyncio.sleep(wait_s)
    await server.configure(ConfigureRequest(machine, "web", metadata={"k": "v"}))
    await asyncio.sleep(wait_s)
    assert await state_of(server, machine) is State.CONFIGURED


async def ids(server: ProviderServer, **asked: object) -> list[str]:
    answer = await server.list(ListRequest(**asked))  # type: ignore[arg-type]
    return sorted(machine.id for machine in answer.machines)
