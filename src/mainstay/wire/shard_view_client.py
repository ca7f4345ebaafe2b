"""A shard across the network, as the command line and the dashboard ask it."""

from collections.abc import AsyncIterator
from typing import Any, Final, TypeVar

import grpc

from mainstay.model import money_views as m
from mainstay.model import questions as q
from mainstay.model import views as v
from mainstay.model.errors import MainstayError, Unavailable
from mainstay.model.group_views import GroupQuery, GroupRows
from mainstay.wire.shard_view_codec import from_bytes, to_bytes
from mainstay.wire.shard_view_server import CONTROL_SERVICE, ORDERS, QUERIES, VIEW_SERVICE
from mainstay.wire.status import CODE_KEY, error_from

TIMEOUT_S: Final = 10.0
"""Of a question that is answered from what is there."""

SLOW_TIMEOUT_S: Final = 60.0
"""Of one that takes further decisions, and of a whole list."""

_SLOW: Final = frozenset({"Explain", "WhatIf"})

AnswerT = TypeVar("AnswerT")


class RemoteShard:
    """`ShardViewCalls` and `ShardControlCalls` over gRPC. Raises only MainstayError."""

    def __init__(self, channel: grpc.aio.Channel, *, name: str) -> None:
        """`name` is how the shard is called in errors; the channel stays the caller's to close."""
        self._name = name
        self._machines: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(
            f"/{VIEW_SERVICE}/Machines"
        )
        paths = {call: f"/{VIEW_SERVICE}/{call}" for call in QUERIES}
        paths |= {call: f"/{CONTROL_SERVICE}/{call}" for call in ORDERS}
        self._methods: dict[str, grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]] = {
            call: channel.unary_unary(path) for call, path in paths.items()
        }

    async def machines(self, query: v.MachineQuery) -> AsyncIterator[v.MachineRows]:
        """Machines in order of their ids, in chunks."""
        try:
            async for chunk in self._machines(to_bytes(query), timeout=SLOW_TIMEOUT_S):
                yield from_bytes(v.MachineRows, chunk)
        except grpc.aio.AioRpcError as error:
            raise self._error(error) from error

    async def needs(self, query: v.NeedQuery) -> v.NeedRows:
        """Demand, and what became of it."""
        return await self._call("Needs", query, v.NeedRows)

    async def clusters(self, query: v.ClusterQuery) -> v.ClusterRows:
        """Who is served."""
        return await self._call("Clusters", query, v.ClusterRows)

    async def actions(self, query: v.ActionQuery) -> v.ActionRows:
        """What was done and what was not."""
        return await self._call("Actions", query, v.ActionRows)

    async def shortfalls(self, query: v.ShortfallQuery) -> v.ShortfallRows:
        """What is missing."""
        return await self._call("Shortfalls", query, v.ShortfallRows)

    async def providers(self, query: v.ProviderQuery) -> v.ProviderRows:
        """Through whom the shard acts."""
        return await self._call("Providers", query, v.ProviderRows)

    async def controls(self, query: v.ControlQuery) -> v.ControlRows:
        """What restricts it."""
        return await self._call("Controls", query, v.ControlRows)

    async def summary(self, query: v.SummaryQuery) -> v.Summary:
        """All of it in a few numbers."""
        return await self._call("Summary", query, v.Summary)

    async def money(self, query: m.MoneyQuery) -> m.MoneyRows:
        """What it costs and has cost."""
        return await self._call("Money", query, m.MoneyRows)

    async def explain(self, question: q.Question) -> q.Explanation:
        """Why."""
        return await self._call("Explain", question, q.Explanation)

    async def what_if(self, query: q.WhatIfQuery) -> q.WhatIfAnswer:
        """What would change if."""
        return await self._call("WhatIf", query, q.WhatIfAnswer)

    async def groups(self, query: GroupQuery) -> GroupRows:
        """Machines counted by the values of an attribute."""
        return await self._call("Groups", query, GroupRows)

    async def set_control(self, request: q.SetControlRequest) -> v.ControlRow:
        """Restrict it."""
        return await self._call("SetControl", request, v.ControlRow)

    async def lift_control(self, request: q.LiftControlRequest) -> v.ControlRow:
        """Lift a restriction."""
        return await self._call("LiftControl", request, v.ControlRow)

    async def retire(self, request: q.RetireRequest) -> q.Retired:
        """Give up a Failed machine."""
        return await self._call("Retire", request, q.Retired)

    async def _call(self, call: str, request: Any, answer: type[AnswerT]) -> AnswerT:
        timeout_s = SLOW_TIMEOUT_S if call in _SLOW else TIMEOUT_S
        try:
            data: bytes = await self._methods[call](to_bytes(request), timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            raise self._error(error) from error
        return from_bytes(answer, data)

    def _error(self, error: grpc.aio.AioRpcError) -> MainstayError:
        metadata = error.trailing_metadata() or ()
        told = error_from(error.code(), f"{self._name}: {error.details()}", metadata=metadata)
        if isinstance(told, Unavailable) and not any(key == CODE_KEY for key, _ in metadata):
            # No word of the shard's own: it was not reached.
            return Unavailable(f"{self._name} does not answer, is it running? ({error.details()})")
        return told
