"""Temporal as the engine, for a site that runs one: the same plans, the same steps.

The server remembers how far work got and gives it to whoever polls, so there is nothing to take
over from the dead: a worker that stops beating loses its step to another one. Ids are remembered as
long as the namespace keeps finished work; a step that runs again after that finds the rows as they
are and does nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from mainstay.model.errors import Rejected, Unavailable
from mainstay.runtime.beside import beside
from mainstay.tenancy.worker.plans import PLANS, PROVISION, RELEASE, REMAINS, VERSION
from mainstay.tenancy.worker.port import Engine, Facts, Steps, Unfinished, Workflows
from mainstay.tenancy.worker.steps import STEPS, take
from mainstay.tenancy.worker.tools import Tools

QUEUE: Final = f"mainstay-worker-{VERSION}"
"""Work that was begun under another version is left to workers that have it."""

STEP_S: Final = 86_400.0
"""A step is taken until it succeeds; what ends earlier is its worker."""

AGAIN: Final = RetryPolicy(
    initial_interval=timedelta(milliseconds=200), maximum_interval=timedelta(seconds=10)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporalOptions:
    """Which server, and how soon a silent worker counts as dead."""

    address: str
    namespace: str = "default"
    dead_after_s: float = 5.0
    let_go_s: float = 1.0
    """How long steps under way may take when a worker stops."""


@dataclass(frozen=True, slots=True)
class TemporalWorkflows:
    """The engine of this process, while it runs."""

    client: Client
    silence_s: float

    async def start(self, workflow_id: str, name: str, argument: Facts) -> None:
        """Begin a plan; nothing if there ever was work with this id."""
        if name not in PLANS:
            raise Rejected(f"no plan {name!r} (there are: {', '.join(sorted(PLANS))})")
        try:
            await self.client.start_workflow(
                name,
                args=[argument, self.silence_s],
                id=workflow_id,
                task_queue=QUEUE,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            )
        except WorkflowAlreadyStartedError:
            return
        except RPCError as error:
            raise Unavailable(f"the workflow engine failed: {error.status.name}") from error

    async def unfinished(self) -> list[Unfinished]:
        """Nothing that anybody must take over: the server gives the work of the dead to others."""
        return []

    async def resume(self, workflow_id: str) -> None:
        """It goes on by itself."""

    async def prune(self, kept_s: float) -> int:  # noqa: ARG002 - the namespace says how long
        """The server forgets by itself."""
        return 0


def temporal_engine(options: TemporalOptions) -> Engine:
    """The engine at this server, to be given to `worker.run`."""

    def engine(
        _: str, tools: Tools, executor: str, *, steps: Steps = STEPS
    ) -> AbstractAsyncContextManager[Workflows]:
        return _running(options, tools, executor, steps)

    return engine


@asynccontextmanager
async def _running(
    options: TemporalOptions, tools: Tools, executor: str, steps: Steps
) -> AsyncIterator[Workflows]:
    try:
        client = await Client.connect(
            options.address, namespace=options.namespace, identity=executor
        )
    except (RPCError, RuntimeError, OSError) as error:
        message = f"no Temporal server answers at {options.address}: check --workflows"
        raise Unavailable(message, detail=str(error)) from error
    async with Worker(
        client,
        task_queue=QUEUE,
        workflows=WORKFLOWS,
        activities=[_step(name, tools, steps, options) for name in steps],
        workflow_runner=UnsandboxedWorkflowRunner(),  # plans know nothing but answers
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=options.dead_after_s),
        graceful_shutdown_timeout=timedelta(seconds=options.let_go_s),
    ):
        yield TemporalWorkflows(client, options.dead_after_s)


def _step(
    name: str, tools: Tools, steps: Steps, options: TemporalOptions
) -> Callable[[Facts], Awaitable[Facts]]:
    @activity.defn(name=name)
    async def taken(facts: Facts) -> Facts:
        return await beside(take(steps, tools, name, facts), _beating(options.dead_after_s / 3))

    return taken


async def _beating(pause_s: float) -> None:
    """Say that this step is in living hands."""
    while True:
        activity.heartbeat()
        await asyncio.sleep(pause_s)


@dataclass(frozen=True, slots=True)
class _TemporalRun:
    silence_s: float

    async def step(self, name: str, **facts: Any) -> Facts:
        answer: Facts = await workflow.execute_activity(
            name,
            facts,
            start_to_close_timeout=timedelta(seconds=STEP_S),
            heartbeat_timeout=timedelta(seconds=self.silence_s),
            retry_policy=AGAIN,
        )
        return answer

    async def pause(self, seconds: float) -> None:
        await workflow.sleep(seconds)


@workflow.defn(name=PROVISION, sandboxed=False)
class _Provision:
    """As its plan says; the engine wants a class for each."""

    @workflow.run
    async def run(self, facts: Facts, silence_s: float) -> None:
        await PLANS[PROVISION](_TemporalRun(silence_s), facts)


@workflow.defn(name=RELEASE, sandboxed=False)
class _Release:
    """As its plan says."""

    @workflow.run
    async def run(self, facts: Facts, silence_s: float) -> None:
        await PLANS[RELEASE](_TemporalRun(silence_s), facts)


@workflow.defn(name=REMAINS, sandboxed=False)
class _Remains:
    """As its plan says."""

    @workflow.run
    async def run(self, facts: Facts, silence_s: float) -> None:
        await PLANS[REMAINS](_TemporalRun(silence_s), facts)


WORKFLOWS: Final = (_Provision, _Release, _Remains)
