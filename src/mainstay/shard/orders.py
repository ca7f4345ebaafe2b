"""An action on its way from the plan to a provider, and what is written down about it."""

from dataclasses import dataclass
from typing import NamedTuple

from mainstay.model.action import Action, ActionKind
from mainstay.model.need import Need
from mainstay.shard.outcomes import Disposition, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One action with all that carrying it out takes. It dies with the next plan."""

    action: Action
    need: Need | None
    """The need it is for; every acquisition has one."""

    cycle: int
    """The cycle that decided it."""

    source: str
    """The provider through which it goes."""

    price_per_hour: float = 0.0
    """Of its machine: what doing it costs or saves."""

    at_risk_dollars: float = 0.0
    """What the workload of a drained machine loses, by the greater of its penalties."""

    @property
    def saved_per_hour(self) -> float:
        """What nobody pays any more, or what the need it is drained for does not have to buy."""
        drained = self.action.kind in {ActionKind.PREEMPT, ActionKind.RECLAIM}
        return self.price_per_hour if drained else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Disposed:
    """What became of one order: a record of the audit log."""

    order: Order
    disposition: Disposition
    reason: str = ""
    """Why it was not executed, as a bounded word: `pause`, `cap`, `limit`, `back_off`, ..."""

    outcome: Outcome | None = None
    """Of an executed one."""

    cycle: int = 0
    """The cycle that was current when it ended."""

    detail: str = ""
    """For people: the provider's or the cluster's own words."""

    seconds: float = 0.0
    """How long it was in our hands."""


class Told(NamedTuple):
    """A record and when it was made."""

    at_s: float
    disposed: Disposed
