"""The few knobs of the engine. Everything else that decides is a constant."""

from dataclasses import dataclass

from mainstay.model.errors import Rejected
from mainstay.model.profile import CapacityType


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Part of the audit line of every decision."""

    hold_on_demand_s: float = 600.0
    """How long an on-demand machine may idle before it is given back; 0 keeps it for good."""

    hold_spot_s: float = 60.0
    """How long a spot machine may idle before it is given back; 0 keeps it for good."""

    park_after: int = 8
    """Cycles without hope after which a gang stops trying."""

    reprobe_every: int = 32
    """A parked gang tries again every so many cycles."""

    def __post_init__(self) -> None:
        if self.hold_on_demand_s < 0 or self.hold_spot_s < 0:
            raise Rejected("holds must not be negative")
        if self.park_after < 1 or self.reprobe_every < 1:
            raise Rejected("park_after and reprobe_every must be at least 1")

    def hold_s(self, capacity_type: CapacityType) -> float:
        """How long a machine of this type may idle; 0 is for good, as for bare metal always."""
        holds = {
            CapacityType.ON_DEMAND: self.hold_on_demand_s,
            CapacityType.SPOT: self.hold_spot_s,
        }
        return holds.get(capacity_type, 0.0)

    def is_parked(self, age: int) -> bool:
        """Whether a gang that has aged so far sits this cycle out."""
        return age >= self.park_after and age % self.reprobe_every != 0
