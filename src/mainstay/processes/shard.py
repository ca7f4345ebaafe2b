"""`mainstay shard`: reconciles, decides, limits and acts until it is told to stop."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from typing import Final, NamedTuple, TypeVar

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from mainstay.config.shard import ShardConfig
from mainstay.engine import kernels
from mainstay.model.charges import Meter
from mainstay.model.errors import Rejected
from mainstay.processes.announce import announced
from mainstay.processes.pages import Answer, Pages, serving_pages
from mainstay.processes.provider import Say
from mainstay.processes.shard_parts import (
    Assembled,
    Beside,
    Surroundings,
    assembled,
    policy_of,
)
from mainstay.processes.told import until_told
from mainstay.runtime import log
from mainstay.runtime.aside import Aside
from mainstay.runtime.clock import Clock
from mainstay.runtime.slot import Slot
from mainstay.shard.answers.live import LiveShard
from mainstay.shard.answers.view import ShardControls, ShardView
from mainstay.shard.audit.attribution import AttributionLog
from mainstay.shard.audit.files import AuditFiles, Sizes
from mainstay.shard.audit.log import AuditLog
from mainstay.shard.cycle import Cycled
from mainstay.shard.datadir import DataDir
from mainstay.shard.facts import Published
from mainstay.shard.journal import ShardJournal
from mainstay.shard.metrics import ShardMetrics
from mainstay.shard.ports import Link
from mainstay.wire import loops
from mainstay.wire.meter import RemoteMeter
from mainstay.wire.provider_client import ClientOptions, RemoteProvider
from mainstay.wire.session_server import session_handler
from mainstay.wire.shard_read_server import read_handler
from mainstay.wire.shard_view_server import control_handler, view_handler
from mainstay.wire.tls import MutualTls, Plaintext, TlsFlags, transport
from mainstay.wire.transport import open_channel, serving

AnswerT = TypeVar("AnswerT")

THREADS: Final = 6
"""For decisions and what they wait for: questions and lists have others, and take none of these."""


@dataclass(frozen=True, slots=True)
class Place:
    """What the process is given from outside."""

    home: Path
    clock: Clock
    say: Say
    """Prints a line for people."""


async def serve_shard(config: ShardConfig, place: Place) -> None:
    """A shard, until a signal."""
    flags = _flags(config)
    over = transport(flags, config.listen)
    for address in config.coordinators:  # all or none are within plaintext's reach
        transport(flags, address)
    if not config.provider_addresses:
        raise Rejected("no providers: give --provider NAME=HOST:PORT, or shard.providers")
    kernels.warm()
    loops.warm()
    async with AsyncExitStack() as stack:
        data = stack.enter_context(DataDir(_data_dir(config, place.home)))
        reached = await stack.enter_async_context(_reached(config, flags))
        made = await stack.enter_async_context(_made(config, place, data, reached))
        await _serve(made, config, over, place)
    place.say("Stopped.")


@dataclass(frozen=True, slots=True)
class Made:
    """A shard and what shows how it stands."""

    shard: Assembled
    metrics: ShardMetrics


@asynccontextmanager
async def _made(
    config: ShardConfig, place: Place, data: DataDir, reached: "_Reached"
) -> AsyncIterator[Made]:
    """The shard, with its audit log closed at the end."""
    metrics = ShardMetrics()
    audit = _audit(config, place.home)
    journal = ShardJournal(
        metrics, audit, log.logger(shard=config.shard_id), place.clock, policy_of(config)
    )
    attribution = attributed(config, place.home, journal)
    around = Surroundings(
        links=reached.links,
        meters=reached.meters,
        data=data,
        journal=journal,
        metrics=metrics,
        clock=place.clock,
        random=SystemRandom(),
        aside=_own_threads(),
        beside=(*_audited(audit, journal), *attribution.beside),
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
            report = await stack.enter_async_context(_uplinked(made, config, place, at))
            stack.callback(tasks.create_task(report(), name="uplink").cancel)
        addresses = {"grpc": at}
        if config.http:
            pages = serving_pages(config.http, _pages(live, made.metrics))
            addresses["http"] = await stack.enter_async_context(pages)
        facts = {"addresses": addresses, "tls": _files(config), "epoch": live.epoch}
        with announced(place.home, "shard", config.shard_id, facts):
            place.say(
                f"Shard {config.shard_id}, epoch {live.epoch}, at {at}; providers:"
                f" {', '.join(config.provider_addresses)}. Ctrl-C stops it."
            )
            await stop.wait()
        sessions.hang_up("the shard stops")


@asynccontextmanager
async def _uplinked(
    made: Made, config: ShardConfig, place: Place, at: str
) -> AsyncIterator[Beside]:
    """What runs beside a shard that has a coordinator: it ends for nothing but being cancelled."""
    from mainstay.processes.shard_uplink import uplinked  # noqa: PLC0415 - only where used

    over = transport(_flags(config), config.coordinators[0])
    async with uplinked(
        made.shard, config, over, address=at, metrics=made.metrics, clock=place.clock
    ) as uplink:
        yield uplink.run


def _pages(live: LiveShard, metrics: ShardMetrics) -> Pages:
    def measured(_: str) -> Answer:
        return Answer(200, generate_latest(metrics.registry).decode(), CONTENT_TYPE_LATEST)

    return {
        ("GET", "/healthz"): lambda _: Answer(200, "ok\n"),
        ("GET", "/readyz"): lambda _: readiness(live),
        ("GET", "/metrics"): measured,
    }


def readiness(live: LiveShard) -> Answer:
    """Whether a shard is ready, with what it waits for: one line."""
    if why := not_ready(live):
        return Answer(503, f"{why}\n")
    waits = live.published.unlisted if live.published else ""
    return Answer(200, f"ok; {waits}\n" if waits else "ok\n")


def not_ready(live: LiveShard) -> str:
    """Why a shard is not ready, in one line; empty when it is."""
    if not live.reconciler.ready:
        return "waiting for the first list of every provider, or for its failure"
    stopped = [f"provider {name}: {why}" for name, why in live.acting.providers.items()]
    if why := live.not_acting() or "; ".join(stopped):
        return f"not acting: {why}"
    return ""


class _Reached(NamedTuple):
    """The providers, each by its name."""

    links: Mapping[str, Link]
    meters: Mapping[str, Meter]


@asynccontextmanager
async def _reached(config: ShardConfig, flags: TlsFlags) -> AsyncIterator[_Reached]:
    """Clients for each provider, closed at the end."""
    options = ClientOptions(
        call_timeout_s=config.call_timeout_s, list_timeout_s=config.list_timeout_s
    )
    links: dict[str, Link] = {}
    meters: dict[str, Meter] = {}
    async with AsyncExitStack() as stack:
        for name, address in config.provider_addresses.items():
            channel = open_channel(address, transport(flags, address))
            stack.push_async_callback(channel.close)
            links[name] = RemoteProvider(channel, source=name, options=options)
            meters[name] = RemoteMeter(channel, source=name)
        yield _Reached(links, meters)


def _own_threads() -> Aside:
    threads = ThreadPoolExecutor(THREADS, thread_name_prefix="shard")

    def aside(work: Callable[[], AnswerT]) -> Awaitable[AnswerT]:
        return asyncio.get_running_loop().run_in_executor(threads, work)

    return aside


def _audit(config: ShardConfig, home: Path) -> AuditLog | None:
    if not config.audit_log:
        return None
    sizes = Sizes(file_bytes=config.audit_file_bytes, files_max=config.audit_files_max)
    return AuditLog(AuditFiles(_audit_dir(config, home), sizes), asyncio.to_thread)


def _audited(audit: AuditLog | None, journal: ShardJournal) -> tuple[Beside, ...]:
    return () if audit is None else (lambda: audit.run(journal),)


class Attributed(NamedTuple):
    """What writes down which need claims what, if anybody does."""

    seen: Callable[[Cycled], None]
    beside: tuple[Beside, ...]


def attributed(config: ShardConfig, home: Path, journal: ShardJournal) -> Attributed:
    """The newest cycle only: a log that cannot follow leaves some out."""
    if not config.attribution_log:
        return Attributed(lambda _: None, ())
    path = _data_dir(config, home) / "attribution.jsonl"
    log_, newest = AttributionLog(path, asyncio.to_thread), Slot[Published]()

    async def write() -> None:
        while True:
            await newest.wait()
            published = newest.take()
            await log_.tell(published.plan, cycle=published.cycle, journal=journal)

    def seen(cycled: Cycled) -> None:
        newest.put(cycled.published)

    return Attributed(seen, (write,))


def _data_dir(config: ShardConfig, home: Path) -> Path:
    return Path(config.data_dir) if config.data_dir else home / "shards" / config.shard_id


def _audit_dir(config: ShardConfig, home: Path) -> Path:
    return Path(config.audit_dir) if config.audit_dir else _data_dir(config, home) / "audit"


def _flags(config: ShardConfig) -> TlsFlags:
    return TlsFlags(
        cert=config.tls_cert, key=config.tls_key, ca=config.tls_ca, insecure=config.insecure
    )


def _files(config: ShardConfig) -> dict[str, str] | None:
    if not config.tls_cert:
        return None
    return {"cert": config.tls_cert, "key": config.tls_key, "ca": config.tls_ca}
