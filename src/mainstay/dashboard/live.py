"""Live parts as server-sent events: only what has changed since it was sent last."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from starlette.requests import Request
from starlette.responses import StreamingResponse

from mainstay.dashboard.html import Html

Render = Callable[[], Awaitable[Mapping[str, Html] | None]]
"""The parts as they are now; None: the session has ended."""


def streamed(request: Request, render: Render, every_s: float) -> StreamingResponse:
    """Events until the reader goes away or its session ends."""
    return StreamingResponse(
        _events(request, render, every_s),
        media_type="text/event-stream",
        headers={"x-accel-buffering": "no"},
    )


async def _events(request: Request, render: Render, every_s: float) -> AsyncIterator[str]:
    sent: dict[str, str] = {}
    while not await request.is_disconnected():
        parts = await render()
        if parts is None:
            yield "event: ended\ndata: {}\n\n"
            return
        now = {name: made.text for name, made in parts.items()}
        yield event({name: text for name, text in now.items() if sent.get(name) != text})
        sent = now
        await asyncio.sleep(every_s)


def event(changed: Mapping[str, str]) -> str:
    """One event; an empty one says that we are still there."""
    return f"event: parts\ndata: {json.dumps(dict(changed))}\n\n"
