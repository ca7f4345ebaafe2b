"""A provider in this process: the same server, without a transport."""

import dataclasses

from mainstay.model.batch import MachineBatch, batch_of
from mainstay.model.calls import (
    Ack,
    ConfigureRequest,
    CreateRequest,
    DeleteRequest,
    DrainRequest,
    GetRequest,
    ListRequest,
    ProviderCalls,
)
from mainstay.model.machine import Machine


class LocalProvider:
    """What a shard calls, answered by a server in this process."""

    def __init__(self, server: ProviderCalls) -> None:
        self._server = server

    async def create(self, request: CreateRequest) -> Ack:
        """Begin to make hardware of a quota slot."""
        return await self._server.create(request)

    async def configure(self, request: ConfigureRequest) -> Ack:
        """Begin to join an idle machine to a cluster."""
        return await self._server.configure(request)

    async def drain(self, request: DrainRequest) -> Ack:
        """Begin to empty a machine and take it out of its cluster."""
        return await self._server.drain(request)

    async def delete(self, request: DeleteRequest) -> Ack:
        """Begin to give hardware back."""
        return await self._server.delete(request)

    async def get(self, request: GetRequest) -> Machine:
        """One machine."""
        return await self._server.get(request)

    async def list(self, request: ListRequest) -> MachineBatch:
        """All machines, or all that changed: no message has to be cut here."""
        answer = await self._server.list(ListRequest(request.states, request.since))
        batch = batch_of(
            answer.machines,
            source=self._server.source,
            full=answer.full,
            tombstones=answer.tombstones,
        )
        return dataclasses.replace(batch, cursor=answer.cursor, notices=answer.notices)
