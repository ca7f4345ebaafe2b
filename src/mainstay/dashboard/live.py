"""Live parts as server-sent events: only what has changed since it was sent last, and a beat.

Whoever reads knows by the beat that we are there, however long an answer takes.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import StreamingResponse

from mainstay.dashboard.html import Html

BEAT_S: Final = 2.0
"""So often something is sent, if only that we are there."""

BEAT: Final = "event: beat\ndata: {}\n\n"
ENDED: Final = "event: ended\ndata: {}\n\n"


@dataclass(frozen=True, slots=True)
class Shown:
    """The parts of a page as they are now."""

    parts: Mapping[str, Html]
    whole: bool = True
    """Whether the page has no other parts now: what it had before is gone."""


Render = Callable[[], Awaitable[Shown | None]]
"""None: the session has ended."""


def streamed(
    request: Request, render: Render, every_s: float, *, beat_s: float = BEAT_S
) -> StreamingResponse:
    """Events until the reader goes away or its session ends."""
    return StreamingResponse(
        _events(request, render, every_s, beat_s),
        media_type="text/event-stream",
        headers={"x-accel-buffering": "no"},
    )


async def _events(
    request: Request, render: Render, every_s: float, beat_s: float
) -> AsyncIterator[str]:
    sent: dict[str, str] = {}
    while not await request.is_disconnected():
        making = asyncio.ensure_future(render())
        try:
            while not (await asyncio.wait({making}, timeout=beat_s))[0]:
                yield BEAT
        finally:
            making.cancel()
        shown = making.result()
        if shown is None:
            yield ENDED
            return
        now = {name: made.text for name, made in shown.parts.items()}
        if not shown.whole:
            now = {**sent, **now}
        yield event(sent, now, named=shown.whole)
        sent = now
        for pause_s in _pauses(every_s, beat_s):
            await asyncio.sleep(pause_s)
            yield BEAT
        await asyncio.sleep(min(every_s, beat_s))


def _pauses(every_s: float, beat_s: float) -> Iterator[float]:
    """What is waited before each beat but the last, which is the next event."""
    left_s = every_s - beat_s
    while left_s > 0:
        yield min(beat_s, left_s)
        left_s -= beat_s


def event(before: Mapping[str, str], now: Mapping[str, str], *, named: bool = True) -> str:
    """What has changed; if asked for, the names of all parts in their order, when those changed."""
    told: dict[str, object] = {
        "parts": {name: text for name, text in now.items() if before.get(name) != text}
    }
    if named and list(before) != list(now):
        told["names"] = list(now)
    return f"event: parts\ndata: {json.dumps(told)}\n\n"
