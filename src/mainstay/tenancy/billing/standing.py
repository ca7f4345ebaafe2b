"""How an account stands, and what its payer is to be told of it. Pure."""

from dataclasses import dataclass
from enum import StrEnum

from mainstay.tenancy.billing.charge import HOUR_S


class State(StrEnum):
    """Derived from the ledger and from what is running; stored nowhere."""

    HEALTHY = "healthy"
    LOW = "low_balance"
    """At the account's threshold or below."""

    PENDING = "auto_release_pending"
    """What is running will use it up soon."""

    DEPLETED = "depleted"
    """Nothing left: what is running is released, nothing new is started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """An account at one moment."""

    account: str
    currency: str
    balance_minor: int
    low_minor: int
    """The threshold that its payer chose."""

    hour_minor: int
    """What everything that is active costs per hour."""

    @property
    def is_low(self) -> bool:
        """At the threshold or below; with nothing left it is low whatever the threshold."""
        return self.balance_minor <= max(self.low_minor, 0)

    @property
    def is_depleted(self) -> bool:
        """Nothing is left."""
        return self.balance_minor <= 0

    @property
    def lasts_s(self) -> int | None:
        """For how long the balance lasts if nothing changes; None: for ever."""
        if self.hour_minor == 0:
            return None
        return max(self.balance_minor, 0) * HOUR_S // self.hour_minor

    def is_pending(self, pending_s: int) -> bool:
        """Whether it will be used up within `pending_s`, and is not yet."""
        lasts = self.lasts_s
        return not self.is_depleted and lasts is not None and lasts <= pending_s

    def state(self, pending_s: int) -> State:
        """The worst that is true of it."""
        if self.is_depleted:
            return State.DEPLETED
        if self.is_pending(pending_s):
            return State.PENDING
        return State.LOW if self.is_low else State.HEALTHY


class Step(StrEnum):
    """What happens to an account's episode."""

    END = "end"
    BEGIN = "begin"
    WARN = "warn"
    PEND = "pend"
    DEPLETE = "deplete"


def steps(standing: Standing, told: frozenset[Step] | None, pending_s: int) -> tuple[Step, ...]:
    """What to do now. `told` is what the open episode has told already; None: there is none.

    Each thing is told once per episode. An episode is over when the account is healthy, or when
    something graver that was told is no longer true: money came. What is still true then begins
    the next one, and is told again.
    """
    healthy = standing.state(pending_s) is State.HEALTHY
    over = told is not None and (healthy or _is_past(standing, told))
    found = [Step.END] if over else []
    if healthy:
        return tuple(found)
    if told is None or over:
        found.append(Step.BEGIN)
        told = frozenset()
    true_now = {
        Step.WARN: standing.is_low,
        Step.PEND: standing.is_pending(pending_s),
        Step.DEPLETE: standing.is_depleted,
    }
    return (*found, *(step for step, true in true_now.items() if true and step not in told))


def _is_past(standing: Standing, told: frozenset[Step]) -> bool:
    return (Step.DEPLETE in told and not standing.is_depleted) or (
        Step.WARN in told and not standing.is_low
    )
