"""A simulated provider: cloud, backend, kit and a bad line, put together."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random

from mainstay.model.calls import GetRequest
from mainstay.model.machine import Machine
from mainstay.model.state import State
from mainstay.providers.kit.local import LocalProvider
from mainstay.providers.kit.metrics import Metrics
from mainstay.providers.kit.options import Options
from mainstay.providers.kit.server import ProviderServer, running
from mainstay.providers.kit.store import MemoryStore, Store
from mainstay.providers.sim import faults
from mainstay.providers.sim.backend import SimBackend
from mainstay.providers.sim.bill import Bill
from mainstay.providers.sim.cloud import Cloud
from mainstay.providers.sim.faults import Fault, Faults
from mainstay.providers.sim.faulty import FaultyCalls
from mainstay.providers.sim.meter import SimMeter
from mainstay.providers.sim.spec import SimSpec
from mainstay.runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class Sim:
    """A simulated provider at work."""

    cloud: Cloud
    server: ProviderServer
    calls: FaultyCalls
    """What a transport serves."""

    provider: LocalProvider
    """What a shard in this process calls."""

    meter: SimMeter
    """Says when it charges."""

    def change(self, settings: Mapping[str, str]) -> Faults:
        """Change faults while it runs, as people write them; all settings are taken, or none."""
        self.cloud.faults = faults.changed(self.cloud.faults, settings)
        return self.cloud.faults

    async def lose(self, machine: str) -> None:
        """Lose the host of this machine now."""
        record = await self.server.get(GetRequest(machine))
        if record.host is not None and self.cloud.lose(record.host.ref):
            await self.server.reconcile()

    async def invent(self, machine: str, state: State, *, why: str = "") -> Machine:
        """Report a machine in a state it cannot have come to."""
        return await self.server.invent(machine, state, fault=Fault.INVENTED_STATE, why=why)


@asynccontextmanager
async def simulated(
    spec: SimSpec,
    clock: Clock,
    *,
    store: Store | None = None,
    options: Options | None = None,
    metrics: Metrics | None = None,
    bill: Bill | None = None,
) -> AsyncIterator[Sim]:
    """A simulated provider, until the block is left; without store and bill it is new each time."""
    metrics = metrics or Metrics()
    cloud = Cloud(spec, clock, bill or Bill(), metrics.injected)
    metrics.bill(lambda: float(cloud.bill.dollars(now_s=clock.now_s())))
    backend = SimBackend(cloud, clock)
    async with running(
        backend,
        store or MemoryStore(f"sim{spec.seed}"),
        clock,
        random=Random(spec.seed),
        options=options,
        metrics=metrics,
    ) as server:
        calls = FaultyCalls(server, cloud)
        yield Sim(cloud, server, calls, LocalProvider(calls), SimMeter(cloud.bill))
