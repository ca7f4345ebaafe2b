"""Machines counted by an attribute, as a shard tells it: racks, zones, pools.

Field names are those of proto/mainstay/v1/shard.proto, as in mainstay.model.views.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mainstay.model.views import Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupQuery:
    """By which attribute: a label, or the key of zone or instance type."""

    attribute: str
    zone: str = ""
    limit: int = 0
    after: str = ""
    """Only values behind this one; what is matched is counted without it."""

    value: str = ""
    """Only this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """All machines with one value."""

    value: str
    machines: Mapping[str, int] = field(default_factory=dict)
    """By name of the state."""

    spend_per_hour: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRows:
    """By value; machines without the attribute are in none of them."""

    stamp: Stamp
    matched: int = 0
    rows: tuple[GroupRow, ...] = ()
