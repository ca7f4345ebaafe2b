"""The server around a Backend: checks, fences, store, dispatch. The six calls, in process.

One event loop and no waiting between check and change: what is checked is what is changed. An
answer waits until all it says is durable. The work itself runs on in the background, under a time
limit; its end is seen by List.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import TypeVar

from mainstay.model.calls import (
    Ack,
    Call,
    Capabilities,
    ConfigureRequest,
    CreateRequest,
    DeleteRequest,
    DrainRequest,
    GetRequest,
    Listing,
    ListRequest,
    Mutation,
    Status,
    status_of,
)
from mainstay.model.errors import MainstayError, Rejected, Unavailable
from mainstay.model.ids import ClusterId, parse_machine_id
from mainstay.model.machine import Machine
from mainstay.model.metadata import of_drain
from mainstay.model.state import State
from mainstay.providers.kit import checks, retry
from mainstay.providers.kit.backend import Backend, Job
from mainstay.providers.kit.ledger import Ledger
from mainstay.providers.kit.metrics import Found, Metrics
from mainstay.providers.kit.options import Options
from mainstay.providers.kit.reconcile import Reconciler, Report
from mainstay.providers.kit.steps import STEPS
from mainstay.providers.kit.store import Store
from mainstay.providers.kit.work import Worker
from mainstay.runtime.clock import Clock
from mainstay.runtime.log import logger

AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, slots=True)
class Health:
    """Whether calls are answered; if not, why."""

    ready: bool
    why: str = ""


class ProviderServer:
    """A provider. `running` starts one; the store stays the caller's to close."""

    def __init__(
        self, backend: Backend, store: Store, clock: Clock, *, random: Random,
        options: Options, metrics: Metrics,
    ) -> None:  # fmt: skip
        self.metrics = metrics
        self._backend = backend
        self._store = store
        self._clock = clock
        self._random = random
        self._options = options
        self._ledger = Ledger(store)
        self._worker = Worker(
            backend, self._ledger, clock, random=random, options=options, metrics=metrics
        )
        self._reconciler = Reconciler(self._ledger, backend)
        self._tasks: asyncio.TaskGroup | None = None
        self._running: set[asyncio.Task[None]] = set()
        self._look = asyncio.Event()
        self._trouble = "the hardware has not been seen yet"
        self._log = logger(provider=backend.name)
        metrics.watch(self._ledger.by_state)

    @property
    def source(self) -> str:
        """The provider's name."""
        return self._backend.name

    @property
    def capabilities(self) -> Capabilities:
        """What it declares: all there is; Delete and notices where the backend has them."""
        return Capabilities(
            deletable=self._backend.deletable,
            paging=True,
            incremental=True,
            tombstones=True,
            attribution=True,
            drain_attribution=True,
            notices=self._backend.gives_notice,
        )

    @property
    def health(self) -> Health:
        """Whether calls are answered, and the hardware could be seen when last looked at."""
        why = self._store.failure or self._trouble
        return Health(not why, why)

    async def create(self, request: CreateRequest) -> Ack:
        """Begin to make hardware of a quota slot."""
        return await self._mutate(Call.CREATE, request)

    async def configure(self, request: ConfigureRequest) -> Ack:
        """Begin to join an idle machine to a cluster."""
        return await self._mutate(Call.CONFIGURE, request)

    async def drain(self, request: DrainRequest) -> Ack:
        """Begin to empty a machine and take it out of its cluster."""
        return await self._mutate(Call.DRAIN, request)

    async def delete(self, request: DeleteRequest) -> Ack:
        """Begin to give hardware back."""
        return await self._mutate(Call.DELETE, request)

    async def get(self, request: GetRequest) -> Machine:
        """One machine."""

        def read() -> Machine:
            parse_machine_id(request.machine)
            return self._ledger.known(request.machine).machine

        return await self._answer(Call.GET, read)

    async def list(self, request: ListRequest) -> Listing:
        """One answer; a cursor that is not known means a full one."""

        def read() -> Listing:
            if request.results_max < 0:
                raise Rejected(f"max_results must be zero or more: {request.results_max}")
            return self._ledger.listing(request)

        return await self._answer(Call.LIST, read)

    async def retire(self, machine: str, *, reason: str) -> None:
        """Forget a Failed machine; what the backend then has in its slot comes under a new id."""
        record = self._ledger.known(machine)
        if record.machine.state is not State.FAILED:
            raise Rejected(f"only a Failed machine is retired: {machine} is {record.machine.state}")
        if not reason:
            raise Rejected(f"retiring machine {machine} needs a reason")
        self._ledger.remove(machine, reason=reason, at=self._clock.now_s())
        self._ledger.commit()
        await self._store.settled()
        self._log.info("machine_retired", machine=machine, reason=reason)
        self._look.set()

    async def invent(self, machine: str, state: State, *, fault: StrEnum, why: str = "") -> Machine:
        """Put a machine into a state by no legal step, in the name of a fault."""
        moved = self._ledger.invent(machine, state, last_error=why)
        self._ledger.commit()
        await self._store.settled()
        self.metrics.injected(fault)
        self._log.warning("state_invented", machine=machine, state=str(state), fault=fault.value)
        return moved

    async def reconcile(self) -> Report:
        """Look at the hardware now."""
        try:
            report = await self._reconciler.look(now_s=self._clock.now_s())
            await self._store.settled()
        except MainstayError as error:
            self.metrics.found(Found.ERROR)
            self._trouble = f"the hardware cannot be seen: {error.message}"
            raise
        self._trouble = ""
        self._tell(report)
        return report

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        """Take up what the store remembers, see the hardware once, then answer."""
        self._tasks = tasks
        await self._backend.adopt([Job("", each.machine, each.slot) for each in self._ledger])
        self._running.update(self._worker.resume(tasks))
        report = await self._first_look()
        if report.refused:
            raise report.refused[0]  # at the start a person is there to read it
        if type(self._backend).ready is Backend.ready:
            self._log.warning("joining_is_not_confirmed", why="the backend has no `ready`")
        self._backend.changed = self._look.set
        self._running.add(tasks.create_task(self._keep_looking(), name="reconcile"))

    def stop(self) -> None:
        """Leave what is at work as it stands; the store knows."""
        self._tasks = None
        self._trouble = "it is stopping"
        for task in self._running:
            task.cancel()

    async def _mutate(self, call: Call, request: Mutation) -> Ack:
        return await self._answer(call, lambda: self._accept(call, request))

    async def _answer(self, call: Call, act: Callable[[], AnswerT]) -> AnswerT:
        """Act at once, answer when all that was seen is durable: refusals, too, show marks."""
        began = self._clock.elapsed_s()
        status = Status.INTERNAL
        try:
            try:
                if self._tasks is None:
                    raise Unavailable(f"provider {self.source} is not running: {self._trouble}")
                answer = act()
            finally:
                self._ledger.commit()
                await self._store.settled()
            status = Status.OK
        except MainstayError as error:
            status = status_of(error)
            raise
        finally:
            self.metrics.answered(call, status, self._clock.elapsed_s() - began)
        return answer

    def _accept(self, call: Call, request: Mutation) -> Ack:
        attempt = checks.Attempt(call, request, self._ledger, self._backend)
        repeated = checks.passed(attempt)
        if repeated is not None:
            return Ack(repeated, attempt.machine)
        operation = self._ledger.begin(request.machine, call)
        during = STEPS[call].during
        match request:
            case CreateRequest():
                echo = dict(request.attribution)
                self._ledger.step(request.machine, during, shard_metadata=echo)
            case ConfigureRequest():
                cluster, echo = ClusterId(request.cluster), dict(request.metadata)
                self._ledger.step(request.machine, during, cluster=cluster, shard_metadata=echo)
            case DrainRequest():
                echo = of_drain(request.attribution) | dict(attempt.machine.shard_metadata)
                grace_s = request.grace_s
                self._ledger.step(request.machine, during, grace_s=grace_s, shard_metadata=echo)
            case _:
                self._ledger.step(request.machine, during)
        self._begin(call, request)
        return Ack(operation, attempt.machine)

    def _begin(self, call: Call, request: Mutation) -> None:
        if self._tasks is None:
            raise AssertionError("a step was accepted by a provider that is not running")
        task = self._worker.begin(self._tasks, call, request)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _first_look(self) -> Report:
        try:
            async with asyncio.timeout(self._options.start_timeout_s):
                pauses = self._options.backoff.pauses(self._random)
                return await retry.until_available(self.reconcile, pauses, lambda _: None)
        except TimeoutError as error:
            why = f"{self._trouble} (within {self._options.start_timeout_s:g} s)"
            raise Unavailable(f"provider {self.source} cannot start: {why}") from error

    async def _keep_looking(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._options.reconcile_interval_s):
                    await self._look.wait()
            except TimeoutError:
                pass
            self._look.clear()
            try:
                await self.reconcile()
            except MainstayError as error:
                self._log.warning("hardware_not_seen", why=error.message)
            except Exception:  # noqa: BLE001 - the boundary: a bug of a backend stops no calls
                self.metrics.found(Found.ERROR)
                self._trouble = "the backend broke while its hardware was looked at"
                self._log.exception("backend_broke", call="slots")

    def _tell(self, report: Report) -> None:
        counts = {
            Found.ADDED: report.added,
            Found.REFRESHED: report.refreshed,
            Found.LOST: len(report.lost),
            Found.REFUSED: len(report.refused),
        }
        for found, count in counts.items():
            self.metrics.found(found, count)
        for machine in report.lost:
            self._log.warning("machine_lost", machine=machine)
        for refusal in report.refused[:3]:
            self._log.warning("slot_refused", why=refusal.message, all=len(report.refused))


@asynccontextmanager
async def running(
    backend: Backend,
    store: Store,
    clock: Clock,
    *,
    random: Random,
    options: Options | None = None,
    metrics: Metrics | None = None,
) -> AsyncIterator[ProviderServer]:
    """A provider at work, until the block is left."""
    server = ProviderServer(
        backend, store, clock, random=random,
        options=options or Options(), metrics=metrics or Metrics(),
    )  # fmt: skip
    try:
        async with asyncio.TaskGroup() as tasks:
            try:
                await server.start(tasks)
                yield server
            finally:
                server.stop()
    except BaseExceptionGroup as group:
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from None  # what the block raised, as it raised it
        raise
