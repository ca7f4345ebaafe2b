"""A bridge among real processes: a provider, a shard, the API with its worker, and a rival cluster.

`main` is the program of a bridge that dies where it is told to, and of the rival.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg.rows import dict_row

import nursery
import tenants
from mainstay.bridge.doing import DOES, Acts, ask
from mainstay.bridge.steps import Name
from mainstay.cli.client import Client
from mainstay.config.api import ApiConfig
from mainstay.config.bridge import BridgeConfig
from mainstay.model.errors import NoCapacity, Unavailable
from mainstay.model.frames import BootstrapAsked, CapacityHint, NodeState, ReclaimTold
from mainstay.model.ids import ClusterId
from mainstay.model.need import Need, NeedProfile, Operator, Requirement
from mainstay.model.profile import INSTANCE_TYPE_KEY
from mainstay.model.views import MachineQuery
from mainstay.processes.bridge import serve_bridge
from mainstay.processes.tenancy import Around
from mainstay.runtime.clock import SystemClock
from mainstay.session.client import SessionClient
from mainstay.tenancy.catalogue import SAMPLE
from mainstay.tenancy.credentials import kept
from mainstay.tenancy.database.embedded import Server
from mainstay.wire.shard_view_client import RemoteShard
from mainstay.wire.tls import Plaintext
from mainstay.wire.transport import open_channel
from nursery import Born
from postgres import database_on, pool_of
from running import Home, Process, at_home, until

TYPE: Final = "p5.48xlarge"
GPU: Final = "nvidia.com/gpu"
SLICE: Final = "h200-sxm-slice"
WHOLE: Final = "h200-sxm-baremetal-8g"
SETTINGS: Final = """
[bridge]
simulate_phase_s = 0.01
every_s = 0.2
settle_s = 1.0
gone_after_s = 3.0
join_s = 60.0
cleanup_s = 8.0

[shard]
cycle_interval_s = 0.2
hold_on_demand_s = 1.0
reclaim_fraction_max = 0.0
"""


@dataclass
class Stage:
    """All of it, and who watches."""

    home: Home
    url: str
    provider: Process
    shard: Process
    api: Process
    others: list[Born] = field(default_factory=list)
    wants: Born | None = None
    """The rival as it is now."""

    @property
    def shard_words(self) -> list[str]:
        return ["shard", "--provider", f"cloud={self.provider.grpc}", "--listen", self.shard.grpc,
                "--http", "", "--insecure"]  # fmt: skip

    def restart_shard(self) -> None:
        """As after a power cut, at the same address."""
        self.shard.kill()
        address = self.shard.grpc
        self.shard = self.home.start("shard", *self.shard_words)
        assert self.shard.grpc == address

    def restart_api(self, *more: str) -> None:
        """The same, of the API with the worker and everything else of tenancy in it."""
        self.api.kill()
        at = self.api.facts["addresses"]
        words = [
            "--listen",
            at["api"].rpartition("/")[2],
            "--agents",
            at["agents"].rpartition("/")[2],
        ]
        self.api = self.home.start("api", "api", "--all", *words, "--database", self.url, *more)
        assert self.api.facts["addresses"] == at

    def bridge(self, *more: str) -> Process:
        words = ["--shard", self.shard.grpc, "--insecure", "--simulate", "--http", "127.0.0.1:0"]
        return self.home.start("bridge", "bridge", *words, "--database", self.url, *more)

    def program(self, **given: Any) -> Born:
        """This module as a process."""
        log = self.home.path / f"program-{len(self.others)}.log"
        home = self.home.path
        popen = nursery.logged(
            [json.dumps(given)], log, cwd=home, module="bridging", MAINSTAY_HOME=str(home)
        )
        self.others.append(popen)
        return popen

    def dying_bridge(self, death: str, **more: Any) -> Born:
        """One that kills itself `before` or `after` a step; `more` are settings of it."""
        agents = self.api.facts["addresses"]["agents"]
        return self.program(
            death=death, shard=self.shard.grpc, database=self.url, agents=agents,
            home=str(self.home.path), more=more,
        )  # fmt: skip

    def rival(self, machines: int, priority: int) -> Born:
        """A cluster that wants the same machines, in the place of one that wanted others."""
        if self.wants is not None and self.wants.poll() is None:
            self.wants.kill()
            self.wants.wait()
        self.wants = self.program(rival=machines, priority=priority, shard=self.shard.grpc)
        return self.wants

    def client(self, role: str = "tenant") -> Client:
        key = kept(self.home.path, role)
        assert key is not None
        return Client(self.api.facts["addresses"]["api"], key)

    def order(self, gpus: int = 8, *, sku: str = WHOLE) -> str:
        """Capacity that is waited for; the id of the request."""
        body = {"sku": sku, "gpus": gpus, "region": "region-1"}
        return str(self.client().post("/capacity-requests", body)["request_id"])

    def ordered(self) -> str:
        """The same, as soon as somebody brings machines."""

        def asked() -> str:
            try:
                return self.order()
            except NoCapacity:
                return ""

        return str(until(asked))

    def placed(self, request: str) -> str:
        """Its allocation, once there is one and the tenant has it."""
        asked = f"/capacity-requests/{request}"
        found = until(lambda: self.client().get(asked)["allocation_id"])
        until(lambda: self.status(found) == "active")
        return str(found)

    def status(self, allocation: str) -> str:
        return str(self.client().get(f"/allocations/{allocation}")["status"])

    def release(self, allocation: str) -> None:
        self.client().post(f"/allocations/{allocation}/release")

    def rows(self, statement: str, *values: object) -> list[dict[str, Any]]:
        with psycopg.connect(self.url, autocommit=True, row_factory=dict_row) as connection:
            return connection.execute(statement, values).fetchall()

    def lives(self, state: str) -> list[dict[str, Any]]:
        return self.rows("select * from bridge_nodes where state = %s order by node_id", state)

    def machines(self) -> dict[str, tuple[str, str]]:
        """State and cluster of each, by the shard."""

        async def look() -> dict[str, tuple[str, str]]:
            async with open_channel(self.shard.grpc, Plaintext()) as channel:
                shard = RemoteShard(channel, name="shard")
                return {
                    row.id: (str(row.state), row.cluster or "")
                    async for chunk in shard.machines(MachineQuery())
                    for row in chunk.rows
                }

        try:
            return asyncio.run(look())
        except Unavailable:
            return {}

    def serving(self, cluster: str) -> list[str]:
        return [
            name for name, stands in self.machines().items() if stands == ("Configured", cluster)
        ]

    def faults(self) -> dict[str, Any]:
        """What must always hold, and that every life that holds nothing has come to its end."""

        async def look() -> dict[str, Any]:
            async with pool_of(self.url) as pool:
                return await tenants.faults(pool)

        twice = self.rows(
            """select slot_id from claims where live_mode is not null and slot_id is not null
               group by slot_id having count(*) > 1"""
        )
        lost = self.rows(
            """select a.id from allocations a join bridge_nodes life on life.node_id = a.node_id
               where life.state = 'retired' and a.status not in ('released', 'failed')"""
        )
        silent = self.rows(
            """select a.id from allocations a join bridge_nodes life on life.node_id = a.node_id
               where a.release_initiator = 'admin' and not exists (
                   select from bridge_warnings told where told.allocation_id = a.id)"""
        )
        found = asyncio.run(look())
        return found | {
            name: bad for name, bad in (("twice", twice), ("lost", lost), ("silent", silent)) if bad
        }

    def close(self) -> None:
        for popen in self.others:
            if popen.poll() is None:
                popen.send_signal(signal.SIGKILL)
                popen.wait()


@contextmanager
def staged(path: Path, server: Server, *, slots: int, holds_grace: bool = False) -> Iterator[Stage]:
    """A stage without a bridge, in a database of its own."""
    with database_on(server) as url, at_home(path) as home:
        (path / "mainstay.toml").write_text(SETTINGS)
        (path / "fleet.toml").write_text(
            f'name = "cloud"\nholds_grace = {str(holds_grace).lower()}\n[[pool]]\n'
            f'capacity = "OnDemand"\ntype = "{TYPE}"\nzone = "use1-az2"\nslots = {slots}\n'
        )
        (path / "catalogue.toml").write_text(SAMPLE.read_text().partition("[[node]]")[0])
        done = home.run("tenancy", "init", "--catalogue", "catalogue.toml", "--database", url)
        assert done.returncode == 0, done.stderr
        provider = home.start(
            "provider", "provider", "sim", "--fleet", "fleet.toml", "--listen", "127.0.0.1:0"
        )
        shard = home.start("shard", "shard", "--provider", f"cloud={provider.grpc}",
                           "--listen", "127.0.0.1:0", "--http", "", "--insecure")  # fmt: skip
        api = home.start("api", "api", "--all", "--listen", "127.0.0.1:0",
                         "--agents", "127.0.0.1:0", "--database", url)  # fmt: skip
        stage = Stage(home, url, provider, shard, api)
        try:
            yield stage
        finally:
            stage.close()


class Rival:
    """A cluster that takes what it gets."""

    async def bootstrap(self, asked: BootstrapAsked) -> bytes:
        return b"join"

    async def reclaim(self, told: ReclaimTold) -> int:
        return len(told.nodes)

    async def node_state(self, state: NodeState) -> None:
        pass

    async def hint(self, hint: CapacityHint) -> None:
        pass


async def _rival(shard: str, machines: int, priority: int) -> None:
    client = SessionClient("rival", shard, Plaintext(), Rival())
    only = Requirement(INSTANCE_TYPE_KEY, Operator.IN, (TYPE,))
    profile = NeedProfile((only,), priority=priority)
    need = Need(
        cluster=ClusterId("rival"), profile=profile, aggregate={GPU: 8 * machines},
        min_unit={GPU: 8},
    )  # fmt: skip
    client.set_needs([need] if machines else [])
    await client.run()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _dying(death: str) -> Acts:
    """Steps of which one kills the process, before it is taken or after its commit."""
    when, _, name = death.partition(" ")

    def wrapped(step: Name, act: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def acted(*args: Any) -> Any:
            if (when, name) == ("before", step):
                _die()
            answer = await act(*args)
            if (when, name) == ("after", step):
                _die()
            return answer

        return acted

    return Acts(
        ask=wrapped(Name.ASK, ask),
        does={step: wrapped(step, act) for step, act in DOES.items()},
    )


def main() -> None:
    given = json.loads(sys.argv[1])
    if "rival" in given:
        asyncio.run(_rival(given["shard"], given["rival"], given["priority"]))
        return
    usual = {"simulate": True, "join_s": 60.0}
    config = BridgeConfig(
        shard=given["shard"], insecure=True, simulate_phase_s=0.01, every_s=0.2, settle_s=1.0,
        gone_after_s=3.0, cleanup_s=8.0, agents_url=given["agents"], **(usual | given["more"]),
    )  # fmt: skip
    around = Around(Path(given["home"]), SystemClock(), partial(print, flush=True))
    tenancy = ApiConfig(database=given["database"])
    asyncio.run(serve_bridge(config, tenancy, around, _dying(given["death"])))
