"""A provider on the network: bytes in, one of the six calls, bytes out.

Thin: whatever is checked about a request is checked by the `ProviderCalls` behind it. Only who may
call is decided here, because only here is it known who calls.
"""

import asyncio
from typing import Final, assert_never

import grpc

from mainstay.model.calls import (
    Call,
    ConfigureRequest,
    CreateRequest,
    DeleteRequest,
    DrainRequest,
    GetRequest,
    ListRequest,
    ProviderCalls,
)
from mainstay.model.errors import MainstayError
from mainstay.wire.calls import (
    SERVICE,
    Request,
    ack_to_wire,
    get_answer_to_wire,
    listing_to_wire,
    request_from_wire,
)
from mainstay.wire.status import NotAllowed, grpc_code, trailer
from mainstay.wire.tls import Identity, Role, caller

DETAILS_LENGTH_MAX: Final = 1000
"""A status travels in a header, and headers are small."""

_LONG_LIST: Final = 1000
"""More machines than this are encoded beside the event loop."""

Context = grpc.aio.ServicerContext[bytes, bytes]


def provider_handler(provider: ProviderCalls) -> grpc.GenericRpcHandler:
    """The service of one provider, for `mainstay.wire.transport.serving`."""
    return grpc.method_handlers_generic_handler(
        SERVICE, {call.capitalize(): _method(provider, call) for call in Call}
    )


def _method(provider: ProviderCalls, call: Call) -> "grpc.RpcMethodHandler[bytes, bytes]":
    async def handle(data: bytes, context: Context) -> bytes:
        try:
            request = request_from_wire(call, data)
            authorize(caller(context), request)
            return await _answer(provider, request)
        except MainstayError as error:
            details = error.message[:DETAILS_LENGTH_MAX]
            await context.abort(grpc_code(error), details, trailer(error))

    return grpc.unary_unary_rpc_method_handler(handle)


def authorize(identity: Identity | None, request: Request) -> None:
    """Refuse a caller whose certificate is not for this call; plaintext has none to look at.

    A shard changes machines only in its own name, so that nobody can push another shard's fence.
    """
    if identity is None or identity.role is Role.ADMIN:
        return
    if isinstance(request, GetRequest | ListRequest):
        if identity.role is Role.CLUSTER:
            raise NotAllowed(f"{identity.uri} may not read machines: ask with a shard's identity")
        return
    if identity != Identity(Role.SHARD, request.fence.shard):
        who = f"shard {request.fence.shard!a}" if request.fence.shard else "nobody"
        raise NotAllowed(f"{identity.uri} may not act in the name of {who}")


async def _answer(provider: ProviderCalls, request: Request) -> bytes:
    match request:
        case CreateRequest():
            return ack_to_wire(await provider.create(request))
        case ConfigureRequest():
            return ack_to_wire(await provider.configure(request))
        case DrainRequest():
            return ack_to_wire(await provider.drain(request))
        case DeleteRequest():
            return ack_to_wire(await provider.delete(request))
        case GetRequest():
            return get_answer_to_wire(await provider.get(request))
        case ListRequest():
            return await _list(provider, request)
        case _:
            assert_never(request)


async def _list(provider: ProviderCalls, request: ListRequest) -> bytes:
    listing = await provider.list(request)
    if len(listing.machines) > _LONG_LIST:
        return await asyncio.to_thread(listing_to_wire, listing, provider.capabilities)
    return listing_to_wire(listing, provider.capabilities)
