"""Sessions over a real connection: our client, a peer that knows only the protocol, mutual TLS."""

import asyncio
import logging
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Self

import grpc
import pytest

from builders import a_machine, a_need, a_need_profile, a_profile
from certificates import Authority
from mainstay.engine.hints import Confidence, Hint
from mainstay.model.assignment import NeedRef
from mainstay.model.errors import Unavailable
from mainstay.model.frames import Hello
from mainstay.model.ids import ClusterId
from mainstay.model.machine import Machine
from mainstay.model.need import Need, Operator, Requirement
from mainstay.model.rollup import accept
from mainstay.model.state import State
from mainstay.runtime.clock import SystemClock
from mainstay.session.client import ClientTools, Dial, SessionClient
from mainstay.session.reconnect import ReconnectOptions
from mainstay.shard.events import Event
from mainstay.shard.quarantine import judge
from mainstay.shard.sessions import NoSession, SessionOptions
from mainstay.wire.pb.bigfleet.v1alpha1 import shard_pb2 as pb
from mainstay.wire.session_client import SessionStream, dial, streaming
from mainstay.wire.session_frames import cluster_frame_to_wire, rollup_frame
from mainstay.wire.session_server import session_handler
from mainstay.wire.status import NotAllowed
from mainstay.wire.tls import Plaintext, transport
from mainstay.wire.transport import (
    KEEPALIVE_OPTIONS,
    SERVER_OPTIONS,
    Options,
    Over,
    open_channel,
    serving,
)
from talking import BLOB, CANNOT, WEB, Hands, Stage

LOOPBACK = "127.0.0.1:0"
SHARD = "bigfleet://shard/s-0"
WEB_URI = "bigfleet://cluster/web"
SERVING = a_machine(State.CONFIGURED, id="m-1", cluster=WEB)
QUICKLY = ReconnectOptions(shortest_s=0.05, longest_s=0.2)

HELLO = pb.OperatorMessage(hello=pb.Hello(cluster_id="web", protocol_version="v1alpha1"))


async def until(true: Callable[[], bool], *, seconds: float = 20.0) -> None:
    """Poll until something is so."""
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


class Lab:
    """A shard's sessions at an address."""

    def __init__(self, stage: Stage, address: str, over: Over) -> None:
        self.stage = stage
        self.sessions = stage.sessions
        self.address = address
        self.over = over
        self.hands = Hands()

    @asynccontextmanager
    async def client(
        self,
        cluster: str = "web",
        over: Over | None = None,
        address: str = "",
        every_s: float = 0.5,
    ) -> AsyncIterator[SessionClient]:
        """A client of ours that runs inside the block."""
        client = SessionClient(
            cluster, address or self.address, over or self.over, self.hands,
            tools=ClientTools(reconnect=QUICKLY, rollup_every_s=every_s),
        )  # fmt: skip
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(client.run())
            try:
                yield client
            finally:
                running.cancel()

    @asynccontextmanager
    async def peer(self, over: Over | None = None) -> AsyncIterator["Peer"]:
        """A peer that knows the protocol and nothing of us."""
        async with dial(self.address, over or self.over) as stream:
            yield Peer(stream)


class Peer:
    """Speaks protobuf."""

    def __init__(self, stream: SessionStream) -> None:
        self.stream = stream

    async def say(self, *messages: pb.OperatorMessage) -> None:
        for message in messages:
            await self.stream.write(message.SerializeToString())

    async def hear(self) -> pb.ShardMessage:
        async with asyncio.timeout(20):
            data = await self.stream.read()
        assert data is not None
        return pb.ShardMessage.FromString(data)


async def greeted(peer: Peer) -> pb.ShardMessage:
    await peer.say(HELLO)
    return await peer.hear()


async def heard_to_the_end(peer: Peer) -> None:
    while True:
        await peer.hear()


def wide(machine: str) -> Machine:
    """A machine of which much can be said: a hundred thousand bytes."""
    labels = {f"label-{number}": "x" * 1000 for number in range(100)}
    return a_machine(State.CONFIGURED, id=machine, profile=a_profile(labels=labels))


@asynccontextmanager
async def lab(
    *, over: Over | None = None, stage: Stage | None = None, options: Options = (), at: str = ""
) -> AsyncIterator[Lab]:
    stage = stage or a_stage()
    over = over or Plaintext()
    handlers = [session_handler(stage.sessions, hello_timeout_s=0.5)]
    async with serving(handlers, at or LOOPBACK, over, options=options) as address:
        try:
            yield Lab(stage, address, over)
        finally:
            stage.sessions.hang_up("the shard stops")


def a_stage(*machines: object, options: SessionOptions | None = None, **given: object) -> Stage:
    parts = {"clock": SystemClock(), "aside": asyncio.to_thread, **given}
    return Stage(*machines, options=options, **parts)  # type: ignore[arg-type]


def in_lab(scenario: Callable[[Lab], Awaitable[None]], **given: object) -> None:
    async def whole() -> None:
        async with lab(**given) as laboratory:  # type: ignore[arg-type]
            await scenario(laboratory)

    asyncio.run(whole())


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def tls(authority: Authority, *uris: str, name: str = "leaf") -> Over:
    return transport(authority.flags(*uris, name=name), "example.org:1")


class TestWholeSession:
    @pytest.mark.parametrize("kind", ["plaintext", "mutual TLS"])
    def test_a_cluster_and_its_shard_say_everything_there_is_to_say(
        self, kind: str, authority: Authority
    ) -> None:
        plain = kind == "plaintext"
        server = Plaintext() if plain else tls(authority, SHARD, name="shard")
        mine = Plaintext() if plain else tls(authority, WEB_URI, name="web")

        async def scenario(at: Lab) -> None:
            same_rack = Requirement("rack", Operator.SAME)
            profile = a_need_profile(requirements=(same_rack,), priority=7)
            async with at.client(over=mine) as client:
                client.set_needs([a_need(profile=profile, group="g")])
                await client.wait_connected()
                assert client.facts().shard_epoch == 9
                await until(lambda: len(at.stage.book.applied) > 0)
                cluster, needs = at.stage.book.applied[0]
                assert (cluster, needs[0].profile, needs[0].group) == (WEB, profile, "g")
                await until(lambda: client.facts().rollups_acknowledged > 0)
                await until(lambda: len(at.hands.states) == 1)  # the replay

                asked = at.sessions.bootstrap(WEB, profile.requirements, timeout_s=20)
                assert await asked == BLOB
                assert at.hands.asked[0].requirements == (same_rack,)
                at.hands.blob = CANNOT
                with pytest.raises(Exception, match="cluster web: no template for arm64"):
                    await at.sessions.bootstrap(WEB, (), timeout_s=20)

                assert at.sessions.reclaim(
                    SERVING, grace_s=120, unheard_grace_s=30, preemptor_priority=3
                )
                await until(lambda: len(at.hands.told) == 1)
                told = at.hands.told[0]
                assert (told.nodes, told.grace_s, told.preemptor_priority) == (("m-1",), 120, 3)

                at.sessions.tell(WEB, a_machine(State.IDLE, id="m-1"))
                await until(lambda: len(at.hands.states) == 2)
                assert [str(state.state) for state in at.hands.states] == ["Configured", "Idle"]
                assert at.hands.states[0].allocatable == SERVING.profile.resources

                at.sessions.publish([Hint(WEB, profile, 5, Confidence.HIGH, 0.25)])
                await until(lambda: len(at.hands.hints) == 1)
                assert at.hands.hints[0].fingerprint == profile.fingerprint
                facts = at.sessions.facts()[0]
                assert (facts.cluster, facts.protocol_version) == (WEB, "v1alpha1")
            await until(lambda: len(at.sessions) == 0)

        async def whole() -> None:
            stage = a_stage(SERVING, options=SessionOptions(epoch=9))
            async with lab(over=server, stage=stage) as laboratory:
                await scenario(laboratory)

        asyncio.run(whole())

    def test_a_newer_session_takes_the_place_of_the_older_one(self) -> None:
        async def scenario(at: Lab) -> None:
            async with at.peer() as older, at.peer() as newer:
                await older.say(HELLO)
                assert (await older.hear()).ack.echo == "hello"
                await newer.say(HELLO)
                assert (await newer.hear()).ack.echo == "hello"
                with pytest.raises(Unavailable, match="has connected again"):
                    await older.hear()
                at.sessions.tell(WEB, SERVING)
                assert (await newer.hear()).node_state_update.machine_id == "m-1"
                assert len(at.stage.journal.of(Event.SESSION_REPLACED)) == 1
            await until(lambda: len(at.sessions) == 0)
            assert len(at.stage.journal.of(Event.SESSION_CLOSED)) == 1

        in_lab(scenario)

    def test_a_client_that_comes_back_after_a_restart_says_its_newest_needs(self) -> None:
        async def scenario() -> None:
            async with AsyncExitStack() as stack:
                async with lab() as first:
                    client = await stack.enter_async_context(first.client())
                    client.set_needs([a_need(group="old")])
                    await until(lambda: len(first.stage.book.applied) > 0)
                await until(lambda: not client.facts().connected)
                client.set_needs([a_need(group="newer")])
                client.set_needs([a_need(group="newest")])
                async with lab(at=first.address) as second:
                    await until(lambda: len(second.stage.book.applied) > 0)
                    groups = {needs[0].group for _, needs in second.stage.book.applied}
                    assert groups == {"newest"}
                    await until(lambda: client.facts().sessions == 2)
                    await stack.aclose()

        asyncio.run(scenario())


class TestPeer:
    """A BigFleet operator knows the protocol and nothing of us."""

    def test_hello_rollup_and_answers_work_for_a_peer_that_waits_for_nothing(self) -> None:
        async def scenario(at: Lab) -> None:
            async with at.peer() as peer, asyncio.TaskGroup() as tasks:
                await peer.say(HELLO)
                await peer.stream.write(rollup_frame(WEB, [a_need()], timestamp_nanos=3))
                echoes = {(await peer.hear()).ack.echo for _ in range(2)}
                assert echoes == {"hello", "rollup"}
                assert at.stage.wakes == 1

                blob = tasks.create_task(at.sessions.bootstrap(WEB, (), timeout_s=20))
                asked = (await peer.hear()).bootstrap_request
                assert (asked.cluster_id, len(asked.request_id)) == ("web", 16)
                answer = pb.BootstrapBlobResponse(request_id=asked.request_id, user_data=b"x")
                await peer.say(pb.OperatorMessage(bootstrap_response=answer))
                assert await blob == b"x"

                at.sessions.reclaim(
                    SERVING, grace_s=30, unheard_grace_s=30, preemptor_priority=None
                )
                told = (await peer.hear()).reclaim_instruction
                assert (list(told.nodes), told.preemptor_priority) == (["m-1"], 0)
                ack = pb.ReclaimAck(instruction_id=told.instruction_id, nodes_started=1)
                await peer.say(pb.OperatorMessage(reclaim_ack=ack), HELLO)
                assert (await peer.hear()).ack.echo == "hello"

        in_lab(scenario)

    @pytest.mark.parametrize("data", [b"\xc2\x3e\x03abc", b"\x2a\x00", b"", b"\x0a\xff"])
    def test_an_unknown_payload_is_ignored_and_counted_and_the_stream_survives(
        self, data: bytes
    ) -> None:
        async def scenario(at: Lab) -> None:
            async with at.peer() as peer:
                await peer.say(HELLO)
                await peer.hear()
                await peer.stream.write(data)
                await peer.say(HELLO)
                assert (await peer.hear()).ack.echo == "hello"
                assert len(at.stage.journal.of(Event.FRAME_IGNORED)) == 1

        in_lab(scenario)

    def test_a_refused_rollup_is_not_acknowledged_and_the_stream_survives(self) -> None:
        async def scenario(at: Lab) -> None:
            async with at.peer() as peer:
                await peer.say(HELLO)
                await peer.hear()
                await peer.stream.write(b"\x12\xff\xff\xff")
                await until(lambda: len(at.stage.journal.of(Event.ROLLUP_REFUSED)) == 1)
                await peer.say(HELLO)
                assert (await peer.hear()).ack.echo == "hello"
                assert (at.stage.wakes, at.stage.book.applied) == (0, [])

        in_lab(scenario)

    @pytest.mark.parametrize(
        ("data", "why"),
        [
            (rollup_frame(WEB, [], timestamp_nanos=1), "the first frame must be a Hello"),
            (
                pb.OperatorMessage(reclaim_ack=pb.ReclaimAck()).SerializeToString(),
                "must be a Hello",
            ),
            (cluster_frame_to_wire(Hello("")), "cluster_id is empty"),
            (cluster_frame_to_wire(Hello("two words")), "not a cluster id"),
            (b"\x0a\xff", "the first frame must be a Hello"),
            (b"", "the first frame must be a Hello"),
        ],
    )
    def test_a_stream_that_does_not_begin_with_hello_ends_as_an_invalid_argument(
        self, data: bytes, why: str
    ) -> None:
        async def scenario(at: Lab) -> None:
            async with open_channel(at.address, Plaintext()) as channel:
                method: grpc.aio.StreamStreamMultiCallable[bytes, bytes]
                method = channel.stream_stream("/bigfleet.v1alpha1.Shard/Session")
                call = method()
                await call.write(data)
                with pytest.raises(grpc.aio.AioRpcError, match=why) as caught:
                    await call.read()
                assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
                assert len(at.sessions) == 0

        in_lab(scenario)

    def test_a_stream_that_says_nothing_does_not_stay(self) -> None:
        async def scenario(at: Lab) -> None:
            async with at.peer() as peer:
                with pytest.raises(Unavailable, match=r"no Hello within 0\.5 s"):
                    await peer.hear()

        in_lab(scenario)

    def test_another_clusters_hello_in_a_session_ends_it(self) -> None:
        async def scenario(at: Lab) -> None:
            async with at.peer() as peer:
                await peer.say(HELLO, pb.OperatorMessage(hello=pb.Hello(cluster_id="batch")))
                assert (await peer.hear()).ack.echo == "hello"
                with pytest.raises(Exception, match="the session of cluster web"):
                    await peer.hear()
            await until(lambda: len(at.sessions) == 0)

        in_lab(scenario)


class TestIdentity:
    @pytest.mark.parametrize(
        "uris",
        [
            ["bigfleet://cluster/batch"],
            ["bigfleet://shard/web"],
            ["bigfleet://admin"],
            [WEB_URI, "bigfleet://cluster/batch"],
            ["https://example.org/"],
        ],
        ids=str,
    )
    def test_another_certificate_is_refused_and_counted(
        self, uris: Sequence[str], authority: Authority
    ) -> None:
        async def scenario(at: Lab) -> None:
            async with at.peer(over=tls(authority, *uris, name="it")) as peer:
                await peer.say(HELLO)
                with pytest.raises(NotAllowed):
                    await peer.hear()
                assert len(at.stage.journal.of(Event.SESSION_REFUSED)) == 1
                assert len(at.sessions) == 0

        in_lab(scenario, over=tls(authority, SHARD, name="shard"))

    def test_who_is_refused_takes_nobodys_place(self, authority: Authority) -> None:
        async def scenario(at: Lab) -> None:
            thief = tls(authority, "bigfleet://cluster/batch", name="batch")
            async with at.peer(over=tls(authority, WEB_URI, name="web")) as web:
                await web.say(HELLO)
                await web.hear()
                async with at.peer(over=thief) as peer:
                    await peer.say(HELLO)
                    with pytest.raises(NotAllowed, match=r"may not open a session as .*/web"):
                        await peer.hear()
                at.sessions.tell(WEB, SERVING)
                assert (await web.hear()).node_state_update.machine_id == "m-1"

        in_lab(scenario, over=tls(authority, SHARD, name="shard"))

    def test_a_client_that_is_refused_says_why_and_goes_on_trying(
        self, authority: Authority
    ) -> None:
        async def scenario(at: Lab) -> None:
            async with at.client(over=tls(authority, "bigfleet://cluster/x", name="x")) as client:
                await until(lambda: len(at.stage.journal.of(Event.SESSION_REFUSED)) > 1)
                await until(lambda: "may not open a session" in client.facts().why)
                assert not client.facts().connected

        in_lab(scenario, over=tls(authority, SHARD, name="shard"))

    def test_plaintext_gets_no_session_from_a_shard_with_tls(self, authority: Authority) -> None:
        async def scenario(at: Lab) -> None:
            async with at.peer(over=Plaintext()) as peer:
                with pytest.raises(Unavailable):
                    await greeted(peer)
                assert len(at.sessions) == 0

        in_lab(scenario, over=tls(authority, SHARD, name="shard"))


def gangs(count: int) -> list[Need]:
    return [a_need(group=f"gang-{number}") for number in range(count)]


def acknowledged(client: SessionClient, rollups: int) -> bool:
    return client.facts().rollups_acknowledged == rollups


def ref_of(need: Need) -> NeedRef:
    return NeedRef(need.cluster, need.profile.fingerprint, need.group)


class TestUnderLoad:
    def test_a_huge_rollup_never_delays_a_bootstrap_answer(self) -> None:
        """While it is read and judged, which here takes until the answer has come: the first of a
        cluster, one that changes it, and one that says the same anew."""

        async def scenario() -> None:
            answered = asyncio.Event()

            async def slowly(work: Callable[[], object]) -> object:
                judged = await asyncio.to_thread(work)
                await answered.wait()
                return judged

            async with lab(stage=a_stage(aside=slowly)) as at, at.client(every_s=600) as client:
                book = at.stage.book

                async def told(rows: Sequence[Need]) -> None:
                    taken, before = len(book.applied), book.of_cluster(WEB)
                    answered.clear()
                    client.set_needs(rows)
                    await until(lambda: client.facts().rollups_sent > taken, seconds=60)
                    assert await at.sessions.bootstrap(WEB, (), timeout_s=20) == BLOB
                    assert book.of_cluster(WEB) is before
                    assert len(book.applied) == taken
                    answered.set()
                    await until(lambda: len(book.applied) > taken, seconds=60)
                    assert len(book.of_cluster(WEB)) == len(rows)

                for count in (10_000, 10_001, 10_001):
                    await told(gangs(count))

        asyncio.run(scenario())

    def test_nothing_that_grows_with_a_rollup_is_done_on_the_loop(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is read, judged, and compared row by row in threads of others."""
        threads: dict[str, set[str]] = {}

        def noted(name: str, work: Callable[..., object]) -> Callable[..., object]:
            def working(*given: object, **named: object) -> object:
                threads.setdefault(name, set()).add(threading.current_thread().name)
                return work(*given, **named)

            return working

        monkeypatch.setattr("mainstay.shard.sessions.accept", noted("read", accept))
        monkeypatch.setattr("mainstay.shard.demand.judge", noted("judged", judge))
        monkeypatch.setattr(Need, "__eq__", noted("compared", Need.__eq__))
        monkeypatch.setattr(Need, "ref", property(noted("looked up", ref_of)))

        async def scenario(at: Lab) -> None:
            async with at.client(every_s=600) as client:
                for number, count in enumerate((200, 200, 300, 1), start=1):
                    client.set_needs(gangs(count))
                    await until(partial(acknowledged, client, number))
                assert len(at.stage.book.of_cluster(WEB)) == 300
                assert at.stage.book.held.keys() == {WEB}

        in_lab(scenario)
        assert threads.keys() == {"read", "judged", "compared", "looked up"}
        assert threading.main_thread().name not in set().union(*threads.values())

    def test_a_slow_reader_is_cut_off_and_delays_no_other(self) -> None:
        options = SessionOptions(slow_reader_s=1.0)

        async def scenario(at: Lab) -> None:
            async with at.peer() as deaf, at.client("batch") as client:
                await deaf.say(HELLO)
                await deaf.hear()
                await client.wait_connected()
                for number in range(500):
                    at.sessions.tell(WEB, wide(f"m-{number}"))
                await until(lambda: WEB not in at.sessions)
                cuts = at.stage.journal.of(Event.SESSION_CUT)
                assert [cut.reason for cut in cuts] == ["slow"]
                with pytest.raises(NoSession):
                    await at.sessions.bootstrap(WEB, (), timeout_s=20)
                assert await at.sessions.bootstrap(ClusterId("batch"), (), timeout_s=20) == BLOB
                with pytest.raises(Unavailable, match="cut off: nothing was read for 1 s"):
                    await heard_to_the_end(deaf)

        async def whole() -> None:
            async with lab(stage=a_stage(options=options)) as laboratory:
                await scenario(laboratory)

        asyncio.run(whole())

    def test_a_shard_stops_though_somebody_does_not_read(self) -> None:
        async def scenario(at: Lab, stack: AsyncExitStack) -> None:
            deaf = await stack.enter_async_context(at.peer())
            await greeted(deaf)
            for number in range(500):
                at.sessions.tell(WEB, wide(f"m-{number}"))
            await asyncio.sleep(0.2)
            assert at.sessions.facts()[0].waiting_frames > 0

        async def whole() -> None:
            async with asyncio.timeout(30), AsyncExitStack() as stack:
                async with lab() as at:
                    await scenario(at, stack)

        asyncio.run(whole())


class Wire:
    """A connection that can be cut in the middle without either end being told. Has threads."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._to = host, int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._ends: list[socket.socket] = [self._listener]
        self._threads: list[threading.Thread] = []
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.cut = False

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        while any(thread.is_alive() for thread in self._threads):
            for end in tuple(self._ends):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
            for thread in tuple(self._threads):
                thread.join(0.1)
        for end in self._ends:
            end.close()

    def _start(self, work: Callable[..., None], *given: socket.socket) -> None:
        thread = threading.Thread(target=work, args=given, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                here, _ = self._listener.accept()
                there = socket.create_connection(self._to)
                self._ends += [here, there]
                self._start(self._pump, here, there)
                self._start(self._pump, there, here)

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if not self.cut:
                    target.sendall(data)
            if not self.cut:
                target.shutdown(socket.SHUT_RDWR)


class TestDeadPeers:
    ALIVE = (
        ("grpc.keepalive_time_ms", 500),
        ("grpc.keepalive_timeout_ms", 500),
        ("grpc.http2.ping_timeout_ms", 500),
    )
    TOLERANT = (("grpc.http2.min_ping_interval_without_data_ms", 100),)

    def test_a_cluster_that_is_gone_without_a_word_is_noticed(self) -> None:
        async def scenario(at: Lab) -> None:
            with Wire(at.address) as wire:
                async with peer_at(wire.address) as peer:
                    await greeted(peer)
                    assert len(at.sessions) == 1
                    wire.cut = True
                    await until(lambda: len(at.sessions) == 0)

        in_lab(scenario, options=self.ALIVE)

    def test_a_shard_that_is_gone_without_a_word_is_noticed(self) -> None:
        async def scenario(at: Lab) -> None:
            with Wire(at.address) as wire:
                async with peer_at(wire.address, self.ALIVE) as peer:
                    await greeted(peer)
                    wire.cut = True
                    with pytest.raises(Unavailable):
                        await peer.hear()

        in_lab(scenario, options=self.TOLERANT)

    def test_both_ends_ask_whether_the_other_is_there_and_may(self) -> None:
        """Every 30 s, for 10 s; a server hangs up on clients that ask more than it allows."""
        asks = {"grpc.keepalive_time_ms": 30_000, "grpc.keepalive_timeout_ms": 10_000}

        assert asks.items() <= dict(SERVER_OPTIONS).items()
        assert asks.items() <= dict(KEEPALIVE_OPTIONS).items()
        assert dict(SERVER_OPTIONS)["grpc.http2.min_ping_interval_without_data_ms"] <= 30_000


@asynccontextmanager
async def peer_at(address: str, options: Options = ()) -> AsyncIterator[Peer]:
    async with (
        open_channel(address, Plaintext(), options=options) as channel,
        streaming(channel) as stream,
    ):
        yield Peer(stream)


CLIENTS = 2_000
CHANNELS = 8
AT_ONCE = ReconnectOptions(shortest_s=0.5, longest_s=1.0)
"""However long the shard was away: nobody has the patience that spreads them out."""


def connected(clients: Sequence[SessionClient]) -> int:
    return sum(client.facts().connected for client in clients)


def on(channel: grpc.aio.Channel) -> Dial:
    return lambda _, __: streaming(channel)


HERD_PATIENCE_S = 150.0
"""A busy machine is no failure here; test_sessions_bench holds the promise of half a minute."""


class TestHerd:
    def test_two_thousand_clients_that_reconnect_at_once_are_all_acknowledged(
        self,
    ) -> None:
        async def herd(address: str, stack: AsyncExitStack) -> list[SessionClient]:
            own = (("grpc.use_local_subchannel_pool", 1),)
            channels = [
                await stack.enter_async_context(open_channel(address, Plaintext(), options=own))
                for _ in range(CHANNELS)
            ]
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            clients = []
            for number in range(CLIENTS):
                tools = ClientTools(dial=on(channels[number % CHANNELS]), reconnect=AT_ONCE)
                client = SessionClient(f"c-{number}", address, Plaintext(), Hands(), tools=tools)
                client.set_needs([a_need(cluster=client.cluster)])
                stack.callback(tasks.create_task(client.run()).cancel)
                clients.append(client)
            return clients

        async def scenario() -> None:
            async with AsyncExitStack() as stack:
                async with lab() as first:
                    clients = await herd(first.address, stack)
                    await until(lambda: connected(clients) == CLIENTS, seconds=HERD_PATIENCE_S)
                    assert len(first.sessions) == CLIENTS
                await until(lambda: connected(clients) == 0, seconds=HERD_PATIENCE_S)

                async with lab(at=first.address) as second:
                    started_s = asyncio.get_running_loop().time()
                    await until(
                        lambda: all(client.facts().sessions == 2 for client in clients),
                        seconds=HERD_PATIENCE_S,
                    )
                    took_s = asyncio.get_running_loop().time() - started_s
                    assert len(second.sessions) == CLIENTS
                    assert len(second.stage.journal.of(Event.SESSION_REPLACED)) == 0
                    logging.getLogger(__name__).info("acknowledged in %.1f s", took_s)
                    heard = second.stage.book.applied
                    await until(
                        lambda: len({cluster for cluster, _ in heard}) == CLIENTS,
                        seconds=HERD_PATIENCE_S,
                    )
                    await stack.aclose()

        asyncio.run(scenario())
