"""What waits to be said to one cluster."""

import asyncio

from builders import a_machine
from mainstay.model.frames import Acknowledged, BootstrapAsked, NodeState, ReclaimTold, ShardFrame
from mainstay.model.ids import ClusterId
from mainstay.model.state import State
from mainstay.shard.talk.node_states import node_state
from mainstay.shard.talk.outbox import Outbox
from virtual_loop import run

WEB = ClusterId("web")
ACK = Acknowledged("hello")


def state(machine: str, at: State = State.CONFIGURED) -> NodeState:
    return node_state(WEB, a_machine(at, id=machine))


def said(outbox: Outbox, count: int) -> list[ShardFrame]:
    async def taken() -> list[ShardFrame]:
        return [await outbox.take() for _ in range(count)]

    return run(taken())


def an_outbox(*frames: ShardFrame, frames_max: int = 10) -> Outbox:
    outbox = Outbox(frames_max=frames_max)
    for frame in frames:
        assert outbox.put(frame)
    return outbox


def test_frames_are_said_in_the_order_in_which_they_were_put() -> None:
    frames: list[ShardFrame] = [
        ACK,
        state("m-1"),
        ReclaimTold("i", ("m-1",), 30),
        BootstrapAsked("r", WEB),
        ACK,
    ]

    assert said(an_outbox(*frames), 5) == frames


def test_a_newer_state_of_a_machine_takes_the_place_of_the_one_that_waits() -> None:
    older, newer = state("m-1"), state("m-1", State.DRAINING)
    outbox = an_outbox(older, state("m-2"), newer)

    assert len(outbox) == 2
    assert said(outbox, 2) == [newer, state("m-2")]


def test_what_is_no_state_and_no_hint_is_never_superseded() -> None:
    twice: list[ShardFrame] = [
        ACK,
        ACK,
        ReclaimTold("i", ("m-1",), 30),
        ReclaimTold("i", ("m-1",), 30),
    ]

    assert said(an_outbox(*twice), 4) == twice


def test_a_request_that_nobody_waits_for_is_not_said() -> None:
    asked = BootstrapAsked("r", WEB)
    outbox = an_outbox(asked, ACK)

    outbox.withdraw(asked)
    outbox.withdraw(asked)

    assert said(outbox, 1) == [ACK]


class TestBound:
    def test_what_does_not_fit_is_not_taken(self) -> None:
        outbox = an_outbox(state("m-1"), ACK, frames_max=2)

        assert not outbox.put(state("m-2"))
        assert len(outbox) == 2

    def test_a_newer_word_always_fits_where_the_older_one_stood(self) -> None:
        outbox = an_outbox(state("m-1"), ACK, frames_max=2)

        assert outbox.put(state("m-1", State.DRAINING))
        assert len(outbox) == 2


class TestReplay:
    def test_it_is_said_when_nothing_else_waits(self) -> None:
        outbox = Outbox(frames_max=10, replay=[state("m-1"), state("m-2")])
        outbox.put(ACK)

        assert said(outbox, 3) == [ACK, state("m-1"), state("m-2")]

    def test_it_does_not_count_as_waiting_and_has_no_bound(self) -> None:
        outbox = Outbox(frames_max=1, replay=[state(f"m-{n}") for n in range(5)])

        assert len(outbox) == 0
        assert len(said(outbox, 5)) == 5

    def test_of_a_machine_that_was_told_of_meanwhile_nothing_old_is_replayed(self) -> None:
        async def scenario() -> None:
            outbox = Outbox(frames_max=10, replay=[state("m-1"), state("m-2"), state("m-3")])
            assert await outbox.take() == state("m-1")
            outbox.put(state("m-2", State.DRAINING))

            assert await outbox.take() == state("m-2", State.DRAINING)
            assert await outbox.take() == state("m-3")

        run(scenario())

    def test_a_second_one_takes_the_place_of_the_first_but_of_nothing_that_waits(self) -> None:
        outbox = Outbox(frames_max=10, replay=[state("m-1"), state("m-2")])
        outbox.put(state("m-2", State.DRAINING))

        outbox.replay([state("m-2"), state("m-3")])

        assert said(outbox, 2) == [state("m-2", State.DRAINING), state("m-3")]

    def test_afterwards_a_machine_is_told_of_as_ever(self) -> None:
        outbox = Outbox(frames_max=10, replay=[state("m-1")])
        assert said(outbox, 1) == [state("m-1")]
        outbox.put(state("m-1"))

        assert said(outbox, 1) == [state("m-1")]


def test_a_writer_that_waits_is_woken_by_what_is_put() -> None:
    async def scenario() -> None:
        outbox = Outbox(frames_max=10)
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(outbox.take())
            await asyncio.sleep(1)
            assert not first.done()
            outbox.put(ACK)
            assert await first == ACK
            second = tasks.create_task(outbox.take())
            await asyncio.sleep(1)
            outbox.replay([state("m-1")])
            assert await second == state("m-1")

    run(scenario())
