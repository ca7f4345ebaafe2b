"""The bad line: it lags and sends copies, and loses nothing."""

import asyncio
from random import Random

from mainstay.conformance.torment import BadLine
from mainstay.model.calls import Call
from mainstay.wire.raw_calls import Reply
from virtual_loop import run


class Counting:
    """Numbers its answers and remembers when they were asked for."""

    def __init__(self) -> None:
        self.sent: list[tuple[float, bytes]] = []

    async def send(self, call: Call, data: bytes) -> Reply:
        self.sent.append((asyncio.get_running_loop().time(), data))
        return Reply(status="OK", operation=str(len(self.sent)))


def sent(calls: int, *, lag_s: float, copies: int) -> tuple[list[tuple[float, bytes]], list[str]]:
    async def scenario() -> tuple[list[tuple[float, bytes]], list[str]]:
        line = Counting()
        bad = BadLine(line, Random(7), lag_s=lag_s, copies=copies)
        async with asyncio.TaskGroup() as tasks:
            begun = [tasks.create_task(bad.send(Call.GET, bytes([n]))) for n in range(calls)]
        return line.sent, [task.result().operation for task in begun]

    return run(scenario())


def test_calls_sent_at_once_overtake_each_other() -> None:
    seen, _ = sent(20, lag_s=1.0, copies=1)

    order = [data[0] for _, data in seen]
    assert sorted(order) == list(range(20))
    assert order != sorted(order)
    assert all(0.0 <= at <= 1.0 for at, _ in seen)


def test_some_calls_arrive_more_than_once_and_one_answer_counts() -> None:
    seen, answers = sent(20, lag_s=0.5, copies=3)

    assert 20 < len(seen) <= 60
    assert {data[0] for _, data in seen} == set(range(20))
    assert len(answers) == 20
