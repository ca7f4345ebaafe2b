"""Whom the dashboard asks: what runs here, or what was named; what has stopped is not forgotten."""

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import grpc

from mainstay.config.dashboard import DashboardConfig
from mainstay.dashboard.tenants import RemoteTenancy
from mainstay.model import coordinator_views as c
from mainstay.model.errors import MainstayError
from mainstay.processes.finding import COORDINATOR, Server, Where, find
from mainstay.runtime.clock import Clock
from mainstay.tenancy import credentials
from mainstay.wire.coordinator_client import RemoteCoordinator
from mainstay.wire.coordinator_dialer import CoordinatorDialer
from mainstay.wire.shard_view_client import RemoteShard
from mainstay.wire.tls import TlsFlags
from mainstay.wire.transport import open_channel

LOOK_S: Final = 1.0
"""How often is looked who runs here."""

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
    """`Sources` of what runs here or was named. Whom it has seen once it goes on asking."""

    def __init__(
        self, config: DashboardConfig, home: Path, contexts: Path, environment: Mapping[str, str],
        *, clock: Clock,
    ) -> None:  # fmt: skip
        self._config, self._home, self._contexts = config, home, contexts
        self._environment, self._clock = environment, clock
        self._lines: dict[str, _Line] = {}
        self._old: list[grpc.aio.Channel] = []
        self._coordinator: tuple[tuple[str, ...], FleetCoordinator] | None = None
        self._tenancy: tuple[tuple[str, str], RemoteTenancy] | None = None
        self._looked_s: dict[str, float] = {}

    def shards(self) -> Mapping[str, RemoteShard]:
        """By name."""
        if self._is_time("shard"):
            for server in self._found("shard", self._config.shards):
                self._connect(server)
        return {name: line.remote for name, line in self._lines.items()}

    def coordinator(self) -> FleetCoordinator | None:
        """The one that leads of those that run here."""
        if self._is_time(COORDINATOR):
            servers = tuple(self._found(COORDINATOR, self._config.coordinator))
            addresses = tuple(server.address for server in servers)
            if servers and (self._coordinator is None or self._coordinator[0] != addresses):
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
                self._tenancy = ((url, key), RemoteTenancy(url, key))
        return self._tenancy[1] if self._tenancy else None

    async def close(self) -> None:
        """Hang up."""
        for channel in [*self._old, *(line.channel for line in self._lines.values())]:
            await channel.close()
        if self._coordinator is not None:
            await self._coordinator[1].dialer.close()

    def _is_time(self, process: str) -> bool:
        now_s = self._clock.elapsed_s()
        if now_s - self._looked_s.get(process, -LOOK_S) < LOOK_S:
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
        if line is not None:
            self._old.append(line.channel)  # somebody may still be asking through it
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


def _announced_api(home: Path) -> str:
    for path in sorted((home / "run").glob("api-*.json")):
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
            return str(facts["addresses"]["api"])
        except (OSError, ValueError, KeyError, TypeError):
            continue  # gone or replaced just now
    return ""
