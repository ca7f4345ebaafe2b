"""Faults between a shard and its provider: lists that lie, acks that are old, late or lost.

They sit in front of the kit, not in it: the provider itself has done all it was asked.
"""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar

from mainstay.model.calls import (
    Ack,
    Call,
    Capabilities,
    ConfigureRequest,
    CreateRequest,
    DeleteRequest,
    DrainRequest,
    GetRequest,
    Listing,
    ListRequest,
    Mutation,
    ProviderCalls,
)
from mainstay.model.errors import Unavailable
from mainstay.model.machine import Machine
from mainstay.providers.sim.cloud import Cloud
from mainstay.providers.sim.faults import Fault

RequestT = TypeVar("RequestT", bound=Mutation)


class FaultyCalls:
    """The six calls of another server, seen through a bad line."""

    def __init__(self, server: ProviderCalls, cloud: Cloud) -> None:
        self._server = server
        self._cloud = cloud
        self._calls = 0
        self._acks: dict[str, Ack] = {}
        self._lists: dict[ListRequest, Listing] = {}

    @property
    def source(self) -> str:
        """The provider's name."""
        return self._server.source

    @property
    def capabilities(self) -> Capabilities:
        """What it declares."""
        return self._server.capabilities

    async def create(self, request: CreateRequest) -> Ack:
        """As the server, but for the line."""
        return await self._acked(self._server.create, request)

    async def configure(self, request: ConfigureRequest) -> Ack:
        """As the server, but for the line."""
        return await self._acked(self._server.configure, request)

    async def drain(self, request: DrainRequest) -> Ack:
        """As the server, but for the line."""
        return await self._acked(self._server.drain, request)

    async def delete(self, request: DeleteRequest) -> Ack:
        """As the server, but for the line."""
        return await self._acked(self._server.delete, request)

    async def get(self, request: GetRequest) -> Machine:
        """As the server, in its time."""
        await self._take(Call.GET)
        return await self._server.get(request)

    async def list(self, request: ListRequest) -> Listing:
        """As the server, but older, or with holes."""
        faults, dice = self._cloud.faults, await self._take(Call.LIST)
        answer = await self._server.list(request)
        stale = self._before(request, answer)
        if stale != answer and dice.random() < faults.stale_lists:
            self._cloud.struck(Fault.STALE_LIST)
            answer = stale
        kept = [each for each in answer.machines if dice.random() >= faults.partial_lists]
        if len(kept) < len(answer.machines):
            self._cloud.struck(Fault.PARTIAL_LIST)
            named = {machine.id for machine in kept}
            told = {name: word for name, word in answer.notices.items() if name in named}
            answer = dataclasses.replace(answer, machines=kept, notices=told)
        return answer

    def _before(self, request: ListRequest, now: Listing) -> Listing:
        """What the same question was answered earlier; of a delta, that nothing has changed."""
        if not now.full:
            return Listing(machines=[], full=False, cursor=request.since)
        asked = dataclasses.replace(request, since=b"")
        before = self._lists.get(asked, now)
        self._lists[asked] = now
        return before

    async def _acked(self, call: Callable[[RequestT], Awaitable[Ack]], request: RequestT) -> Ack:
        faults, dice = self._cloud.faults, self._dice()
        ack = await call(request)
        old, self._acks[request.machine] = self._acks.get(request.machine), ack
        if faults.late_acks_s:
            self._cloud.struck(Fault.LATE_ACK)
            await asyncio.sleep(dice.uniform(0.0, faults.late_acks_s))
        if dice.random() < faults.lost_acks:
            self._cloud.struck(Fault.LOST_ACK)
            raise Unavailable(f"simulated fault: no answer for machine {request.machine}")
        if old is not None and old != ack and dice.random() < faults.duplicate_acks:
            self._cloud.struck(Fault.DUPLICATE_ACK)
            return old
        return ack

    async def _take(self, call: Call) -> Random:
        """Wait as long as such a call takes to reach the provider."""
        dice, latency = self._dice(), self._cloud.spec.latencies.get(call)
        if latency is not None:
            await asyncio.sleep(latency.draw_s(dice))
        return dice

    def _dice(self) -> Random:
        self._calls += 1
        return self._cloud.random("line", self._calls)
