"""What makes two machines interchangeable: type, zone, capacity type, resources, labels."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from typing_extensions import override

from mainstay.model.resources import NO_RESOURCES, Resources

INSTANCE_TYPE_KEY: Final = "node.kubernetes.io/instance-type"
ZONE_KEY: Final = "topology.kubernetes.io/zone"

Labels = tuple[tuple[str, str], ...]
"""(key, value) pairs sorted by key; each key once."""


class CapacityType(IntEnum):
    """What holding a machine costs; decides how long it may idle and whether it is ever deleted."""

    UNSPECIFIED = 0
    BARE_METAL = 1
    RESERVED = 2
    ON_DEMAND = 3
    SPOT = 4

    @override
    def __str__(self) -> str:
        return "".join(word.capitalize() for word in self.name.split("_"))

    @override
    def __format__(self, format_spec: str) -> str:
        return format(str(self), format_spec)


@dataclass(frozen=True, slots=True)
class HostRef:
    """The hardware behind a machine: whose it is and what they call it."""

    provider: str
    ref: str


@dataclass(frozen=True, slots=True)
class Profile:
    """The attributes a need can ask for. Equal profiles are equal inputs to every decision."""

    instance_type: str
    zone: str = ""
    capacity_type: CapacityType = CapacityType.UNSPECIFIED
    resources: Resources = NO_RESOURCES
    labels: Labels = ()

    def __post_init__(self) -> None:
        ordered = tuple(sorted(self.labels))
        if ordered != self.labels:
            object.__setattr__(self, "labels", ordered)

    def attribute(self, key: str) -> str | None:
        """The value a requirement on `key` looks at; the two well-known keys are fields first."""
        if key == INSTANCE_TYPE_KEY and self.instance_type:
            return self.instance_type
        if key == ZONE_KEY and self.zone:
            return self.zone
        return dict(self.labels).get(key)


def labels_of(labels: Mapping[str, str]) -> Labels:
    """Labels in their canonical order."""
    return tuple(sorted(labels.items()))
