"""A cluster's end of a session's stream: bytes out, bytes in, and only errors of ours."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import grpc

from mainstay.model.errors import MainstayError
from mainstay.wire.session_frames import METHOD, SERVICE
from mainstay.wire.status import error_from
from mainstay.wire.transport import KEEPALIVE_OPTIONS, Over, open_channel

_PATH: Final = f"/{SERVICE}/{METHOD}"

Call = grpc.aio.StreamStreamCall[bytes, bytes]


class SessionStream:
    """One stream. Raises only MainstayError, and after that it is of no more use."""

    def __init__(self, call: Call) -> None:
        self._call = call

    async def write(self, data: bytes) -> None:
        """Send a frame; waits until there is room for it."""
        try:
            await self._call.write(data)
        except grpc.aio.AioRpcError as error:
            raise _told(error) from error
        except asyncio.InvalidStateError as error:
            raise await self._ended() from error

    async def read(self) -> bytes | None:
        """The next frame; None when the shard has hung up in good order."""
        try:
            data: object = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise _told(error) from error
        return data if isinstance(data, bytes) else None

    async def _ended(self) -> MainstayError:
        """Why there is no stream any more."""
        call = self._call
        details = f"shard: {await call.details()}"
        return error_from(await call.code(), details, metadata=await call.trailing_metadata())


@asynccontextmanager
async def dial(address: str, over: Over) -> AsyncIterator[SessionStream]:
    """A stream to the shard at `host:port` inside the block; certificates are read anew."""
    async with (
        open_channel(address, over, options=KEEPALIVE_OPTIONS) as channel,
        streaming(channel) as stream,
    ):
        yield stream


@asynccontextmanager
async def streaming(channel: grpc.aio.Channel) -> AsyncIterator[SessionStream]:
    """A stream on a channel that is there."""
    method: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(_PATH)
    call = method()
    try:
        yield SessionStream(call)
    finally:
        call.cancel()


def _told(error: grpc.aio.AioRpcError) -> MainstayError:
    return error_from(
        error.code(), f"shard: {error.details()}", metadata=error.trailing_metadata() or ()
    )
