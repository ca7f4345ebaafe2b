"""Clients of the allocations bench: processes of many tasks each, on a pool of their own.

A process waits for jobs, so that what it takes to start one is in no figure. Times are of one clock
for all processes of a machine.
"""

import asyncio
import multiprocessing
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from multiprocessing.connection import Connection as Pipe
from random import Random
from typing import Any, Final

from mainstay.model.errors import Unavailable
from mainstay.runtime.clock import SystemClock
from mainstay.tenancy import consume, relay, settle
from mainstay.tenancy.bus import Bus, Envelope
from mainstay.tenancy.bus_metrics import RelayMetrics
from mainstay.tenancy.bus_postgres import PostgresBus
from mainstay.tenancy.database.connect import Connection, Pool, pool_at, transaction
from mainstay.tenancy.ids import Ids, ids_from
from mainstay.tenancy.release import release
from mainstay.tenancy.request import Order, SkuUnavailable, request
from mainstay.tenancy.states import Actor, EventType
from mainstay.tenancy.subscribers import Subscribers
from mainstay.tenancy.transition import locked

PROOF: Final = {"released": True, "wiped": True, "leases_released": True, "hard_stopped": False}
BATCH: Final = 20
"""Allocations that are settled in one transaction, where settling is not what is measured."""

CONSUMER: Final = "bench"
TOLD: Final[Subscribers] = {kind: frozenset({CONSUMER}) for kind in EventType}


class Task(StrEnum):
    """What a client process can be told to do."""

    CREATE = "create"
    CREATE_PACED = "create_paced"
    RELEASE = "release"
    ACTIVATE = "activate"
    FREE = "free"
    RELAY = "relay"
    CARRY = "carry"


class Ended(StrEnum):
    """How a call ended."""

    DONE = "done"
    REFUSED = "refused"
    BUSY = "busy"
    """Others were faster too often: no refusal, one would ask again."""


@dataclass(frozen=True, slots=True)
class Job:
    """A task, and what to do it with: orders, or ids of allocations."""

    task: Task
    items: Sequence[Any] = ()
    per_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a client."""

    seconds: float
    ended: Ended
    allocation: str | None
    order: Order | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """What one or several processes did about a job."""

    calls: list[Call]
    began_s: float
    ended_s: float
    cpu_s: float
    count: int = 0

    @property
    def seconds(self) -> float:
        """From the first beginning to the last end."""
        return self.ended_s - self.began_s


def joined(parts: Sequence[Work]) -> Work:
    """The work of several processes as one."""
    return Work(
        calls=[call for part in parts for call in part.calls],
        began_s=min(part.began_s for part in parts),
        ended_s=max(part.ended_s for part in parts),
        cpu_s=sum(part.cpu_s for part in parts),
        count=sum(part.count for part in parts),
    )


@dataclass(frozen=True, slots=True)
class Clients:
    """Processes that wait for jobs."""

    pipes: list[Pipe]

    def do(self, task: Task, items: Sequence[Any]) -> Work:
        """Share the items out, one process as many as the other, and wait for all."""
        for at, pipe in enumerate(self.pipes):
            pipe.send(Job(task, list(items[at :: len(self.pipes)])))
        return joined([received(pipe) for pipe in self.pipes])


def received(pipe: Pipe) -> Work:
    """What a process answers; its failure is ours."""
    answer = pipe.recv()
    if isinstance(answer, Exception):
        raise answer
    assert isinstance(answer, Work)
    return answer


@contextmanager
def clients(url: str, *, processes: int, tasks: int, seed: int) -> Iterator[Clients]:
    """So many processes with so many tasks in all; gone when the block is left."""
    with ExitStack() as stack:
        each = -(-tasks // processes)
        pipes = [
            stack.enter_context(started(url, each, seed + number)) for number in range(processes)
        ]
        yield Clients(pipes)


@contextmanager
def started(url: str, tasks: int, seed: int) -> Iterator[Pipe]:
    """One process, ready for jobs."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, url, tasks, seed), daemon=True)
    process.start()
    theirs.close()
    try:
        received(ours)
        yield ours
    finally:
        ours.close()
        process.join(timeout=10.0)
        if process.is_alive():
            process.kill()
            process.join()
        process.close()


def serve(pipe: Pipe, url: str, tasks: int, seed: int) -> None:
    """The main function of a client process: jobs until nobody is left who gives any."""
    try:
        asyncio.run(_serve(pipe, url, tasks, seed))
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        return


async def _serve(pipe: Pipe, url: str, tasks: int, seed: int) -> None:
    new = ids_from(SystemClock(), Random(seed))
    async with pool_at(url, size_max=tasks + 4, name="mainstay bench") as pool:
        client = Client(pool, new, pipe, tasks)
        await client.warm()
        pipe.send(Work([], 0.0, 0.0, 0.0))
        while True:
            job = await asyncio.to_thread(pipe.recv)
            try:
                answer: Work | Exception = await client.do(job)
            except Exception as error:  # noqa: BLE001 - it is raised again where the job came from
                answer = RuntimeError(f"{job.task}: {type(error).__name__}: {error}")
            pipe.send(answer)


@dataclass(frozen=True, slots=True)
class Client:
    """A process at work."""

    pool: Pool
    ids: Ids
    pipe: Pipe
    tasks: int
    clock: SystemClock = field(default_factory=SystemClock)

    async def warm(self) -> None:
        """Every connection is there before anything is timed."""
        await self.pool.resize(self.tasks, self.tasks + 4)
        await self.pool.wait()

    async def do(self, job: Job) -> Work:
        """One job to its end."""
        cpu_s, began_s = time.process_time(), self.clock.elapsed_s()
        calls: list[Call] = []
        count = 0
        match job.task:
            case Task.CREATE:
                calls = await self._all(self._create, job.items)
            case Task.CREATE_PACED:
                calls = await self._paced(job.items, job.per_s)
            case Task.RELEASE:
                calls = await self._all(self._release, job.items)
            case Task.ACTIVATE:
                await self._all(partial(self._settle, activate), batches(job.items))
            case Task.FREE:
                await self._all(partial(self._settle, free), batches(job.items))
            case Task.RELAY:
                count = await self._relay(PostgresBus(self.pool))
            case Task.CARRY:
                await self._carry(PostgresBus(self.pool))
        ended_s = self.clock.elapsed_s()
        return Work(calls, began_s, ended_s, time.process_time() - cpu_s, count)

    async def _all(
        self, call: Callable[[Any], Awaitable[Call]], items: Sequence[Any]
    ) -> list[Call]:
        """Every item once, as many at a time as there are tasks."""
        left = iter(items)
        done: list[Call] = []

        async def one() -> None:
            for item in left:
                done.append(await call(item))  # noqa: PERF401 - others append meanwhile

        async with asyncio.TaskGroup() as group:
            for _ in range(self.tasks):
                group.create_task(one())
        return done

    async def _paced(self, orders: Sequence[Order], per_s: float) -> list[Call]:
        """At this rate, whether the ones before have ended or not."""
        done: list[Call] = []
        began_s = self.clock.elapsed_s()

        async def one(order: Order) -> None:
            done.append(await self._create(order))

        async with asyncio.TaskGroup() as group:
            for number, order in enumerate(orders):
                await asyncio.sleep(began_s + number / per_s - self.clock.elapsed_s())
                group.create_task(one(order))
        return done

    async def _create(self, order: Order) -> Call:
        began_s = self.clock.elapsed_s()
        allocation, ended = None, Ended.DONE
        try:
            allocation = (await request(self.pool, self.ids, order))["id"]
        except SkuUnavailable:
            ended = Ended.REFUSED
        except Unavailable:
            ended = Ended.BUSY
        return Call(self.clock.elapsed_s() - began_s, ended, allocation, order)

    async def _release(self, held: tuple[str, str]) -> Call:
        allocation, project = held
        began_s = self.clock.elapsed_s()
        await release(
            self.pool, self.ids, allocation, actor=Actor.TENANT, by="usr_bench", project=project
        )
        return Call(self.clock.elapsed_s() - began_s, Ended.DONE, allocation)

    async def _settle(
        self, step: Callable[[Connection, Ids, str], Awaitable[None]], batch: Sequence[str]
    ) -> Call:
        async with transaction(self.pool) as tx:
            for allocation in sorted(batch):
                await step(tx, self.ids, allocation)
        return Call(0.0, Ended.DONE, None)

    async def _relay(self, bus: Bus) -> int:
        """Turns until nothing is due; how many events were published."""
        options = relay.RelayOptions(subscribers=TOLD)
        turns = relay.Relay(self.pool, bus, options, RelayMetrics())
        total = 0
        while published := await turns.turn():
            total += published
        return total

    async def _carry(self, bus: Bus) -> None:
        """A relay and a consumer, until the next thing is said on the pipe."""
        options = consume.ConsumeOptions(subscribers=TOLD)
        async with asyncio.TaskGroup() as group:
            running = [
                group.create_task(relay.run(self.pool, bus, relay.RelayOptions(subscribers=TOLD))),
                group.create_task(consume.run(self.pool, bus, [Idle()], options)),
            ]
            await asyncio.to_thread(self.pipe.recv)
            for task in running:
                task.cancel()


def batches(items: Sequence[Any]) -> list[Sequence[Any]]:
    """The items in runs of `BATCH`."""
    return [items[at : at + BATCH] for at in range(0, len(items), BATCH)]


async def activate(tx: Connection, ids: Ids, allocation: str) -> None:
    """What a worker does between a request and a tenant who has it."""
    row = await settle.begun(tx, ids, await locked(tx, allocation))
    await settle.activated(tx, ids, row, {"host": "192.0.2.1"})


async def free(tx: Connection, ids: Ids, allocation: str) -> None:
    """What a worker does when an agent has proved that all is clean."""
    await settle.released(tx, ids, await locked(tx, allocation), PROOF)


@dataclass(frozen=True, slots=True)
class Idle:
    """A consumer that does nothing: what is measured is the way to it."""

    name: str = CONSUMER
    subjects: frozenset[EventType] = frozenset(TOLD)

    async def handle(self, tx: Connection, event: Envelope) -> None:
        """Nothing but the note that it was consumed."""
