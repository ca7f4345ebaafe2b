"""`mainstay provider`: one kind of capacity, served by gRPC until it is told to stop."""

import json
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from mainstay.config.provider import (
    Ec2ProviderConfig,
    OwnProviderConfig,
    ProviderConfig,
    SimProviderConfig,
    StaticProviderConfig,
)
from mainstay.model.calls import ListRequest, ProviderCalls
from mainstay.model.charges import Meter
from mainstay.model.errors import Rejected
from mainstay.processes.announce import announced
from mainstay.processes.pages import Answer, Pages, serving_pages
from mainstay.processes.told import until_told
from mainstay.providers.ec2 import config as ec2_config
from mainstay.providers.ec2.provider import ec2_backend
from mainstay.providers.kit.backend import Backend
from mainstay.providers.kit.options import Options
from mainstay.providers.kit.server import ProviderServer, running
from mainstay.providers.kit.steps import STEPS
from mainstay.providers.kit.store import MemoryStore, SqliteStore, Store
from mainstay.providers.sim.faults import Faults
from mainstay.providers.sim.fleet_file import mixed_fleet, read_faults, read_fleet
from mainstay.providers.sim.provider import Sim, simulated
from mainstay.providers.static.backend import StaticBackend
from mainstay.runtime.clock import Clock
from mainstay.wire.meter import meter_handler
from mainstay.wire.provider_server import provider_handler
from mainstay.wire.tls import MutualTls, Plaintext, TlsFlags, transport
from mainstay.wire.transport import serving

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a process is given from outside."""

    home: Path
    clock: Clock
    say: Say
    """Prints a line for people."""


async def serve_sim(config: SimProviderConfig, around: Surroundings) -> None:
    """A simulated cloud, until a signal."""
    over = transport(_flags(config), config.listen, tool=True)
    fleet = (
        read_fleet(Path(config.fleet), config.seed) if config.fleet else mixed_fleet(config.seed)
    )
    start = read_faults(Path(config.faults)) if config.faults else Faults()
    with _stored(config.state, f"sim{config.seed}") as store:
        async with simulated(fleet.spec, around.clock, store=store, options=fleet.options) as sim:
            sim.cloud.faults = start
            pages = {**_pages(sim.server), **_fault_pages(sim)}
            await _serve("sim", Served(sim.calls, pages, sim.meter), config, over, around)


async def serve_static(config: StaticProviderConfig, around: Surroundings) -> None:
    """Bare metal from a file, until a signal."""
    over = transport(_flags(config), config.listen)
    if not config.hosts:
        raise Rejected("no file of hosts: give --hosts FILE")
    state = config.state or str(_kept(around.home, config.name))
    backend = StaticBackend(Path(config.hosts), name=config.name)
    with _stored(state, config.name) as store:
        async with running(backend, store, around.clock, random=Random()) as server:
            await _serve("static", Served(server, _pages(server)), config, over, around)


async def serve_ec2(config: Ec2ProviderConfig, around: Surroundings) -> None:
    """Instances of one region of EC2, until a signal."""
    over = transport(_flags(config), config.listen)
    if not config.config:
        raise Rejected("no file of pools: give --config FILE")
    pools = ec2_config.read(Path(config.config))
    state = config.state or str(_kept(around.home, pools.name))
    with _stored(state, pools.name) as store, ec2_backend(pools, around.clock) as backend:
        async with running(backend, store, around.clock, random=Random()) as server:
            await _serve("ec2", Served(server, _pages(server)), config, over, around)


async def serve_own(config: OwnProviderConfig, backend: Backend, around: Surroundings) -> None:
    """A backend that somebody else wrote, until a signal."""
    over = transport(_flags(config), config.listen)
    timeouts_s = {call: getattr(config, f"{call}_timeout_s") for call in STEPS}
    options = Options(step_timeouts_s=timeouts_s, ready_poll_s=config.ready_poll_s)
    state = config.state or str(_kept(around.home, backend.name))
    with _stored(state, backend.name) as store:
        async with running(
            backend, store, around.clock, random=Random(), options=options
        ) as server:
            await _serve(backend.name, Served(server, _pages(server)), config, over, around)


@dataclass(frozen=True, slots=True)
class Served:
    """What a process serves: the six calls, and pages for probes and people."""

    calls: ProviderCalls
    pages: Pages
    meter: Meter | None = None
    """When it charges, if it can tell."""


async def _serve(
    kind: str,
    served: Served,
    config: ProviderConfig,
    over: Plaintext | MutualTls,
    around: Surroundings,
) -> None:
    if isinstance(over, Plaintext) and over.announcement:
        around.say(over.announcement)
    calls = served.calls
    async with AsyncExitStack() as stack:
        stop = await stack.enter_async_context(until_told())
        handlers = [provider_handler(calls)]
        if served.meter is not None:
            handlers.append(meter_handler(served.meter))
        at = await stack.enter_async_context(serving(handlers, config.listen, over))
        addresses = {"grpc": at}
        if config.http:
            pages = serving_pages(config.http, served.pages)
            addresses["http"] = await stack.enter_async_context(pages)
        port = at.rpartition(":")[2]
        facts = {"kind": kind, "addresses": addresses, "tls": _files(config)}
        with announced(around.home, "provider", f"{kind}-{port}", facts):
            count = len((await calls.list(ListRequest())).machines)
            around.say(f"Provider {kind} serves {count} machines at {at}. Ctrl-C stops it.")
            await stop.wait()
    around.say("Stopped.")


def _pages(server: ProviderServer) -> Pages:
    def ready(_: str) -> Answer:
        health = server.health
        return Answer(200, "ok\n") if health.ready else Answer(503, f"{health.why}\n")

    def metrics(_: str) -> Answer:
        text = generate_latest(server.metrics.registry).decode()
        return Answer(200, text, CONTENT_TYPE_LATEST)

    return {
        ("GET", "/healthz"): lambda _: Answer(200, "ok\n"),
        ("GET", "/readyz"): ready,
        ("GET", "/metrics"): metrics,
    }


def _fault_pages(sim: Sim) -> Pages:
    """What goes wrong, to be read and changed while it runs."""

    def told(_: str = "") -> Answer:
        return Answer(200, f"{sim.cloud.faults}\n")

    def change(body: str) -> Answer:
        try:
            settings = json.loads(body)
        except ValueError as error:
            raise Rejected(f"not JSON: {error}") from error
        if not isinstance(settings, dict):
            raise Rejected('faults are an object such as {"notice_s": "120"}')
        sim.change({str(name): str(value) for name, value in settings.items()})
        return told()

    return {("GET", "/faults"): told, ("POST", "/faults"): change}


@contextmanager
def _stored(state: str, name: str) -> Iterator[Store]:
    """A store, closed at the end of the block; without a file it is in memory."""
    store: Store = SqliteStore(Path(state)) if state else MemoryStore(name)
    try:
        yield store
    finally:
        store.close()


def _kept(home: Path, name: str) -> Path:
    folder = home / "providers"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Rejected(f"cannot make {folder}: {error.strerror} (set MAINSTAY_HOME)") from error
    return folder / f"{name}.db"


def _flags(config: ProviderConfig) -> TlsFlags:
    return TlsFlags(
        cert=config.tls_cert, key=config.tls_key, ca=config.tls_ca, insecure=config.insecure
    )


def _files(config: ProviderConfig) -> dict[str, str] | None:
    if not config.tls_cert:
        return None
    return {"cert": config.tls_cert, "key": config.tls_key, "ca": config.tls_ca}
