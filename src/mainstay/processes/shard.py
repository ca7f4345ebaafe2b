"""`mainstay shard`: reconciles, decides, limits and acts until it is told to stop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom

from mainstay.config.shard import ShardConfig
from mainstay.engine import kernels
from mainstay.model.errors import Rejected
from mainstay.processes.announce import announced
from mainstay.processes.pages import serving_pages
from mainstay.processes.provider import Say
from mainstay.processes.shard_ground import (
    Ground,
    Made,
    beside_uplink,
    own_threads,
    reached,
    tls_files,
    tls_flags,
)
from mainstay.processes.shard_pages import shard_pages
from mainstay.processes.shard_parts import (
    Surroundings,
    assembled,
    policy_of,
)
from mainstay.processes.shard_records import attributed, audit_log, audited, data_dir
from mainstay.processes.told import until_told
from mainstay.runtime import log
from mainstay.runtime.clock import Clock
from mainstay.runtime.collector import collect_often
from mainstay.shard.answers.view import ShardControls, ShardView
from mainstay.shard.datadir import DataDir
from mainstay.shard.journal import ShardJournal
from mainstay.shard.metrics import ShardMetrics
from mainstay.wire import loops
from mainstay.wire.session_server import session_handler
from mainstay.wire.shard_read_server import read_handler
from mainstay.wire.shard_view_server import control_handler, view_handler
from mainstay.wire.tls import MutualTls, Plaintext, transport
from mainstay.wire.transport import serving


@dataclass(frozen=True, slots=True)
class Place:
    """What the process is given from outside."""

    home: Path
    clock: Clock
    say: Say
    """Prints a line for people."""


async def serve_shard(config: ShardConfig, place: Place) -> None:
    """A shard, until a signal."""
    flags = tls_flags(config)
    over = transport(flags, config.listen)
    for address in config.coordinators:  # all or none are within plaintext's reach
        transport(flags, address)
    if not config.provider_addresses:
        raise Rejected("no providers: give --provider NAME=HOST:PORT, or shard.providers")
    kernels.warm()
    loops.warm()
    async with AsyncExitStack() as stack:
        data = stack.enter_context(DataDir(data_dir(config, place.home)))
        threads = await stack.enter_async_context(own_threads())
        lines = await stack.enter_async_context(reached(config, flags))
        made = await stack.enter_async_context(_made(config, place, Ground(data, threads, lines)))
        await _serve(made, config, over, place)
    place.say("Stopped.")


@asynccontextmanager
async def _made(config: ShardConfig, place: Place, ground: Ground) -> AsyncIterator[Made]:
    """The shard, with its audit log closed at the end."""
    metrics, threads = ShardMetrics(), ground.threads
    audit = audit_log(config, place.home, threads.audit)
    journal = ShardJournal(
        metrics, audit, log.logger(shard=config.shard_id), place.clock, policy_of(config)
    )
    attribution = attributed(config, place.home, journal, threads.attribution)
    around = Surroundings(
        links=ground.lines.links,
        meters=ground.lines.meters,
        data=ground.data,
        journal=journal,
        metrics=metrics,
        clock=place.clock,
        random=SystemRandom(),
        aside=threads.work,
        beside=(*audited(audit, journal), *attribution.beside, collect_often),
        seen=attribution.seen,
    )
    try:
        yield Made(assembled(config, around), metrics)
    finally:
        if audit is not None:
            await audit.close(journal)


async def _serve(
    made: Made, config: ShardConfig, over: Plaintext | MutualTls, place: Place
) -> None:
    """Run it and serve it, until a signal; whichever fails ends the other."""
    live, sessions = made.shard.live, made.shard.sessions
    view = ShardView(live, asyncio.to_thread)
    handlers = [
        session_handler(sessions),
        view_handler(view),
        control_handler(ShardControls(live)),
        read_handler(view),
    ]
    async with AsyncExitStack() as stack:
        stop = await stack.enter_async_context(until_told())
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        running = tasks.create_task(made.shard.shard.run(), name="shard")
        stack.callback(running.cancel)
        at = await stack.enter_async_context(serving(handlers, config.listen, over))
        if config.coordinators:
            report = await stack.enter_async_context(beside_uplink(made, config, place.clock, at))
            stack.callback(tasks.create_task(report(), name="uplink").cancel)
        addresses = {"grpc": at}
        if config.http:
            pages = serving_pages(config.http, shard_pages(live, made.metrics))
            addresses["http"] = await stack.enter_async_context(pages)
        facts = {"addresses": addresses, "tls": tls_files(config), "epoch": live.epoch}
        with announced(place.home, "shard", config.shard_id, facts):
            place.say(
                f"Shard {config.shard_id}, epoch {live.epoch}, at {at}; providers:"
                f" {', '.join(config.provider_addresses)}. Ctrl-C stops it."
            )
            await stop.wait()
        sessions.hang_up("the shard stops")
