"""What a shard has outside its domains: let go of when it is free, dropped when it is gone.

A stray that is no longer reported goes to whoever owns its domain. So one is gone only when its
provider says so of this very machine: a list that does not name it may be a bad one.
"""

from typing import Final

import numpy as np

from mainstay.inventory.snapshot import Snapshot
from mainstay.model.ids import MachineId
from mainstay.shard.events import Event
from mainstay.shard.ownership.keeping import FREE, Keeping, OwnershipTools
from mainstay.shard.ownership.owned import Owned, dropped

MISSING_S: Final = 120.0
"""A stray that its provider no longer lists is asked for after so long."""

UNSEEN_S: Final = 600.0
"""The same of one that was never seen in this life."""

LOOK_S: Final = 5.0
"""How often to look for what is missing."""

ASKED_MAX: Final = 100
"""So many at once are asked for by their names."""


class Strays:
    """Watches them."""

    def __init__(self, tools: OwnershipTools, keeping: Keeping) -> None:
        self._tools = tools
        self._keeping = keeping
        self._swept: tuple[Snapshot, Owned] | None = None
        self._looked_s = -LOOK_S
        self._seen: set[MachineId] = set()
        self._missing_s: dict[MachineId, float] = {}
        """Since when each is missing, while its provider answers."""

    async def sweep(self) -> None:
        """Let go of what is free, drop what is gone."""
        await self._let_go()
        await self._drop()

    async def _let_go(self) -> None:
        tools, keeping, owned = self._tools, self._keeping, self._keeping.owned
        snapshot = tools.inventory.snapshot()
        if not any(stray.leaving for stray in owned.here.values()):
            return
        if self._swept is not None and (snapshot, owned) == self._swept and not len(tools.ledger):
            return
        going = [
            name
            for name in _free(snapshot, owned)
            if name in owned.here
            and name in tools.inventory
            and owned.here[name].leaving
            and keeping.is_free(tools.inventory.machine(name))
            and tools.ledger.take(name)
        ]
        if going:
            await keeping.lower(keeping.counts_for(going), in_hand=going)
            await keeping.keep(dropped(owned, frozenset(going)), in_hand=going)
            await keeping.let_go(going, "stray_free")
        self._swept = tools.inventory.snapshot(), keeping.owned

    async def _drop(self) -> None:
        tools, keeping, now_s = self._tools, self._keeping, self._tools.clock.elapsed_s()
        if now_s - self._looked_s < LOOK_S:
            return
        self._looked_s = now_s
        here = keeping.owned.here
        there = {name for name in here if name in tools.inventory}
        answering = tools.sources - tools.reconciler.unreachable
        self._seen = (self._seen | there) & here.keys()
        self._missing_s = {
            name: self._missing_s.get(name, now_s)
            for name, stray in here.items()
            if name not in there and stray.provider in answering
        }
        due = {
            name: since_s
            for name, since_s in self._missing_s.items()
            if now_s - since_s >= (MISSING_S if name in self._seen else UNSEEN_S)
        }
        denied_s = tools.reconciler.denied_at_s
        gone = [name for name, since_s in due.items() if denied_s(name) > since_s]
        for name in [name for name in due if name not in gone][:ASKED_MAX]:
            tools.reconciler.look_up(name, here[name].provider)
        if gone:
            await keeping.keep(dropped(keeping.owned, frozenset(gone)))
            keeping.tell(Event.MACHINE_LET_GO, gone, reason="stray_gone")


def _free(snapshot: Snapshot, owned: Owned) -> list[MachineId]:
    """What serves nobody and lies outside the domains; and leaving strays inside, if there are."""
    shapes = snapshot.shapes.values
    outside = np.array([owned.domains is not None and not owned.admits(each) for each in shapes])
    rows = snapshot.rows_in(*FREE)
    rows = rows[(snapshot.cluster[rows] == 0) & outside[snapshot.shape[rows]]]
    inside = owned.domains or frozenset()
    odd = [name for name, stray in owned.here.items() if stray.leaving and stray.domain in inside]
    return [*snapshot.machine_ids(rows), *odd]
