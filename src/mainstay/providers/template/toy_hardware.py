"""Pretend hardware: hosts in a file. Throw this away when you have a client of the real thing.

It behaves as clouds do: a call begins something and returns, and the host is there only later;
the same token is the same host; too many calls at once are refused; all of it outlives whoever
calls.
"""

import asyncio
import dataclasses
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CALL_S: Final = 0.01
BOOT_S: Final = 0.1
JOIN_S: Final = 0.1
WIPE_S: Final = 0.1
CALLS_AT_ONCE_MAX: Final = 40


class TooManyCalls(Exception):
    """The moment is wrong."""


class NoSuchHost(Exception):
    """The host is gone."""


@dataclass(frozen=True)
class PretendHost:
    """One host."""

    name: str
    place: str
    token: str
    running: bool = False
    cluster: str = ""


class Hardware:
    """All the hosts, as their file says."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._calls = 0
        found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
        hosts = [
            PretendHost(**{**parts, "running": True}) for parts in found
        ]  # it booted meanwhile
        self._hosts = {host.name: host for host in hosts}

    async def hosts(self) -> list[PretendHost]:
        """All there are."""
        async with self._call():
            return list(self._hosts.values())

    async def host(self, name: str) -> PretendHost:
        """One of them."""
        async with self._call():
            return self._there(name)

    async def start(self, place: str, token: str) -> PretendHost:
        """Begin to start a host; it is running some time later."""
        async with self._call():
            for host in self._hosts.values():
                if (host.place, host.token) == (place, token):
                    return host
            host = PretendHost(f"host-{secrets.token_hex(4)}", place, token)
            asyncio.get_running_loop().call_later(BOOT_S, self._booted, host.name)
            return self._keep(host)

    async def join(self, name: str, cluster: str, blob: bytes) -> None:
        """Hand the blob to the host, which joins the cluster by it."""
        del blob  # pretend hosts run nothing
        async with self._call():
            await asyncio.sleep(JOIN_S)
            self._keep(dataclasses.replace(self._there(name), cluster=cluster))

    async def wipe(self, name: str) -> None:
        """Take the host out of its cluster and clean it."""
        async with self._call():
            await asyncio.sleep(WIPE_S)
            self._keep(dataclasses.replace(self._there(name), cluster=""))

    async def stop(self, name: str) -> None:
        """Give the host back; one that is gone already is no error."""
        async with self._call():
            self._hosts.pop(name, None)
            self._write()

    @asynccontextmanager
    async def _call(self) -> AsyncIterator[None]:
        if self._calls >= CALLS_AT_ONCE_MAX:
            raise TooManyCalls(f"{self._calls} calls are under way")
        self._calls += 1
        try:
            await asyncio.sleep(CALL_S)
            yield
        finally:
            self._calls -= 1

    def _booted(self, name: str) -> None:
        if name in self._hosts:
            self._keep(dataclasses.replace(self._hosts[name], running=True))

    def _there(self, name: str) -> PretendHost:
        if name not in self._hosts:
            raise NoSuchHost(f"there is no host {name}")
        return self._hosts[name]

    def _keep(self, host: PretendHost) -> PretendHost:
        self._hosts[host.name] = host
        self._write()
        return host

    def _write(self) -> None:
        unfinished = self._path.with_suffix(".tmp")
        unfinished.write_text(json.dumps([*map(dataclasses.asdict, self._hosts.values())]))
        unfinished.replace(self._path)
