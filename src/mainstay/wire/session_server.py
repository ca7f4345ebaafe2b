"""Sessions on the network: one stream per cluster, dialled by the cluster.

Thin, like the server of a provider: what a frame does is up to the `Seat` behind it. Here it is
decided who may open a session, because only here is it known who calls; and the receiving loop does
nothing but hand frames on, so that no frame waits for what another one takes to be read.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import grpc

from mainstay.model.errors import MainstayError, Rejected, Unavailable
from mainstay.model.frames import ClusterFrame, Hello, ShardFrame
from mainstay.runtime.beside import beside
from mainstay.wire.access import authorize, rule_of
from mainstay.wire.session_frames import (
    METHOD,
    SERVICE,
    Kind,
    cluster_frame_from_wire,
    kind_of,
    shard_frame_to_wire,
)
from mainstay.wire.status import NotAllowed, grpc_code, trailer
from mainstay.wire.tls import caller

HELLO_TIMEOUT_S: Final = 30.0
"""How long a stream may be silent before its first word."""

DETAILS_LENGTH_MAX: Final = 1000
"""A status travels in a header, and headers are small."""

Context = grpc.aio.ServicerContext[bytes, bytes]
Send = Callable[[ShardFrame], Awaitable[None]]


class Seat(Protocol):
    """One session, as its stream drives it. Only `run` waits."""

    def heard(self, frame: ClusterFrame) -> None:
        """A frame has come. MainstayError ends the session."""

    def rolled_up(self, frame: bytes) -> None:
        """A roll-up has come, as it is: `rollup_of` reads it, slowly, so beside the event loop."""

    def ignored(self, why: str) -> None:
        """A frame has come that is none of ours."""

    async def run(self, send: Send) -> None:
        """Say what there is to say. It ends only with the MainstayError that ends the session."""

    def close(self) -> None:
        """The stream is gone, whatever the reason."""


class SessionHost(Protocol):
    """Whoever has sessions: a shard."""

    def refused(self, cluster: str, why: str) -> None:
        """Somebody without the right certificate wanted to be this cluster."""

    def opened(self, hello: Hello) -> Seat:
        """A cluster is there; any older session of it is over. Rejected: it cannot be one."""


def session_handler(
    host: SessionHost, *, hello_timeout_s: float = HELLO_TIMEOUT_S
) -> grpc.GenericRpcHandler:
    """The service of a shard's sessions, for `mainstay.wire.transport.serving`."""

    async def handle(_: object, context: Context) -> None:
        try:
            hello = await _greeting(context, hello_timeout_s)
            _admit(host, hello, context)
            # By itself: a first frame that is given up half said would spoil the status.
            await context.send_initial_metadata(())
            await _converse(context, host.opened(hello))
        except MainstayError as error:
            # A peer that does not read keeps this waiting; the session is over all the same.
            details = error.message[:DETAILS_LENGTH_MAX]
            await context.abort(grpc_code(error), details, trailer(error))

    method: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(handle)
    return grpc.method_handlers_generic_handler(SERVICE, {METHOD: method})


async def _greeting(context: Context, timeout_s: float) -> Hello:
    try:
        async with asyncio.timeout(timeout_s):
            data = await _read(context)
    except TimeoutError as error:
        raise Unavailable(f"no Hello within {timeout_s:g} s: send it first") from error
    talks = data is not None and kind_of(data) is Kind.TALK
    frame = cluster_frame_from_wire(data) if data is not None and talks else None
    if not isinstance(frame, Hello):
        raise Rejected("the first frame must be a Hello")
    if not frame.cluster:
        raise Rejected("a Hello must name its cluster: cluster_id is empty")
    return frame


def _admit(host: SessionHost, hello: Hello, context: Context) -> None:
    """A cluster speaks for itself alone; plaintext has no certificate to look at."""
    try:
        authorize(rule_of(SERVICE, METHOD), caller(context), hello.cluster)
    except NotAllowed as error:
        host.refused(hello.cluster, error.message)
        raise


async def _converse(context: Context, seat: Seat) -> None:
    """Until the cluster hangs up, or somebody ends the session."""

    async def send(frame: ShardFrame) -> None:
        try:
            await context.write(shard_frame_to_wire(frame))
        except grpc.aio.BaseError as error:
            raise Unavailable("the stream is gone") from error

    try:
        await beside(_receive(context, seat), seat.run(send))
    finally:
        seat.close()


async def _receive(context: Context, seat: Seat) -> None:
    while (data := await _read(context)) is not None:
        match kind_of(data):
            case Kind.ROLLUP:
                seat.rolled_up(data)
            case Kind.TALK:
                frame = cluster_frame_from_wire(data)
                seat.ignored("unreadable") if frame is None else seat.heard(frame)
            case Kind.UNKNOWN:
                seat.ignored("unknown")


async def _read(context: Context) -> bytes | None:
    """The next frame; None when there will be none."""
    data: object = await context.read()
    return data if isinstance(data, bytes) else None
