"""What everything costs, as people ask for it: the whole, and cut in one of three ways."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainstay.model.errors import Rejected
from mainstay.model.money_views import NOBODY, MoneyQuery, MoneyRows
from mainstay.model.profile import CapacityType
from mainstay.model.views import MoneyRow, Stamp
from mainstay.shard.money.account import (
    HOUR_NS,
    Account,
    Cell,
    Standing,
    Use,
    nanoseconds,
)

BY: Final[Mapping[str, Callable[[Cell], str]]] = {
    "cluster": lambda cell: cell.cluster or NOBODY,
    "type": lambda cell: cell.instance_type,
    "class": lambda cell: str(cell.capacity),
}

Whole = NDArray[np.object_]
"""Whole numbers of any size, one for each cell: these sums do not fit 64 bits."""

Mask = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class MoneyFacts:
    """The sums of a shard at one moment, frozen."""

    since_s: float = 0.0
    at_s: float = 0.0
    standing: Standing
    as_seen: tuple[str, ...] = ()
    on_demand: Mapping[str, int]
    """Nano-dollars per hour, by instance type."""

    @cached_property
    def parts(self) -> Mapping[str, Whole]:
        """Every cell as it is told, by the names of a MoneyRow; made when it is first asked for."""
        return _parts(self.standing)


def facts_of(
    account: Account, *, since_s: float, at_s: float, as_seen: tuple[str, ...] = ()
) -> MoneyFacts:
    """How an account stands at a moment."""
    return MoneyFacts(
        since_s=since_s,
        at_s=at_s,
        standing=account.standing(nanoseconds(at_s)),
        as_seen=as_seen,
        on_demand=account.on_demand,
    )


def money_rows(facts: MoneyFacts, query: MoneyQuery, stamp: Stamp) -> MoneyRows:
    """The whole and its parts. Every cell is rounded by itself, so that any cut adds up."""
    if query.by and query.by not in BY:
        raise Rejected(f"money is told by {', '.join(BY)}: {query.by[:80]!r}")
    rows = _cut(facts, BY[query.by]) if query.by else []
    return MoneyRows(
        stamp=stamp,
        since_s=facts.since_s,
        at_s=facts.at_s,
        by=query.by,
        total=whole(facts),
        rows=tuple(sorted(rows, key=lambda row: (-row.spent, -row.spend_per_hour, row.name))),
        as_seen=facts.as_seen,
        on_demand=facts.on_demand,
    )


def whole(facts: MoneyFacts) -> MoneyRow:
    """All of it in one row."""
    return MoneyRow(name="", **{name: int(part.sum()) for name, part in facts.parts.items()})


def _cut(facts: MoneyFacts, name_of: Callable[[Cell], str]) -> list[MoneyRow]:
    """A row for each name."""
    number: dict[str, int] = {}
    of_cell = [number.setdefault(name_of(cell), len(number)) for cell in facts.standing.cells]
    if not of_cell:
        return []
    order = np.argsort(of_cell, kind="stable")
    first = np.searchsorted(np.array(of_cell)[order], np.arange(len(number)))
    sums = {name: np.add.reduceat(part[order], first) for name, part in facts.parts.items()}
    return [
        MoneyRow(name=name, **{part: int(found[at]) for part, found in sums.items()})
        for name, at in number.items()
    ]


def _parts(standing: Standing) -> dict[str, Whole]:
    cells, at_ns = standing.cells, standing.at_ns
    rate, base, hosts, hosts_base = _columns([line[:-1] for line in standing.lines], 4)
    told_spent, told_hosts, told_compared, told_on_demand = _columns(
        [line.told for line in standing.lines], 4
    )
    prices = [standing.prices.get(cell.instance_type, 0) for cell in cells]
    price = np.array(prices, dtype=np.object_)
    is_sold = _mask(cell.capacity is CapacityType.ON_DEMAND for cell in cells)
    is_known = _mask(cell.instance_type in standing.prices for cell in cells)

    spent = rate * at_ns + base
    compared = told_compared + np.where(is_known, spent - told_spent, 0)
    since = (hosts * at_ns + hosts_base - told_hosts) * price
    on_demand = told_on_demand + np.where(is_known, since, 0)
    spent, compared, on_demand = (
        part // HOUR_NS
        for part in (spent, np.where(is_sold, spent, compared), np.where(is_sold, spent, on_demand))
    )
    rate_compared = np.where(is_sold | is_known, rate, 0)
    rate_on_demand = np.where(is_sold, rate, hosts * price)
    wasted = {use: _mask(cell.use is use for cell in cells) for use in (Use.IDLE, Use.UNCLAIMED)}
    return {
        "hosts": hosts,
        "spend_per_hour": rate,
        "spent": spent,
        "idle_per_hour": np.where(wasted[Use.IDLE], rate, 0),
        "idle": np.where(wasted[Use.IDLE], spent, 0),
        "unclaimed_per_hour": np.where(wasted[Use.UNCLAIMED], rate, 0),
        "unclaimed": np.where(wasted[Use.UNCLAIMED], spent, 0),
        "saving_per_hour": rate_on_demand - rate_compared,
        "saving": on_demand - compared,
        "unpriced_per_hour": rate - rate_compared,
        "unpriced": spent - compared,
    }


def _columns(rows: Sequence[tuple[int, ...]], count: int) -> Whole:
    """Rows of whole numbers as columns."""
    return np.array(rows, dtype=np.object_).reshape(-1, count).T


def _mask(values: Iterable[bool]) -> Mask:
    return np.fromiter(values, dtype=np.bool_)
