"""The clusters of `mainstay bench shard`: sessions that ask for what the fleet serves."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from mainstay.bench import lcg
from mainstay.model.frames import BootstrapAsked, CapacityHint, NodeState, ReclaimTold
from mainstay.model.ids import ClusterId
from mainstay.model.need import Need
from mainstay.model.profile import INSTANCE_TYPE_KEY
from mainstay.model.resources import add
from mainstay.session.client import SessionClient
from mainstay.wire.tls import Plaintext


class Obliging:
    """A cluster that does at once whatever it is asked, and knows when it was."""

    def __init__(self) -> None:
        self.spoken_to = asyncio.Event()
        self.told: set[str] = set()
        """Machines that it has heard of."""

    async def bootstrap(self, asked: BootstrapAsked) -> bytes:
        """Any machine may join."""
        self.spoken_to.set()
        return f"join {asked.cluster}".encode()

    async def reclaim(self, told: ReclaimTold) -> int:
        """Nothing runs there."""
        self.spoken_to.set()
        return len(told.nodes)

    async def node_state(self, state: NodeState) -> None:
        """Only the name is kept: there are too many."""
        self.told.add(state.machine)

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
        self._handlers = {cluster: Obliging() for cluster in demand}
        self._clients = {
            cluster: SessionClient(cluster, address, Plaintext(), handlers)
            for cluster, handlers in self._handlers.items()
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

    def told(self) -> int:
        """Of how many machines all clusters have heard so far."""
        return sum(len(each.told) for each in self._handlers.values())

    async def change(self, turn: int) -> None:
        """One cluster after the other asks for a machine more, in the next round for it no longer;
        until it hears of it: a machine wants to join, or will be drained.
        """
        clusters = sorted(name for name, rows in self._before.items() if any(map(_is_plain, rows)))
        cluster = clusters[turn % len(clusters)]
        rows, before = self._rows[cluster], self._before[cluster]
        place = next(at for at, need in enumerate(before) if _is_plain(need))
        more = dataclasses.replace(
            before[place], aggregate=add(before[place].aggregate, before[place].min_unit)
        )
        rows[place] = more if rows[place] == before[place] else before[place]
        heard = self._handlers[cluster].spoken_to
        heard.clear()
        self._clients[cluster].set_needs(rows)
        await heard.wait()


def _is_plain(need: Need) -> bool:
    """Whether any machine of its type will do, so that an idle one is found."""
    return not need.group and all(
        requirement.key == INSTANCE_TYPE_KEY for requirement in need.profile.requirements
    )
