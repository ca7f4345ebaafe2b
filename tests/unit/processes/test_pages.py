"""Pages for probes: small, on loopback, one answer a request."""

import asyncio
from typing import Final

import pytest

from mainstay.model.errors import Rejected
from mainstay.processes.pages import BODY_BYTES_MAX, HEAD_BYTES_MAX, Answer, Pages, serving_pages


def refuses(_: str) -> Answer:
    raise Rejected("no such fault: x")


PAGES: Final[Pages] = {
    ("GET", "/healthz"): lambda _: Answer(200, "ok\n"),
    ("POST", "/echo"): lambda body: Answer(200, body),
    ("POST", "/refuses"): refuses,
}


def asked(request: bytes, pages: Pages = PAGES) -> tuple[int, str]:
    """The status and the body that come back."""

    async def ask() -> bytes:
        async with serving_pages("127.0.0.1:0", pages) as at:
            reader, writer = await asyncio.open_connection(*at.rsplit(":", 1))
            writer.write(request)
            answer = await reader.read()
            writer.close()
            return answer

    head, _, body = asyncio.run(ask()).partition(b"\r\n\r\n")
    return int(head.split()[1]), body.decode()


def posted(path: str, body: str, length: str | None = None) -> bytes:
    return f"POST {path} HTTP/1.1\r\nContent-Length: {length or len(body)}\r\n\r\n{body}".encode()


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (b"GET /healthz HTTP/1.1\r\n\r\n", (200, "ok\n")),
        (b"GET /healthz?deep=1 HTTP/1.1\r\nHost: x\r\n\r\n", (200, "ok\n")),
        (posted("/echo", "hello"), (200, "hello")),
        (posted("/refuses", ""), (400, "no such fault: x\n")),
        (b"GET /nowhere HTTP/1.1\r\n\r\n", (404, "no GET /nowhere\n")),
        (b"GET /echo HTTP/1.1\r\n\r\n", (405, "no GET /echo\n")),
        (posted("/echo", "a", "-1"), (400, "Content-Length is not a number\n")),
        (posted("/echo", "a", str(BODY_BYTES_MAX + 1)), (413, f"at most {BODY_BYTES_MAX} bytes\n")),
        (b"GET /" + b"x" * 2 * HEAD_BYTES_MAX + b"\r\n\r\n", (413, "request too large\n")),
    ],
    ids=["page", "query", "body", "refused", "nowhere", "method", "length", "body size", "head"],
)
def test_a_request_has_one_answer(request_: bytes, answer: tuple[int, str]) -> None:
    assert asked(request_) == answer


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "192.0.2.1:80", "example.org:80"])
def test_pages_are_on_loopback_only(listen: str) -> None:
    async def serve() -> None:
        async with serving_pages(listen, PAGES):
            pass

    with pytest.raises(Rejected, match="on loopback only"):
        asyncio.run(serve())


def test_a_port_that_is_taken_is_told_in_one_line() -> None:
    async def twice() -> None:
        async with serving_pages("127.0.0.1:0", PAGES) as at, serving_pages(at, PAGES):
            pass

    with pytest.raises(Rejected, match="cannot serve pages at 127"):
        asyncio.run(twice())


def test_one_who_leaves_in_the_middle_harms_nobody() -> None:
    async def leave() -> bytes:
        async with serving_pages("127.0.0.1:0", PAGES) as at:
            _, gone = await asyncio.open_connection(*at.rsplit(":", 1))
            gone.write(b"GET /heal")
            gone.close()
            reader, writer = await asyncio.open_connection(*at.rsplit(":", 1))
            writer.write(b"GET /healthz HTTP/1.1\r\n\r\n")
            answer = await reader.read()
            writer.close()
            return answer

    assert asyncio.run(leave()).endswith(b"ok\n")
