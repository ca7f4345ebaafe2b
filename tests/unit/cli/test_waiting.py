"""Waiting on the command line: outages of who is asked are seen through, up to a bound."""

import itertools
import json
import os
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, cast

import pytest
from typing_extensions import override

from mainstay.cli import exits
from mainstay.cli.client import Client
from mainstay.cli.output import Format
from mainstay.cli.waiting import OUTAGE_S, PAUSES, Outage, waited
from mainstay.model.errors import Rejected, Unavailable
from mainstay.runtime.clock import StepClock

Captured = pytest.CaptureFixture[str]

GONE: Final = Unavailable("no answer")
HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nretry: 1000\n\n"


class Scene:
    """Somebody who waits, on a clock that only its pauses move."""

    def __init__(self) -> None:
        self.clock = StepClock()
        self.pauses: list[float] = []
        self.outage = Outage(self.clock, self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.clock.advance(seconds)
        assert self.clock.elapsed_s() < 2 * OUTAGE_S, "it waits for ever"


def told(*answers: object) -> Callable[[], object]:
    """One after the other; an error is raised, and the last one goes on."""
    left = itertools.chain(answers, itertools.repeat(answers[-1]))

    def ask() -> object:
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return ask


def test_who_does_not_answer_from_the_beginning_is_not_waited_for(capsys: Captured) -> None:
    scene = Scene()

    with pytest.raises(Unavailable):
        scene.outage.through(told(GONE))

    assert (scene.pauses, capsys.readouterr().err) == ([], "")


def test_an_outage_is_told_once_and_asked_through_with_pauses(capsys: Captured) -> None:
    scene = Scene()
    ask = told(1, GONE, GONE, GONE, 2, GONE, 3)

    assert [scene.outage.through(ask) for _ in range(3)] == [1, 2, 3]

    line = "mainstay: no answer: it is asked again for 10 minutes\n"
    assert capsys.readouterr().err == line * 2
    assert len(scene.pauses) == 4
    assert all(PAUSES.shortest_s <= pause <= PAUSES.longest_s for pause in scene.pauses)


def test_an_outage_that_does_not_end_is_a_failure() -> None:
    scene = Scene()
    ask = told(1, GONE)
    scene.outage.through(ask)

    with pytest.raises(Unavailable):
        scene.outage.through(ask)

    assert OUTAGE_S <= scene.clock.elapsed_s() < OUTAGE_S + PAUSES.longest_s


def test_an_order_that_is_answered_waits_through_an_outage_that_begins_at_once(
    capsys: Captured,
) -> None:
    class Api:
        asked = staticmethod(told(GONE, GONE, {"state": "placed", "allocation_id": "alc_1"}))

        def post(self, path: str, body: object, *, key: str | None) -> dict[str, object]:
            return {"request_id": "cap_1", "state": "waiting", "reason": ""}

        def get(self, path: str) -> object:
            return self.asked()

    api = cast("Client", Api())

    assert waited(api, {}, None, Format.TABLE, outage=Scene().outage) == exits.DONE
    assert capsys.readouterr().out == "alc_1\n"


def test_pauses_are_short_again_when_an_outage_has_ended() -> None:
    scene = Scene()
    scene.outage.through(told("there"))
    for _ in range(40):
        scene.outage.through(told(GONE, "there"))

    assert max(scene.pauses) <= 2 * PAUSES.shortest_s


def test_what_is_refused_is_refused_at_once() -> None:
    scene = Scene()
    ask = told(1, Rejected("no such allocation"))
    scene.outage.through(ask)

    with pytest.raises(Rejected):
        scene.outage.through(ask)

    assert scene.pauses == []


@contextmanager
def streams(*bodies: bytes | None) -> Iterator[tuple[str, list[str]]]:
    """A server that answers one stream after the other, each cut off at its end: None by a reset.

    Yields its URL and the positions behind which it was asked.
    """
    asked: list[str] = []
    left = itertools.chain(bodies, itertools.repeat(b""))

    class Once(socketserver.StreamRequestHandler):
        @override
        def handle(self) -> None:
            head = iter(self.rfile.readline, b"\r\n")
            lines = dict(line.decode().lower().split(": ", 1) for line in head if b": " in line)
            asked.append(lines["last-event-id"].strip())
            body = next(left)
            self.wfile.write(HEAD + (body or b""))
            if body is None:  # what is closed so is reset
                linger = (1).to_bytes(4, "little") + (0).to_bytes(4, "little")
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                os.close(self.connection.detach())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Once) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", asked
        finally:
            server.shutdown()
            thread.join()


def event(position: int) -> bytes:
    return b"data: " + json.dumps({"position": position}).encode() + b"\n\n"


def test_a_stream_that_breaks_off_anywhere_is_resumed_behind_the_last_notice_after_a_pause() -> (
    None
):
    scene = Scene()
    bodies = (event(1) + event(2), None, event(3) + event(4)[:9], event(4))
    with streams(*bodies) as (url, asked):
        client = Client(url, "key")
        notices = scene.outage.followed(lambda: client, "/notices/stream")
        seen: list[Any] = list(itertools.islice(notices, 8))

    assert [each["position"] for each in seen if each] == [1, 2, 3, 4]
    assert asked == ["0", "2", "2", "3"]
    assert len(scene.pauses) == 4
    assert min(scene.pauses) >= PAUSES.shortest_s
