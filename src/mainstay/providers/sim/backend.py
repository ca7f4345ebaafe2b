"""The simulated cloud as the kit sees it: steps that take their time and may go wrong."""

import asyncio
import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from typing_extensions import override

from mainstay.model.calls import Call
from mainstay.model.errors import NoCapacity, Unavailable
from mainstay.model.ids import ClusterId
from mainstay.model.profile import CapacityType
from mainstay.providers.kit.backend import Backend, Host, Job, Slot
from mainstay.providers.sim.cloud import Cloud
from mainstay.providers.sim.faults import Fault
from mainstay.runtime.clock import Clock

NEVER_S: Final = 1e7
SLOW_S: Final = 4.0
CREATE_FAULT_LABEL: Final = ("conformance.fault/create", "error")


class SimBackend(Backend):
    """Steps on simulated hosts."""

    deletable = frozenset({CapacityType.ON_DEMAND, CapacityType.SPOT})
    gives_notice = True
    resumable = frozenset({Call.CREATE, Call.DRAIN, Call.DELETE})

    def __init__(self, cloud: Cloud, clock: Clock) -> None:
        self.name = cloud.spec.name
        self.cloud = cloud
        self._clock = clock
        self._tokens = math.inf
        self._refilled_s = clock.elapsed_s()

    @override
    async def adopt(self, known: Sequence[Job]) -> None:
        hosts = {job.slot: job.machine.host for job in known}
        self.cloud.populate(
            {slot: host.ref if host else "" for slot, host in hosts.items()},
            {job.slot: job.machine.id for job in known},
        )

    @override
    async def slots(self) -> Sequence[Slot]:
        self.cloud.advance()
        return list(self.cloud.slots())

    @override
    async def describe(self, job: Job) -> bool:
        host = job.machine.host
        return self.cloud.has(job.slot, host.ref if host else "")

    @override
    def admit(self, call: Call, job: Job) -> None:
        self._limit_rate(job.machine.id)
        if call is Call.CREATE:
            self.cloud.advance()
            self.cloud.refuse(job.slot)

    @override
    async def create(self, job: Job) -> Host:
        await self._step(Call.CREATE, job)
        if self.cloud.spec.selectors and CREATE_FAULT_LABEL in job.machine.profile.labels:
            raise NoCapacity("simulated fault: create=error")
        return Host(self.cloud.launch(job.slot, job.operation, job.machine.id))

    @override
    async def configure(self, job: Job, cluster: ClusterId, blob: bytes) -> None:
        selected = cluster if self.cloud.spec.selectors else ""
        if selected == "fault-timeout":
            await asyncio.sleep(NEVER_S)
        if selected == "fault-slow-ok":
            await _sleep_on(SLOW_S)
        if selected == "fault-error":
            raise NoCapacity(f"simulated fault: {selected}")
        await self._step(Call.CONFIGURE, job)
        self._must_be_there(job)

    @override
    async def ready(self, job: Job) -> bool:
        blocked = job.machine.cluster == "fault-readiness-block"
        return not (blocked and self.cloud.spec.selectors)

    @override
    async def drain(self, job: Job, grace_s: int) -> None:
        await self._step(Call.DRAIN, job)
        spec = self.cloud.spec
        if spec.holds_grace or job.machine.cluster in spec.holds_grace_of:
            await asyncio.sleep(grace_s)
        if self.cloud.spec.selectors and job.machine.cluster == "fault-drain-error":
            raise NoCapacity("simulated fault: fault-drain-error")
        self._must_be_there(job)

    @override
    async def delete(self, job: Job) -> None:
        await self._step(Call.DELETE, job)
        self.cloud.terminate(job.slot)

    async def _step(self, call: Call, job: Job) -> None:
        """Take as long as such a step takes, and fail as often as such a step fails."""
        dice = self.cloud.random(call, job.operation)
        latency_s = self.cloud.spec.latencies[call].draw_s(dice)
        chance = dice.random()
        await asyncio.sleep(latency_s * self.cloud.faults.slowness)
        if chance < self.cloud.faults.failures.get(call, 0.0):
            self.cloud.struck(Fault.STEP_FAILURE)
            raise NoCapacity(f"simulated fault: {call} of {job.machine.id} failed")

    def _must_be_there(self, job: Job) -> None:
        self.cloud.advance()
        host = job.machine.host
        if host is None or not self.cloud.has(job.slot, host.ref):
            raise NoCapacity(f"the host of machine {job.machine.id} is gone")

    def _limit_rate(self, machine: str) -> None:
        """A bucket that holds one second's worth of calls."""
        rate, now_s = self.cloud.faults.calls_per_s, self._clock.elapsed_s()
        if not rate:
            self._tokens = math.inf
            return
        self._tokens = min(max(rate, 1.0), self._tokens + rate * (now_s - self._refilled_s))
        self._refilled_s = now_s
        if self._tokens < 1.0:
            self.cloud.struck(Fault.RATE_LIMIT)
            raise Unavailable(f"more than {rate:g} calls a second: machine {machine}")
        self._tokens -= 1.0


async def _sleep_on(seconds: float) -> None:
    """Sleep whatever happens, like a host that does not hear that its time is up."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while (left_s := until - loop.time()) > 0.0:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(left_s)
