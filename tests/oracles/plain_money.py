"""What machines cost, the plain way: stretches of time, each with a price, added up."""

from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction

from mainstay.shard.money.account import Cell

HOUR_NS = 3600 * 10**9


@dataclass
class Stretch:
    """A machine in one cell at one price."""

    cell: Cell
    price: int
    start_ns: int
    end_ns: int | None = None


@dataclass
class PlainMoney:
    """Every stretch there ever was, and every on-demand price."""

    stretches: list[Stretch] = field(default_factory=list)
    running: dict[str, Stretch] = field(default_factory=dict)

    def put(self, machine: str, cell: Cell, price: int, at_ns: int) -> None:
        self.take(machine, at_ns)
        self.running[machine] = Stretch(cell, price, at_ns)
        self.stretches.append(self.running[machine])

    def take(self, machine: str, at_ns: int) -> None:
        if machine in self.running:
            self.running.pop(machine).end_ns = at_ns

    def dollars(self, at_ns: int) -> dict[Cell, Fraction]:
        """By cell, in nano-dollars."""
        found: dict[Cell, Fraction] = defaultdict(Fraction)
        for each in self.stretches:
            end_ns = at_ns if each.end_ns is None else each.end_ns
            found[each.cell] += Fraction(each.price * (end_ns - each.start_ns), HOUR_NS)
        return found

    def compared(self, at_ns: int, prices: list[tuple[int, dict[str, int]]]) -> Fraction:
        """What would have been paid more at these on-demand prices, each from its moment on."""
        saved = Fraction(0)
        for begin, (since_ns, listed) in enumerate(prices):
            until_ns = prices[begin + 1][0] if begin + 1 < len(prices) else at_ns
            for each in self.stretches:
                end_ns = at_ns if each.end_ns is None else each.end_ns
                lasted = max(0, min(end_ns, until_ns) - max(each.start_ns, since_ns))
                on_demand = listed.get(each.cell.instance_type)
                if on_demand is not None:
                    saved += Fraction((on_demand - each.price) * lasted, HOUR_NS)
        return saved
