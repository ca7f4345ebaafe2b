"""Sessions with a whole shard over real streams: identity, lanes, what is refused, what is told."""

import asyncio
import dataclasses
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
from typing_extensions import override

from builders import a_machine
from certificates import Authority
from mainstay.model.errors import Unavailable
from mainstay.model.frames import BootstrapAsked
from mainstay.model.ids import ClusterId
from mainstay.model.need import Need, NeedProfile
from mainstay.model.rollup import RawNeed, accept
from mainstay.model.state import State
from mainstay.model.views import ClusterQuery, MachineQuery, NeedQuery, NeedRow
from mainstay.shard.events import Event
from mainstay.shard.sessions import SessionOptions
from mainstay.wire.pb.bigfleet.v1alpha1 import capacity_pb2, provider_pb2, shard_pb2
from mainstay.wire.session_client import SessionStream, dial
from mainstay.wire.session_server import session_handler
from mainstay.wire.shard_view_client import RemoteShard
from mainstay.wire.status import NotAllowed
from mainstay.wire.tls import Plaintext, transport
from mainstay.wire.transport import Over, serving
from served_shard import LOOPBACK, instant, served, until
from shard_over_sim import OFFER
from talking import BLOB, Hands, Stage

WEB: Final = ClusterId("web")
REJECTED: Final = "mainstay_shard_rollups_rejected_total"


def needs(machines: int, *, priority: int = 100, cluster: str = "web") -> Need:
    return Need(
        cluster=ClusterId(cluster),
        profile=NeedProfile(priority=priority),
        aggregate={"cpu": machines * 2_000},
        min_unit={"cpu": 2_000},
    )


class Peer:
    """An operator that knows the protocol and nothing of us."""

    def __init__(self, stream: SessionStream) -> None:
        self.stream = stream
        self.heard: list[shard_pb2.ShardMessage] = []

    async def say(self, message: shard_pb2.OperatorMessage) -> None:
        await self.stream.write(message.SerializeToString())

    async def greet(self, cluster: str = "web") -> shard_pb2.ShardMessage:
        hello = shard_pb2.Hello(cluster_id=cluster, protocol_version="v1alpha1")
        await self.say(shard_pb2.OperatorMessage(hello=hello))
        return await self.hear("ack")

    async def roll_up(self, *rows: capacity_pb2.CapacityNeed) -> None:
        told = capacity_pb2.ClusterCapacityNeeds(
            cluster_id="web", timestamp_unix_nanos=1, needs=rows
        )
        await self.say(shard_pb2.OperatorMessage(rollup=told))

    async def hear(self, kind: str) -> shard_pb2.ShardMessage:
        """The next frame of a kind; those before it are kept in `heard`."""
        async with asyncio.timeout(30):
            while True:
                data = await self.stream.read()
                assert data is not None
                self.heard.append(shard_pb2.ShardMessage.FromString(data))
                if self.heard[-1].WhichOneof("payload") == kind:
                    return self.heard[-1]


@asynccontextmanager
async def a_peer(address: str, over: Over) -> AsyncIterator[Peer]:
    async with dial(address, over) as stream:
        yield Peer(stream)


def row(**given: object) -> capacity_pb2.CapacityNeed:
    amount = {"cpu": "2"}
    asked = {"aggregate_resources": amount, "min_unit": amount, "priority": 100, **given}
    return capacity_pb2.CapacityNeed(**asked)  # type: ignore[arg-type]


def serve(remote: RemoteShard, count: int) -> Callable[[], object]:
    async def said() -> bool:
        query = MachineQuery(states=(State.CONFIGURED,))
        return sum([len(rows.rows) async for rows in remote.machines(query)]) == count

    return said


async def heard(remote: RemoteShard, cluster: str = "web") -> bool:
    found = (await remote.clusters(ClusterQuery(cluster=cluster))).rows
    return bool(found) and found[0].heard


class TestIdentity:
    def tls(self, authority: Authority, uri: str) -> Over:
        name = uri.removeprefix("bigfleet://").replace("/", "-")
        return transport(authority.flags(uri, name=name), "example.org:1")

    def test_a_certificate_of_another_cluster_is_refused_and_counted_and_its_own_is_served(
        self, tmp_path: Path
    ) -> None:
        """Who is refused hears nothing and changes nothing of what the cluster asks for."""
        authority = Authority(tmp_path)
        flags = authority.flags("bigfleet://shard/shard-0", name="shard")
        web = self.tls(authority, "bigfleet://cluster/web")
        thief = self.tls(authority, "bigfleet://cluster/batch")
        reader = self.tls(authority, "bigfleet://readonly")

        async def scenario() -> None:
            async with (
                served(tmp_path / "home", instant(idle=3), flags) as shard,
                shard.asked(reader) as remote,
                shard.cluster(over=web) as client,
            ):
                client.set_needs([needs(2)])
                await until(serve(remote, 2))
                async with a_peer(shard.grpc, thief) as peer:
                    with pytest.raises(NotAllowed, match="may not open a session"):
                        await peer.greet("web")
                counted = "mainstay_shard_session_identity_rejected_total"
                assert await shard.metric(counted) == 1
                assert client.facts().sessions == 1
                assert await shard.metric("mainstay_shard_sessions_replaced_total") == 0
                assert len((await remote.needs(NeedQuery(cluster="web"))).rows) == 1
                with pytest.raises(NotAllowed):
                    async with shard.asked(web) as asking:
                        await asking.needs(NeedQuery())

        asyncio.run(scenario())


class TestRefused:
    @pytest.mark.parametrize(
        "bad",
        [
            {"interruption_penalty_bucket": 28},
            {"reclamation_penalty_bucket": 28},
            {"interruption_penalty_bucket": -1},
            {"aggregate_resources": {"cpu": "two"}},
            {"min_unit": {"memory": "1Qi"}},
            {"aggregate_resources": {"cpu": "-1"}},
        ],
        ids=str,
    )
    def test_one_bad_row_refuses_all_keeps_what_was_believed_and_is_not_acknowledged(
        self, tmp_path: Path, bad: dict[str, object]
    ) -> None:
        async def scenario() -> None:
            async with served(tmp_path, instant(idle=1)) as shard, shard.asked() as remote:
                async with a_peer(shard.grpc, shard.over) as peer:
                    await peer.greet()
                    await peer.roll_up(row(), row(**bad, priority=7))

                    async def refused() -> bool:
                        return await shard.metric(REJECTED) == 1

                    await until(refused)
                    assert not await heard(remote)
                    await peer.roll_up(row(interruption_penalty_bucket=27))
                    assert (await peer.hear("ack")).ack.echo == "rollup"  # the first there is

                    async def believed() -> Sequence[NeedRow]:
                        return (await remote.needs(NeedQuery())).rows

                    (before,) = await until(believed)
                    assert (before.asked, before.priority) == ({"cpu": "2"}, 100)
                    await peer.roll_up(row(**bad), row())

                    async def refused_again() -> bool:
                        return await shard.metric(REJECTED) == 2

                    await until(refused_again)
                    (after,) = await believed()
                    assert after.fingerprint == before.fingerprint
                    assert (await peer.greet()).ack.echo == "hello"
                    echoes = [each.ack.echo for each in peer.heard if each.HasField("ack")]
                    assert echoes == ["hello", "rollup", "hello"]

        asyncio.run(scenario())


class TestLanes:
    def test_roll_ups_are_read_beside_the_loop_and_a_bootstrap_is_answered_meanwhile(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whoever reads them is held up here until the machine has joined."""
        joined, threads = threading.Event(), list[str]()

        def slowly(cluster: ClusterId, rows: Iterable[RawNeed], **given: int) -> tuple[Need, ...]:
            threads.append(threading.current_thread().name)
            if len(threads) > 1:
                joined.wait(60)
            return accept(cluster, rows, **given)  # type: ignore[arg-type]

        class Slow(Hands):
            @override
            async def bootstrap(self, asked: BootstrapAsked) -> bytes:
                self.asked.append(asked)
                await until(lambda: len(threads) > 1)
                return BLOB

        async def scenario() -> None:
            hands = Slow()
            async with served(tmp_path, instant(idle=1)) as shard, shard.asked() as remote:
                async with shard.cluster(hands=hands) as web:
                    web.set_needs([needs(1)])
                    await until(lambda: hands.asked)
                    web.set_needs([needs(1), *many(500)])
                    await until(serve(remote, 1))
                    assert len((await remote.needs(NeedQuery(limit=1))).rows) == 1
                    assert (await remote.needs(NeedQuery(limit=1))).matched == 1
                    joined.set()

                    async def read() -> bool:
                        return (await remote.needs(NeedQuery(limit=1))).matched == 501

                    await until(read)

        monkeypatch.setattr("mainstay.shard.sessions.accept", slowly)
        try:
            asyncio.run(scenario())
        finally:
            joined.set()
        assert threading.main_thread().name not in threads

    def test_of_roll_ups_that_come_while_one_is_read_the_newest_is_read_and_no_other(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        may_go_on, read = threading.Event(), list[int]()

        def noted(cluster: ClusterId, rows: Sequence[RawNeed], **given: int) -> tuple[Need, ...]:
            read.append(len(rows))
            may_go_on.wait(60)
            return accept(cluster, rows, **given)  # type: ignore[arg-type]

        async def scenario() -> None:
            async with served(tmp_path, instant(idle=1)) as shard, shard.asked() as remote:
                async with a_peer(shard.grpc, shard.over) as peer:
                    await peer.greet()
                    await peer.roll_up(*rows_of(1))
                    await until(lambda: read)
                    for count in (2, 3, 4, 5):
                        await peer.roll_up(*rows_of(count))
                    await peer.greet()  # behind them: all have been routed
                    may_go_on.set()
                    echoes = [(await peer.hear("ack")).ack.echo for _ in range(2)]
                    assert (echoes, read) == (["rollup"] * 2, [1, 5])

                    async def believed() -> bool:
                        return (await remote.needs(NeedQuery())).matched == 5

                    await until(believed)

        monkeypatch.setattr("mainstay.shard.sessions.accept", noted)
        try:
            asyncio.run(scenario())
        finally:
            may_go_on.set()


def many(count: int) -> list[Need]:
    """Gangs of one kind, each of its own."""
    profile = NeedProfile(priority=1)
    return [
        dataclasses.replace(needs(1, priority=1), profile=profile, group=f"g-{number}")
        for number in range(count)
    ]


def rows_of(count: int) -> list[capacity_pb2.CapacityNeed]:
    return [row(priority=priority) for priority in range(count)]


def test_a_peer_is_told_of_its_node_its_hints_and_its_drain_in_the_words_of_the_protocol(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with served(tmp_path, instant(idle=2)) as shard:
            async with a_peer(shard.grpc, shard.over) as peer:
                ack = (await peer.greet()).ack
                assert (ack.echo, ack.shard_epoch) == ("hello", 1)
                await peer.roll_up(row())
                asked = (await peer.hear("bootstrap_request")).bootstrap_request
                await peer.say(
                    shard_pb2.OperatorMessage(
                        bootstrap_response=shard_pb2.BootstrapBlobResponse(
                            request_id=asked.request_id, user_data=b"join"
                        )
                    )
                )
                update = await state_of(peer, "CONFIGURED")
                assert update.supersedes_key == f"node:{update.machine_id}"
                assert (update.cluster_id, bool(update.provider_id)) == ("web", True)
                labels = dict(update.labels)
                assert labels["node.kubernetes.io/instance-type"] == OFFER.instance_type
                assert labels["topology.kubernetes.io/zone"] == OFFER.zone
                assert dict(update.resources.resources)["cpu"] == "2"
                hints = [each for each in peer.heard if each.HasField("available_capacity")]
                assert hints
                for hint in hints:
                    key = hint.available_capacity.supersedes_key
                    assert key.startswith("available:")

                await peer.roll_up()
                told = (await peer.hear("reclaim_instruction")).reclaim_instruction
                assert list(told.nodes) == [update.machine_id]
                assert (told.preemptor_priority, len(told.instruction_id)) == (0, 16)
                last = await state_of(peer, "IDLE")
                assert (last.machine_id, last.cluster_id) == (update.machine_id, "web")

    asyncio.run(scenario())


async def state_of(peer: Peer, state: str) -> shard_pb2.NodeStateUpdate:
    """The next word that a machine stands so."""
    while True:
        update = (await peer.hear("node_state_update")).node_state_update
        if provider_pb2.MachineState.Name(update.state).endswith(f"_{state}"):
            return update


def test_of_needs_that_are_set_in_quick_succession_the_last_is_what_the_shard_believes(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with served(tmp_path, instant(idle=1)) as shard, shard.asked() as remote:
            async with shard.cluster() as web:
                await web.wait_connected()
                for machines in range(1, 501):
                    web.set_needs([needs(machines)])
                await until(lambda: web.facts().rollups_acknowledged)

                async def last() -> bool:
                    found = (await remote.needs(NeedQuery())).rows
                    return [each.asked for each in found] == [{"cpu": "1k"}]

                await until(last)
                assert web.facts().rollups_sent <= 3

    asyncio.run(scenario())


def test_what_waits_for_a_cluster_that_does_not_read_is_bounded() -> None:
    async def scenario() -> None:
        stage = Stage(options=SessionOptions(frames_max=20), aside=asyncio.to_thread)
        handlers = [session_handler(stage.sessions)]
        async with serving(handlers, LOOPBACK, Plaintext()) as address:
            async with a_peer(address, Plaintext()) as deaf, a_peer(address, Plaintext()) as other:
                await deaf.greet()
                await other.greet("batch")
                told = 0
                while WEB in stage.sessions:
                    told += 1
                    wide = a_machine(State.CONFIGURED, id=f"m-{told}", last_error="x" * 10)
                    stage.sessions.tell(WEB, wide)
                    assert told <= 21  # nothing is sent meanwhile
                assert [cut.reason for cut in stage.journal.of(Event.SESSION_CUT)] == ["overflow"]
                with pytest.raises(Unavailable, match="20 frames wait to be read"):
                    await deaf.hear("reclaim_instruction")
                assert (await other.greet("batch")).ack.echo == "hello"

    asyncio.run(scenario())


def test_a_frame_of_many_megabytes_is_taken(tmp_path: Path) -> None:
    """gRPC alone would refuse it above four."""

    async def scenario() -> None:
        async with served(tmp_path, instant(idle=1)) as shard, shard.asked() as remote:
            async with a_peer(shard.grpc, shard.over) as peer:
                await peer.greet()
                rows = [row(priority=number, group="g" * 16_000) for number in range(500)]
                assert sum(each.ByteSize() for each in rows) > 7 << 20
                await peer.roll_up(*rows)
                assert (await peer.hear("ack")).ack.echo == "rollup"
                await until(lambda: heard(remote))

    asyncio.run(scenario())
