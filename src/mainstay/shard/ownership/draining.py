"""Machines that are drained for another shard: promised first, then drained, then given.

A promise ends. Whatever is Idle by then is given, the rest stays.
"""

from typing import Final

from mainstay.model.action import Action, ActionKind
from mainstay.model.coordination import CrossShardDrain, Handed
from mainstay.model.ids import MachineId
from mainstay.model.need import Need, NeedProfile
from mainstay.model.state import State
from mainstay.shard.events import Event
from mainstay.shard.orders import Order
from mainstay.shard.ownership import choosing
from mainstay.shard.ownership.giving import Giving
from mainstay.shard.ownership.keeping import Keeping, OwnershipTools
from mainstay.shard.ownership.owned import Done, Promise, Victim, promised

PROMISE_S: Final = 900.0
"""How long a promise stands."""

TO_DRAIN: Final = frozenset({State.CONFIGURED})
ON_THEIR_WAY: Final = frozenset({State.CONFIGURED, State.DRAINING})


class Draining:
    """Keeps promises."""

    def __init__(
        self, tools: OwnershipTools, keeping: Keeping, giving: Giving, *, promise_s: float
    ) -> None:
        self._tools = tools
        self._keeping = keeping
        self._giving = giving
        self._promise_s = promise_s

    async def drain(self, instruction: str, asked: CrossShardDrain) -> Done | None:
        """Empty machines and give them; None as long as that takes."""
        promise = self._keeping.owned.promise_of(instruction)
        if promise is None:
            promise = await self._promise(instruction, asked)
        if promise is None:
            return None
        waits = self._tools.clock.now_s() < promise.until_s
        if waits and any(self._is_awaited(each.handed.machine) for each in promise.victims):
            self.sweep()
            return None
        names = [each.handed.machine for each in promise.victims]
        return await self._giving.give(instruction, promise.to, names, State.IDLE)

    async def _promise(self, instruction: str, asked: CrossShardDrain) -> Promise | None:
        """Choose, and remember; nothing is drained that is not written down."""
        tools, keeping, wanted = self._tools, self._keeping, asked.wanted
        need = choosing.need_of(instruction, wanted, asked.preemptor_priority)
        on = self._giving.ground()
        if on is None:
            return None
        chosen = await tools.aside(lambda: choosing.victims(on, need, wanted))
        victims = []
        for name, grace_s in ((each.machine, each.grace_s) for each in chosen):
            if name in tools.inventory and name not in tools.ledger:
                domain = keeping.owned.domain_of(name, tools.inventory.machine(name).profile)
                victims.append(Victim(Handed(name, tools.inventory.source(name), domain), grace_s))
        promise = Promise(
            instruction=instruction,
            to=asked.to_shard,
            victims=tuple(victims),
            priority=asked.preemptor_priority,
            until_s=tools.clock.now_s() + self._promise_s,
        )
        if victims:
            await keeping.keep(promised(keeping.owned, promise))
            names = [each.handed.machine for each in victims]
            keeping.tell(Event.MACHINE_PROMISED, names, to=asked.to_shard)
        return promise

    def sweep(self) -> None:
        """Have drained what is promised and still serves."""
        now_s = self._tools.clock.now_s()
        orders = [
            self._order(promise, victim)
            for promise in self._keeping.owned.promises
            if promise.until_s > now_s
            for victim in promise.victims
            if self._stands(victim.handed.machine, TO_DRAIN)
        ]
        if orders:
            self._tools.executor.also(orders)

    def _is_awaited(self, machine: MachineId) -> bool:
        return self._stands(machine, ON_THEIR_WAY) or machine in self._tools.ledger

    def _stands(self, machine: MachineId, states: frozenset[State]) -> bool:
        inventory = self._tools.inventory
        return machine in inventory and inventory.machine(machine).state in states

    def _order(self, promise: Promise, victim: Victim) -> Order:
        """A preemption like any other; its need is another shard's."""
        tools, handed = self._tools, victim.handed
        record = tools.inventory.machine(handed.machine)
        published = tools.published()
        need = _need(promise)
        return Order(
            action=Action(
                ActionKind.PREEMPT, handed.machine, record.cluster, need.ref, victim.grace_s
            ),
            need=need,
            cycle=published.cycle if published else 0,
            source=handed.provider,
            price_per_hour=record.price_per_hour,
        )


def _need(promise: Promise) -> Need:
    return Need(
        cluster=choosing.cluster_of(promise.instruction),
        profile=NeedProfile(priority=promise.priority),
        aggregate={},
        min_unit={},
    )
