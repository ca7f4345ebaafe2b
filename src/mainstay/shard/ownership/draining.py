"""Machines that are drained for another shard: promised first, then drained, then given.

A promise ends, also when nobody asks for it any more. Whatever is Idle by then is given, the rest
stays. One that is called off drains nothing more.
"""

import dataclasses
from typing import Final

from mainstay.model.action import Action, ActionKind
from mainstay.model.coordination import CrossShardDrain, Handed
from mainstay.model.ids import MachineId
from mainstay.model.need import Need, NeedProfile
from mainstay.model.state import State
from mainstay.shard.events import Event
from mainstay.shard.money.risk import at_risk_of
from mainstay.shard.orders import Order
from mainstay.shard.ownership import choosing
from mainstay.shard.ownership.giving import CALLED_OFF, Giving
from mainstay.shard.ownership.keeping import Keeping, OwnershipTools
from mainstay.shard.ownership.owned import (
    Done,
    Promise,
    Victim,
    promised,
    unpromised,
)

PROMISE_S: Final = 900.0
"""How long a promise stands."""

UNASKED_S: Final = 300.0
"""A promise for which nobody has asked so long is dropped."""

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
        self._asked_s: dict[str, float] = {}
        """When each promise was asked for last, or seen first in this life."""

    async def drain(self, instruction: str, asked: CrossShardDrain) -> Done | None:
        """Empty machines and give them; None as long as that takes."""
        self._asked_s[instruction] = self._tools.clock.elapsed_s()
        promise = self._keeping.owned.promise_of(instruction)
        called_off = asked.wanted.machines_max == 0
        if called_off:
            promise = promise and await self._trimmed(promise)
            if promise is None:
                to = asked.to_shard
                return await self._giving.give(instruction, to, (), State.IDLE, why=CALLED_OFF)
        elif promise is None:
            promise = await self._promise(instruction, asked)
        if promise is None:
            return None
        waits = self._tools.clock.now_s() < promise.until_s
        if waits and any(self._is_awaited(each.handed.machine) for each in promise.victims):
            self._order_all()
            return None
        names = [each.handed.machine for each in promise.victims]
        why = CALLED_OFF if called_off else ""
        return await self._giving.give(instruction, promise.to, names, State.IDLE, why=why)

    async def _trimmed(self, promise: Promise) -> Promise:
        """Without what still serves and is in nobody's hands: it is not drained any more."""
        ledger = self._tools.ledger
        victims = tuple(
            each
            for each in promise.victims
            if each.handed.machine in ledger or not self._stands(each.handed.machine, TO_DRAIN)
        )
        trimmed = dataclasses.replace(promise, victims=victims)
        if trimmed != promise:
            await self._keeping.keep(promised(self._keeping.owned, trimmed))
        return trimmed

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

    async def sweep(self) -> None:
        """Drop what nobody asks for any more, and have drained what is promised and serves."""
        now_s, owned = self._tools.clock.elapsed_s(), self._keeping.owned
        self._asked_s = {
            each.instruction: self._asked_s.get(each.instruction, now_s) for each in owned.promises
        }
        unasked = {name for name, at_s in self._asked_s.items() if now_s - at_s >= UNASKED_S}
        if unasked:
            await self._keeping.keep(unpromised(owned, unasked))
        self._order_all()

    def _order_all(self) -> None:
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
            at_risk_dollars=at_risk_of(record.assignment),
        )


def _need(promise: Promise) -> Need:
    return Need(
        cluster=choosing.cluster_of(promise.instruction),
        profile=NeedProfile(priority=promise.priority),
        aggregate={},
        min_unit={},
    )
