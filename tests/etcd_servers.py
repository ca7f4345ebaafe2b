"""Real members of etcd, on free ports, with data of their own: all end with the test.

Their ticks are short, so that they elect in half a second.
"""

import shutil
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from mainstay.runtime.children import Child, Children
from mainstay.wire.tls import TlsFlags
from running import until

TICK_MS: Final = 50
ELECTION_MS: Final = 500


class EtcdServers:
    """One cluster. Members are numbered from 0. With `tls` clients must have a certificate of the
    same authority; members among themselves speak plainly.
    """

    def __init__(
        self,
        children: Children,
        *,
        size: int = 3,
        host: str = "127.0.0.1",
        tls: TlsFlags | None = None,
    ) -> None:
        self._children = children
        self._host = host
        self._tls = tls
        ports = free_ports(3 * size, host=host)
        scheme = "https" if tls else "http"
        self._clients = [f"{scheme}://{host}:{port}" for port in ports[:size]]
        self._peers = [f"http://{host}:{port}" for port in ports[size : 2 * size]]
        self._probes = [f"http://{host}:{port}" for port in ports[2 * size :]]
        self._running: list[Child | None] = [None] * size

    @property
    def endpoints(self) -> Sequence[str]:
        """Where clients ask."""
        return self._clients

    def start(self, *members: int) -> None:
        """Start these, or all, with the data they had; wait until they can be used."""
        for member in members or range(len(self._clients)):
            self._running[member] = self._started(member)
        until(self._is_healthy)

    def start_missing(self) -> None:
        """Start those that were killed."""
        if missing := [number for number, child in enumerate(self._running) if child is None]:
            self.start(*missing)

    def kill(self, *members: int) -> None:
        """As a power cut would."""
        for member in members:
            child = self._running[member]
            assert child is not None
            child.kill()
            self._running[member] = None

    def pid(self, member: int) -> int:
        child = self._running[member]
        assert child is not None
        return child.pid

    def leader(self) -> int:
        """The member that leads the others."""
        for member, endpoint in enumerate(self._probes):
            if self._running[member] and "etcd_server_is_leader 1" in _page(endpoint, "/metrics"):
                return member
        raise AssertionError("no member leads")

    def _is_healthy(self) -> bool:
        started = [child is not None for child in self._running]
        endpoints = [
            url for url, is_started in zip(self._probes, started, strict=True) if is_started
        ]
        return all('"true"' in _page(endpoint, "/health") for endpoint in endpoints)

    def _started(self, member: int) -> Child:
        program = shutil.which("etcd")
        assert program, "etcd is not on PATH"
        everybody = ",".join(f"m{number}={url}" for number, url in enumerate(self._peers))
        settings = {
            "name": f"m{member}",
            "data-dir": str(self._children.home / f"m{member}"),
            "listen-client-urls": self._clients[member],
            "advertise-client-urls": self._clients[member],
            "listen-peer-urls": self._peers[member],
            "initial-advertise-peer-urls": self._peers[member],
            "initial-cluster": everybody,
            "initial-cluster-token": self._peers[0],
            "listen-metrics-urls": self._probes[member],
            "heartbeat-interval": str(TICK_MS),
            "election-timeout": str(ELECTION_MS),
            "logger": "zap",
        }
        if self._tls is not None:
            settings["cert-file"], settings["key-file"] = self._tls.cert, self._tls.key
            settings["trusted-ca-file"], settings["client-cert-auth"] = self._tls.ca, "true"
        words = [program, *(f"--{name}={value}" for name, value in settings.items())]
        return self._children.program(f"etcd-m{member}", words)


@contextmanager
def etcd_servers(
    home: Path, *, size: int = 3, host: str = "127.0.0.1", tls: TlsFlags | None = None
) -> Iterator[EtcdServers]:
    """A cluster that runs while the block does."""
    with Children(home) as children:
        servers = EtcdServers(children, size=size, host=host, tls=tls)
        servers.start()
        yield servers


def free_ports(count: int, *, host: str = "127.0.0.1") -> list[int]:
    """Ports that nobody listened at a moment ago."""
    held = [socket.socket() for _ in range(count)]
    try:
        for one in held:
            one.bind((host, 0))
        return [one.getsockname()[1] for one in held]
    finally:
        for one in held:
            one.close()


def _page(endpoint: str, path: str) -> str:
    try:
        with urllib.request.urlopen(endpoint + path, timeout=1) as answer:
            return str(answer.read().decode())
    except (urllib.error.URLError, OSError):
        time.sleep(0.02)
        return ""
