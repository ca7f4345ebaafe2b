"""What goes round every request: an id to find it by, a limit to its size, an answer to any bug."""

import asyncio
import json
import re
from typing import Any, Final

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mainstay.runtime.log import logger
from mainstay.tenancy.http.errors import envelope
from mainstay.tenancy.ids import Ids

HEADER: Final = "X-Correlation-Id"
BODY_BYTES_MAX: Final = 1024 * 1024
_ACCEPTED: Final = re.compile(r"[A-Za-z0-9._:-]{1,64}")


class Frame:
    """The outermost layer."""

    def __init__(self, app: ASGIApp, ids: Ids) -> None:
        self._app, self._ids = app, ids

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        correlation_id = self._correlation(Headers(scope=scope).get(HEADER, ""))
        scope.setdefault("state", {})["correlation_id"] = correlation_id
        answer = _Answer(send, correlation_id)
        try:
            await self._app(scope, _Limited(receive, scope, answer).receive, answer.send)
        except asyncio.CancelledError:  # the server stops, and this was a wait
            text = "the server is stopping"
            await answer.say(503, envelope("service_unavailable", text, correlation_id))
        except Exception as error:  # noqa: BLE001 - the boundary: a bug costs one request
            logger(correlation_id=correlation_id).error(
                "request_failed", path=scope.get("path"), exc_info=error
            )
            text = "something is wrong on our side: tell us the correlation id"
            await answer.say(500, envelope("internal_error", text, correlation_id))

    def _correlation(self, given: str) -> str:
        return given if _ACCEPTED.fullmatch(given) else self._ids("cor")


def _too_large() -> HTTPException:
    """More was sent than we read; of a kind that passes through whoever reads the body."""
    return HTTPException(413, f"at most {BODY_BYTES_MAX} bytes")


class _Limited:
    """Counts what is read of a body."""

    def __init__(self, receive: Receive, scope: Scope, answer: "_Answer") -> None:
        self._receive, self._answer = receive, answer
        self._left = BODY_BYTES_MAX
        length = Headers(scope=scope).get("content-length", "0")
        self._announced = int(length) if length.isdecimal() else 0

    async def receive(self) -> Message:
        """The next piece."""
        if self._announced > BODY_BYTES_MAX:
            raise _too_large()
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0 and not self._answer.started:
            raise _too_large()
        return message


class _Answer:
    """Sends, and knows whether it has begun to."""

    def __init__(self, send: Send, correlation_id: str) -> None:
        self._send, self._correlation_id = send, correlation_id
        self.started = False

    async def send(self, message: Message) -> None:
        """A piece of the answer."""
        if message["type"] == "http.response.start":
            self.started = True
            MutableHeaders(scope=message)[HEADER] = self._correlation_id
        await self._send(message)

    async def say(self, status: int, body: dict[str, Any]) -> None:
        """A whole answer, unless one has begun: then it ends without its end."""
        if self.started:
            return
        content = json.dumps(body).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(content)).encode()),
        ]
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": content})
