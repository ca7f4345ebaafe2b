"""One request over HTTP/1.1 on a connection of its own, which is closed at once when cancelled."""

import asyncio
import ssl
from dataclasses import dataclass, field
from typing import Final

import httptools

ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024

NoAnswer: Final = (OSError, TimeoutError, httptools.HttpParserError)
"""What a call fails with when there is no answer, or none that can be read."""


async def http_call(
    host: str, port: int, request: bytes, *, over: ssl.SSLContext | None
) -> tuple[int, bytes]:
    """Status and body. The caller sets the deadline, and has asked to close the connection."""
    reader, writer = await asyncio.open_connection(host, port, ssl=over)
    try:
        writer.write(request)
        await writer.drain()
        return await _read(reader)
    finally:
        writer.transport.abort()


@dataclass(slots=True)
class _Answer:
    """What the parser calls back."""

    body: bytearray = field(default_factory=bytearray)
    ended: bool = False

    def on_body(self, piece: bytes) -> None:
        """A piece."""
        self.body += piece
        if len(self.body) > ANSWER_BYTES_MAX:
            raise ConnectionError("the answer is too long")

    def on_message_complete(self) -> None:
        """All of it."""
        self.ended = True


async def _read(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    answer = _Answer()
    parser = httptools.HttpResponseParser(answer)
    while not answer.ended:
        piece = await reader.read(65_536)
        if not piece:
            raise ConnectionError("the answer broke off")
        parser.feed_data(piece)
    return parser.get_status_code(), bytes(answer.body)
