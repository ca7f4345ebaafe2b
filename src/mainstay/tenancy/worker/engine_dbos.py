"""DBOS as the engine: a library on the same PostgreSQL, in a schema of its own.

Its workflows and steps run as tasks of the event loop it was started in, so they use our pool as
everybody does; only its own bookkeeping runs in its threads. One engine per process, since it keeps
its state in globals.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import sqlalchemy
from dbos import DBOS, DBOSConfig, SetWorkflowID
from dbos import Serializer as DbosSerializer
from typing_extensions import override

from mainstay.model.errors import Rejected, Unavailable
from mainstay.runtime.log import logger
from mainstay.tenancy.database.connect import Pool, transaction
from mainstay.tenancy.pruning import BATCH
from mainstay.tenancy.worker.plans import PLANS, VERSION
from mainstay.tenancy.worker.port import Facts, Plan, Plans, Steps, Unfinished
from mainstay.tenancy.worker.steps import STEPS, take
from mainstay.tenancy.worker.tools import STALL_S, Tools

SCHEMA: Final = "workflows"
NAME: Final = "mainstay-worker"
CONNECTIONS: Final = 8
THREADS: Final = 16
LET_GO_S: Final = 10.0
_UNFINISHED_MAX: Final = 1000

T = TypeVar("T")
Workflow = Callable[[Facts], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class DbosWorkflows:
    """The engine of this process, while it runs."""

    plans: Mapping[str, Workflow]
    hands: "_Hands"
    pool: Pool

    async def start(self, workflow_id: str, name: str, argument: Facts) -> None:
        """Begin a plan; nothing if there ever was work with this id."""
        if name not in self.plans:
            raise Rejected(f"no plan {name!r} (there are: {', '.join(sorted(self.plans))})")
        with SetWorkflowID(workflow_id):
            await _reached(self.hands.held(DBOS.start_workflow_async(self.plans[name], argument)))

    async def unfinished(self) -> list[Unfinished]:
        """What is in hand; the oldest thousand, the others come when those have gone."""
        listed = DBOS.list_workflows_async(
            status="PENDING",
            app_version=VERSION,
            limit=_UNFINISHED_MAX,
            load_input=False,
            load_output=False,
        )
        found = await _reached(self.hands.held(listed))
        return [Unfinished(one.workflow_id, one.executor_id or "") for one in found]

    async def resume(self, workflow_id: str) -> None:
        """Put it into the queue that every executor looks at; who had it is fenced."""
        await _reached(self.hands.held(DBOS.resume_workflow_async(workflow_id)))

    async def prune(self, kept_s: float) -> int:
        """Forget some work that has been finished for so long; how much it was."""
        async with transaction(self.pool) as tx:
            gone = await tx.execute(_PRUNE, {"kept_s": kept_s, "batch": BATCH})
            return gone.rowcount


_PRUNE: Final = f"""
    delete from {SCHEMA}.workflow_status where workflow_uuid = any(array(
        select workflow_uuid from {SCHEMA}.workflow_status
        where status in ('SUCCESS', 'ERROR', 'CANCELLED')
          and greatest(created_at, updated_at)
              < (extract(epoch from clock_timestamp()) - %(kept_s)s) * 1000
        order by created_at limit %(batch)s for update skip locked))
"""
"""What it noted about their steps goes along, by its own foreign keys."""


@asynccontextmanager
async def dbos_workflows(
    url: str, tools: Tools, executor: str, *, plans: Plans = PLANS, steps: Steps = STEPS
) -> AsyncIterator[DbosWorkflows]:
    """The engine, running as this executor while the block does.

    What is in hand at its end is left where it is, for somebody else to go on with.
    """
    await _reached(asyncio.to_thread(DBOS.migrate, url, schema=SCHEMA))
    hands = _Hands()
    DBOS(config=_config(url, executor))
    _listen_to_its_log()
    try:
        known = {
            name: _workflow(plan, _DbosRun(tools, steps, hands), name)
            for name, plan in plans.items()
        }
        DBOS.launch()
        yield DbosWorkflows(known, hands, tools.pool)
    finally:
        await hands.let_go()
        await _destroy()


def _workflow(plan: Plan, run: "_DbosRun", name: str) -> Workflow:
    @DBOS.workflow(name=name)
    async def work(facts: Facts) -> None:
        with run.hands.at(run.hands.work):
            await plan(run, facts)

    return work


class _Hands:
    """The work under way here, so that it can be let go in an orderly manner.

    A task is cancelled only inside a step or a pause, never while the engine writes about it, and
    a call to the engine goes on when its caller is cancelled: its threads cannot be.
    """

    def __init__(self) -> None:
        self.work: set[asyncio.Task[Any]] = set()
        self.in_steps: set[asyncio.Task[Any]] = set()
        self._calls: set[asyncio.Future[Any]] = set()
        self._closing = False

    @contextmanager
    def at(self, kept: set[asyncio.Task[Any]]) -> Iterator[None]:
        task = asyncio.current_task()
        assert task is not None
        if self._closing:
            raise asyncio.CancelledError
        kept.add(task)
        try:
            yield
        finally:
            kept.discard(task)

    async def held(self, call: Coroutine[Any, Any, T]) -> T:
        going_on = asyncio.ensure_future(call)
        self._calls.add(going_on)
        going_on.add_done_callback(self._calls.discard)
        return await asyncio.shield(going_on)

    async def let_go(self) -> None:
        self._closing = True
        left: set[asyncio.Future[Any]] = {*self.work, *self._calls}
        for task in self.in_steps:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=LET_GO_S)


@dataclass(frozen=True, slots=True)
class _DbosRun:
    tools: Tools
    steps: Steps
    hands: _Hands

    async def step(self, name: str, **facts: Any) -> Facts:
        async def taken() -> Facts:
            with self.hands.at(self.hands.in_steps):
                return await take(self.steps, self.tools, name, facts)

        return await DBOS.run_step_async({"name": name}, taken)

    async def pause(self, seconds: float) -> None:
        with self.hands.at(self.hands.in_steps):
            await DBOS.sleep_async(seconds)


async def _destroy() -> None:
    """Stop it from a thread of its own: it takes its threads, which are the loop's, with it."""
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1) as other:
        await loop.run_in_executor(other, lambda: DBOS.destroy(destroy_registry=True))
    loop.set_default_executor(ThreadPoolExecutor())


def _config(url: str, executor: str) -> DBOSConfig:
    return {
        "name": NAME,
        "system_database_url": url,
        "dbos_system_schema": SCHEMA,
        "run_migrations": False,
        "executor_id": executor,
        "application_version": VERSION,
        "serializer": _Json(),
        "sys_db_pool_size": CONNECTIONS,
        "sys_db_idle_transaction_timeout_sec": STALL_S,
        "max_executor_threads": THREADS,
        "log_level": "WARNING",
        "enable_otlp": False,
    }


async def _reached(call: Coroutine[Any, Any, T]) -> T:
    try:
        return await call
    except (sqlalchemy.exc.OperationalError, sqlalchemy.exc.TimeoutError) as error:
        raise Unavailable(f"the workflow engine failed: {type(error).__name__}") from error


class _Json(DbosSerializer):
    """Nothing that is read from the database is ever run, as a pickle would be."""

    @override
    def serialize(self, data: Any) -> str:
        return json.dumps(data, default=repr)

    @override
    def deserialize(self, serialized_data: str) -> Any:
        return json.loads(serialized_data)

    @override
    def name(self) -> str:
        return "mainstay_json"


class _Ear(logging.Handler):
    """What the engine has to say goes where all our lines go."""

    @override
    def emit(self, record: logging.LogRecord) -> None:
        logger().log(record.levelno, "workflow_engine_said", text=record.getMessage())


def _listen_to_its_log() -> None:
    its = logging.getLogger("dbos")
    its.handlers[:] = [_Ear()]
    its.propagate = False
