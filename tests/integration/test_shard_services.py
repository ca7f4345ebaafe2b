"""A shard's services over a real connection: every call, and who may make it."""

import asyncio
from collections.abc import Mapping
from typing import Final

import grpc
import pytest

from certificates import Authority
from live_shard import FakeShard, a_shard, a_view, asked, served, short_need
from mainstay.model.errors import Rejected, Unavailable, UnknownMachine
from mainstay.model.questions import (
    About,
    LiftControlRequest,
    Question,
    RetireRequest,
    SetControlRequest,
    WhatIfQuery,
)
from mainstay.model.views import (
    ActionQuery,
    ClusterQuery,
    ControlQuery,
    MachineQuery,
    NeedQuery,
    ProviderQuery,
    ShortfallQuery,
    SummaryQuery,
)
from mainstay.shard.answers.rows import CHUNK
from mainstay.wire.pb.bigfleet.v1alpha1 import shardread_pb2 as pb
from mainstay.wire.shard_read_server import READ_SERVICE
from mainstay.wire.shard_view_client import RemoteShard
from mainstay.wire.shard_view_server import CONTROL_SERVICE, ORDERS, QUERIES, VIEW_SERVICE
from mainstay.wire.status import NotAllowed
from mainstay.wire.tls import Plaintext, transport
from mainstay.wire.transport import open_channel

Stream = grpc.aio.UnaryStreamMultiCallable[bytes, bytes]

READS: Final = (*(f"/{VIEW_SERVICE}/{call}" for call in ("Machines", *QUERIES)),
                f"/{READ_SERVICE}/InspectNeeds")  # fmt: skip
CONTROLS: Final = tuple(f"/{CONTROL_SERVICE}/{call}" for call in ORDERS)
STREAMS: Final = frozenset({f"/{VIEW_SERVICE}/Machines", f"/{READ_SERVICE}/InspectNeeds"})

MAY: Final[Mapping[tuple[str, ...], tuple[bool, bool]]] = {
    ("bigfleet://admin",): (True, True),
    ("bigfleet://readonly",): (True, False),
    ("bigfleet://shard/s-0",): (False, False),
    ("bigfleet://cluster/web",): (False, False),
    (): (False, False),
    ("bigfleet://admin", "bigfleet://readonly"): (False, False),
}
"""The URIs of a certificate: whether it may read, whether it may control."""


def told(authority: Authority, uris: tuple[str, ...], path: str) -> grpc.StatusCode:
    """How a call ends that is made with a certificate for these URIs."""
    server = transport(authority.flags("bigfleet://shard/s-0", name="server"), "127.0.0.1:0")
    client = transport(authority.flags(*uris, name="client"), "127.0.0.1:0")

    async def call() -> grpc.StatusCode:
        async with served(a_shard(), server) as address, open_channel(address, client) as channel:
            return await status_of(channel, path)

    return asyncio.run(call())


async def status_of(channel: grpc.aio.Channel, path: str) -> grpc.StatusCode:
    try:
        if path in STREAMS:
            stream: Stream = channel.unary_stream(path)
            async for _ in stream(b"", timeout=20):
                pass
        else:
            method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(path)
            await method(b"", timeout=20)
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki"))


@pytest.mark.parametrize("path", [*READS, *CONTROLS], ids=lambda path: path.rpartition("/")[2])
@pytest.mark.parametrize("uris", MAY, ids=lambda uris: "+".join(uris) or "no URI")
def test_who_may_call_what(uris: tuple[str, ...], path: str, authority: Authority) -> None:
    may_read, may_control = MAY[uris]
    allowed = may_control if path in CONTROLS else may_read

    status = told(authority, uris, path)

    denied = status is grpc.StatusCode.PERMISSION_DENIED
    assert denied is not allowed
    assert status is not grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("path", [*READS, *CONTROLS], ids=lambda path: path.rpartition("/")[2])
def test_on_plaintext_nobody_is_asked_who_they_are(path: str) -> None:
    async def call() -> grpc.StatusCode:
        async with served(a_shard()) as address:
            async with open_channel(address, Plaintext()) as channel:
                return await status_of(channel, path)

    assert asyncio.run(call()) is not grpc.StatusCode.PERMISSION_DENIED


class TestNames:
    def test_a_certificate_says_who_sets_a_control(self, authority: Authority) -> None:
        shard = a_shard()
        server = transport(authority.flags("bigfleet://shard/s-0", name="s"), "127.0.0.1:0")
        client = transport(authority.flags("bigfleet://admin", name="a"), "127.0.0.1:0")

        async def call() -> None:
            async with asked(shard, server, client) as remote:
                await remote.set_control(
                    SetControlRequest(kind="pause", reason="r", for_s=60, by="somebody else")
                )

        asyncio.run(call())
        assert [control.by for control in shard.set_controls] == ["bigfleet://admin"]

    def test_on_plaintext_whoever_asks_says_so(self) -> None:
        shard = a_shard()

        async def call() -> None:
            async with asked(shard) as remote:
                await remote.set_control(
                    SetControlRequest(kind="pause", reason="r", for_s=60, by="ann")
                )

        asyncio.run(call())
        assert [control.by for control in shard.set_controls] == ["ann"]

    def test_one_that_may_not_is_told_who_may(self, authority: Authority) -> None:
        server = transport(authority.flags("bigfleet://shard/s-0", name="s2"), "127.0.0.1:0")
        client = transport(authority.flags("bigfleet://readonly", name="r2"), "127.0.0.1:0")

        async def call() -> None:
            async with asked(a_shard(), server, client) as remote:
                await remote.retire(RetireRequest(machine="x-000", reason="r"))

        with pytest.raises(NotAllowed, match=r"bigfleet://readonly may not control .*admin may"):
            asyncio.run(call())


class TestCalls:
    def test_every_question_is_answered_as_the_shard_answers_it(self) -> None:
        shard = a_shard()
        view = a_view(shard)

        async def compared() -> None:
            async with asked(shard) as remote:
                assert await remote.needs(NeedQuery()) == await view.needs(NeedQuery())
                assert await remote.clusters(ClusterQuery()) == await view.clusters(ClusterQuery())
                assert await remote.actions(ActionQuery()) == await view.actions(ActionQuery())
                short, none = ShortfallQuery(), ProviderQuery()
                assert await remote.shortfalls(short) == await view.shortfalls(short)
                assert await remote.providers(none) == await view.providers(none)
                assert await remote.controls(ControlQuery()) == await view.controls(ControlQuery())
                assert await remote.summary(SummaryQuery()) == await view.summary(SummaryQuery())
                why = Question(
                    about=About.NEED, name="batch", fingerprint=short_need().ref.fingerprint
                )
                assert await remote.explain(why) == await view.explain(why)
                lost = WhatIfQuery(lost_zones=("zone-b",))
                assert await remote.what_if(lost) == await view.what_if(lost)

        asyncio.run(compared())

    def test_machines_come_in_chunks_and_all_of_them_come(self) -> None:
        async def listed() -> tuple[list[int], set[int]]:
            async with asked(a_shard()) as remote:
                chunks = [chunk async for chunk in remote.machines(MachineQuery())]
                return [len(chunk.rows) for chunk in chunks], {chunk.matched for chunk in chunks}

        sizes, matched = asyncio.run(listed())
        assert (sum(sizes), matched) == (300, {300})
        assert max(sizes) <= CHUNK

    def test_controls_are_set_lifted_and_machines_retired(self) -> None:
        shard = a_shard()

        async def call() -> None:
            async with asked(shard) as remote:
                pause = SetControlRequest(kind="pause", reason="r", for_s=60, by="ann")
                row = await remote.set_control(pause)
                assert (row.kind, row.reason) == ("pause", "r")
                lifted = await remote.lift_control(
                    LiftControlRequest(kind="pause", reason="over", by="ann")
                )
                assert lifted == row
                retired = await remote.retire(RetireRequest(machine="x-001", reason="r", by="ann"))
                assert retired.machine == "x-001"

        asyncio.run(call())
        assert shard.retired == [("x-001", "r", "ann")]


class TestErrors:
    def ended(self, shard: FakeShard, question: Question) -> None:
        async def call() -> None:
            async with asked(shard) as remote:
                await remote.explain(question)

        asyncio.run(call())

    def test_an_error_comes_over_as_what_it_is(self) -> None:
        with pytest.raises(UnknownMachine, match="shard s-0: no machine m-9"):
            self.ended(a_shard(), Question(about=About.MACHINE, name="m-9"))
        with pytest.raises(Rejected, match="2 needs of batch could be meant"):
            self.ended(a_shard(), Question(about=About.NEED, name="batch"))
        with pytest.raises(Unavailable, match="first cycle"):
            self.ended(FakeShard(), Question(about=About.NEED, name="web"))

    def test_a_refused_list_is_an_error_too(self) -> None:
        async def call() -> None:
            async with asked(a_shard()) as remote:
                async for _ in remote.machines(MachineQuery(limit=-1)):
                    pass

        with pytest.raises(Rejected, match="limit must not be negative"):
            asyncio.run(call())

    def test_one_that_is_not_there_is_said_not_to_answer(self) -> None:
        async def call() -> None:
            async with open_channel("127.0.0.1:1", Plaintext()) as channel:
                await RemoteShard(channel, name="shard s-9").summary(SummaryQuery())

        with pytest.raises(Unavailable, match=r"shard s-9 does not answer, is it running\?"):
            asyncio.run(call())


class TestInspectNeeds:
    def frames(self, shard: FakeShard, **given: object) -> list[pb.InspectNeedsResponse]:
        request = pb.InspectNeedsRequest(**given).SerializeToString()  # type: ignore[arg-type]

        async def call() -> list[pb.InspectNeedsResponse]:
            async with served(shard) as address, open_channel(address, Plaintext()) as channel:
                method: Stream = channel.unary_stream(f"/{READ_SERVICE}/InspectNeeds")
                found = [data async for data in method(request, timeout=20)]
                return [pb.InspectNeedsResponse.FromString(data) for data in found]

        return asyncio.run(call())

    def test_the_header_then_the_needs(self) -> None:
        frames = self.frames(a_shard())

        assert [frame.WhichOneof("frame") for frame in frames] == ["header", *["need"] * 3]
        assert frames[0].header.total_needs == 3
        assert [frame.need.need.priority for frame in frames[1:]] == [100, 50, 10]

    def test_before_the_first_cycle_there_is_a_header_of_cycle_zero_alone(self) -> None:
        (frame,) = self.frames(FakeShard())

        assert (frame.WhichOneof("frame"), frame.header.cycle) == ("header", 0)

    def test_a_cluster_and_a_limit_narrow_it(self) -> None:
        frames = self.frames(a_shard(), cluster_id="batch", limit=1)

        assert (frames[0].header.total_needs, len(frames)) == (2, 2)

    def test_a_negative_limit_is_refused(self) -> None:
        with pytest.raises(grpc.aio.AioRpcError, match="limit must not be negative"):
            self.frames(a_shard(), limit=-1)
