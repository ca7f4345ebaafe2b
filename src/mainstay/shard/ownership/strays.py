"""What a shard has outside its domains: let go of when it is free, dropped when it is gone.

A stray that is no longer reported goes to whoever owns its domain. So one is gone only when its
provider says so of this very machine: a list that does not name it may be a bad one.

A machine of ours that its provider has moved into another domain is a stray from then on: it stays
ours until it is free, and whoever owns that domain hears of it.
"""

from typing import Final, NamedTuple, TypeAlias

import numpy as np

from mainstay.engine.lookup import rows_of
from mainstay.engine.rows import Mask
from mainstay.inventory.shapes import ShapeView
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.coordination import Domain, Stray
from mainstay.model.ids import MachineId
from mainstay.model.texts import Rows
from mainstay.shard.events import Event
from mainstay.shard.ownership.keeping import FREE, Keeping, OwnershipTools
from mainstay.shard.ownership.owned import Owned, domain_by, dropped, strayed
from mainstay.shard.ownership.report import Room

MISSING_S: Final = 120.0
"""A stray that its provider no longer lists may be dropped after so long."""

UNSEEN_S: Final = 600.0
"""The same of one that was never seen in this life."""

LOOK_S: Final = 5.0
"""How often to look for what is missing."""

ASKED_MAX: Final = 100
"""So many at once are asked for by their names."""

Told: TypeAlias = frozenset[tuple[MachineId, Domain | None]]
"""Which strays were named to whoever is told, where they lay then, and heard."""


class _Moved(NamedTuple):
    """What lies in another domain than we think."""

    strays: list[Stray]
    """As many as a report can name."""

    untold: int
    """How many more there are."""


class Strays:
    """Watches them."""

    def __init__(self, tools: OwnershipTools, keeping: Keeping) -> None:
        self._tools = tools
        self._keeping = keeping
        self._swept: tuple[Snapshot, Owned, Told | None] | None = None
        self._compared: tuple[Snapshot, Owned] | None = None
        self._outside = _Outside()
        self._untold = 0
        self._looked_s = -LOOK_S
        self._seen: set[MachineId] = set()
        self._missing_s: dict[MachineId, float] = {}
        """Since when each is missing, while its provider answers."""

    async def sweep(self, told: Told | None) -> None:
        """Notice what lies elsewhere by now, let go of what is free and `told`, drop what is gone.

        One that goes before anybody has heard where it lies could not bring its quota to the next
        owner.
        """
        await self._notice()
        await self._let_go(told)
        await self._drop()

    async def _notice(self) -> None:
        """More than can be reported stray as room appears: of those nobody else would hear. That
        there are such is told.
        """
        tools, keeping, owned = self._tools, self._keeping, self._keeping.owned
        snapshot = tools.inventory.snapshot()
        if owned.domains is None or _same(self._compared, (snapshot, owned)):
            return
        known = [name for name in owned.here if name in tools.inventory]
        moved = await tools.aside(
            lambda: _moved(snapshot, owned, self._outside.of(snapshot.shapes, owned), known)
        )
        strays = [each for each in moved.strays if each.machine in tools.inventory]
        if strays:
            await keeping.keep(strayed(owned, strays))
            keeping.tell(Event.MACHINE_STRAYED, [each.machine for each in strays], reason="label")
        if moved.untold and not self._untold:
            tools.journal.noticed(Event.STRAYS_NOT_TOLD, count=moved.untold)
        self._untold = moved.untold
        self._compared = snapshot, owned

    async def _let_go(self, told: Told | None) -> None:
        tools, keeping, owned = self._tools, self._keeping, self._keeping.owned
        snapshot = tools.inventory.snapshot()
        if not any(stray.leaving for stray in owned.here.values()):
            return
        if _same(self._swept, (snapshot, owned, told)) and not len(tools.ledger):
            return
        free = await tools.aside(
            lambda: _free(snapshot, owned, self._outside.of(snapshot.shapes, owned))
        )
        going = [
            name
            for name in free
            if name in owned.here
            and (told is None or (name, owned.here[name].domain) in told)
            and name in tools.inventory
            and owned.here[name].leaving
            and keeping.is_free(tools.inventory.machine(name))
            and tools.ledger.take(name)
        ]
        if going:
            await keeping.lower(keeping.counts_for(going), in_hand=going)
            await keeping.keep(dropped(owned, frozenset(going)), in_hand=going)
            await keeping.let_go(going, "stray_free")
        self._swept = snapshot, owned, told

    async def _drop(self) -> None:
        """One that is missing is asked for at once, since the word about it may be lost, and once
        more when it is due: then it is gone if its provider says so again.
        """
        tools, keeping, now_s = self._tools, self._keeping, self._tools.clock.elapsed_s()
        if now_s - self._looked_s < LOOK_S:
            return
        self._looked_s = now_s
        here = keeping.owned.here
        there = {name for name in here if name in tools.inventory}
        answering = tools.sources - tools.reconciler.heard.unreachable
        self._seen = (self._seen | there) & here.keys()
        self._missing_s = {
            name: self._missing_s.get(name, now_s)
            for name, stray in here.items()
            if name not in there and stray.provider in answering
        }
        denied_s = tools.reconciler.heard.denied_at_s
        due_s = {
            name: since_s + (MISSING_S if name in self._seen else UNSEEN_S)
            for name, since_s in self._missing_s.items()
        }
        gone = [name for name, at_s in due_s.items() if denied_s(name) > at_s]
        asked = [
            name
            for name, since_s in self._missing_s.items()
            if denied_s(name) <= (since_s if now_s < due_s[name] else due_s[name])
        ]
        for name in asked[:ASKED_MAX]:
            tools.reconciler.owe(name, here[name].provider)
        if gone:
            await keeping.keep(dropped(keeping.owned, frozenset(gone)))
            keeping.tell(Event.MACHINE_LET_GO, gone, reason="stray_gone")


class _Outside:
    """Which shapes lie outside the domains. The same value while neither changes."""

    def __init__(self) -> None:
        self._seen: tuple[ShapeView, frozenset[Domain] | None] | None = None
        self._mask: Mask = np.zeros(0, dtype=np.bool_)

    def of(self, shapes: ShapeView, owned: Owned) -> Mask:
        """Per shape."""
        if not _same(self._seen, (shapes, owned.domains)):
            self._mask = _outside(shapes, owned)
            self._seen = shapes, owned.domains
        return self._mask


def _outside(shapes: ShapeView, owned: Owned) -> Mask:
    """A value of a label is looked at once."""
    outside: Mask = np.full(len(shapes.values), owned.domains is not None, dtype=np.bool_)
    outside[0] = False
    for key in owned.keys:
        codes, values = shapes.attribute(key)
        inside = [(key, value) in (owned.domains or ()) for value in values]
        outside &= ~np.array(inside, dtype=np.bool_)[codes]
    return outside


def _moved(snapshot: Snapshot, owned: Owned, outside: Mask, known: list[MachineId]) -> _Moved:
    """One without the label is where it was. Of the strays these are `known` to be there."""
    shapes, here = snapshot.shapes.values, owned.here
    strays = rows_of(snapshot, known)
    order = snapshot.order.astype(np.intp)
    lying = order[outside[snapshot.shape[order]]]
    used = np.unique(np.concatenate([snapshot.shape[strays], snapshot.shape[lying]]))
    where = {code: domain_by(owned.keys, shapes[code].profile) for code in used.tolist()}
    labelled = np.zeros(len(shapes), dtype=np.bool_)
    labelled[[code for code, domain in where.items() if domain is not None]] = True
    is_new = labelled[snapshot.shape[lying]] & ~np.isin(lying, strays)
    room = Room(owned)
    found: list[Stray] = []

    def stray(name: MachineId, row: int) -> Stray:
        source, leaving = snapshot.sources[int(snapshot.source[row])], _is_leaving(owned, name)
        return Stray(name, source, where[int(snapshot.shape[row])], leaving=leaving)

    now = [stray(name, row) for name, row in zip(known, strays.tolist(), strict=True)]
    again = [each for each in now if each.domain not in (None, here[each.machine].domain)]
    found += filter(room.take, again)
    new: Rows = lying[is_new]
    fitting = new[: room.machines]
    for name, row in zip(snapshot.machine_ids(fitting), fitting.tolist(), strict=True):
        if not room.take(each := stray(name, row)):
            break
        found.append(each)
    return _Moved(found, len(again) + len(new) - len(found))


def _is_leaving(owned: Owned, machine: MachineId) -> bool:
    stray = owned.here.get(machine)
    return stray is None or stray.leaving


def _free(snapshot: Snapshot, owned: Owned, outside: Mask) -> list[MachineId]:
    """What serves nobody and lies outside the domains; and leaving strays inside, if there are."""
    rows = snapshot.rows_in(*FREE)
    rows = rows[(snapshot.cluster[rows] == 0) & outside[snapshot.shape[rows]]]
    inside = owned.domains or frozenset()
    odd = [name for name, stray in owned.here.items() if stray.leaving and stray.domain in inside]
    return [*snapshot.machine_ids(rows), *odd]


def _same(seen: tuple[object, ...] | None, now: tuple[object, ...]) -> bool:
    """Whether these are the very objects that were seen."""
    return seen is not None and all(one is other for one, other in zip(seen, now, strict=True))
