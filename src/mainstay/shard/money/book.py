"""The book of a shard: follows plans and what providers charge, and says what it comes to.

Pure but for the columns it holds: the moments come with what it is told. A machine's moments are
those its provider tells, where it tells them; otherwise those at which the shard saw the change.
Whose a machine was is known from plans alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.plan import Plan
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.charges import ChargeMark
from mainstay.model.ids import MachineId
from mainstay.model.profile import CapacityType
from mainstay.model.texts import Rows
from mainstay.shard.money.account import Account, Amount, Cell, nano_dollars, nanoseconds
from mainstay.shard.money.tabs import (
    CLOSED,
    NO_ROWS,
    PAID,
    UNPAID,
    Tab,
    TabRows,
    no_tabs,
    on_demand_prices,
    places,
    prices,
    row_of_any,
    rows_found,
    uses,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A book as it is put away."""

    since_s: float
    """From when on it counts."""

    at_ns: int = 0
    amounts: Mapping[Cell, Amount] = field(default_factory=dict)
    tabs: TabRows = field(default=NO_ROWS)
    """Machines that are paid for; each names its cell by its place among the amounts."""

    on_demand: Mapping[str, int] = field(default_factory=dict)
    cursors: Mapping[str, bytes] = field(default_factory=dict)
    """How far each provider has told what it charges."""


class Book:
    """What everything costs and has cost."""

    def __init__(self, kept: Kept) -> None:
        self.since_s = kept.since_s
        self.account = Account(kept.amounts)
        self.cursors: dict[str, bytes] = dict(kept.cursors)
        self._tabs = no_tabs()
        self._last: Snapshot | None = None
        self._use: NDArray[np.uint8] = np.empty(0, dtype=np.uint8)
        self._plan: Plan | None = None
        self._prices: Mapping[str, int] = dict(kept.on_demand)
        self.account.compare(self._prices, kept.at_ns)
        self._before = kept.tabs
        """Tabs kept from before, until the first plan says which rows they have."""

        self._apart: dict[MachineId, Tab] = {}
        """Tabs of machines that have gone."""

        self._book(kept.tabs.place, kept.tabs.price, kept.at_ns, 1)

    @property
    def open_tabs(self) -> int:
        """How many machines are paid for."""
        return int(np.count_nonzero(self._tabs.place != CLOSED)) + len(self._before)

    def follow(self, plan: Plan, at_s: float, marks: Sequence[ChargeMark] = ()) -> None:
        """Take in a plan, and what providers have charged up to it or later.

        Marks first: an end that is told is booked on whoever had the machine then.
        """
        if plan is self._plan and not marks:
            return
        at_ns = nanoseconds(at_s)
        snapshot, use = plan.snapshot, uses(plan)
        rows, is_new = self._align(snapshot, use)
        touched = self._mark(snapshot, use, marks)
        self._see(snapshot, use, rows, _Seen(at_ns, is_new, touched))
        for tab in self._apart.values():
            self.account.take(tab.place, tab.price, at_ns)
        self._apart.clear()
        self._compare(snapshot, rows, at_ns)
        self._last, self._use, self._plan = snapshot, use, plan

    def kept(self, at_s: float) -> Kept:
        """The book as it stands, to go on from later."""
        at_ns = nanoseconds(at_s)
        tabs, held = self._before, self._tabs
        if self._last is not None:
            rows = np.flatnonzero(held.place != CLOSED)
            ids = self._last.ids.take(rows)
            tabs = TabRows(ids, held.place[rows], held.price[rows], held.since_ns[rows])
        return Kept(
            since_s=self.since_s,
            at_ns=at_ns,
            amounts=self.account.amounts(at_ns),
            tabs=tabs,
            on_demand=self._prices,
            cursors=dict(self.cursors),
        )

    def _align(self, snapshot: Snapshot, use: NDArray[np.uint8]) -> tuple[Rows, NDArray[np.bool_]]:
        """Have the columns beside the rows of this snapshot: rows to look at, and which are new."""
        last, tabs = self._last, self._tabs
        tabs.reserve(len(snapshot.state))
        if last is None:
            rows = np.flatnonzero(snapshot.state)
            self._adopt(snapshot)
            return rows, tabs.place[rows] == CLOSED
        changes = snapshot.changed_from(last)
        known = min(len(self._use), len(use))
        rows = np.arange(len(use)) if changes is None else changes.rows
        rows = np.union1d(rows, np.flatnonzero(self._use[:known] != use[:known]))
        is_new = np.ones(len(rows), dtype=np.bool_)
        old = rows < len(last.state)
        was = rows[old]
        is_new[old] = (last.state[was] == 0) | ~last.ids.take(was).equals(snapshot.ids.take(was))
        for row in rows[is_new & (tabs.place[rows] != CLOSED)].tolist():
            tab = tabs.pop(row)
            if tab is not None:
                self._apart[MachineId(last.ids[row])] = tab
        return rows, is_new & (snapshot.state[rows] != 0)

    def _adopt(self, snapshot: Snapshot) -> None:
        """Give tabs of before the rows of their machines."""
        before, self._before = self._before, NO_ROWS
        rows = rows_found(snapshot, before.ids)
        here, tabs = rows >= 0, self._tabs
        tabs.place[rows[here]] = before.place[here]
        tabs.price[rows[here]] = before.price[here]
        tabs.since_ns[rows[here]] = before.since_ns[here]
        for gone in np.flatnonzero(~here).tolist():
            self._apart[MachineId(before.ids[gone])] = before.at(gone)

    def _mark(
        self, snapshot: Snapshot, use: NDArray[np.uint8], marks: Iterable[ChargeMark]
    ) -> set[int]:
        """Book what providers told; of a machine that is not ours they tell us nothing."""
        touched: set[int] = set()
        for mark in marks:
            at_ns = nanoseconds(mark.at_s)
            found = row_of_any(snapshot, mark.machine)
            row = None if found < 0 else found
            tab = self._apart.pop(mark.machine, None) if row is None else self._tabs.pop(row)
            place = CLOSED if tab is None else tab.place
            if tab is not None:
                self.account.take(tab.place, tab.price, at_ns)
            if row is not None:
                touched.add(row)
            if mark.price_per_hour is None or (tab is None and row is None):
                continue
            if row is not None and tab is None:
                place = int(places(self.account, snapshot, use, np.array([row]))[0])
            price = nano_dollars(mark.price_per_hour)
            self.account.put(place, price, at_ns)
            opened = Tab(place, price, at_ns if tab is None else tab.since_ns)
            if row is None:
                self._apart[mark.machine] = opened
            else:
                self._tabs.put(row, opened)
        return touched

    def _see(self, snapshot: Snapshot, use: NDArray[np.uint8], rows: Rows, seen: "_Seen") -> None:
        """Bring the tabs of these rows to what the snapshot shows."""
        tabs, state = self._tabs, snapshot.state[rows]
        was, price_was = tabs.place[rows], tabs.price[rows]
        is_open = was != CLOSED
        metered = np.array([name in self.cursors for name in snapshot.sources])
        by_meter = metered[snapshot.source[rows]] if len(snapshot.sources) else is_open & False
        told = np.isin(rows, list(seen.touched)) if seen.touched else is_open & False
        opens = ~is_open & PAID[state] & (~by_meter | (seen.is_new & ~told))
        ends = is_open & UNPAID[state] & ~(by_meter & (tabs.since_ns[rows] >= seen.at_ns))
        stays = (is_open & ~ends) | opens
        now = np.full(len(rows), CLOSED, dtype=np.int32)
        now[stays] = places(self.account, snapshot, use, rows[stays])
        now = np.where(is_open & UNPAID[state] & ~ends, was, now)
        listed = prices(snapshot, rows)
        price = np.where(by_meter & is_open, price_was, listed)
        moved = (now != was) | (stays & (price != price_was))
        self._book(was[moved & is_open], price_was[moved & is_open], seen.at_ns, -1)
        self._book(now[moved & stays], price[moved & stays], seen.at_ns, 1)
        tabs.place[rows] = now
        tabs.price[rows] = np.where(stays, price, 0)
        tabs.since_ns[rows[opens]] = seen.at_ns

    def _book(
        self, where: NDArray[np.int32], price: NDArray[np.int64], at_ns: int, sign: int
    ) -> None:
        """Many at the same moment: one booking for each cell."""
        found, which = np.unique(where, return_inverse=True)
        sums = np.zeros(len(found), dtype=np.int64)
        np.add.at(sums, which.reshape(-1), price)
        counts = np.bincount(which.reshape(-1), minlength=len(found))
        for place, total, count in zip(found.tolist(), sums.tolist(), counts.tolist(), strict=True):
            self.account.put(place, sign * total, at_ns, sign * count)

    def _compare(self, snapshot: Snapshot, rows: Rows, at_ns: int) -> None:
        """Have today's on-demand prices; where no such machine changed they are yesterday's."""
        if self._last is None or _sells_otherwise(self._last, snapshot, rows):
            self._prices = on_demand_prices(snapshot)
            self.account.compare(self._prices, at_ns)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a look at rows goes by."""

    at_ns: int
    is_new: NDArray[np.bool_]
    touched: set[int]
    """Rows about which a provider has just told something newer."""


def _sells_otherwise(last: Snapshot, snapshot: Snapshot, rows: Rows) -> bool:
    """Whether an on-demand machine among these rows came, went or changed its price."""
    if len(rows) and int(rows[-1]) >= len(last.state):
        return True
    was, now = _on_demand(last, rows), _on_demand(snapshot, rows)
    other = last.price_per_hour[rows] != snapshot.price_per_hour[rows]
    return bool(((was != now) | (now & other)).any())


def _on_demand(snapshot: Snapshot, rows: Rows) -> NDArray[np.bool_]:
    is_sold = snapshot.shapes.capacity_type == CapacityType.ON_DEMAND
    found: NDArray[np.bool_] = is_sold[snapshot.shape[rows]] & (snapshot.state[rows] != 0)
    return found
