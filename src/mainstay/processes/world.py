"""`mainstay world`: a fleet that is not there, and clusters that use it, in one process.

Three simulated providers are served as real ones are, each at its own address, and remember what
they have over a restart. The clusters hold sessions with shards like any other.
"""

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from mainstay.config.world import PROVIDERS, WorldConfig
from mainstay.model.calls import Call
from mainstay.model.errors import Rejected
from mainstay.model.ids import ClusterId
from mainstay.model.need import Need
from mainstay.model.profile import CapacityType
from mainstay.model.resources import scale
from mainstay.processes.announce import announced
from mainstay.processes.certs import FOLDER, files_of
from mainstay.processes.cluster_demand import KINDS, DemandSpec
from mainstay.processes.cluster_sim import RECONNECT, SimulatedCluster
from mainstay.processes.pages import Answer, Pages, serving_pages
from mainstay.processes.provider import Surroundings
from mainstay.processes.told import until_told
from mainstay.providers.kit.steps import STEPS
from mainstay.providers.kit.store import SqliteStore
from mainstay.providers.sim.bill import read_bill
from mainstay.providers.sim.latency import Latency
from mainstay.providers.sim.offers import Offer, small_catalog
from mainstay.providers.sim.provider import Sim, simulated
from mainstay.providers.sim.spec import Pool, SimSpec, spread
from mainstay.session.client import ClientTools
from mainstay.wire.meter import meter_handler
from mainstay.wire.provider_server import provider_handler
from mainstay.wire.tls import TlsFlags, transport
from mainstay.wire.transport import Over, serving

SHARES: Final = {"metal": 0.4, "on-demand": 0.4, "spot": 0.2}
CAPACITY: Final = {
    "metal": CapacityType.BARE_METAL,
    "on-demand": CapacityType.ON_DEMAND,
    "spot": CapacityType.SPOT,
}
LATENCIES_S: Final = {
    Call.CREATE: 2.0, Call.CONFIGURE: 1.0, Call.DRAIN: 1.0, Call.DELETE: 1.0,
}  # fmt: skip
"""Quick for a cloud: long enough to be seen on the way."""

WANTED: Final = frozenset({"m5.xlarge", "c5.2xlarge", "g4dn.xlarge", "m6i.2xlarge"})
"""What simulated clusters ask for: most of the fleet is of these types."""

WANTED_SHARE: Final = 0.8

GANG: Final = dataclasses.replace(
    next(kind for kind in KINDS if kind.is_gang), name="ensemble", priority=20_000
)
"""What is asked for and cannot be had: no rack has as many machines of its type."""


def specs(machines: int, seed: int, hold_for: frozenset[str] = frozenset()) -> dict[str, SimSpec]:
    """The providers of a fleet of so many machines, by name. Pure."""
    return {
        name: SimSpec(
            pools=_pools(CAPACITY[name], max(1, round(machines * SHARES[name]))),
            seed=seed + place,
            name=name,
            latencies={call: Latency(LATENCIES_S.get(call, 0.2)) for call in STEPS},
            holds_grace_of=hold_for,
        )
        for place, name in enumerate(PROVIDERS)
    }


def _pools(capacity: CapacityType, slots: int) -> tuple[Pool, ...]:
    """Mostly what is asked for, and some of everything else: the largest first, so that a small
    fleet has some of what tenants get, too.
    """
    offers = [each for each in small_catalog() if _is_sold(each, capacity)]
    asked = [each for each in offers if each.instance_type in WANTED]
    others = [each for each in reversed(offers) if each.instance_type not in WANTED]
    many = max(1, round(slots * WANTED_SHARE))
    rest = spread(others, slots - many, (capacity,)) if slots > many else ()
    return (*spread(asked, many, (capacity,)), *rest)


def _is_sold(offer: Offer, capacity: CapacityType) -> bool:
    return capacity is not CapacityType.SPOT or offer.spot_dollars_per_hour is not None


async def serve_world(config: WorldConfig, around: Surroundings) -> None:
    """The fleet and its users, until a signal."""
    async with AsyncExitStack() as stack:
        stop = await stack.enter_async_context(until_told())
        sims = await stack.enter_async_context(_providers(config, around))
        addresses = await stack.enter_async_context(_served(config, around, sims))
        clusters = [_cluster(config, around, name) for name in config.cluster_addresses]
        await stack.enter_async_context(_living(clusters, config.every_s))
        if config.http:
            pages = serving_pages(config.http, _pages(sims, clusters))
            addresses["http"] = await stack.enter_async_context(pages)
        with announced(around.home, "world", "0", {"addresses": addresses}):
            around.say(
                f"{config.machines:,} machines at {len(sims)} providers, {len(clusters)} clusters."
                " Ctrl-C stops it."
            )
            await stop.wait()
    around.say("Stopped.")


@asynccontextmanager
async def _providers(config: WorldConfig, around: Surroundings) -> AsyncIterator[dict[str, Sim]]:
    folder = around.home / "providers"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Rejected(f"cannot make {folder}: {error.strerror} (set MAINSTAY_HOME)") from error
    async with AsyncExitStack() as stack:
        sims = {}
        for name, spec in specs(config.machines, config.seed, frozenset(config.hold_for)).items():
            store = SqliteStore(folder / f"{name}.db")
            stack.callback(store.close)
            bill = read_bill(folder / f"{name}.bill")
            sims[name] = await stack.enter_async_context(
                simulated(spec, around.clock, store=store, bill=bill)
            )
        yield sims


@asynccontextmanager
async def _served(
    config: WorldConfig, around: Surroundings, sims: dict[str, Sim]
) -> AsyncIterator[dict[str, str]]:
    addresses = {}
    async with AsyncExitStack() as stack:
        for (name, sim), listen in zip(sims.items(), config.listens, strict=True):
            over = _over(config, around, "provider-world", listen)
            handlers = [provider_handler(sim.calls), meter_handler(sim.meter)]
            addresses[name] = await stack.enter_async_context(serving(handlers, listen, over))
        yield addresses


def _cluster(config: WorldConfig, around: Surroundings, name: str) -> SimulatedCluster:
    address = config.cluster_addresses[name]
    spec = DemandSpec(
        cluster=ClusterId(name),
        machines=max(1, round(config.machines * config.share / len(config.shards))),
        seed=config.seed,
        steps_per_day=max(2, round(config.day_s / config.every_s)),
        exact=True,
    )
    over = _over(config, around, f"cluster-{name}", address)
    always = (pending(config),) if config.gang and name == config.clusters[0] else ()
    return SimulatedCluster(spec, address, over, ClientTools(reconnect=RECONNECT), always)


def pending(config: WorldConfig) -> Need:
    """A gang that waits for ever, of the first cluster."""
    return Need(
        cluster=ClusterId(config.clusters[0]),
        profile=GANG.profile(exact=True),
        aggregate=scale(GANG.unit, config.gang),
        min_unit=GANG.unit,
        group=GANG.name,
    )


@asynccontextmanager
async def _living(clusters: Iterable[SimulatedCluster], every_s: float) -> AsyncIterator[None]:
    """Sessions are held and demand changes inside the block."""

    async def demanding(cluster: SimulatedCluster) -> None:
        while True:
            cluster.step()
            await asyncio.sleep(every_s)

    async with asyncio.TaskGroup() as tasks:
        running = [
            tasks.create_task(work)
            for each in clusters
            for work in (each.client.run(), demanding(each))
        ]
        try:
            yield
        finally:
            for task in running:
                task.cancel()


def _over(config: WorldConfig, around: Surroundings, file: str, address: str) -> Over:
    if config.insecure:
        return transport(TlsFlags(insecure=True), address)
    cert, key, ca = files_of(Path(config.pki) if config.pki else around.home / FOLDER, file)
    return transport(TlsFlags(cert=str(cert), key=str(key), ca=str(ca)), address)


def _pages(sims: dict[str, Sim], clusters: list[SimulatedCluster]) -> Pages:
    def measured(sim: Sim) -> Callable[[str], Answer]:
        def text(_: str) -> Answer:
            return Answer(
                200, generate_latest(sim.server.metrics.registry).decode(), CONTENT_TYPE_LATEST
            )

        return text

    def seen(_: str) -> Answer:
        told = {
            each.cluster: {
                "connected": each.client.facts().connected,
                "serving": len(each.seen.serving()),
            }
            for each in clusters
        }
        return Answer(200, json.dumps(told) + "\n", "application/json")

    return {
        ("GET", "/healthz"): lambda _: Answer(200, "ok\n"),
        ("GET", "/clusters"): seen,
        **{("GET", f"/metrics/{name}"): measured(sim) for name, sim in sims.items()},
    }
