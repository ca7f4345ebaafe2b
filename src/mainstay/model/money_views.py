"""What machines cost, as a shard tells it.

Field names are those of proto/mainstay/v1/shard.proto, as in mainstay.model.views.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Final

from mainstay.model.views import MoneyRow, Stamp

NOBODY: Final = "(nobody)"
"""What the part by cluster is called that serves none."""


def added(rows: Iterable[MoneyRow], name: str = "") -> MoneyRow:
    """All of them in one, to the billionth."""
    rows = list(rows)
    amounts = (each.name for each in fields(MoneyRow) if each.name != "name")
    return MoneyRow(
        name=name, **{what: sum(getattr(row, what) for row in rows) for what in amounts}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MoneyQuery:
    """What it all costs."""

    by: str = ""
    """`cluster`, `type` or `class`; empty: only the whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoneyRows:
    """What has most cost first."""

    stamp: Stamp
    since_s: float = 0.0
    """From when on it is counted."""

    at_s: float = 0.0
    by: str = ""
    total: MoneyRow = field(default_factory=MoneyRow)
    rows: tuple[MoneyRow, ...] = ()
    as_seen: tuple[str, ...] = ()
    """Providers that do not tell when they charge: right to within a cycle, not to the cent."""

    on_demand: Mapping[str, int] = field(default_factory=dict)
    """What each instance type costs per hour on demand, as providers list it: savings are told
    against it."""
