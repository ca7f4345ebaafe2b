"""Channels and servers of gRPC, with the options that all of ours have."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import grpc

from mainstay.model.calls import ANSWER_BYTES_MAX
from mainstay.model.errors import Rejected
from mainstay.wire.tls import MutualTls, Plaintext

Over = Plaintext | MutualTls

_SIZES: Final = (
    ("grpc.max_receive_message_length", ANSWER_BYTES_MAX),
    ("grpc.max_send_message_length", ANSWER_BYTES_MAX),
)

CHANNEL_OPTIONS: Final = (
    *_SIZES,
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),  # a repeated call needs a new number of its attempt
    ("grpc.max_reconnect_backoff_ms", 5_000),
)

KEEPALIVE_OPTIONS: Final = (
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 10_000),  # the same for what gRPC asks for other reasons
)
"""By which a peer that is gone without a word is noticed. A server may always ask; a client only on
a stream with traffic, because servers hang up on clients that ask often and say nothing.
"""

SERVER_OPTIONS: Final = (
    *_SIZES,
    *KEEPALIVE_OPTIONS,
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),  # clients may ask that often
    ("grpc.so_reuseport", 0),  # two servers at one address are a mistake, not a pool
)

Options = Sequence[tuple[str, int]]

STOP_GRACE_S: Final = 5.0
"""How long calls under way may take when a server stops."""


def open_channel(address: str, over: Over, *, options: Options = ()) -> grpc.aio.Channel:
    """A channel to `host:port`; it connects when it is first used. `options` overrule ours."""
    given = _over(CHANNEL_OPTIONS, options)
    if isinstance(over, Plaintext):
        return grpc.aio.insecure_channel(address, options=given)
    return grpc.aio.secure_channel(address, over.channel_credentials(), options=given)


@asynccontextmanager
async def serving(
    handlers: Sequence[grpc.GenericRpcHandler], address: str, over: Over, *, options: Options = ()
) -> AsyncIterator[str]:
    """Serve at `host:port` inside the block, which gets the address; port 0 picks a free one."""
    server = grpc.aio.server(options=_over(SERVER_OPTIONS, options))
    server.add_generic_rpc_handlers(tuple(handlers))
    try:
        if isinstance(over, Plaintext):
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, over.server_credentials())
    except RuntimeError as error:
        raise Rejected(f"cannot listen at {address}: choose another address") from error
    await server.start()
    try:
        yield f"{address.rpartition(':')[0]}:{port}"
    finally:
        await server.stop(STOP_GRACE_S)


def _over(ours: Options, given: Options) -> Options:
    """Each option once: of two, gRPC would take the first."""
    return tuple({**dict(ours), **dict(given)}.items())
