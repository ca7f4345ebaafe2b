"""What everything costs, as people ask for it: the whole, and cut in one of three ways."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from mainstay.model.errors import Rejected
from mainstay.model.money_views import NOBODY, MoneyQuery, MoneyRows
from mainstay.model.views import MoneyRow, Stamp
from mainstay.shard.money.account import (
    Account,
    Amount,
    Cell,
    Rate,
    Use,
    in_nano_dollars,
    nanoseconds,
)

BY: Final[Mapping[str, Callable[[Cell], str]]] = {
    "cluster": lambda cell: cell.cluster or NOBODY,
    "type": lambda cell: cell.instance_type,
    "class": lambda cell: str(cell.capacity),
}


@dataclass(frozen=True, kw_only=True)
class MoneyFacts:
    """The sums of a shard at one moment, frozen."""

    since_s: float = 0.0
    at_s: float = 0.0
    amounts: Mapping[Cell, Amount]
    rates: Mapping[Cell, Rate]
    as_seen: tuple[str, ...] = ()
    on_demand: Mapping[str, int]
    """Nano-dollars per hour, by instance type."""

    @cached_property
    def sums(self) -> "Mapping[Cell, _Sums]":
        """Every cell as it is told, made when it is first asked for."""
        return {cell: _sums(cell, self) for cell in self.amounts}


def facts_of(
    account: Account, *, since_s: float, at_s: float, as_seen: tuple[str, ...] = ()
) -> MoneyFacts:
    """How an account stands at a moment."""
    return MoneyFacts(
        since_s=since_s,
        at_s=at_s,
        amounts=account.amounts(nanoseconds(at_s)),
        rates=dict(account.rates()),
        as_seen=as_seen,
        on_demand=dict(account.on_demand),
    )


def money_rows(facts: MoneyFacts, query: MoneyQuery, stamp: Stamp) -> MoneyRows:
    """The whole and its parts. Every cell is rounded by itself, so that any cut adds up."""
    if query.by and query.by not in BY:
        raise Rejected(f"money is told by {', '.join(BY)}: {query.by[:80]!r}")
    parts: defaultdict[str, list[_Sums]] = defaultdict(list)
    if query.by:
        for cell, sums in facts.sums.items():
            parts[BY[query.by](cell)].append(sums)
    rows = [_added(named, name) for name, named in parts.items()]
    return MoneyRows(
        stamp=stamp,
        since_s=facts.since_s,
        at_s=facts.at_s,
        by=query.by,
        total=_added([*facts.sums.values()]),
        rows=tuple(sorted(rows, key=lambda row: (-row.spent, -row.spend_per_hour, row.name))),
        as_seen=facts.as_seen,
        on_demand=facts.on_demand,
    )


def whole(facts: MoneyFacts) -> MoneyRow:
    """All of it in one row."""
    return _added([*facts.sums.values()])


class _Sums(NamedTuple):
    """A MoneyRow without its name: there are thousands of them."""

    hosts: int = 0
    spend_per_hour: int = 0
    spent: int = 0
    idle_per_hour: int = 0
    idle: int = 0
    unclaimed_per_hour: int = 0
    unclaimed: int = 0
    saving_per_hour: int = 0
    saving: int = 0
    unpriced_per_hour: int = 0
    unpriced: int = 0


def _added(rows: Sequence[_Sums], name: str = "") -> MoneyRow:
    sums = _Sums(*map(sum, zip(*rows, strict=True))) if rows else _Sums()
    return MoneyRow(name=name, **sums._asdict())


def _sums(cell: Cell, facts: MoneyFacts) -> _Sums:
    amount, rate = facts.amounts[cell], facts.rates.get(cell, Rate())
    spent, compared = in_nano_dollars(amount.spent), in_nano_dollars(amount.compared)
    idle, unclaimed = cell.use is Use.IDLE, cell.use is Use.UNCLAIMED
    return _Sums(
        hosts=rate.hosts,
        spend_per_hour=rate.spend,
        spent=spent,
        idle_per_hour=rate.spend if idle else 0,
        idle=spent if idle else 0,
        unclaimed_per_hour=rate.spend if unclaimed else 0,
        unclaimed=spent if unclaimed else 0,
        saving_per_hour=rate.on_demand - rate.compared,
        saving=in_nano_dollars(amount.on_demand) - compared,
        unpriced_per_hour=rate.spend - rate.compared,
        unpriced=spent - compared,
    )
