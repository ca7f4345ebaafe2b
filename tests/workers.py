"""A worker among its neighbours: relay, bus, simulated agents, and a real database.

`python tests/workers.py` is also the program of a worker that dies where it is told to: before it
takes a step, or after what the step did is committed and before the engine has noted it.
"""

import asyncio
import functools
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, Final

import psycopg
import pytest
from dbos import DBOS
from typing_extensions import override

import outside
import tenants
from event_stage import relaying, until
from mainstay.runtime.clock import SystemClock
from mainstay.tenancy import enrolment, relay, release, request, signing
from mainstay.tenancy.agent_api import LocalApi
from mainstay.tenancy.agent_faults import HEALTHY, AgentDied, Faults
from mainstay.tenancy.agent_host import Host
from mainstay.tenancy.agent_sim import SimulatedAgent
from mainstay.tenancy.authority import Authority
from mainstay.tenancy.backoff import Backoff
from mainstay.tenancy.bell import Bell, listening
from mainstay.tenancy.bus_postgres import PostgresBus
from mainstay.tenancy.consume import ConsumeOptions
from mainstay.tenancy.database.connect import Pool, Row, transaction
from mainstay.tenancy.database.embedded import Server
from mainstay.tenancy.ids import ids_from
from mainstay.tenancy.signing import Signer
from mainstay.tenancy.states import Actor
from mainstay.tenancy.subscribers import RELEASER, SUBSCRIBERS, WORKER, Subscribers
from mainstay.tenancy.worker import run as worker
from mainstay.tenancy.worker.engine_dbos import SCHEMA, dbos_workflows
from mainstay.tenancy.worker.port import Engine, Facts, Step
from mainstay.tenancy.worker.run import WorkerOptions
from mainstay.tenancy.worker.steps import STEPS
from mainstay.tenancy.worker.tools import Patience, Tools
from postgres import pool_of

PATIENCE_S: Final = 60.0
CLOCK: Final = SystemClock()
ONLY_WORKERS: Final[Subscribers] = {
    kind: names & {WORKER, RELEASER} for kind, names in SUBSCRIBERS.items()
}
"""Nobody else runs here, so nobody else is waited for."""

HURRIED: Final = Patience(
    task_s=30.0,
    provision_pauses_s=(0.05, 0.1),
    release_pauses=Backoff(first_s=0.05, most_s=0.1),
)
OPTIONS: Final = WorkerOptions(
    beat_s=0.2,
    dead_after_s=1.0,
    sweep_s=0.2,
    consume=ConsumeOptions(subscribers=ONLY_WORKERS),
)
TEMPLATE: Final = "migrated_for_workers"


@pytest.fixture(scope="session")
def worker_template(server: Server) -> str:
    """The schema with the engine's own tables."""
    return _template_on(server.url)


@functools.cache
def _template_on(url: str) -> str:
    """Made once for all modules that ask."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"create database {TEMPLATE} template migrated")
    DBOS.migrate(_named(url, TEMPLATE), schema=SCHEMA)
    return TEMPLATE


@pytest.fixture
def worker_url(server: Server, worker_template: str) -> Iterator[str]:
    """A database of the test's own, with the tables of the engine."""
    name = f"worker_{os.getpid()}_{next(_NUMBERS)}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"create database {name} template {worker_template} strategy file_copy")
        yield _named(server.url, name)
        connection.execute(f"drop database {name} with (force)")


_NUMBERS: Final = iter(range(1, 1_000_000))


def _named(url: str, database: str) -> str:
    return f"{url.rpartition('/')[0]}/{database}"


@dataclass
class Site:
    """A node with an agent, a relay, and a folder for keys; workers are added to it."""

    url: str
    pool: Pool
    folder: Path
    agent: SimulatedAgent
    tasks: asyncio.TaskGroup
    patience: Patience = HURRIED
    temporal: str = ""
    """The address of a Temporal server; empty: the engine is in the database."""

    def tools(self, **changes: Any) -> Tools:
        return tools(self.pool, self.folder, self.patience, **changes)

    async def ask(self, gpus: int = 1, **changes: Any) -> str:
        row = await request.request(self.pool, tenants.NEW, tenants.order(gpus, **changes))
        return str(row["id"])

    async def give_back(self, allocation: str) -> Row:
        return await release.release(
            self.pool,
            tenants.NEW,
            allocation,
            actor=Actor.TENANT,
            by="usr_one",
            project=tenants.PROJECT,
        )

    async def allocation(self, allocation: str) -> Row:
        (row,) = await tenants.rows(
            self.pool, "select * from allocations where id = %s", [allocation]
        )
        return row

    async def node_tasks(self, allocation: str) -> list[Row]:
        return await tenants.rows(
            self.pool,
            "select * from node_tasks where allocation_id = %s order by created_at",
            [allocation],
        )

    async def until(self, allocation: str, *statuses: str) -> Row:
        """Wait until the allocation is in one of these states."""
        state = "select status = any(%s) from allocations where id = %s"
        await self.until_true(state, [list(statuses), allocation])
        return await self.allocation(allocation)

    async def until_true(self, statement: str, values: Sequence[Any] = ()) -> None:
        async def holds() -> bool:
            return bool(await tenants.value(self.pool, statement, values))

        await until(holds)

    async def all_quiet(self) -> None:
        """Wait until no work is in hand any more."""
        await self.until_true(
            f"select not exists (select from {SCHEMA}.workflow_status"
            " where status in ('PENDING', 'ENQUEUED'))"
        )


def tools(pool: Pool, folder: Path, patience: Patience, **changes: Any) -> Tools:
    given = Tools(
        pool=pool,
        ids=ids_from(CLOCK, Random(os.urandom(8))),
        signer=Signer(folder / "signer"),
        clock=CLOCK,
        patience=patience,
    )
    return replace(given, **changes)


def at_a_site(
    url: str,
    folder: Path,
    test: Callable[[Site], Awaitable[None]],
    *,
    faults: Faults = HEALTHY,
    patience: Patience = HURRIED,
    works: bool = True,
    agent: bool = True,
    temporal: str = "",
) -> None:
    """Run a test's coroutine with a node, its agent and a relay; `works`: and a worker, in here."""

    async def inside() -> None:
        async with pool_of(url, size_max=24) as pool, asyncio.timeout(PATIENCE_S * 3):
            await tenants.furnish(pool)
            await tenants.node(pool)
            async with asyncio.TaskGroup() as group:
                made = await agent_of(pool, folder, faults)
                site = Site(url, pool, folder, made, group, patience, temporal)
                beside = [
                    group.create_task(_agent(site.agent) if agent else _idle(), name="agent"),
                    group.create_task(
                        relay.run(pool, PostgresBus(pool), relaying(ONLY_WORKERS)), name="relay"
                    ),
                ]
                async with working(site) if works else _nothing():
                    await test(site)
                for task in beside:
                    task.cancel()
            assert await tenants.faults(pool) == {}

    asyncio.run(inside())


async def agent_of(
    pool: Pool, folder: Path, faults: Faults, *, host: Host | None = None
) -> SimulatedAgent:
    """An agent with its certificate; on a host that has one already, the next agent there."""
    authority = Authority(folder / "authority", CLOCK)
    agent = SimulatedAgent(LocalApi(pool, authority), "node-a", faults, CLOCK, Random(3), host=host)
    if host is None:
        async with transaction(pool) as tx:
            await signing.ensure_active(tx, tenants.NEW, Signer(folder / "signer"))
            token = await enrolment.invite(tx, "node-a")
        await agent.enrol(token)
    return agent


async def _agent(agent: SimulatedAgent) -> None:
    with suppress(AgentDied):
        await agent.run()


async def _idle() -> None:
    """An agent that never comes."""


@asynccontextmanager
async def _nothing() -> AsyncIterator[None]:
    yield


def engine_of(temporal: str) -> Engine:
    if not temporal:
        return dbos_workflows
    from mainstay.tenancy.worker.engine_temporal import (  # noqa: PLC0415 - may be absent
        TemporalOptions,
        temporal_engine,
    )

    return temporal_engine(TemporalOptions(address=temporal, dead_after_s=1.0, let_go_s=0.2))


@asynccontextmanager
async def working(
    site: Site, options: WorkerOptions = OPTIONS, *, bell: Bell | None = None
) -> AsyncIterator[None]:
    """A worker in this process while the block runs; `bell` is one that nobody rings."""
    async with listening(site.url) as rung, asyncio.TaskGroup() as group:
        task = group.create_task(
            worker.run(
                site.url,
                site.tools(bell=bell or rung),
                PostgresBus(site.pool),
                replace(options, engine=engine_of(site.temporal)),
            )
        )
        try:
            yield
        finally:
            task.cancel()


@dataclass(frozen=True)
class Death:
    """Where a worker dies."""

    step: str
    after: bool
    """After the step has committed, or before it is taken."""

    turn: int = 1
    """Which time that it comes to this step."""

    @override
    def __str__(self) -> str:
        return f"{'after' if self.after else 'before'} {self.step} {self.turn}"


@dataclass
class Killing:
    """Steps of which one kills its process."""

    death: Death | None
    turns: Counter[str] = field(default_factory=Counter)

    def steps(self) -> dict[str, Step]:
        return {name: self._wrapped(name, step) for name, step in STEPS.items()}

    def _wrapped(self, name: str, step: Step) -> Step:
        async def wrapped(*args: Any, **facts: Any) -> Facts:
            self.turns[name] += 1
            self._die(name, after=False)
            answer = await step(*args, **facts)
            self._die(name, after=True)
            return answer

        return wrapped

    def _die(self, name: str, *, after: bool) -> None:
        if self.death == Death(name, after, self.turns[name]):
            os.kill(os.getpid(), signal.SIGKILL)


class Nursery:
    """Starts worker processes quickly: a process that has imported everything, and forks."""

    def __init__(self) -> None:
        path = f"{outside.ROOT / 'src'}:{outside.ROOT / 'tests'}"
        self._parent = subprocess.Popen(
            [sys.executable, __file__],
            env=outside.environment(PYTHONPATH=path),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )
        self._living: set[int] = set()

    def _asked(self, question: Facts) -> int:
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write(json.dumps(question) + "\n")
        self._parent.stdin.flush()
        return int(self._parent.stdout.readline())

    def start(self, site: Site, death: Death | None = None) -> int:
        """A worker in a process of its own; its pid."""
        given = {
            "url": site.url,
            "folder": str(site.folder),
            "task_s": site.patience.task_s,
            "temporal": site.temporal,
            "death": None if death is None else [death.step, death.after, death.turn],
        }
        pid = self._asked(given)
        self._living.add(pid)
        return pid

    async def died(self, pid: int) -> None:
        """Wait until the process has killed itself, as it was told."""

        async def ended() -> bool:
            return self._asked({"ended": pid}) != RUNS

        await until(ended)
        self._living.discard(pid)
        assert self._asked({"ended": pid}) == -signal.SIGKILL

    def kill(self, pid: int) -> None:
        """As kill -9 does."""
        os.kill(pid, signal.SIGKILL)
        while self._asked({"ended": pid}) == RUNS:
            pass
        self._living.discard(pid)

    def kill_all(self) -> None:
        for pid in list(self._living):
            self.kill(pid)

    def close(self) -> None:
        self.kill_all()
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.close()
        self._parent.wait()
        self._parent.stdout.close()


RUNS: Final = 1_000_000
"""The answer about a process that has not ended."""


@pytest.fixture(scope="session")
def one_nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()


@pytest.fixture
def nursery(one_nursery: Nursery) -> Iterator[Nursery]:
    """Workers as processes; those that are left at the end of a test are killed."""
    yield one_nursery
    one_nursery.kill_all()


def _serve_nursery() -> None:
    codes: dict[int, int] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        if "ended" in asked:
            answer = _code(asked["ended"], codes)
        elif (answer := os.fork()) == 0:
            _child(asked)
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


def _code(pid: int, codes: dict[int, int]) -> int:
    if pid not in codes:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended == 0:
            return RUNS
        codes[pid] = os.waitstatus_to_exitcode(status)
    return codes[pid]


def _child(given: Facts) -> None:
    os.close(0)
    os.dup2(2, 1)
    try:
        asyncio.run(_program(given))
    finally:
        os._exit(1)


async def _program(given: Facts) -> None:
    death = None if given["death"] is None else Death(*given["death"])
    patience = replace(HURRIED, task_s=given["task_s"])
    async with pool_of(given["url"]) as pool, listening(given["url"]) as bell:
        await worker.run(
            given["url"],
            tools(pool, Path(given["folder"]), patience, bell=bell),
            PostgresBus(pool),
            replace(OPTIONS, engine=engine_of(given["temporal"])),
            steps=Killing(death).steps(),
        )


if __name__ == "__main__":
    _serve_nursery()
