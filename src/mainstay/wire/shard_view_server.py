"""A shard's read and control services on the network: bytes in, one typed call, bytes out.

Thin: whatever is checked about a request is checked behind `ShardViewCalls` and
`ShardControlCalls`. Only who may call is decided here, because only here is it known who calls.
"""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, NoReturn, TypeAlias

import grpc

from mainstay.model import money_views as m
from mainstay.model import questions as q
from mainstay.model import views as v
from mainstay.model.errors import MainstayError
from mainstay.model.group_views import GroupQuery, GroupRows
from mainstay.wire.access import Rule, authorize, rule_of
from mainstay.wire.provider_server import DETAILS_LENGTH_MAX
from mainstay.wire.shard_view_codec import from_bytes, to_bytes
from mainstay.wire.status import grpc_code, trailer
from mainstay.wire.tls import Identity, caller

VIEW_SERVICE: Final = "mainstay.v1.ShardView"
CONTROL_SERVICE: Final = "mainstay.v1.ShardControl"

Context = grpc.aio.ServicerContext[bytes, bytes]
Handler: TypeAlias = "grpc.RpcMethodHandler[bytes, bytes]"


QUERIES: Final[dict[str, tuple[type[Any], type[Any]]]] = {
    "Needs": (v.NeedQuery, v.NeedRows),
    "Clusters": (v.ClusterQuery, v.ClusterRows),
    "Actions": (v.ActionQuery, v.ActionRows),
    "Shortfalls": (v.ShortfallQuery, v.ShortfallRows),
    "Providers": (v.ProviderQuery, v.ProviderRows),
    "Controls": (v.ControlQuery, v.ControlRows),
    "Summary": (v.SummaryQuery, v.Summary),
    "Money": (m.MoneyQuery, m.MoneyRows),
    "Explain": (q.Question, q.Explanation),
    "WhatIf": (q.WhatIfQuery, q.WhatIfAnswer),
    "Groups": (GroupQuery, GroupRows),
}
"""Every call of ShardView but Machines: what it takes and what it answers."""

ORDERS: Final[dict[str, tuple[type[Any], type[Any]]]] = {
    "SetControl": (q.SetControlRequest, v.ControlRow),
    "LiftControl": (q.LiftControlRequest, v.ControlRow),
    "Retire": (q.RetireRequest, q.Retired),
}
"""Every call of ShardControl."""


def view_handler(calls: q.ShardViewCalls) -> grpc.GenericRpcHandler:
    """The service ShardView, for `mainstay.wire.transport.serving`."""
    methods: dict[str, Handler] = {
        "Machines": grpc.unary_stream_rpc_method_handler(_machines(calls))
    }
    for name, (asked, _) in QUERIES.items():
        rule = rule_of(VIEW_SERVICE, name)
        methods[name] = _unary(getattr(calls, method_of(name)), asked, rule)
    return grpc.method_handlers_generic_handler(VIEW_SERVICE, methods)


def control_handler(calls: q.ShardControlCalls) -> grpc.GenericRpcHandler:
    """The service ShardControl."""
    methods = {
        name: _unary(getattr(calls, method_of(name)), asked, rule_of(CONTROL_SERVICE, name))
        for name, (asked, _) in ORDERS.items()
    }
    return grpc.method_handlers_generic_handler(CONTROL_SERVICE, methods)


def method_of(name: str) -> str:
    """The method of ours behind a call: `WhatIf` is `what_if`."""
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in name).lstrip("_")


def _unary(call: Callable[[Any], Awaitable[object]], asked: type[Any], rule: Rule) -> Handler:
    async def handle(data: bytes, context: Context) -> bytes:
        try:
            identity = caller(context)
            authorize(rule, identity)
            return to_bytes(await call(signed(from_bytes(asked, data), identity)))
        except MainstayError as error:
            await refuse(context, error)

    return grpc.unary_unary_rpc_method_handler(handle)


def signed(request: Any, identity: Identity | None) -> Any:
    """Where an order says who gives it, a certificate knows better. Orders have a reason; a
    question may mean something else by `by`.
    """
    if identity is None or not (hasattr(request, "by") and hasattr(request, "reason")):
        return request
    return dataclasses.replace(request, by=identity.uri)


def _machines(calls: q.ShardViewCalls) -> Callable[[bytes, Context], AsyncIterator[bytes]]:
    rule = rule_of(VIEW_SERVICE, "Machines")

    async def handle(data: bytes, context: Context) -> AsyncIterator[bytes]:
        try:
            authorize(rule, caller(context))
            async for chunk in calls.machines(from_bytes(v.MachineQuery, data)):
                yield await asyncio.to_thread(to_bytes, chunk)
        except MainstayError as error:
            await refuse(context, error)

    return handle


async def refuse(context: Context, error: MainstayError) -> NoReturn:
    """End a call with the status of an error."""
    await context.abort(grpc_code(error), error.message[:DETAILS_LENGTH_MAX], trailer(error))
