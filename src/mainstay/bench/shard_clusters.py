"""The clusters of `mainstay bench shard`: sessions that ask for what the fleet serves."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from mainstay.bench import lcg
from mainstay.model.frames import BootstrapAsked, CapacityHint, NodeState, ReclaimTold
from mainstay.model.ids import ClusterId
from mainstay.model.need import Need
from mainstay.model.resources import add
from mainstay.session.client import SessionClient
from mainstay.wire.tls import Plaintext


class Obliging:
    """A cluster that does at once whatever it is asked."""

    async def bootstrap(self, asked: BootstrapAsked) -> bytes:
        """Any machine may join."""
        return f"join {asked.cluster}".encode()

    async def reclaim(self, told: ReclaimTold) -> int:
        """Nothing runs there."""
        return len(told.nodes)

    async def node_state(self, state: NodeState) -> None:
        """Not kept: there are too many."""

    async def hint(self, hint: CapacityHint) -> None:
        """Nobody asks for more."""


def demand_of(wishes: Sequence[lcg.Wish]) -> dict[ClusterId, list[Need]]:
    """What each cluster of the fleet asks for."""
    forms = lcg.Forms()
    found: dict[ClusterId, list[Need]] = {}
    for wish in wishes:
        need = forms.need(wish)
        found.setdefault(need.cluster, []).append(need)
    return found


class Clusters:
    """All clusters of the fleet, each with its session."""

    def __init__(self, demand: Mapping[ClusterId, Sequence[Need]], address: str) -> None:
        self._rows = {cluster: list(rows) for cluster, rows in demand.items()}
        self._before = {cluster: list(rows) for cluster, rows in demand.items()}
        self._clients = {
            cluster: SessionClient(cluster, address, Plaintext(), Obliging()) for cluster in demand
        }
        for cluster, client in self._clients.items():
            client.set_needs(self._rows[cluster])

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Sessions are held inside the block."""
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(client.run()) for client in self._clients.values()]
            try:
                yield
            finally:
                for each in running:
                    each.cancel()

    def change(self, turn: int) -> Need:
        """One cluster after the other asks for a machine more, in the next round for it no longer;
        the need as it is now.
        """
        clusters = sorted(self._rows)
        cluster = clusters[turn % len(clusters)]
        rows, before = self._rows[cluster], self._before[cluster]
        place = next(at for at, need in enumerate(before) if not need.group)
        need = before[place]
        if rows[place] == need:
            need = dataclasses.replace(need, aggregate=add(need.aggregate, need.min_unit))
        rows[place] = need
        self._clients[cluster].set_needs(rows)
        return need
