"""A running shard as its uplink knows it: what it leaves is read, and no cycle is waited for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mainstay.model.coordination import (
    AssignDomain,
    Grant,
    Handed,
    InstructAck,
    Instruction,
    Missing,
    ProviderLine,
    QuotaOf,
    ShardReport,
    Stray,
    UnassignDomain,
)
from mainstay.model.ids import ShardId
from mainstay.runtime.aside import Aside
from mainstay.runtime.clock import Clock
from mainstay.shard.answers.live import LiveShard
from mainstay.shard.facts import Health, ProviderFacts, Published
from mainstay.shard.ownership import report as figures
from mainstay.shard.ownership.holder import Holder
from mainstay.shard.ownership.owned import Owned
from mainstay.shard.ownership.quota import HeldQuota
from mainstay.shard.ownership.strays import Told
from mainstay.uplink.ports import Measured

NANOS: Final = 1_000_000_000


CYCLES_TO_KNOW: Final = 2
"""After so many more cycles what was listed has been taken in for certain."""


class _Named(NamedTuple):
    """What a report names of what is owned."""

    owned: Owned
    strays: tuple[Stray, ...]
    away: tuple[Handed, ...]
    told: Told


@dataclass(slots=True, kw_only=True)
class LiveSide:
    """Implements `mainstay.uplink.ports.ShardSide`."""

    live: LiveShard
    holder: Holder
    quota: HeldQuota
    address: str
    """Where others reach the shard."""

    providers: Mapping[str, str]
    """The address of each, by name."""

    clock: Clock
    aside: Aside
    _listed_in: int | None = field(default=None, init=False)
    """The cycle after which every provider had been listed in this life."""

    _named: "_Named | None" = field(default=None, init=False)
    """What the last report named, as long as nothing changes."""

    _told: Told = field(default=frozenset(), init=False)
    """The strays that the last report named which was answered, and where they lay."""

    _moved: Mapping[QuotaOf, int] = field(default_factory=dict, init=False)
    """What quota had gone with machines at the last report: an answer knows of no more."""

    @property
    def term(self) -> int:
        """The highest term it has heard."""
        return self.holder.owned.term

    @property
    def strays(self) -> int:
        """How many machines it has outside its domains."""
        return len(self.holder.owned.here)

    async def hear_term(self, term: int) -> None:
        """Remember a higher term."""
        await self.holder.hear_term(term)

    async def measured(self) -> Measured:
        """The heavy part of a report, counted beside the loop."""
        snapshot, published = self.live.inventory.snapshot(), self.live.published
        tally = self.quota.tallying()

        def count() -> Measured:
            return Measured(
                summary=figures.summary(snapshot),
                missing=_missing(published),
                tally=tally(),
            )

        return await self.aside(count)

    def report(self, measured: Measured) -> ShardReport:
        """As it stands at this moment."""
        owned = self.holder.owned
        if self._named is None or self._named.owned is not owned:
            self._named = _Named(
                owned,
                figures.strays(owned),
                figures.away(owned),
                frozenset((name, stray.domain) for name, stray in owned.here.items()),
            )
        self._moved = self.quota.moved
        return ShardReport(
            shard=ShardId(self.live.shard_id),
            at_ns=int(self.clock.now_s() * NANOS),
            epoch=self.live.epoch,
            summary=measured.summary,
            missing=measured.missing,
            address=self.address,
            can_hand_over=True,
            term_seen=owned.term,
            clusters=tuple(sorted(self.live.connected())),
            takes_all=owned.domains is None,
            domains=figures.domains(owned),
            strays=self._named.strays,
            providers=tuple(ProviderLine(*each) for each in sorted(self.providers.items())),
            quota=self.quota.lines(measured.tally),
            away=self._named.away,
        )

    def settled(self, instruction: str) -> InstructAck | None:
        """What was answered to an instruction that was carried out before."""
        done = self.holder.owned.answer_to(instruction)
        return None if done is None else done.ack

    def last_settled(self, count: int) -> Sequence[InstructAck]:
        """The last so many, the oldest first."""
        return [done.ack for done in self.holder.owned.done[-count:]]

    async def carry_out(self, instruction: Instruction) -> InstructAck | None:
        """What became of it; None: not yet.

        To let go of a domain one must know what serves there, and after a start nobody does until
        every provider was listed once.
        """
        if self._lets_go(instruction) and not self._knows_all():
            return None
        return await self.holder.carry_out(instruction)

    async def hear_grants(self, grants: Sequence[Grant]) -> None:
        """What it may hold. The last report was answered: what it named is known."""
        if self._named is not None:
            self._told = self._named.told
        await self.quota.hear(grants, since=self._moved, coming=self.holder.coming)

    async def sweep(self) -> None:
        """Let go of what is free to go, and drop what nobody has."""
        await self.holder.sweep(self._told)

    def _lets_go(self, instruction: Instruction) -> bool:
        """Whether it takes domains away, or narrows a shard that takes everything."""
        payload = instruction.payload
        narrows = isinstance(payload, AssignDomain) and self.holder.owned.domains is None
        return narrows or isinstance(payload, UnassignDomain)

    def _knows_all(self) -> bool:
        """Whether what every provider lists was taken in, in this life."""
        published = self.live.published
        if published is None:
            return False
        if self._listed_in is None and all(map(_was_listed, self.live.providers())):
            self._listed_in = published.cycle
        listed = self._listed_in
        return listed is not None and published.cycle >= listed + CYCLES_TO_KNOW


def _was_listed(provider: ProviderFacts) -> bool:
    return provider.health is Health.ANSWERING or provider.listed_at_s > 0


def _missing(published: Published | None) -> tuple[Missing, ...]:
    """What it is short of; nothing while the machines that may serve it are not known again."""
    if published is None or published.unlisted:
        return ()
    return figures.missing(published.plan)
