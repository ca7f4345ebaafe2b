"""A few small pages by HTTP on loopback, for probes and people: no framework, no keep-alive.

A page is a function of the request's body; an error of ours becomes an answer in one line.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from mainstay.model.errors import MainstayError, Rejected
from mainstay.wire.tls import is_loopback

HEAD_BYTES_MAX: Final = 8 * 1024
BODY_BYTES_MAX: Final = 64 * 1024
PATIENCE_S: Final = 5.0


class Answer(NamedTuple):
    """What a page says."""

    status: int
    text: str
    kind: str = "text/plain; charset=utf-8"


Pages = Mapping[tuple[str, str], Callable[[str], Answer]]
"""By method and path."""

_REASONS: Final = {
    200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed",
    413: "Content Too Large", 503: "Service Unavailable",
}  # fmt: skip


@asynccontextmanager
async def serving_pages(listen: str, pages: Pages) -> AsyncIterator[str]:
    """Serve the pages while the block runs; gives the address, whose port may have been 0."""
    if not is_loopback(listen):
        raise Rejected(f"pages are served on loopback only, not at {listen}")
    host, _, port = listen.rpartition(":")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                writer.write(_written(await _answered(reader, pages)))
                await writer.drain()
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError):
            pass  # whoever asked has gone, or never asked
        finally:
            writer.close()

    try:
        server = await asyncio.start_server(
            answer, host.strip("[]"), int(port), limit=HEAD_BYTES_MAX
        )
    except (OSError, ValueError) as error:
        raise Rejected(f"cannot serve pages at {listen}: {error}") from error
    async with server:
        yield f"{host}:{server.sockets[0].getsockname()[1]}"


async def _answered(reader: asyncio.StreamReader, pages: Pages) -> Answer:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.LimitOverrunError:
        return Answer(413, "request too large\n")
    lines = head.split("\r\n")
    method, _, rest = lines[0].partition(" ")
    path = rest.partition(" ")[0].partition("?")[0]
    length = _length(lines[1:])
    if length is None:
        return Answer(400, "Content-Length is not a number\n")
    if length > BODY_BYTES_MAX:
        return Answer(413, f"at most {BODY_BYTES_MAX} bytes\n")
    body = (await reader.readexactly(length)).decode(errors="replace")
    page = pages.get((method, path))
    if page is None:
        known = any(path == there for _, there in pages)
        return Answer(405 if known else 404, f"no {method} {path[:80]}\n")
    try:
        return page(body)
    except MainstayError as error:
        return Answer(400, f"{error.message}\n")


def _length(headers: list[str]) -> int | None:
    for header in headers:
        name, _, value = header.partition(":")
        if name.strip().lower() == "content-length":
            text = value.strip()
            return int(text) if text.isascii() and text.isdecimal() and len(text) < 12 else None
    return 0


def _written(answer: Answer) -> bytes:
    body = answer.text.encode()
    head = (
        f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}\r\n"
        f"Content-Type: {answer.kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("latin-1") + body
