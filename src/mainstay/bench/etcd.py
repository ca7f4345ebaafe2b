"""An etcd of our own for benches: real members, own ports, own data, gone with the bench."""

import shutil
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

from mainstay.model.errors import Unavailable
from mainstay.runtime.children import Child, Children

HEARTBEAT_MS: Final = 100
ELECTION_MS: Final = 1000
"""As etcd comes out of its package."""


def path() -> str | None:
    """Where the program is; None where there is none."""
    return shutil.which("etcd")


def required() -> str:
    """The same, for who cannot do without."""
    found = path()
    if found is None:
        raise Unavailable(
            "no etcd on PATH: install etcd-server (Debian), or any etcd from 3.4.22 or 3.5.6 on"
        )
    return found


class Members:
    """Some members that know each other; `endpoints` is what a client needs."""

    def __init__(self, children: Children, count: int) -> None:
        program, ports = required(), free_ports(2 * count)
        self._children = children
        names = [f"etcd-{number}" for number in range(count)]
        peers = {name: f"http://127.0.0.1:{ports.pop()}" for name in names}
        clients = {name: f"http://127.0.0.1:{ports.pop()}" for name in names}
        known = ",".join(f"{name}={url}" for name, url in peers.items())
        self.endpoints: Sequence[str] = tuple(clients.values())
        self._commands = {
            name: [
                program, "--name", name,
                "--data-dir", str(children.home / name),
                "--listen-peer-urls", peers[name],
                "--initial-advertise-peer-urls", peers[name],
                "--listen-client-urls", clients[name],
                "--advertise-client-urls", clients[name],
                "--initial-cluster", known,
                "--initial-cluster-state", "new",
                "--initial-cluster-token", children.home.name,
                "--heartbeat-interval", str(HEARTBEAT_MS),
                "--election-timeout", str(ELECTION_MS),
                "--logger", "zap", "--log-level", "error",
            ]
            for name in names
        }  # fmt: skip
        self.running: dict[str, Child] = {name: self.start(name) for name in names}

    def start(self, name: str) -> Child:
        """Start one, with the data that it has."""
        return self._children.program(name, self._commands[name])


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens at now, all different."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
