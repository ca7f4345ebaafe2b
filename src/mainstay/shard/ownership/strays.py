"""What a shard has outside its domains: let go of when it is free, dropped when it is gone.

A stray that is no longer reported goes to whoever owns its domain. So one is gone only when its
provider says so of this very machine: a list that does not name it may be a bad one.

A machine of ours that its provider has moved into another domain is a stray from then on: it stays
ours until it is free, and whoever owns that domain hears of it.
"""

import contextlib
from typing import Final, TypeAlias

import numpy as np

from mainstay.inventory.snapshot import Snapshot
from mainstay.model.coordination import Domain, Stray
from mainstay.model.errors import Rejected
from mainstay.model.ids import MachineId
from mainstay.shard.events import Event
from mainstay.shard.ownership.keeping import FREE, Keeping, OwnershipTools
from mainstay.shard.ownership.owned import Owned, domain_by, dropped, strayed
from mainstay.shard.ownership.report import check_strays

MISSING_S: Final = 120.0
"""A stray that its provider no longer lists is asked for after so long."""

UNSEEN_S: Final = 600.0
"""The same of one that was never seen in this life."""

LOOK_S: Final = 5.0
"""How often to look for what is missing."""

ASKED_MAX: Final = 100
"""So many at once are asked for by their names."""

Told: TypeAlias = frozenset[MachineId]
"""Which strays were named to whoever is told, and heard."""


class Strays:
    """Watches them."""

    def __init__(self, tools: OwnershipTools, keeping: Keeping) -> None:
        self._tools = tools
        self._keeping = keeping
        self._swept: tuple[Snapshot, Owned, Told | None] | None = None
        self._compared: tuple[Snapshot, Owned] | None = None
        self._looked_s = -LOOK_S
        self._seen: set[MachineId] = set()
        self._missing_s: dict[MachineId, float] = {}
        """Since when each is missing, while its provider answers."""

    async def sweep(self, told: Told | None) -> None:
        """Notice what lies elsewhere by now, let go of what is free and `told`, drop what is gone.

        One that goes before anybody has heard of it could not bring its quota to the next owner.
        """
        await self._notice()
        await self._let_go(told)
        await self._drop()

    async def _notice(self) -> None:
        """More than can be reported stay as they were: of those nobody else would hear."""
        tools, keeping, owned = self._tools, self._keeping, self._keeping.owned
        snapshot = tools.inventory.snapshot()
        if owned.domains is None or self._compared == (snapshot, owned):
            return
        self._compared = snapshot, owned
        moved = await self._moved(snapshot, owned)
        if not moved:
            return
        new = strayed(owned, moved)
        with contextlib.suppress(Rejected):
            check_strays(new)
            await keeping.keep(new)
            keeping.tell(Event.MACHINE_STRAYED, [each.machine for each in moved], reason="label")

    async def _moved(self, snapshot: Snapshot, owned: Owned) -> list[Stray]:
        """What lies in another domain than we think. One without the label is where it was."""
        inventory, here = self._tools.inventory, owned.here
        found = await self._tools.aside(lambda: _outside(snapshot, owned))
        back = [name for name in here if name not in found and name in inventory]
        for name in back:
            found[name] = domain_by(owned.keys, inventory.machine(name).profile)
        return [
            Stray(name, inventory.source(name), domain, leaving=_is_leaving(owned, name))
            for name, domain in sorted(found.items())
            if domain is not None
            and name in inventory
            and (name not in here or here[name].domain != domain)
        ]

    async def _let_go(self, told: Told | None) -> None:
        tools, keeping, owned = self._tools, self._keeping, self._keeping.owned
        snapshot = tools.inventory.snapshot()
        if not any(stray.leaving for stray in owned.here.values()):
            return
        if self._swept == (snapshot, owned, told) and not len(tools.ledger):
            return
        going = [
            name
            for name in _free(snapshot, owned)
            if name in owned.here
            and (told is None or name in told)
            and name in tools.inventory
            and owned.here[name].leaving
            and keeping.is_free(tools.inventory.machine(name))
            and tools.ledger.take(name)
        ]
        if going:
            await keeping.lower(keeping.counts_for(going), in_hand=going)
            await keeping.keep(dropped(owned, frozenset(going)), in_hand=going)
            await keeping.let_go(going, "stray_free")
        self._swept = tools.inventory.snapshot(), keeping.owned, told

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


def _outside(snapshot: Snapshot, owned: Owned) -> dict[MachineId, Domain | None]:
    """Which machines lie outside the domains, and where; a shape is looked at once."""
    shapes = snapshot.shapes.values
    counts = snapshot.machines_of_shape
    codes = [c for c in np.flatnonzero(counts).tolist() if c and not owned.admits(shapes[c])]
    if not codes:
        return {}
    where = {code: domain_by(owned.keys, shapes[code].profile) for code in codes}
    rows = snapshot.order[np.isin(snapshot.shape[snapshot.order], codes)].astype(np.intp)
    lie = (where[code] for code in snapshot.shape[rows].tolist())
    return dict(zip(snapshot.machine_ids(rows), lie, strict=True))


def _is_leaving(owned: Owned, machine: MachineId) -> bool:
    stray = owned.here.get(machine)
    return stray is None or stray.leaving


def _free(snapshot: Snapshot, owned: Owned) -> list[MachineId]:
    """What serves nobody and lies outside the domains; and leaving strays inside, if there are."""
    shapes = snapshot.shapes.values
    outside = np.array([owned.domains is not None and not owned.admits(each) for each in shapes])
    rows = snapshot.rows_in(*FREE)
    rows = rows[(snapshot.cluster[rows] == 0) & outside[snapshot.shape[rows]]]
    inside = owned.domains or frozenset()
    odd = [name for name, stray in owned.here.items() if stray.leaving and stray.domain in inside]
    return [*snapshot.machine_ids(rows), *odd]
