"""Two shards of which one has most of the machines and the other asks for more, as real processes.

The first has machines that were bought and slots; the second has one machine. A coordinator with
short intervals moves capacity between them.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from coordinators import ZONE, dialed, eventually
from fault_proxy import FaultProxy, fault_proxy
from linked_shards import Linked, connected, heard, machines, moves, needs, provider, serves
from mainstay.model.coordinator_views import MoveRow
from mainstay.session.client import SessionClient
from mainstay.wire.coordinator_dialer import CoordinatorDialer
from running import Home
from talking import Hands

EAST: Final = "use1-az2"
WEST: Final = "use1-az4"
BOUGHT: Final = 3
SLOTS: Final = 2
MACHINES: Final = BOUGHT + SLOTS + 1

FLEET: Final = f"""
name = "sim"
latency_s = {{ create = 0.05, configure = 0.05, drain = 0.05, delete = 0.05 }}

[[pool]]
capacity = "Reserved"
type = "m5.large"
zone = "{EAST}"
slots = {BOUGHT}

[[pool]]
capacity = "OnDemand"
type = "m5.large"
zone = "{EAST}"
slots = {SLOTS}

[[pool]]
capacity = "Reserved"
type = "m5.large"
zone = "{WEST}"
slots = 1
"""

SHARD: Final = """
[shard]
report_interval_s = 0.3
cycle_interval_s = 0.2
reclaim_fraction_max = 0
domains = ["{key}={zone}"]
"""

COORDINATOR: Final = """
[coordinator]
report_interval_s = 0.3
rebalance_interval_s = 0.2
rebalance_young_cycles = 2
rebalance_patient_cycles = 4
rebalance_fresh_intervals = 20
rebalance_cool_down_intervals = 0
rebalance_settle_intervals = 30
rebalance_refusal_intervals = 4
rebalance_margin_percent = 0
rebalance_margin_least = 0
"""
"""What a shard misses is up to five seconds old, so a shortfall settles for longer than that."""

LESS: Final = 10
MORE: Final = 1_000
PENALTY: Final = 4


def settle_in(home: Home) -> None:
    """Write the settings of everybody."""
    (home.path / "fleet.toml").write_text(FLEET)
    (home.path / "c.toml").write_text(COORDINATOR)
    (home.path / "a.toml").write_text(SHARD.format(key=ZONE, zone=EAST))
    (home.path / "b.toml").write_text(SHARD.format(key=ZONE, zone=WEST))


class Fleet:
    """Everything runs, and it is watched who has what."""

    def __init__(self, linked: Linked, dialer: CoordinatorDialer) -> None:
        self.linked, self.dialer = linked, dialer
        self.hands = {"web": Hands(), "batch": Hands()}
        self.sessions: dict[str, SessionClient] = {}
        self.proxies: dict[str, FaultProxy] = {}
        """Between each shard and the coordinator, where asked for."""

    def low(self, count: int) -> None:
        """What the cluster of a asks for."""
        self.sessions["batch"].set_needs(needs(count, "batch", priority=LESS))

    def high(self, *counts: int) -> None:
        """What the cluster of b asks for: so many of each kind, the next a little more urgent."""
        asked = [
            need
            for at, count in enumerate(counts)
            for need in needs(count, "web", priority=MORE + at, penalty=PENALTY)
        ]
        self.sessions["web"].set_needs(asked)

    async def begun(self, known: set[str], b: int) -> None:
        """Wait until a move that is not among these is under way, or was not needed."""

        async def said() -> bool:
            is_new = any(move.id not in known for move in await moves(self.dialer))
            return is_new or await serves(self.linked.b, b)()

        await eventually(said, patience_s=60)

    async def known(self) -> set[str]:
        return {move.id for move in await moves(self.dialer)}

    async def settled(self) -> tuple[MoveRow, ...]:
        """All moves, once none is under way."""
        await eventually(self._is_quiet, patience_s=60)
        return await moves(self.dialer)

    async def _is_quiet(self) -> bool:
        return not await moves(self.dialer, unsettled=True)

    async def serve(self, a: int, b: int) -> None:
        """Wait until so many machines of each serve, and see that each machine has an owner."""
        try:
            await eventually(serves(self.linked.b, b), patience_s=60)
            await eventually(serves(self.linked.a, a), patience_s=60)
            await eventually(lambda: self.linked.has_whole_fleet(MACHINES), patience_s=60)
        except AssertionError as error:
            raise AssertionError(f"{error}; {await self._standing()}") from error

    async def _standing(self) -> str:
        """Who has what, and what is under way."""
        having = {
            process.facts["id"]: sorted(await machines(process))
            for process in (self.linked.a, self.linked.b)
        }
        moving = [(move.id, move.state, move.machines) for move in await moves(self.dialer)]
        return f"they have {having}, and moves are {moving}"


@asynccontextmanager
async def running(home: Home, *, proxied: bool = False) -> AsyncIterator[Fleet]:
    """Both shards are up, each with a cluster, and the coordinator has heard both."""
    linked = Linked(home, provider(home))
    await linked.start("c")
    async with AsyncExitStack() as stack:
        dialer = await stack.enter_async_context(dialed(linked.running["c"]))
        fleet = Fleet(linked, dialer)
        for name in ("a", "b"):
            if proxied:
                proxy = stack.enter_context(fault_proxy(linked.running["c"].grpc))
                fleet.proxies[name], linked.ways[name] = proxy, proxy.address
            await linked.start(name)
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        for process, cluster in ((linked.a, "batch"), (linked.b, "web")):
            session = connected(process, cluster, fleet.hands[cluster])
            fleet.sessions[cluster] = await stack.enter_async_context(session)
        watching = tasks.create_task(linked.owners.watch())
        await eventually(heard(dialer, "a", "b"))
        yield fleet
        assert linked.owners.looks > 20
        watching.cancel()
