"""What people and tools ask of a coordinator, and tell it, on the network."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import grpc

from mainstay.model import coordinator_calls as c
from mainstay.model import coordinator_views as v
from mainstay.wire.coordinator_server import Body, guarded
from mainstay.wire.coordinator_view_codec import from_bytes, to_bytes
from mainstay.wire.shard_view_server import method_of, signed
from mainstay.wire.tls import Identity

VIEW_SERVICE: Final = "mainstay.v1.CoordinatorView"
CONTROL_SERVICE: Final = "mainstay.v1.CoordinatorControl"

Calls = Mapping[str, tuple[type[Any], type[Any]]]

QUERIES: Final[Calls] = {
    "Shards": (v.ShardQuery, v.ShardRows),
    "Domains": (v.DomainQuery, v.DomainRows),
    "Clusters": (v.ClusterBindingQuery, v.ClusterBindingRows),
    "Quotas": (v.QuotaQuery, v.QuotaRows),
    "Providers": (v.ProviderRegistryQuery, v.ProviderRegistryRows),
    "Instructions": (v.InstructionQuery, v.InstructionRows),
    "Moves": (v.MoveQuery, v.MoveRows),
    "Conflicts": (v.ConflictQuery, v.ConflictRows),
    "Plan": (v.PlanQuery, v.PlanRow),
    "Standing": (v.StandingQuery, v.StandingRow),
}
"""Every call of CoordinatorView: what it takes and what it answers."""

ORDERS: Final[Calls] = {
    "MoveDomain": (c.MoveDomainRequest, c.CoordinatorDone),
    "SetQuota": (c.SetQuotaRequest, c.CoordinatorDone),
    "ClearQuota": (c.ClearQuotaRequest, c.CoordinatorDone),
    "UnbindCluster": (c.UnbindClusterRequest, c.CoordinatorDone),
    "CancelMove": (c.CancelMoveRequest, c.CoordinatorDone),
    "ReturnMachines": (c.ReturnMachinesRequest, c.CoordinatorDone),
}
"""Every call of CoordinatorControl."""


def coordinator_view_handler(calls: c.CoordinatorViewCalls) -> grpc.GenericRpcHandler:
    """The service CoordinatorView, for `mainstay.wire.transport.serving`."""
    return _service(VIEW_SERVICE, QUERIES, calls)


def coordinator_control_handler(calls: c.CoordinatorControlCalls) -> grpc.GenericRpcHandler:
    """The service CoordinatorControl."""
    return _service(CONTROL_SERVICE, ORDERS, calls)


def _service(name: str, served: Calls, calls: c.Leads) -> grpc.GenericRpcHandler:
    methods = {
        call: guarded(calls, name, call, _body(getattr(calls, method_of(call)), asked))
        for call, (asked, _) in served.items()
    }
    return grpc.method_handlers_generic_handler(name, methods)


def _body(call: Callable[[Any], Awaitable[object]], asked: type[Any]) -> Body:
    async def body(data: bytes, by: Identity | None) -> bytes:
        answer = await call(signed(from_bytes(asked, data), by))
        return await asyncio.to_thread(to_bytes, answer)  # a list may be long

    return body
