"""The client of a session, without a network: what it says, what it does, when it comes back."""

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random

import pytest

from builders import a_need
from mainstay.model.calls import BLOB_BYTES_MAX
from mainstay.model.errors import MainstayError, Rejected, Unavailable
from mainstay.model.frames import (
    Acknowledged,
    BootstrapAnswer,
    BootstrapAsked,
    CapacityHint,
    ClusterFrame,
    Hello,
    HintConfidence,
    NodeState,
    ReclaimAck,
    ReclaimTold,
    ShardFrame,
)
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.need import Need
from mainstay.model.rollup import LIMITS, accept
from mainstay.model.state import State
from mainstay.session.client import ANSWERS_MAX, ClientTools, SessionClient
from mainstay.shard.hands.backoff import QUESTIONS_MAX
from mainstay.wire.session_frames import (
    Kind,
    cluster_frame_from_wire,
    kind_of,
    rollup_of,
    shard_frame_to_wire,
)
from mainstay.wire.tls import Plaintext
from mainstay.wire.transport import Over
from talking import BLOB, CANNOT, WEB, Hands, at_once, settle
from virtual_loop import LoopClock, run

ASKED = BootstrapAsked("r-1", WEB)
TOLD = ReclaimTold("i-1", ("m-1", "m-2"), 30)


class FakeStream:
    """A shard's end of one stream."""

    def __init__(self) -> None:
        self.at_s = asyncio.get_running_loop().time()
        self.talk: list[ClusterFrame] = []
        self.rollups: list[tuple[Need, ...]] = []
        self.full = False
        """Nothing more can be written for now."""

        self._words: asyncio.Queue[bytes | MainstayError | None] = asyncio.Queue()

    async def write(self, data: bytes) -> None:
        if self.full:
            await asyncio.get_running_loop().create_future()
        if kind_of(data) is Kind.ROLLUP:
            self.rollups.append(accept(WEB, rollup_of(data).rows, arrival_nanos=0))
        else:
            frame = cluster_frame_from_wire(data)
            assert frame is not None
            self.talk.append(frame)

    async def read(self) -> bytes | None:
        word = await self._words.get()
        if isinstance(word, MainstayError):
            raise word
        return word

    def say(self, *frames: ShardFrame) -> None:
        for frame in frames:
            self._words.put_nowait(shard_frame_to_wire(frame))

    def say_raw(self, data: bytes) -> None:
        self._words.put_nowait(data)

    def end(self, why: MainstayError | None = None) -> None:
        self._words.put_nowait(why)


class FakeShard:
    """Takes every stream; acknowledges each unless told otherwise."""

    def __init__(self) -> None:
        self.streams: list[FakeStream] = []
        self.dialled: list[str] = []
        self.refusals: deque[MainstayError] = deque()
        self.acknowledges = True

    @asynccontextmanager
    async def dial(self, address: str, over: Over) -> AsyncIterator[FakeStream]:
        self.dialled.append(address)
        if self.refusals:
            raise self.refusals.popleft()
        stream = FakeStream()
        self.streams.append(stream)
        if self.acknowledges:
            stream.say(Acknowledged("hello", shard_epoch=4))
        yield stream

    @property
    def stream(self) -> FakeStream:
        return self.streams[-1]


class Lab:
    """A client that runs, its shard and its hands."""

    def __init__(self, **tools: object) -> None:
        self.shard = FakeShard()
        self.hands = Hands()
        given = {"clock": LoopClock(), "random": Random(3), "aside": at_once, **tools}
        self.client = SessionClient(
            "web", "shard:7780", Plaintext(), self.hands,
            tools=ClientTools(dial=self.shard.dial, **given),  # type: ignore[arg-type]
        )  # fmt: skip


def in_lab(
    scenario: Callable[[Lab], Awaitable[None]], *, before: Callable[[Lab], None] | None = None
) -> None:
    async def whole() -> None:
        lab = Lab()
        if before is not None:
            before(lab)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(lab.client.run())
            await settle()
            await scenario(lab)
            running.cancel()

    run(whole())


class TestHello:
    def test_the_first_frame_is_hello_and_the_acknowledgement_makes_it_connected(self) -> None:
        async def scenario(lab: Lab) -> None:
            assert lab.shard.dialled == ["shard:7780"]
            assert lab.shard.stream.talk == [Hello("web", "v1alpha1")]
            facts = lab.client.facts()
            assert (facts.connected, facts.sessions, facts.shard_epoch) == (True, 1, 4)
            await lab.client.wait_connected()

        in_lab(scenario)

    def test_it_does_not_wait_for_the_acknowledgement_to_say_what_is_needed(self) -> None:
        def before(lab: Lab) -> None:
            lab.shard.acknowledges = False
            lab.client.set_needs([a_need()])

        async def scenario(lab: Lab) -> None:
            assert lab.shard.stream.rollups == [(a_need(),)]
            assert not lab.client.facts().connected

        in_lab(scenario, before=before)

    def test_a_second_acknowledgement_is_no_second_session(self) -> None:
        async def scenario(lab: Lab) -> None:
            lab.shard.stream.say(Acknowledged("hello"), Acknowledged("rollup"))
            await settle()
            facts = lab.client.facts()
            assert (facts.sessions, facts.rollups_acknowledged) == (1, 1)

        in_lab(scenario)

    def test_a_text_that_is_no_cluster_id_is_refused_at_once(self) -> None:
        with pytest.raises(Rejected, match="not a cluster id"):
            SessionClient("", "shard:1", Plaintext(), Hands())

    def test_a_frame_that_means_nothing_is_counted_and_the_session_goes_on(self) -> None:
        async def scenario(lab: Lab) -> None:
            lab.shard.stream.say_raw(b"\x32\x00")
            lab.shard.stream.say_raw(b"\xff")
            lab.shard.stream.say(ASKED)
            await settle()
            assert lab.client.facts().frames_ignored == 2
            assert lab.hands.asked == [ASKED]

        in_lab(scenario)


class TestNeeds:
    def test_before_needs_are_set_nothing_is_said_because_silence_is_not_zero(self) -> None:
        async def scenario(lab: Lab) -> None:
            await asyncio.sleep(3600)
            assert lab.shard.stream.rollups == []
            assert lab.shard.stream.talk == [Hello("web")]

        in_lab(scenario)

    def test_needs_are_said_at_once_and_then_every_ten_seconds(self) -> None:
        async def scenario(lab: Lab) -> None:
            lab.client.set_needs([a_need()])
            await settle()
            counts = [len(lab.shard.stream.rollups)]
            for _ in range(3):
                await asyncio.sleep(10.001)
                counts.append(len(lab.shard.stream.rollups))
            assert counts == [1, 2, 3, 4]
            assert lab.client.facts().rollups_sent == 4

        in_lab(scenario)

    def test_what_is_set_replaces_what_was_set_before(self) -> None:
        async def scenario(lab: Lab) -> None:
            for rows in ([a_need(group="a"), a_need(group="b")], [a_need(group="c")], []):
                lab.client.set_needs(rows)
                await settle()
            said = [[need.group for need in rollup] for rollup in lab.shard.stream.rollups]
            assert said == [["a", "b"], ["c"], []]

        in_lab(scenario)

    def test_what_is_set_in_quick_succession_is_coalesced(self) -> None:
        async def scenario(lab: Lab) -> None:
            for number in range(100):
                lab.client.set_needs([a_need(group=f"g-{number}")])
            await settle()
            assert [rows[0].group for rows in lab.shard.stream.rollups] == ["g-99"]

        in_lab(scenario)

    def test_while_cut_off_only_the_newest_rollup_is_kept(self) -> None:
        def before(lab: Lab) -> None:
            lab.shard.refusals.extend([Unavailable("nobody there")] * 3)

        async def scenario(lab: Lab) -> None:
            for number in range(5):
                lab.client.set_needs([a_need(group=f"g-{number}")])
                await settle()
            await lab.client.wait_connected()
            await settle()
            assert [rows[0].group for rows in lab.shard.stream.rollups] == ["g-4"]

        in_lab(scenario, before=before)

    def test_every_new_session_begins_with_the_newest_rollup(self) -> None:
        async def scenario(lab: Lab) -> None:
            lab.client.set_needs([a_need()])
            await settle()
            lab.shard.stream.end()
            await asyncio.sleep(2)
            assert len(lab.shard.streams) == 2
            assert lab.shard.stream.rollups == [(a_need(),)]

        in_lab(scenario)

    def test_a_row_of_another_cluster_refuses_all_of_them(self) -> None:
        async def scenario(lab: Lab) -> None:
            lab.client.set_needs([a_need()])
            with pytest.raises(Rejected, match="row 1 is of cluster batch"):
                lab.client.set_needs([a_need(), a_need(cluster="batch")])
            await settle()
            assert lab.shard.stream.rollups == [(a_need(),)]

        in_lab(scenario)

    def test_more_rows_than_any_shard_takes_are_refused_at_once(self) -> None:
        async def scenario(lab: Lab) -> None:
            with pytest.raises(Rejected, match="too many rows: 100001"):
                lab.client.set_needs([a_need()] * (LIMITS.rows + 1))

        in_lab(scenario)


class TestHandlers:
    def test_a_bootstrap_is_answered_with_what_the_handler_returns(self) -> None:
        async def scenario(lab: Lab) -> None:
            lab.hands.blob = b"join"
            lab.shard.stream.say(ASKED)
            await settle()
            assert lab.shard.stream.talk[1:] == [BootstrapAnswer("r-1", b"join")]

        in_lab(scenario)

    @pytest.mark.parametrize(
        ("raised", "told"),
        [
            (CANNOT, "no template for arm64"),
            (Unavailable("not now"), "not now"),
            (KeyError("oops"), "the bootstrap handler failed: KeyError"),
        ],
    )
    def test_what_it_raises_is_told_to_the_shard(self, raised: Exception, told: str) -> None:
        async def scenario(lab: Lab) -> None:
            lab.hands.blob = raised
            lab.shard.stream.say(ASKED)
            await settle()
            assert lab.shard.stream.talk[1:] == [BootstrapAnswer("r-1", error=told)]

        in_lab(scenario)

    def test_a_blob_that_no_shard_takes_is_told_as_an_error(self) -> None:
        async def scenario(lab: Lab) -> None:
            lab.hands.blob = bytes(BLOB_BYTES_MAX + 1)
            lab.shard.stream.say(ASKED)
            await settle()
            answer = lab.shard.stream.talk[1]
            assert isinstance(answer, BootstrapAnswer)
            assert answer.blob == b""
            assert "too large: 3145729 bytes" in answer.error

        in_lab(scenario)

    def test_a_reclaim_is_acknowledged_with_the_number_of_nodes_begun(self) -> None:
        async def scenario(lab: Lab) -> None:
            lab.shard.stream.say(TOLD)
            await settle()
            assert lab.hands.told == [TOLD]
            assert lab.shard.stream.talk[1:] == [ReclaimAck("i-1", 2)]

        in_lab(scenario)

    def test_handlers_run_side_by_side(self) -> None:
        async def scenario(lab: Lab) -> None:
            lab.hands.gate = lambda: asyncio.sleep(100)
            lab.shard.stream.say(ASKED, TOLD, a_state(), a_hint(), BootstrapAsked("r-2", WEB))
            await settle()
            assert [asked.request for asked in lab.hands.asked] == ["r-1", "r-2"]
            assert (len(lab.hands.told), len(lab.hands.states), len(lab.hands.hints)) == (1, 1, 1)

        in_lab(scenario)

    def test_of_each_machine_only_the_newest_state_is_handled(self) -> None:
        async def scenario(lab: Lab) -> None:
            lab.hands.gate = lambda: asyncio.sleep(1)
            states = [State.CONFIGURING, State.CONFIGURED, State.DRAINING, State.IDLE]
            lab.shard.stream.say(a_state("m-1", states[0]), a_state("m-2"))
            await settle()
            lab.shard.stream.say(*[a_state("m-1", state) for state in states[1:]])
            await asyncio.sleep(5)
            seen = [(state.machine, state.state) for state in lab.hands.states]
            assert seen == [
                ("m-1", State.CONFIGURING), ("m-2", State.CONFIGURED), ("m-1", State.IDLE),
            ]  # fmt: skip

        in_lab(scenario)

    def test_of_each_kind_of_need_only_the_newest_hint_is_handled(self) -> None:
        async def scenario(lab: Lab) -> None:
            lab.hands.gate = lambda: asyncio.sleep(1)
            lab.shard.stream.say(*[a_hint(count=count) for count in range(5)])
            await asyncio.sleep(5)
            assert [hint.count for hint in lab.hands.hints][-1] == 4
            assert len(lab.hands.hints) <= 2

        in_lab(scenario)

    def test_a_handler_that_breaks_ends_nothing(self) -> None:
        async def scenario(lab: Lab) -> None:
            lab.hands.breaks = ZeroDivisionError("bug")
            lab.shard.stream.say(TOLD, a_state(), a_hint())
            await settle()
            lab.hands.breaks = None
            lab.shard.stream.say(a_state(), ReclaimTold("i-2", ("m-3",), 1))
            await settle()
            assert lab.client.facts().connected
            assert len(lab.hands.states) == 2
            assert lab.shard.stream.talk[1:] == [ReclaimAck("i-1", 0), ReclaimAck("i-2", 1)]

        in_lab(scenario)


class TestReconnect:
    def test_it_comes_back_after_a_jittered_pause_whatever_the_reason(self) -> None:
        async def scenario(lab: Lab) -> None:
            for why in (None, Unavailable("cut off"), Rejected("certificate")):
                before = len(lab.shard.streams)
                at_s = asyncio.get_running_loop().time()
                lab.shard.stream.end(why)
                await settle()
                assert not lab.client.facts().connected
                assert lab.client.facts().why == (why.message if why else "the shard has hung up")
                await lab.client.wait_connected()
                assert len(lab.shard.streams) == before + 1
                assert 0.5 <= lab.shard.stream.at_s - at_s <= 8.0

        in_lab(scenario)

    def test_pauses_grow_while_nobody_is_there(self) -> None:
        def before(lab: Lab) -> None:
            lab.shard.refusals.extend([Unavailable("nobody there")] * 40)

        async def scenario(lab: Lab) -> None:
            await lab.client.wait_connected()
            assert len(lab.shard.dialled) == 41
            assert 300 < lab.shard.stream.at_s < 41 * 30

        in_lab(scenario, before=before)

    def test_a_handler_that_runs_is_not_ended_by_the_loss_of_its_stream(self) -> None:
        async def scenario(lab: Lab) -> None:
            lab.hands.gate = lambda: asyncio.sleep(5)
            lab.shard.stream.say(ASKED, TOLD)
            await settle()
            lab.shard.stream.end(Unavailable("gone"))
            await asyncio.sleep(10)
            assert len(lab.shard.streams) == 2
            assert lab.shard.stream.talk == [
                Hello("web"), BootstrapAnswer("r-1", BLOB), ReclaimAck("i-1", 2),
            ]  # fmt: skip

        in_lab(scenario)

    def test_a_request_that_is_issued_again_meanwhile_is_not_begun_twice(self) -> None:
        async def scenario(lab: Lab) -> None:
            lab.hands.gate = lambda: asyncio.sleep(5)
            lab.shard.stream.say(ASKED)
            await settle()
            lab.shard.stream.end()
            await asyncio.sleep(2)
            lab.shard.stream.say(ASKED)
            await asyncio.sleep(10)
            assert lab.hands.asked == [ASKED]
            assert len(lab.shard.stream.talk) == 2
            lab.shard.stream.say(ASKED)
            await settle()
            assert lab.hands.asked == [ASKED, ASKED]

        in_lab(scenario)

    def test_an_answer_that_could_not_be_written_goes_on_the_next_stream(self) -> None:
        async def scenario(lab: Lab) -> None:
            lab.shard.stream.full = True
            lab.shard.stream.say(ASKED)
            await settle()
            assert lab.shard.stream.talk == [Hello("web")]
            lab.shard.stream.end()
            await asyncio.sleep(2)
            assert lab.shard.stream.talk[1:] == [BootstrapAnswer("r-1", BLOB)]

        in_lab(scenario)

    def test_answers_are_kept_up_to_a_bound_and_then_the_oldest_go(self) -> None:
        def before(lab: Lab) -> None:
            one_after_the_other = itertools.count(1000)
            lab.hands.gate = lambda: asyncio.sleep(next(one_after_the_other) / 1000)

        async def scenario(lab: Lab) -> None:
            count = ANSWERS_MAX + 10
            lab.shard.stream.say(*[BootstrapAsked(f"r-{n}", WEB) for n in range(count)])
            await settle(count)
            lab.shard.refusals.extend([Unavailable("away")] * 3)
            lab.shard.stream.end()
            await asyncio.sleep(60)
            answers = [frame for frame in lab.shard.stream.talk if not isinstance(frame, Hello)]
            assert len(answers) == ANSWERS_MAX
            assert answers[-1] == BootstrapAnswer(f"r-{count - 1}", BLOB)
            assert lab.client.facts().answers_lost == 10

        in_lab(scenario, before=before)

    def test_of_all_that_a_shard_asks_at_once_every_answer_is_said(self) -> None:
        """Also when they come at the same moment, faster than they can be written."""

        async def scenario(lab: Lab) -> None:
            asked = [f"r-{number}" for number in range(QUESTIONS_MAX)]
            together = asyncio.Event()
            lab.hands.gate = together.wait
            lab.shard.stream.say(*[BootstrapAsked(name, WEB) for name in asked])
            await settle(QUESTIONS_MAX)
            together.set()
            await settle(QUESTIONS_MAX)
            said = [each for each in lab.shard.stream.talk if isinstance(each, BootstrapAnswer)]
            assert sorted(each.request for each in said) == sorted(asked)
            assert lab.client.facts().answers_lost == 0

        in_lab(scenario)

    def test_cancelling_it_ends_the_handlers_too(self) -> None:
        ended: list[str] = []

        async def slow() -> None:
            try:
                await asyncio.sleep(100)
            finally:
                ended.append("handler")

        async def scenario(lab: Lab) -> None:
            lab.hands.gate = slow
            lab.shard.stream.say(ASKED)
            await settle()

        in_lab(scenario)
        assert ended == ["handler"]


def test_a_huge_rollup_that_is_being_written_down_delays_no_answer() -> None:
    async def scenario() -> None:
        async def never(work: Callable[[], object]) -> object:
            await asyncio.sleep(1_000_000)
            return work()

        lab = Lab(aside=never)
        lab.client.set_needs([a_need()])
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(lab.client.run())
            await settle()
            lab.shard.stream.say(ASKED)
            await settle()
            assert lab.shard.stream.talk[1:] == [BootstrapAnswer("r-1", BLOB)]
            running.cancel()

    run(scenario())


def a_state(machine: str = "m-1", state: State = State.CONFIGURED) -> NodeState:
    return NodeState(machine=MachineId(machine), cluster=ClusterId("web"), state=state)


def a_hint(count: int = 3) -> CapacityHint:
    return CapacityHint(
        fingerprint="f", requirements=(), count=count,
        confidence=HintConfidence.HIGH, cost_per_hour=0.5,
    )  # fmt: skip
