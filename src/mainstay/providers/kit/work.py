"""The work behind an accepted step: attempts at the backend, a limit in time, one end."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from mainstay.model.calls import (
    Call,
    ConfigureRequest,
    CreateRequest,
    DeleteRequest,
    DrainRequest,
    Mutation,
)
from mainstay.model.errors import MainstayError
from mainstay.model.ids import ClusterId
from mainstay.model.profile import HostRef
from mainstay.model.state import State
from mainstay.providers.kit import retry
from mainstay.providers.kit.backend import Backend, Host, Job
from mainstay.providers.kit.ledger import Ledger
from mainstay.providers.kit.metrics import Metrics, StepEnd
from mainstay.providers.kit.options import Options
from mainstay.providers.kit.steps import CALL_OF, STEPS
from mainstay.runtime.clock import Clock
from mainstay.runtime.log import logger

DIAGNOSIS_LENGTH_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a step ended: what it gives the machine, or why it failed."""

    end: StepEnd
    parts: Mapping[str, Any] = field(default_factory=dict)
    diagnosis: str = ""


class Worker:
    """Carries out the steps of one provider."""

    def __init__(
        self, backend: Backend, ledger: Ledger, clock: Clock, *, random: Random,
        options: Options, metrics: Metrics,
    ) -> None:  # fmt: skip
        self._backend = backend
        self._ledger = ledger
        self._clock = clock
        self._random = random
        self._options = options
        self._metrics = metrics
        self._log = logger(provider=backend.name)

    def begin(self, tasks: asyncio.TaskGroup, call: Call, request: Mutation) -> asyncio.Task[None]:
        """Start the step that a machine was just moved into."""
        record = self._ledger.known(request.machine)
        operation = self._ledger.operation(request.machine, call)
        if operation is None:
            raise AssertionError(f"a step without an operation: {call} {request.machine}")
        job = Job(operation, record.machine, record.slot)
        return tasks.create_task(self._run(tasks, job, call, request), name=operation)

    def resume(self, tasks: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """After a restart: go on with what can be done again, fail the rest."""
        begun = []
        for record in self._ledger:
            machine, call = record.machine, CALL_OF.get(record.machine.state)
            if call is None:
                continue
            request = _repeated(call, machine.id, record.grace_s)
            if request is not None and call in self._backend.resumable:
                begun.append(self.begin(tasks, call, request))
            else:
                why = f"{call} was interrupted by a restart of the provider"
                self._ledger.step(machine.id, State.FAILED, last_error=why)
        self._ledger.commit()
        return begun

    async def _run(self, tasks: asyncio.TaskGroup, job: Job, call: Call, request: Mutation) -> None:
        grace_s = request.grace_s if isinstance(request, DrainRequest) else 0
        limit_s = self._options.step_timeout_s(call, grace_s=grace_s)
        began = self._clock.elapsed_s()
        attempts = tasks.create_task(self._attempts(job, call, request))
        try:
            done, _ = await asyncio.wait({attempts}, timeout=limit_s)
        finally:
            # Not awaited: a backend that ignores the cancellation must not hold the machine.
            attempts.cancel()
        late = Outcome(StepEnd.TIMED_OUT, diagnosis=f"timed out after {limit_s:g} s")
        outcome = attempts.result() if done else late
        end = self._settle(job, call, outcome)
        self._metrics.ended(call, end, self._clock.elapsed_s() - began)

    async def _attempts(self, job: Job, call: Call, request: Mutation) -> Outcome:
        try:
            parts = await retry.until_available(
                lambda: self._touch(job, request),
                self._options.backoff.pauses(self._random),
                lambda _: self._metrics.retried(call),
            )
        except MainstayError as error:
            return Outcome(StepEnd.FAILED, diagnosis=error.message)
        except Exception as error:  # noqa: BLE001 - a bug of a backend costs one machine
            self._log.exception("backend_broke", machine=job.machine.id, call=call.value)
            return Outcome(StepEnd.FAILED, diagnosis=f"{type(error).__name__}: {error}")
        if call is Call.CREATE and not self._is_current(job, call):
            await self._give_back(job, parts)
        return Outcome(StepEnd.DONE, parts)

    async def _touch(self, job: Job, request: Mutation) -> Mapping[str, Any]:
        match request:
            case CreateRequest():
                return self._parts(await self._backend.create(job))
            case ConfigureRequest():
                cluster = ClusterId(request.cluster)
                host = await self._backend.configure(job, cluster, request.blob)
                await self._joined(job)
                return self._parts(host)
            case DrainRequest():
                return self._parts(await self._backend.drain(job, request.grace_s))
            case DeleteRequest():
                await self._backend.delete(job)
        return {}

    def _parts(self, host: Host | None) -> Mapping[str, Any]:
        """What a step gives the machine; most leave it the host it had."""
        if host is None:
            return {}
        parts: dict[str, Any] = {"host": HostRef(self._backend.name, host.name)}
        return parts | ({"allocatable": host.allocatable} if host.allocatable else {})

    async def _joined(self, job: Job) -> None:
        """Wait for the node; whoever waits longer than the step may is cancelled."""
        while not await self._backend.ready(job):  # noqa: ASYNC110 - somebody else's event
            await asyncio.sleep(self._options.ready_poll_s)

    def _settle(self, job: Job, call: Call, outcome: Outcome) -> StepEnd:
        """Apply the end of a step, but only to the step it belongs to."""
        if not self._is_current(job, call):
            return StepEnd.OVERTAKEN
        machine = job.machine.id
        if outcome.end is StepEnd.DONE:
            try:
                self._ledger.step(machine, STEPS[call].after, **outcome.parts)
            except MainstayError as error:
                outcome = Outcome(StepEnd.FAILED, diagnosis=error.message)
        if outcome.end is not StepEnd.DONE:
            why = f"{call}: {outcome.diagnosis or 'no reason given'}"[:DIAGNOSIS_LENGTH_MAX]
            self._ledger.step(machine, State.FAILED, last_error=why)
            self._log.warning("step_failed", machine=machine, why=why)
        self._ledger.commit()
        return outcome.end

    def _is_current(self, job: Job, call: Call) -> bool:
        record = self._ledger.record(job.machine.id)
        at_work = record is not None and record.machine.state is STEPS[call].during
        return at_work and self._ledger.operation(job.machine.id, call) == job.operation

    async def _give_back(self, job: Job, parts: Mapping[str, Any]) -> None:
        """A host that came too late would be paid for and never used."""
        self._log.warning("host_came_too_late", machine=job.machine.id, host=parts["host"].ref)
        if job.machine.profile.capacity_type in self._backend.deletable:
            try:
                await self._backend.delete(job)
            except MainstayError as error:
                self._log.warning("host_not_given_back", machine=job.machine.id, why=error.message)


def _repeated(call: Call, machine: str, grace_s: int) -> Mutation | None:
    match call:
        case Call.CREATE:
            return CreateRequest(machine)
        case Call.DRAIN:
            return DrainRequest(machine, grace_s)
        case Call.DELETE:
            return DeleteRequest(machine)
        case _:
            return None
