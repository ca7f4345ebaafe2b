"""Live parts: what has changed is sent, what has not is not, and a session that ends ends them."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any, cast

from starlette.requests import Request

from mainstay.dashboard.html import Html, h
from mainstay.dashboard.live import BEAT, Shown, streamed


class Reader:
    """Reads so many events, then goes away."""

    def __init__(self, times: int) -> None:
        self._left = times

    async def is_disconnected(self) -> bool:
        self._left -= 1
        return self._left < 0


def heard(times: int, shown: list[Mapping[str, Html] | Shown | None]) -> list[str]:
    async def render() -> Shown | None:
        told = shown.pop(0)
        return told if isinstance(told, Shown | None) else Shown(told)

    async def read() -> list[str]:
        answer = streamed(cast("Request", Reader(times)), render, 0.0)
        return [str(piece) async for piece in answer.body_iterator]

    return asyncio.run(read())


def parts(told: str) -> Any:
    return json.loads(told.partition("data: ")[2])["parts"]


def names(told: str) -> Any:
    return json.loads(told.partition("data: ")[2]).get("names")


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


def test_a_part_that_is_there_no_longer_is_told_by_the_names_of_those_that_are() -> None:
    one = h("p", "1")
    events = heard(3, [{"a": one, "b": one}, {"b": one}, {"b": one}])
    assert [names(told) for told in events] == [["a", "b"], ["b"], None]
    assert [parts(told) for told in events[1:]] == [{}, {}]


def test_a_page_that_cannot_be_had_for_a_moment_stays_what_it_was() -> None:
    one, two = h("p", "1"), h("p", "2")
    silent = Shown({"gone": two}, whole=False)
    events = heard(3, [silent, {"gone": one, "a": one}, silent])
    assert [names(told) for told in events] == [None, ["gone", "a"], None]
    assert parts(events[2]) == {"gone": "<p>2</p>"}


def test_while_an_answer_takes_long_a_beat_says_that_we_are_there() -> None:
    async def read() -> list[str]:
        done = asyncio.Event()

        async def render() -> Shown:
            await done.wait()
            return Shown({"a": h("p", "1")})

        answer = streamed(cast("Request", Reader(1)), render, 0.0, beat_s=0.001)
        said = []
        async for piece in answer.body_iterator:
            said.append(str(piece))
            done.set()
        return said

    first, *_, last = asyncio.run(read())
    assert (first, parts(last)) == (BEAT, {"a": "<p>1</p>"})


def test_who_goes_away_while_an_answer_is_awaited_leaves_nothing_behind() -> None:
    async def read() -> bool:
        left = asyncio.Event()

        async def render() -> Shown | None:
            try:
                await asyncio.Event().wait()
            finally:
                left.set()
            return None

        answer = streamed(cast("Request", Reader(9)), render, 0.0, beat_s=0.001)
        events = cast("AsyncGenerator[str, None]", answer.body_iterator)
        await anext(events)
        await events.aclose()
        async with asyncio.timeout(10):
            return await left.wait()

    assert asyncio.run(read())
