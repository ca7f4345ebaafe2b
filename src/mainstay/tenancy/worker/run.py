"""A worker process: what it is made of, and the only place where that is decided."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from mainstay.runtime.log import logger
from mainstay.tenancy import consume
from mainstay.tenancy.billing.force import Releaser
from mainstay.tenancy.bus import Bus
from mainstay.tenancy.bus_metrics import ConsumerMetrics
from mainstay.tenancy.consume import ConsumeOptions, Consumer
from mainstay.tenancy.pruning import PAUSE_S, Retention
from mainstay.tenancy.worker import executors
from mainstay.tenancy.worker.consumer import WorkConsumer
from mainstay.tenancy.worker.engine_dbos import dbos_workflows
from mainstay.tenancy.worker.port import Engine, Steps, Workflows
from mainstay.tenancy.worker.steps import STEPS
from mainstay.tenancy.worker.sweep import sweep
from mainstay.tenancy.worker.tools import Tools


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """How a worker works."""

    beat_s: float = 1.0
    dead_after_s: float = 5.0
    """Without a sign of life: several beats, so that a slow moment is no death."""

    sweep_s: float = 1.0
    kept_s: float = Retention().work_s
    """How long finished work is remembered."""

    consume: ConsumeOptions = field(default_factory=ConsumeOptions)
    engine: Engine = dbos_workflows
    """What remembers how far work got."""

    told: ConsumerMetrics | None = None
    """Of whoever shares a registry with others; None: a set of its own."""


async def run(
    url: str,
    tools: Tools,
    bus: Bus,
    options: WorkerOptions | None = None,
    *,
    others: Sequence[Consumer] = (),
    steps: Steps = STEPS,
) -> None:
    """Work until cancelled; several processes may. `others` are consumers that run along."""
    options = options or WorkerOptions()
    told = options.told or ConsumerMetrics(tools.metrics.registry)
    executor = tools.ids("wrk")
    await executors.beat(tools.pool, executor)
    async with options.engine(url, tools, executor, steps=steps) as workflows:
        try:
            async with asyncio.TaskGroup() as tasks:
                consumers: list[Consumer] = [WorkConsumer(workflows), Releaser(tools.ids), *others]
                tasks.create_task(consume.run(tools.pool, bus, consumers, options.consume, told))
                tasks.create_task(_beating(tools, workflows, executor, options), name="beat")
                tasks.create_task(
                    _every(options.sweep_s, lambda: sweep(tools, workflows)), name="sweep"
                )
                tasks.create_task(_pruning(workflows, options), name="prune")
        finally:
            await executors.leave(tools.pool, executor)


async def _beating(
    tools: Tools, workflows: Workflows, executor: str, options: WorkerOptions
) -> None:
    async def once() -> None:
        await executors.beat(tools.pool, executor)
        tools.metrics.beat(tools.clock.now_s())
        taken = await executors.take_over(tools.pool, workflows, dead_after_s=options.dead_after_s)
        if taken:
            tools.metrics.took_over(len(taken))
            logger(executor=executor).warning("work_taken_over", workflows=taken)

    await _every(options.beat_s, once)


async def _pruning(workflows: Workflows, options: WorkerOptions) -> None:
    async def all_there_is() -> None:
        while await workflows.prune(options.kept_s):
            pass

    await _every(PAUSE_S, all_there_is)


async def _every(pause_s: float, do: Callable[[], Awaitable[None]]) -> None:
    """Again and again; what goes wrong at one turn is met again at the next."""
    while True:
        try:
            await do()
        except Exception as error:  # noqa: BLE001 - the boundary: the other work goes on
            logger().warning("worker_turn_failed", error=consume.told(error))
        await asyncio.sleep(pause_s)
