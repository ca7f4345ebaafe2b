"""Coordinators for benches: real processes on a real store, which can be killed and stopped."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, TypeVar

from mainstay.bench.etcd import free_ports
from mainstay.bench.frame import FixtureError
from mainstay.model.coordinator_views import StandingQuery, StandingRow
from mainstay.model.errors import MainstayError
from mainstay.runtime.children import Child, Children
from mainstay.wire.coordinator_client import RemoteCoordinator
from mainstay.wire.tls import Plaintext
from mainstay.wire.transport import open_channel

AnswerT = TypeVar("AnswerT")

PATIENCE_S: Final = 120.0
"""How long anything may take before a bench gives up."""

POLL_S: Final = 0.02

CONFIG: Final = """
[coordinator]
coordinator_id = "{name}"
listen = "{address}"
http = ""
insecure = true
rebalance = false
lease_s = {lease_s}
{store}
"""


class Coordinators:
    """Some of them on one store, each with an address that it keeps over its lives."""

    def __init__(
        self, children: Children, count: int, *, etcd: Sequence[str], lease_s: float
    ) -> None:
        """Without members of an etcd they share one file."""
        self._children = children
        ports = free_ports(count)
        self._addresses = {f"coordinator-{n}": f"127.0.0.1:{ports[n]}" for n in range(count)}
        members = ", ".join(f'"{member}"' for member in etcd)
        one_file = f'store_file = "{children.home / "coordinator.db"}"'
        store = f"etcd = [{members}]" if etcd else one_file
        for name, address in self._addresses.items():
            text = CONFIG.format(name=name, address=address, lease_s=lease_s, store=store)
            (children.home / f"{name}.toml").write_text(text, encoding="utf-8")
        self._killed: set[str] = set()
        self._running: dict[str, Child] = {name: self._started(name) for name in self._addresses}

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where they are."""
        return tuple(self._addresses.values())

    async def leader(self) -> StandingRow:
        """Who leads, once somebody does."""

        async def told() -> StandingRow | None:
            for name in self._addresses:
                standing = await self.standing(name)
                if standing is not None and standing.leads:
                    return standing
            return None

        return await self.until(told, "a leader")

    async def standing(self, name: str) -> StandingRow | None:
        """What one says of itself; None when it does not answer."""
        with suppress(MainstayError, TimeoutError):
            async with (
                asyncio.timeout(1.0),
                open_channel(self._addresses[name], Plaintext()) as channel,
            ):
                return await RemoteCoordinator(channel, name=name).standing(StandingQuery())
        return None

    def kill(self, name: str) -> None:
        """As a failing machine ends it."""
        self._killed.add(name)
        self._running[name].kill()

    def start(self, name: str) -> None:
        """Another life at the same address."""
        self._running[name] = self._started(name)
        self._killed.discard(name)

    def stop(self, name: str) -> None:
        """Let it stand still, with all its connections open."""
        os.kill(self._running[name].pid, signal.SIGSTOP)

    def go_on(self, name: str) -> None:
        """Let it wake up and believe what it believed."""
        os.kill(self._running[name].pid, signal.SIGCONT)

    def memory_mb(self, name: str) -> float:
        """What of one is in RAM now."""
        return self._running[name].memory_mb()[0]

    def cpu_s(self, name: str) -> float:
        """What one has computed so far: no wait counts in it, nor what others compute."""
        return self._running[name].cpu_s()

    async def until(self, ask: Callable[[], Awaitable[AnswerT | None]], what: str) -> AnswerT:
        """The first answer; the bench ends when it takes too long."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    answer = await ask()
                    if answer is not None:
                        return answer
                    self._look_after()
                    await asyncio.sleep(POLL_S)
        except TimeoutError as error:
            tails = "\n".join(child.tail() for child in self._running.values())
            raise FixtureError(f"waited {PATIENCE_S:g} s for {what}: {tails}") from error

    def _look_after(self) -> None:
        """The bench ends when one has ended that was not killed here."""
        for name, child in self._running.items():
            if name not in self._killed and not child.is_running:
                raise FixtureError(f"{name} has ended: {child.tail()}")

    def _started(self, name: str) -> Child:
        config = self._children.home / f"{name}.toml"
        return self._children.command(name, ["coordinator", "--config", str(config)])
