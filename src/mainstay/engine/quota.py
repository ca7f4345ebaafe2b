"""How much may be held: per cluster, and per provider and region. What is not named is free."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from mainstay.model.errors import Rejected
from mainstay.model.ids import ClusterId

REGION_KEY: Final = "topology.kubernetes.io/region"

Place = tuple[str, str]
"""(provider, region): the source that reports a machine, and its region or ""."""


@dataclass(frozen=True, slots=True)
class Quota:
    """The numbers a shard holds. They limit what is acquired, never what is kept."""

    machines: Mapping[ClusterId, int]
    """Most machines a cluster may hold: Configured, Configuring, created or drained for it."""

    slots: Mapping[Place, int]
    """Most machines a provider may have in a region that are more than a speculative slot."""

    def __post_init__(self) -> None:
        for name in ("machines", "slots"):
            held = dict(getattr(self, name))
            for key, count in held.items():
                if count < 0:
                    raise Rejected(f"quota of {key} must not be negative: {count}")
            object.__setattr__(self, name, MappingProxyType(held))


NO_QUOTA: Final = Quota({}, {})
"""Nothing is limited."""
