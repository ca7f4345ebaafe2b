"""What `mainstay bench dashboard` asks for, how it asks, and what it counts."""

import asyncio
import re
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

import uvicorn
from starlette.applications import Starlette

from mainstay.bench.lcg import RACK_KEY
from mainstay.dashboard.access import COOKIE
from mainstay.dashboard.ports import ShardCalls
from mainstay.model.profile import ZONE_KEY
from mainstay.model.views import MachineRow, NeedRow
from mainstay.runtime.http_call import http_call

LIVE: Final = "/live"
ROW: Final = re.compile(rb'scope=\\?"row\\?"')
OLD: Final = (b"bench is stale since", b"Not to be had", b"notice bad")
"""What stands on a page that could not be made as it should; a coordinator and tenants are not
there, and pages say so.
"""

PART_END: Final = b"\n\n"


def paths(*, shard: str, machine: str, row: MachineRow, need: NeedRow) -> Mapping[str, str]:
    """Every page that asks a shard, by what it is called, with names that are there."""
    explain = {"shard": shard, "cluster": need.cluster, "need": need.fingerprint,
               "group": need.group}  # fmt: skip
    by_rack, one_rack = {"by": RACK_KEY}, {"by": RACK_KEY, "value": "rack-1"}
    of_cluster = {"state": "Configured", "cluster": need.cluster}
    return {
        "overview": "/",
        "find": f"/find?{urlencode({'q': machine[:-2]})}",
        "shards": "/shards",
        "one shard": f"/shards/{shard}",
        "clusters": "/clusters",
        "one cluster": f"/clusters/{need.cluster}",
        "needs": "/needs",
        "unmet needs": "/needs?unmet=1",
        "explain a need": f"/needs/explain?{urlencode(explain)}",
        "what if": "/whatif",
        "what if a zone is lost": f"/whatif?{urlencode({'zone': row.zone})}",
        "machines": "/machines",
        "machines from the middle": f"/machines?{urlencode({'after': machine})}",
        "machines of a cluster": f"/machines?{urlencode(of_cluster)}",
        "one machine": f"/machines/{machine}",
        "racks": f"/racks?{urlencode(by_rack)}",
        "zones": f"/racks?{urlencode({'by': ZONE_KEY})}",
        "one rack": f"/racks/one?{urlencode(one_rack)}",
        "money by class": "/money",
        "money by cluster": "/money?by=cluster",
        "audit": "/audit",
        "controls": "/controls",
    }


@dataclass(slots=True)
class Counted:
    """A shard that counts what it is asked."""

    remote: ShardCalls
    calls: Counter[str] = field(default_factory=Counter)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """The same call of the shard, counted."""
        self.calls[name] += 1
        call: Callable[..., Any] = getattr(self.remote, name)
        return call


@dataclass(frozen=True, slots=True)
class Seen:
    """What came back."""

    status: int
    body: bytes

    @property
    def rows(self) -> int:
        """Rows of tables."""
        return len(ROW.findall(self.body))

    @property
    def is_whole(self) -> bool:
        """Whether nothing on it is old or missing."""
        return not any(mark in self.body for mark in OLD)


@dataclass(frozen=True, slots=True)
class Reader:
    """Somebody who is signed in."""

    address: str
    cookie: str

    async def asked(self, path: str) -> Seen:
        """A whole page; of live parts, all up to the first event."""
        host, _, port = self.address.rpartition(":")
        head = (
            f"GET {path} HTTP/1.1\r\nHost: {self.address}\r\nConnection: close\r\n"
            f"Cookie: {COOKIE}={self.cookie}\r\n\r\n"
        ).encode()
        if not path.startswith(LIVE):
            return Seen(*await http_call(host, int(port), head, over=None))
        return await _first_event(host, int(port), head)


@asynccontextmanager
async def served(app: Starlette) -> AsyncIterator[str]:
    """The app on a free port of loopback while the block runs; gives its address."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        server = uvicorn.Server(
            uvicorn.Config(
                app, log_config=None, log_level="critical", access_log=False, lifespan="off",
                http="httptools", timeout_graceful_shutdown=1,
            )
        )  # fmt: skip
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(server.serve(sockets=[bound]))
            try:
                yield f"127.0.0.1:{bound.getsockname()[1]}"
            finally:
                server.should_exit = True


async def _first_event(host: str, port: int, head: bytes) -> Seen:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(head)
        await writer.drain()
        status = int((await reader.readline()).split()[1])
        await reader.readuntil(b"\r\n\r\n")
        body = bytearray()
        while PART_END not in body and (piece := await reader.read(65_536)):
            body += piece
        return Seen(status, bytes(body))
    finally:
        writer.transport.abort()
