"""A running shard as `mainstay.shard.answers.view` asks it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.machine import Machine
from mainstay.shard.answers.holds import Restraints
from mainstay.shard.answers.money import MoneyFacts
from mainstay.shard.answers.when import Outlook
from mainstay.shard.controls import Control, ControlKind
from mainstay.shard.facts import ProviderFacts, Published, SessionFacts
from mainstay.shard.orders import Told


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """How busy a shard is."""

    queued: int = 0
    in_flight: int = 0
    actions_per_minute: float = 0.0
    """Executed within the last minute."""


class Facts(Protocol):
    """A shard as its readers see it. Every value is frozen; nothing waits."""

    @property
    def shard_id(self) -> str:
        """Its name."""

    @property
    def epoch(self) -> int:
        """Which of its lives this is."""

    @property
    def published(self) -> Published | None:
        """What the last cycle left; None before the first."""

    def sessions(self) -> Sequence[SessionFacts]:
        """The connected clusters."""

    def providers(self) -> Sequence[ProviderFacts]:
        """Its providers."""

    def controls(self) -> Sequence[Control]:
        """The live controls in force."""

    def restraints(self) -> Restraints:
        """All that may hold it back, its configuration too."""

    def recent(self) -> Sequence[Told]:
        """What became of the last orders and when, the newest last."""

    def held_rollups(self) -> Mapping[ClusterId, int]:
        """Roll-ups in a row that were not believed, by cluster."""

    def activity(self) -> Activity:
        """How busy it is."""

    def money(self) -> MoneyFacts:
        """What it costs and has cost."""

    def outlook(self) -> Outlook:
        """What it knows about time."""

    def enough_after(self, seconds: float) -> Callable[[], bool] | None:
        """Says when so many seconds have passed; None where nobody counts them."""


class Live(Facts, Protocol):
    """A shard that can also be told something."""

    async def set_control(
        self,
        kind: ControlKind,
        *,
        cluster: ClusterId | None,
        value: float,
        reason: str,
        by: str,
        lasts_s: float,
    ) -> Control:
        """Hold something back; kept when this returns."""

    async def lift_control(
        self, kind: ControlKind, *, cluster: ClusterId | None, reason: str, by: str
    ) -> Control:
        """Take a control back before its time; kept when this returns."""

    def retire(self, machine: MachineId, *, reason: str, by: str) -> Machine:
        """Give up the record of a Failed machine; as it was. Rejected in any other state."""
