"""Sums of money over time, exact at every moment, at a cost that follows change. Pure.

Of all that is paid for in one cell only the sum of prices counts: the amount at a moment is
`rate * moment + base`. What begins takes `price * moment` off the base, what ends gives it back, so
nothing has to be done as time passes, and whatever moment a change is told for, the sum is right.
Whole numbers throughout: nano-dollars per hour times nanoseconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from mainstay.model.profile import CapacityType

NANO: Final = 10**9
HOUR_NS: Final = 3600 * NANO
PRICE_MAX: Final = 100_000.0
"""Dollars per hour; whatever says it costs more is counted as this, so that sums fit 64 bits."""


class Use(IntEnum):
    """What a machine that is paid for is good for."""

    SERVING = 0
    """A need claims it, or it is on its way to or from a cluster."""

    IDLE = 1
    """It belongs to no cluster."""

    UNCLAIMED = 2
    """It belongs to a cluster and no need there claims it, or it has failed."""


WASTE: Final = (Use.IDLE, Use.UNCLAIMED)


class Cell(NamedTuple):
    """What sums are kept apart by: the finest parts there are."""

    cluster: str
    """Empty: nobody's."""

    instance_type: str
    capacity: CapacityType
    use: Use


class Amount(NamedTuple):
    """Of a cell, up to some moment; money in nano-dollars per hour times nanoseconds."""

    spent: int = 0
    hosts: int = 0
    """Host-nanoseconds."""

    compared: int = 0
    """The part of what was spent for which an on-demand price was known."""

    on_demand: int = 0
    """What that part would have cost at that price."""


NOTHING: Final = Amount()


@dataclass(slots=True)
class _Sum:
    """The running sums of one cell."""

    rate: int = 0
    base: int = 0
    hosts: int = 0
    hosts_base: int = 0
    told: Amount = NOTHING
    """As it stood when the on-demand price last changed."""

    def spent(self, at_ns: int) -> int:
        return self.rate * at_ns + self.base

    def host_ns(self, at_ns: int) -> int:
        return self.hosts * at_ns + self.hosts_base

    def amount(self, at_ns: int, price: int | None, *, is_on_demand: bool) -> Amount:
        spent, hosts = self.spent(at_ns), self.host_ns(at_ns)
        if is_on_demand:
            return Amount(spent, hosts, spent, spent)
        if price is None:
            return Amount(spent, hosts, self.told.compared, self.told.on_demand)
        return Amount(
            spent,
            hosts,
            self.told.compared + spent - self.told.spent,
            self.told.on_demand + (hosts - self.told.hosts) * price,
        )


class Line(NamedTuple):
    """The running sums of one cell as they are."""

    rate: int
    base: int
    hosts: int
    hosts_base: int
    told: Amount
    """As it stood when the on-demand price last changed."""


@dataclass(frozen=True, slots=True)
class Standing:
    """All cells as they are at a moment: a copy, to be summed up where it holds up nobody."""

    at_ns: int
    cells: tuple[Cell, ...]
    lines: tuple[Line, ...]
    """Of each cell."""

    prices: Mapping[str, int]
    """On demand, by type."""


class ClassRate(NamedTuple):
    """Of a capacity class, per hour, now; nano-dollars."""

    spend: int = 0
    waste: int = 0
    saving: int = 0


class _Tally(NamedTuple):
    """What a sum over clusters is kept for: few, however many clusters there are."""

    instance_type: str
    capacity: CapacityType
    use: Use


@dataclass(slots=True)
class _Tallied:
    hosts: int = 0
    rate: int = 0


class Account:
    """All cells. What is put in and not taken out goes on costing."""

    def __init__(self, kept: Mapping[Cell, Amount] | None = None) -> None:
        """`kept` are sums of before: nothing of them still runs."""
        self._cells: dict[Cell, int] = {}
        self._sums: list[_Sum] = []
        self._prices: dict[str, int] = {}
        self._tallies: dict[_Tally, _Tallied] = {}
        self._tally_of: list[_Tallied] = []
        for cell, amount in (kept or {}).items():
            self._sums[self.place(cell)] = _Sum(
                base=amount.spent, hosts_base=amount.hosts, told=amount
            )

    def place(self, cell: Cell) -> int:
        """The number of a cell; it stays the same."""
        place = self._cells.get(cell)
        if place is None:
            place = self._cells[cell] = len(self._sums)
            self._sums.append(_Sum())
            of = _Tally(cell.instance_type, cell.capacity, cell.use)
            self._tally_of.append(self._tallies.setdefault(of, _Tallied()))
        return place

    def put(self, place: int, price: int, at_ns: int, hosts: int = 1) -> None:
        """From this moment on, so many hosts cost so much together."""
        held = self._sums[place]
        held.rate += price
        held.base -= price * at_ns
        held.hosts += hosts
        held.hosts_base -= hosts * at_ns
        tally = self._tally_of[place]
        tally.rate += price
        tally.hosts += hosts

    def take(self, place: int, price: int, at_ns: int, hosts: int = 1) -> None:
        """Up to this moment, and no longer."""
        self.put(place, -price, at_ns, -hosts)

    def compare(self, prices: Mapping[str, int], at_ns: int) -> None:
        """From this moment on these are the on-demand prices, by type."""
        changed = {
            name
            for name in self._prices.keys() | prices.keys()
            if self._prices.get(name) != prices.get(name)
        }
        if changed:
            for cell, place in self._cells.items():
                if cell.instance_type in changed:
                    self._sums[place].told = self._amount(cell, place, at_ns)
            self._prices = dict(prices)

    @property
    def on_demand(self) -> Mapping[str, int]:
        """What each type costs on demand now, per hour."""
        return self._prices

    def standing(self, at_ns: int) -> Standing:
        """How all cells stand at this moment, not worked out yet."""
        lines = tuple(
            Line(held.rate, held.base, held.hosts, held.hosts_base, held.told)
            for held in self._sums
        )
        return Standing(at_ns, tuple(self._cells), lines, dict(self._prices))

    def amounts(self, at_ns: int) -> dict[Cell, Amount]:
        """Every cell at this moment."""
        return {cell: self._amount(cell, place, at_ns) for cell, place in self._cells.items()}

    def by_class(self) -> dict[CapacityType, ClassRate]:
        """What each capacity class costs, wastes and saves; costs types, not clusters."""
        found: dict[CapacityType, ClassRate] = {}
        for of, tally in self._tallies.items():
            so_far = found.get(of.capacity, ClassRate())
            price = self._prices.get(of.instance_type)
            is_compared = of.capacity is not CapacityType.ON_DEMAND and price is not None
            saving = tally.hosts * (price or 0) - tally.rate if is_compared else 0
            found[of.capacity] = ClassRate(
                so_far.spend + tally.rate,
                so_far.waste + (tally.rate if of.use in WASTE else 0),
                so_far.saving + saving,
            )
        return found

    def _amount(self, cell: Cell, place: int, at_ns: int) -> Amount:
        price = self._prices.get(cell.instance_type)
        is_on_demand = cell.capacity is CapacityType.ON_DEMAND
        return self._sums[place].amount(at_ns, price, is_on_demand=is_on_demand)


def nanoseconds(seconds: float) -> int:
    """A moment as a whole number."""
    whole, part = divmod(seconds, 1.0)
    return int(whole) * NANO + round(part * NANO)


def nano_dollars(dollars: float) -> int:
    """A price as a whole number."""
    return round(min(dollars, PRICE_MAX) * NANO)


def in_nano_dollars(amount: int) -> int:
    """Money of an Amount, in nano-dollars, down to a whole one."""
    return amount // HOUR_NS
