"""A simulated agent: it does everything a real one does but the work, and fails to order.

It believes only what is signed by a key it was given, runs a task once, keeps its result before it
says it, and undoes in reverse what it could not finish. A second agent on the same `Host` is the
first one come back after its death.
"""

import asyncio
import datetime as dt
from collections import defaultdict, deque
from dataclasses import replace
from random import Random
from typing import Final, NoReturn

from mainstay.model.errors import Fenced, MainstayError, Rejected, Unavailable
from mainstay.runtime.clock import Clock
from mainstay.tenancy import signing
from mainstay.tenancy.agent_api import AgentApi, Envelope
from mainstay.tenancy.agent_faults import AgentDied, Fault, Faults
from mainstay.tenancy.agent_host import Host
from mainstay.tenancy.agent_run import Run
from mainstay.tenancy.authority import RENEW_BEFORE_S, new_key
from mainstay.tenancy.enrolment import Application, Credentials
from mainstay.tenancy.tasks import TIME_FORMAT, TaskOver
from mainstay.tenancy.work import GIVES, ErrorCode, Phase, TaskResult, TaskType

VERSION: Final = "simulated-1"
SKEW_S: Final = 60.0
WAIT_S: Final = 25.0
AT_ONCE: Final = 8
"""Tasks at a time; those of one allocation follow one another."""

REFUSED_MAX: Final = 64
"""Of so many we say that we have them: a poll has room for no more than some hundreds."""

PAUSE_S: Final = 0.1
PAUSE_MAX_S: Final = 5.0


class SimulatedAgent:
    """One agent process of one node."""

    def __init__(
        self,
        api: AgentApi,
        node: str,
        faults: Faults,
        clock: Clock,
        random: Random,
        *,
        host: Host | None = None,
    ) -> None:
        self.faults = faults
        self.host = host or Host()
        self._api, self._node, self._clock, self._random = api, node, clock, random
        self._hits = 0
        self._resumed = False
        self._holds: set[str] = set()
        """What came and was not reported yet."""

        self._refused: deque[str] = deque(maxlen=REFUSED_MAX)
        """Whose results nobody takes: they would be refused again."""

        self.contradicted: MainstayError | None = None
        """How a contradiction was answered."""

        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        if self.host.certificate:
            api.present(self.host.certificate, self.host.key)

    async def enrol(self, token: str) -> None:
        """Spend the token for a certificate and the keys to believe."""
        key, application = self._application()
        self._keep(key, await self._api.enrol(token, application))

    async def renew(self) -> None:
        """The next certificate; the present one is good until that is used."""
        key, application = self._application()
        self._keep(key, await self._api.renew(application))

    async def run(self) -> NoReturn:
        """Work until cancelled; AgentDied when a fault says so, an error when we are refused."""
        try:
            async with asyncio.TaskGroup() as group:
                await self._loop(group)
        except* (AgentDied, MainstayError) as ended:
            raise _first(ended) from None
        raise AssertionError("an agent does not end by itself")

    async def once(self, *, wait_s: float = 0.0) -> TaskResult | None:
        """Take one task to its end; None if there is none. For tests that want to look between."""
        envelope = await self._api.wait(self._node, wait_s=wait_s)
        return None if envelope is None else await self.perform(envelope)

    async def resume(self) -> list[TaskResult]:
        """What was in hand when the last agent on this host died."""
        found = await self._api.in_hand(self._node)
        return [await self.perform(envelope) for envelope in found]

    async def perform(self, envelope: Envelope) -> TaskResult:
        """One task from its check to its report."""
        params = envelope.get("params")
        allocation = str(params.get("allocation_id", "")) if isinstance(params, dict) else ""
        faults = self._drawn()
        try:
            async with self._turns[allocation]:
                result = await self._done(envelope, allocation, faults)
                if faults.dies_in is Phase.REPORT:
                    raise AgentDied("in report")
                await self._report(envelope, result, allocation, faults)
        finally:
            self._holds.discard(str(envelope.get("task_id")))
            self.host.reconcile(self._clock.now_s())
        return result

    async def _loop(self, group: asyncio.TaskGroup) -> NoReturn:
        free = asyncio.Semaphore(AT_ONCE)
        while True:
            await free.acquire()
            envelope = await self._next()
            self._holds.add(str(envelope["task_id"]))
            task = group.create_task(self.perform(envelope), name=str(envelope["task_id"]))
            task.add_done_callback(lambda _: free.release())

    async def _next(self) -> Envelope:
        """The next task, however long it takes; what was in hand comes first."""
        failures = 0
        while True:
            try:
                await self._come_back()
                holds = frozenset(self._holds).union(self._refused)
                envelope = await self._api.wait(self._node, wait_s=WAIT_S, holds=holds)
            except Unavailable:
                failures += 1
                await self._pause(failures)
                continue
            failures = 0
            if envelope is not None:
                return envelope
            self.host.reconcile(self._clock.now_s())

    async def _come_back(self) -> None:
        if self._clock.now_s() >= self.host.certificate_expires_s - RENEW_BEFORE_S:
            await self.renew()
        if not self._resumed:
            await self.resume()
            self._resumed = True

    async def _done(self, envelope: Envelope, allocation: str, faults: Faults) -> TaskResult:
        run = Run(self.host, self._node, faults, self._clock, self._random)
        task = str(envelope.get("task_id"))
        refusal = self._not_ours(envelope)
        if refusal is None and task not in self.host.begun:
            refusal = self._not_now(envelope)
        if refusal is not None:  # not remembered: whoever made it up may have taken a real id
            return run.refused(*refusal)
        if task not in self.host.results:
            self.host.results[task] = await self._ran(run, envelope, allocation)
        return self.host.results[task]

    async def _ran(self, run: Run, envelope: Envelope, allocation: str) -> TaskResult:
        task, kind = envelope["task_id"], TaskType(envelope["task_type"])
        if task in self.host.begun and kind in GIVES:  # by an agent that died at it
            return run.undone(allocation)
        self.host.begun.add(task)
        return await run.result(kind, allocation, envelope["params"])

    def _drawn(self) -> Faults:
        """The faults of the next task."""
        over = self.faults.times is not None and self._hits >= self.faults.times
        if over or self._random.random() >= self.faults.chance:
            return replace(self.faults, named=frozenset(), dies_in=None)
        self._hits += 1
        return self.faults

    def _not_ours(self, envelope: Envelope) -> tuple[ErrorCode, str] | None:
        """Why it must never run; nothing has been touched yet."""
        try:
            signing.verify(envelope, self.host.believed)
        except Rejected as error:
            return ErrorCode.BAD_SIGNATURE, error.message
        if envelope["node_id"] != self._node:
            return ErrorCode.WRONG_NODE, f"it is for node {envelope['node_id']}"
        if envelope["task_type"] not in list(TaskType):
            return ErrorCode.UNKNOWN_TASK_TYPE, f"no handler for {envelope['task_type']}"
        return None

    def _not_now(self, envelope: Envelope) -> tuple[ErrorCode, str] | None:
        """Why it must not begin at this moment."""
        now_s = self._clock.now_s()
        if now_s > _seconds(envelope["expires_at"]) + SKEW_S:
            return ErrorCode.TASK_EXPIRED, f"it expired at {envelope['expires_at']}"
        if now_s < _seconds(envelope["issued_at"]) - SKEW_S:
            return ErrorCode.TASK_EXPIRED, f"it is of the future: {envelope['issued_at']}"
        return None

    async def _report(
        self, envelope: Envelope, result: TaskResult, allocation: str, faults: Faults
    ) -> None:
        failures = 0
        while True:
            try:
                await self._say(str(envelope["task_id"]), result, faults)
            except Unavailable:
                failures += 1
                await self._pause(failures)
                continue
            except TaskOver:  # nobody waits for what was made: take it down again
                ran = envelope["task_id"] in self.host.results
                if ran and envelope["task_type"] in GIVES:
                    self.host.clear(allocation)
            except (Fenced, Rejected) as error:  # not ours to say: what was done stays as it is
                self.contradicted = error
                self._refused.append(str(envelope["task_id"]))
            return

    async def _say(self, task: str, result: TaskResult, faults: Faults) -> None:
        await self._api.result(self._node, task, result)
        if Fault.DUPLICATE_RESULT in faults.named:
            await self._api.result(self._node, task, result)
        if Fault.CONTRADICTORY_RESULT in faults.named:
            other = replace(result, output={**result.output, "again": True})
            await self._api.result(self._node, task, other)

    async def _pause(self, failures: int) -> None:
        """Longer each time, and never all agents at once."""
        longest = min(PAUSE_S * 2**failures, PAUSE_MAX_S)
        await asyncio.sleep(longest * (0.5 + self._random.random() / 2))

    def _application(self) -> tuple[bytes, Application]:
        key, csr = new_key()
        return key, Application(node=self._node, csr=csr, agent_version=VERSION)

    def _keep(self, key: bytes, given: Credentials) -> None:
        self.host.key, self.host.certificate = key, given.certificate
        self.host.certificate_expires_s = given.expires_at_s
        self.host.believed = dict(given.keys)
        self._api.present(given.certificate, key)


def _first(ended: BaseExceptionGroup[AgentDied | MainstayError]) -> AgentDied | MainstayError:
    found = ended.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found


def _seconds(written: str) -> float:
    return dt.datetime.strptime(written, TIME_FORMAT).replace(tzinfo=dt.UTC).timestamp()
