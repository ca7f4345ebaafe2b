"""Who is paid for: one tab per machine, as columns beside the rows of a snapshot. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.lookup import row_of
from mainstay.engine.plan import Plan
from mainstay.inventory.growing import resized
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.errors import UnknownMachine
from mainstay.model.ids import MachineId
from mainstay.model.profile import CapacityType
from mainstay.model.state import State
from mainstay.model.texts import Rows, Texts, texts_of
from mainstay.shard.money.account import NANO, PRICE_MAX, Account, Cell, Use

CLOSED: Final = -1


class Tab(NamedTuple):
    """One machine that is paid for."""

    place: int
    """Of its cell in the account."""

    price: int
    """Nano-dollars per hour."""

    since_ns: int


@dataclass(slots=True)
class Tabs:
    """Row i is machine i of the snapshot that was followed last."""

    place: NDArray[np.int32]
    price: NDArray[np.int64]
    since_ns: NDArray[np.int64]

    def reserve(self, rows: int) -> None:
        """Make room."""
        if rows > len(self.place):
            self.place = resized(self.place, rows, CLOSED)
            self.price = resized(self.price, rows, 0)
            self.since_ns = resized(self.since_ns, rows, 0)

    def put(self, row: int, tab: Tab) -> None:
        """Write one."""
        self.place[row], self.price[row], self.since_ns[row] = tab

    def at(self, row: int) -> Tab | None:
        """Read one."""
        if self.place[row] == CLOSED:
            return None
        return Tab(self.place.item(row), self.price.item(row), self.since_ns.item(row))

    def pop(self, row: int) -> Tab | None:
        """Read one, and close it."""
        tab = self.at(row)
        self.place[row] = CLOSED
        return tab


@dataclass(frozen=True, slots=True)
class TabRows:
    """Tabs by the ids of their machines, frozen."""

    ids: Texts
    place: NDArray[np.int32]
    price: NDArray[np.int64]
    since_ns: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.place)

    def at(self, row: int) -> Tab:
        """One of them."""
        return Tab(self.place.item(row), self.price.item(row), self.since_ns.item(row))


def tab_rows(tabs: Mapping[MachineId, Tab]) -> TabRows:
    """Some tabs as columns."""
    found = list(tabs.values())
    return TabRows(
        texts_of(tabs),
        np.array([tab.place for tab in found], dtype=np.int32),
        np.array([tab.price for tab in found], dtype=np.int64),
        np.array([tab.since_ns for tab in found], dtype=np.int64),
    )


NO_ROWS: Final = tab_rows({})


def rows_found(snapshot: Snapshot, ids: Texts) -> Rows:
    """The row of each of these machines; -1 for one that is not there."""
    live = snapshot.order.astype(np.intp)
    if not len(live) or not len(ids):
        return np.full(len(ids), -1, dtype=np.intp)
    known = snapshot.ids.take(live)
    hashes = known.hashes()
    by_hash = np.argsort(hashes)
    at = np.searchsorted(hashes[by_hash], ids.hashes()).clip(max=len(live) - 1)
    rows: Rows = live[by_hash[at]]
    for place in np.flatnonzero(~snapshot.ids.take(rows).equals(ids)).tolist():
        rows[place] = row_of_any(snapshot, MachineId(ids[place]))
    return rows


def row_of_any(snapshot: Snapshot, machine: MachineId) -> int:
    """The row of a machine, or -1."""
    try:
        return row_of(snapshot, machine)
    except UnknownMachine:
        return -1


def no_tabs() -> Tabs:
    """None yet."""
    return Tabs(
        np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    )


_USE: Final = np.full(256, Use.SERVING, dtype=np.uint8)
_USE[[State.IDLE, State.DELETING]] = Use.IDLE
_USE[State.FAILED] = Use.UNCLAIMED

PAID: Final = np.zeros(256, dtype=np.bool_)
"""Whoever is in such a state has a host."""
PAID[[State.IDLE, State.CONFIGURING, State.CONFIGURED, State.DRAINING, State.DELETING]] = True

UNPAID: Final = np.zeros(256, dtype=np.bool_)
"""Whoever is in such a state has none. One that is Creating or Failed may or may not."""
UNPAID[[State.UNSPECIFIED, State.SPECULATIVE]] = True


def uses(plan: Plan) -> NDArray[np.uint8]:
    """What each row of a plan is good for; a cluster that was not heard yet may need all it has."""
    snapshot = plan.snapshot
    found: NDArray[np.uint8] = _USE[snapshot.state]
    heard = np.array([name in plan.demand.heard for name in snapshot.clusters], dtype=np.bool_)
    excess = (snapshot.state == State.CONFIGURED) & (plan.owner < 0)
    found[excess & heard[snapshot.cluster]] = Use.UNCLAIMED
    return found


def prices(snapshot: Snapshot, rows: Rows) -> NDArray[np.int64]:
    """Listed prices in whole numbers."""
    listed = np.minimum(snapshot.price_per_hour[rows], PRICE_MAX)
    whole: NDArray[np.int64] = np.rint(listed * NANO).astype(np.int64)
    return whole


def places(
    account: Account, snapshot: Snapshot, use: NDArray[np.uint8], rows: Rows
) -> NDArray[np.int32]:
    """The cell of each of these rows; asked of the account once for each that differs."""
    kinds = len(Use)
    width = len(snapshot.clusters)
    code = (snapshot.shape[rows].astype(np.int64) * width + snapshot.cluster[rows]) * kinds
    code += use[rows]
    distinct, which = np.unique(code, return_inverse=True)
    found = np.empty(len(distinct), dtype=np.int32)
    for at, each in enumerate(distinct.tolist()):
        rest, used = divmod(each, kinds)
        shape, cluster = divmod(rest, width)
        profile = snapshot.shapes.values[shape].profile
        cell = Cell(
            snapshot.clusters[cluster], profile.instance_type, profile.capacity_type, Use(used)
        )
        found[at] = account.place(cell)
    spread: NDArray[np.int32] = found[which.reshape(-1)]
    return spread


def on_demand_prices(snapshot: Snapshot) -> dict[str, int]:
    """What each type costs on demand, as providers list it; where several do, the least."""
    is_sold = snapshot.shapes.capacity_type == CapacityType.ON_DEMAND
    rows = np.flatnonzero(is_sold[snapshot.shape] & (snapshot.state != State.UNSPECIFIED))
    least = np.full(len(snapshot.shapes.values), np.iinfo(np.int64).max)
    np.minimum.at(least, snapshot.shape[rows], prices(snapshot, rows))
    found: dict[str, int] = {}
    for shape in np.unique(snapshot.shape[rows]).tolist():
        name = snapshot.shapes.values[shape].profile.instance_type
        price = int(least[shape])
        found[name] = min(found.get(name, price), price)
    return found
