"""Whom the dashboard asks: what runs here, or what was named; what has stopped is not forgotten."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import grpc

from mainstay.config.bridge import BridgeConfig
from mainstay.config.dashboard import DashboardConfig
from mainstay.dashboard.tenants import RemoteTenancy
from mainstay.model import coordinator_views as c
from mainstay.model.errors import MainstayError
from mainstay.processes.finding import COORDINATOR, Server, Where, find, find_tenants
from mainstay.runtime.clock import Clock
from mainstay.tenancy import credentials
from mainstay.wire.coordinator_client import RemoteCoordinator
from mainstay.wire.coordinator_dialer import CoordinatorDialer
from mainstay.wire.shard_view_client import RemoteShard
from mainstay.wire.tls import TlsFlags
from mainstay.wire.transport import open_channel

LOOK_S: Final = 1.0
"""How often is looked who runs here."""

REGISTERED_S: Final = 10.0
"""How often the coordinator is asked which shards it has, while all of them run here."""

LINGER_S: Final = 150.0
"""A line that is not used any more is hung up after this: no question is under way for so long."""

Hang = Callable[[], Awaitable[None]]

ADMIN: Final = "admin"

T = TypeVar("T")


@dataclass(slots=True)
class _Line:
    """A shard, and the channel to it."""

    address: str
    channel: grpc.aio.Channel
    remote: RemoteShard


class FleetCoordinator:
    """The coordinator that leads, whichever it is."""

    def __init__(self, dialer: CoordinatorDialer) -> None:
        self.dialer = dialer

    async def shards(self, query: c.ShardQuery) -> c.ShardRows:
        """Who reports."""
        return await self._ask(lambda remote: remote.shards(query))

    async def domains(self, query: c.DomainQuery) -> c.DomainRows:
        """Who has which domain."""
        return await self._ask(lambda remote: remote.domains(query))

    async def moves(self, query: c.MoveQuery) -> c.MoveRows:
        """Hand-overs."""
        return await self._ask(lambda remote: remote.moves(query))

    async def conflicts(self, query: c.ConflictQuery) -> c.ConflictRows:
        """What two claim."""
        return await self._ask(lambda remote: remote.conflicts(query))

    async def plan(self, query: c.PlanQuery) -> c.PlanRow:
        """What would be moved now."""
        return await self._ask(lambda remote: remote.plan(query))

    async def quotas(self, query: c.QuotaQuery) -> c.QuotaRows:
        """Who may hold how much of what."""
        return await self._ask(lambda remote: remote.quotas(query))

    async def instructions(self, query: c.InstructionQuery) -> c.InstructionRows:
        """What shards were told and have not done."""
        return await self._ask(lambda remote: remote.instructions(query))

    async def _ask(self, question: Callable[[RemoteCoordinator], Awaitable[T]]) -> T:
        return await self.dialer.ask(question)


class Running:
    """`Sources` of what runs here or was named. Whom it has seen once it goes on asking, until the
    coordinator has removed them.
    """

    def __init__(
        self, config: DashboardConfig, home: Path, contexts: Path, environment: Mapping[str, str],
        *, clock: Clock, linger_s: float = LINGER_S,
    ) -> None:  # fmt: skip
        self._config, self._home, self._contexts = config, home, contexts
        self._environment, self._clock, self._linger_s = environment, clock, linger_s
        self._lines: dict[str, _Line] = {}
        self._missing: frozenset[str] = frozenset()
        self._registered: frozenset[str] = frozenset()
        self._behind: set[asyncio.Task[None]] = set()
        self._coordinator: tuple[tuple[str, ...], FleetCoordinator] | None = None
        self._tenancy: tuple[tuple[str, str], RemoteTenancy] | None = None
        self._looked_s: dict[str, float] = {}
        if config.api:
            self._reached(config.api, "")  # one that may not be asked is told of at the start

    def shards(self) -> Mapping[str, RemoteShard]:
        """By name."""
        if self._is_time("shard"):
            running = list(self._found("shard", self._config.shards))
            for server in running:
                self._connect(server)
            self._missing = frozenset(self._lines) - {server.name for server in running}
            asked_every_s = LOOK_S if self._missing else REGISTERED_S
            if self._is_time("registered", asked_every_s) and self.coordinator() is not None:
                self._beside(self._forget_removed())
        return {name: line.remote for name, line in self._lines.items()}

    def coordinator(self) -> FleetCoordinator | None:
        """The one that leads of those that run here."""
        if self._is_time(COORDINATOR):
            servers = tuple(self._found(COORDINATOR, self._config.coordinator))
            addresses = tuple(server.address for server in servers)
            if servers and (self._coordinator is None or self._coordinator[0] != addresses):
                if self._coordinator is not None:
                    self._beside(_hung_up(self._coordinator[1].dialer.close, self._linger_s))
                dialer = CoordinatorDialer(
                    addresses, servers[0].over, timeout_s=self._config.deadline_s
                )
                self._coordinator = (addresses, FleetCoordinator(dialer))
        return self._coordinator[1] if self._coordinator else None

    def tenancy(self) -> RemoteTenancy | None:
        """The API that runs here."""
        if self._is_time("api"):
            url, key = self._config.api or _announced_api(self._home), self._key()
            if url and key and (self._tenancy is None or self._tenancy[0] != (url, key)):
                self._tenancy = ((url, key), self._reached(url, key))
        return self._tenancy[1] if self._tenancy else None

    def tenants_cluster(self) -> str:
        """As who has the bridge here says."""
        return find_tenants(self._home, BridgeConfig().cluster_id)

    def _reached(self, url: str, key: str) -> RemoteTenancy:
        config = self._config
        return RemoteTenancy(url, key, ca=config.tls_ca, insecure=config.insecure)

    async def close(self) -> None:
        """Hang up."""
        for task in self._behind:
            task.cancel()  # what lingers is hung up at once
        if self._behind:
            await asyncio.wait(self._behind)
        for line in self._lines.values():
            await line.channel.close()
        if self._coordinator is not None:
            await self._coordinator[1].dialer.close()

    async def _forget_removed(self) -> None:
        """Shards that the coordinator had and has no longer: what they had is with others now."""
        coordinator = self.coordinator()
        if coordinator is None:
            return
        try:
            told = await coordinator.shards(c.ShardQuery())
        except MainstayError:
            return  # it cannot say
        present = frozenset(row.id for row in told.rows)
        for name in (self._registered - present) & self._missing:
            self._beside(_hung_up(self._lines.pop(name).channel.close, self._linger_s))
        self._registered = (self._registered & frozenset(self._lines)) | present

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._behind.add(task)
        task.add_done_callback(self._behind.discard)

    def _is_time(self, process: str, every_s: float = LOOK_S) -> bool:
        now_s = self._clock.elapsed_s()
        if now_s - self._looked_s.get(process, -every_s) < every_s:
            return False
        self._looked_s[process] = now_s
        return True

    def _found(self, process: str, named: str) -> Iterator[Server]:
        flags = TlsFlags(
            cert=self._config.tls_cert, key=self._config.tls_key, ca=self._config.tls_ca
        )
        where = Where(
            process=process,
            home=self._home,
            contexts=self._contexts,
            environment=self._environment,
            server=named,
            flags=flags,
        )
        try:
            yield from find(where)
        except MainstayError:
            return  # nobody runs, or not yet

    def _connect(self, server: Server) -> None:
        line = self._lines.get(server.name)
        if line is not None and line.address == server.address:
            return
        if line is not None:  # somebody may still be asking through it
            self._beside(_hung_up(line.channel.close, self._linger_s))
        channel = open_channel(server.address, server.over)
        remote = RemoteShard(channel, name=f"shard {server.name}")
        self._lines[server.name] = _Line(server.address, channel, remote)

    def _key(self) -> str:
        try:
            return self._environment.get("MAINSTAY_KEY") or (
                credentials.kept(self._home, ADMIN) or ""
            )
        except MainstayError:
            return ""


async def _hung_up(hang: Hang, after_s: float) -> None:
    try:
        await asyncio.sleep(after_s)
    finally:
        await hang()


def _announced_api(home: Path) -> str:
    for path in sorted((home / "run").glob("api-*.json")):
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
            return str(facts["addresses"]["api"])
        except (OSError, ValueError, KeyError, TypeError):
            continue  # gone or replaced just now
    return ""
