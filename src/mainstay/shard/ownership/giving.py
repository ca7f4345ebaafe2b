"""Machines that change hands: chosen by the donor, named to the recipient."""

from collections.abc import Sequence
from typing import Final

from mainstay.model.coordination import (
    Handed,
    Outcome,
    ReassignSpeculative,
    TransferOwnership,
)
from mainstay.model.errors import Rejected
from mainstay.model.ids import MachineId, ShardId, is_id
from mainstay.model.state import State
from mainstay.shard.events import Event
from mainstay.shard.ownership import choosing
from mainstay.shard.ownership.choosing import Ground
from mainstay.shard.ownership.keeping import Keeping, OwnershipTools, joined
from mainstay.shard.ownership.owned import Done, finished, given, taken
from mainstay.shard.ownership.report import check_strays
from mainstay.shard.ownership.standing import Standing

Transfer = TransferOwnership | ReassignSpeculative

COMING_S: Final = 120.0
"""A machine that was taken is waited for so long."""

CALLED_OFF: Final = "it was called off"


class Giving:
    """Gives machines away, and takes them."""

    def __init__(self, tools: OwnershipTools, keeping: Keeping, standing: Standing) -> None:
        self._tools = tools
        self._keeping = keeping
        self._standing = standing
        self._coming: dict[MachineId, tuple[str, float]] = {}
        """Machines that were taken and not seen yet: whose, and since when."""

    def coming(self) -> frozenset[str]:
        """Providers of machines that are ours and that nobody has seen yet."""
        tools, now_s = self._tools, self._tools.clock.elapsed_s()
        self._coming = {
            name: (provider, since_s)
            for name, (provider, since_s) in self._coming.items()
            if name not in tools.inventory
            and now_s - since_s < COMING_S
            and tools.reconciler.heard.denied_at_s(name) < since_s
        }
        machines = {provider for provider, _ in self._coming.values()}
        domains = tools.sources - tools.reconciler.heard.listed_since(tools.holdings.since_s)
        return frozenset(machines | domains)

    async def transfer(self, instruction: str, asked: Transfer) -> Done | None:
        """As donor or as recipient; None while there is no plan to choose by."""
        if asked.to_shard == self._tools.shard:
            return await self.take(instruction, asked.machines)
        if asked.from_shard != self._tools.shard:
            raise Rejected(
                f"this is shard {self._tools.shard}, and the transfer is from "
                f"{asked.from_shard!r} to {asked.to_shard!r}"
            )
        state = State.IDLE if isinstance(asked, TransferOwnership) else State.SPECULATIVE
        if asked.wanted is not None and asked.wanted.machines_max == 0:
            return await self.give(instruction, asked.to_shard, (), state, why=CALLED_OFF)
        on = self.ground()
        if on is None:
            return None
        chosen = await self._choose(instruction, asked, on, state)
        return await self.give(instruction, asked.to_shard, chosen, state)

    async def _choose(
        self, instruction: str, asked: Transfer, on: Ground, state: State
    ) -> list[MachineId]:
        aside, wanted = self._tools.aside, asked.wanted
        if wanted is not None:
            need = choosing.need_of(instruction, wanted)
            return await aside(lambda: choosing.spare(on, need, wanted, state))
        named = [each.machine for each in asked.machines]
        return await aside(lambda: choosing.unclaimed(on, named, state))

    def ground(self) -> Ground | None:
        """What is chosen on; None before the first cycle."""
        tools, published = self._tools, self._tools.published()
        if published is None:
            return None
        plan, demand = published.plan, published.plan.demand
        barred = joined(demand.barred, self._standing.barred())
        demand = type(demand)(demand.needs, demand.heard, demand.quota, barred)
        excluded = tools.ledger.held() | self._standing.promised
        return choosing.ground(plan, tools.inventory.snapshot(), demand, excluded)

    async def give(
        self,
        instruction: str,
        to: ShardId,
        chosen: Sequence[MachineId],
        state: State,
        *,
        why: str = "",
    ) -> Done:
        """Let go of what of these is still free, and answer which that was, or `why` none was."""
        tools, keeping, owned = self._tools, self._keeping, self._keeping.owned
        handed: list[Handed] = []
        for name in chosen:
            if name not in tools.inventory:
                continue
            record = tools.inventory.machine(name)
            leaving = name in owned.here and owned.here[name].leaving
            if record.state is state and not leaving and tools.ledger.take(name):
                domain = owned.domain_of(name, record.profile)
                handed.append(Handed(name, tools.inventory.source(name), domain))
        names = tuple(each.machine for each in handed)
        none = why or f"no {state} machine of that kind can be spared"
        moved = await keeping.lower(keeping.counts_for(names), in_hand=names)
        done = Done(
            instruction=instruction,
            outcome=Outcome.ACCEPTED,
            reason="" if handed else none,
            given=tuple(handed),
            quota=moved,
        )
        await keeping.keep(finished(given(owned, handed), done), in_hand=names)
        await keeping.let_go(names, "given")
        keeping.tell(Event.MACHINE_GIVEN, names, reason=state.name.lower(), to=to)
        tools.wake()
        return done

    async def take(self, instruction: str, machines: Sequence[Handed]) -> Done:
        """Have these machines from now on, and ask for them."""
        tools, keeping, owned = self._tools, self._keeping, self._keeping.owned
        for name, provider, _ in machines:
            if provider not in tools.sources and not (name in owned.away and not provider):
                raise Rejected(
                    f"machine {name[:80]} is of provider {provider[:80]!r}, which this shard does "
                    "not have; hand over machines of providers that both have"
                )
            if not is_id(name):
                raise Rejected(f"not a machine id: {name[:80]!r}")
        done = Done(instruction=instruction, outcome=Outcome.ACCEPTED)
        new = taken(owned, machines)
        check_strays(new)
        await keeping.keep(finished(new, done))
        for name, provider, _ in machines:
            if name not in tools.ledger:
                tools.ledger.touch(name)
            if provider:
                tools.reconciler.owe(name, provider)
                self._coming[name] = provider, tools.clock.elapsed_s()
        keeping.tell(Event.MACHINE_TAKEN, [each.machine for each in machines])
        tools.wake()
        return done
