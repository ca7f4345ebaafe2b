"""Live parts: what has changed is sent, what has not is not, and a session that ends ends them."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, cast

from starlette.requests import Request

from mainstay.dashboard.html import Html, h
from mainstay.dashboard.live import streamed


class Reader:
    """Reads so many events, then goes away."""

    def __init__(self, times: int) -> None:
        self._left = times

    async def is_disconnected(self) -> bool:
        self._left -= 1
        return self._left < 0


def heard(times: int, shown: list[Mapping[str, Html] | None]) -> list[str]:
    async def render() -> Mapping[str, Html] | None:
        return shown.pop(0)

    async def read() -> list[str]:
        answer = streamed(cast("Request", Reader(times)), render, 0.0)
        return [str(piece) async for piece in answer.body_iterator]

    return asyncio.run(read())


def parts(told: str) -> Any:
    return json.loads(told.partition("data: ")[2])


def test_only_parts_that_have_changed_are_sent() -> None:
    one, two = h("p", "1"), h("p", "2")
    events = heard(3, [{"a": one, "b": one}, {"a": one, "b": two}, {"a": one, "b": two}])
    assert [parts(told) for told in events] == [
        {"a": "<p>1</p>", "b": "<p>1</p>"}, {"b": "<p>2</p>"}, {},
    ]  # fmt: skip


def test_the_stream_ends_with_the_session() -> None:
    events = heard(9, [{"a": h("p", "1")}, None])
    assert events[1].startswith("event: ended")
    assert len(events) == 2


def test_a_line_break_in_a_name_breaks_no_event() -> None:
    told = heard(1, [{"a": h("p", "x\n\nevent: ended\ndata: {}\n\n")}])[0]
    assert told.count("\n\n") == 1
