"""The health check that gRPC's own probes and load balancers ask for (grpc.health.v1)."""

from collections.abc import Callable
from typing import Final

import grpc

from mainstay.wire.shard_view_server import Context, Handler

SERVICE: Final = "grpc.health.v1.Health"

_SERVING: Final = b"\x08\x01"
_NOT_SERVING: Final = b"\x08\x02"


def health_handler(is_serving: Callable[[], bool]) -> grpc.GenericRpcHandler:
    """Only Check: whoever wants to watch asks again. Every service has the same answer."""

    async def check(_: bytes, __: Context) -> bytes:
        return _SERVING if is_serving() else _NOT_SERVING

    methods: dict[str, Handler] = {"Check": grpc.unary_unary_rpc_method_handler(check)}
    return grpc.method_handlers_generic_handler(SERVICE, methods)
