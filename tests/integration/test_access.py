"""Who may call what, cell by cell: every call of every service, by every kind of certificate."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, cast

import grpc
import pytest

from certificates import Authority
from mainstay.model.errors import NotLeading, Rejected
from mainstay.model.frames import Hello
from mainstay.wire.access import ACCESS, UNLED
from mainstay.wire.coordinator_server import coordinator_handler
from mainstay.wire.coordinator_view_server import (
    coordinator_control_handler,
    coordinator_view_handler,
)
from mainstay.wire.pb.bigfleet.v1alpha1 import coordinator_pb2 as pb
from mainstay.wire.session_frames import cluster_frame_to_wire
from mainstay.wire.session_server import session_handler
from mainstay.wire.shard_read_server import read_handler
from mainstay.wire.shard_view_server import control_handler, view_handler
from mainstay.wire.status import LEADER_KEY
from mainstay.wire.tls import MutualTls, Plaintext, TlsFlags, transport
from mainstay.wire.transport import open_channel, serving

Code = grpc.StatusCode
LOOPBACK: Final = "127.0.0.1:0"

CALLERS: Final[Mapping[str, tuple[str, ...]]] = {
    "the cluster": ("bigfleet://cluster/web",),
    "another cluster": ("bigfleet://cluster/batch",),
    "the shard": ("bigfleet://shard/s-1",),
    "another shard": ("bigfleet://shard/s-2",),
    "a shard of the cluster's name": ("bigfleet://shard/web",),
    "a cluster of the shard's name": ("bigfleet://cluster/s-1",),
    "admin": ("bigfleet://admin",),
    "readonly": ("bigfleet://readonly",),
    "nobody": (),
    "two at once": ("bigfleet://admin", "bigfleet://shard/s-1"),
    "a role that is none": ("bigfleet://emperor",),
    "a stranger": ("bigfleet://admin",),
}
"""By the URIs of their certificates; the stranger's is of another authority."""

SHARD: Final = "bigfleet.v1alpha1.Shard/"
SHARD_READ: Final = "bigfleet.v1alpha1.ShardRead/"
SHARD_VIEW: Final = "mainstay.v1.ShardView/"
SHARD_CONTROL: Final = "mainstay.v1.ShardControl/"
THEIRS: Final = "bigfleet.v1alpha1.Coordinator/"
VIEW: Final = "mainstay.v1.CoordinatorView/"
CONTROL: Final = "mainstay.v1.CoordinatorControl/"

READERS: Final = frozenset({"admin", "readonly"})
ADMINS: Final = frozenset({"admin"})

MAY: Final[Mapping[str, frozenset[str]]] = {
    SHARD + "Session": frozenset({"the cluster"}),
    SHARD_READ + "InspectNeeds": READERS,
    SHARD_VIEW + "Machines": READERS,
    SHARD_VIEW + "Needs": READERS,
    SHARD_VIEW + "Clusters": READERS,
    SHARD_VIEW + "Actions": READERS,
    SHARD_VIEW + "Shortfalls": READERS,
    SHARD_VIEW + "Providers": READERS,
    SHARD_VIEW + "Controls": READERS,
    SHARD_VIEW + "Summary": READERS,
    SHARD_VIEW + "Money": READERS,
    SHARD_VIEW + "Groups": READERS,
    SHARD_VIEW + "Explain": READERS,
    SHARD_VIEW + "WhatIf": READERS,
    SHARD_CONTROL + "SetControl": ADMINS,
    SHARD_CONTROL + "LiftControl": ADMINS,
    SHARD_CONTROL + "Retire": ADMINS,
    THEIRS + "ReportShard": frozenset({"the shard"}),
    THEIRS + "AssignDomain": ADMINS,
    THEIRS + "UnassignDomain": ADMINS,
    THEIRS + "RemoveShard": ADMINS,
    THEIRS + "JoinRaftCluster": ADMINS,
    THEIRS + "SnapshotSave": ADMINS,
    THEIRS + "ListShards": READERS,
    THEIRS + "ListDomainAssignments": READERS,
    THEIRS + "ListShardReports": READERS,
    THEIRS + "ListQuotas": READERS,
    THEIRS + "ListProviders": READERS,
    VIEW + "Shards": READERS,
    VIEW + "Domains": READERS,
    VIEW + "Clusters": READERS,
    VIEW + "Quotas": READERS,
    VIEW + "Providers": READERS,
    VIEW + "Instructions": READERS,
    VIEW + "Moves": READERS,
    VIEW + "Conflicts": READERS,
    VIEW + "Plan": READERS,
    VIEW + "Standing": READERS,
    CONTROL + "MoveDomain": ADMINS,
    CONTROL + "SetQuota": ADMINS,
    CONTROL + "ClearQuota": ADMINS,
    CONTROL + "UnbindCluster": ADMINS,
    CONTROL + "CancelMove": ADMINS,
    CONTROL + "ReturnMachines": ADMINS,
}
"""Written by hand from the contract, not from the table that is tested."""

LED: Final = [call for call in MAY if call.startswith((THEIRS, VIEW, CONTROL))]

DOMAIN: Final = {"topology_key": "zone", "topology_value": "z-1"}
REQUESTS: Final[Mapping[str, bytes]] = {
    SHARD + "Session": cluster_frame_to_wire(Hello("web")),
    THEIRS + "ReportShard": pb.ShardReport(shard_id="s-1").SerializeToString(),
    THEIRS + "AssignDomain": pb.AssignDomainRequest(**DOMAIN, shard_id="s").SerializeToString(),
    THEIRS + "UnassignDomain": pb.UnassignDomainRequest(**DOMAIN).SerializeToString(),
    THEIRS + "RemoveShard": pb.RemoveShardRequest(shard_id="s-1").SerializeToString(),
}
"""Of calls that take more than nothing."""

STREAMS: Final = frozenset({
    SHARD_READ + "InspectNeeds", SHARD_VIEW + "Machines", THEIRS + "SnapshotSave",
})  # fmt: skip

REACHED: Final = "reached"


class Behind:
    """Whatever is behind a server: it says that it was reached."""

    def __init__(self, leader: str | None = None) -> None:
        self._leader = leader

    def require_leading(self) -> None:
        if self._leader is not None:
            raise NotLeading("not the leader", leader=self._leader)

    def refused(self, cluster: str, why: str) -> None:
        pass

    def opened(self, hello: Hello) -> Any:
        raise Rejected(REACHED)

    async def machines(self, query: object) -> AsyncIterator[Any]:
        for _ in range(1):
            raise Rejected(REACHED)
        yield query

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def call(*_: object, **__: object) -> Any:
            raise Rejected(REACHED)

        return call


def handlers(behind: Any) -> list[grpc.GenericRpcHandler]:
    return [
        session_handler(behind),
        read_handler(behind),
        view_handler(behind),
        control_handler(behind),
        coordinator_handler(behind),
        coordinator_view_handler(behind),
        coordinator_control_handler(behind),
    ]


Answer = tuple[Code, str, Mapping[str, str]]
Answers = Mapping[tuple[str, str], Answer]


async def answer_to(channel: grpc.aio.Channel, call: str) -> Answer:
    request, asked = REQUESTS.get(call, b""), cast("Any", channel)
    try:
        if call == SHARD + "Session":
            return await end_of(asked.stream_stream(f"/{call}")(timeout=20), request)
        if call in STREAMS:
            async for _ in asked.unary_stream(f"/{call}")(request, timeout=20):
                pass
        else:
            await asked.unary_unary(f"/{call}")(request, timeout=20)
    except grpc.aio.AioRpcError as error:
        told = {key: str(value) for key, value in error.trailing_metadata() or ()}
        return error.code(), error.details() or "", told
    return Code.OK, "", {}


async def end_of(stream: Any, first: bytes) -> Answer:
    await stream.write(first)
    await stream.read()
    return await stream.code(), await stream.details(), {}


async def ask_everything(folder: Path, behind: Behind) -> Answers:
    ours, other = Authority(folder, "ours"), Authority(folder, "other")
    flags = {
        name: (other if name == "a stranger" else ours).flags(*uris, name=name.replace(" ", "-"))
        for name, uris in CALLERS.items()
    }
    theirs = flags["a stranger"]
    # It trusts us; we do not know it.
    flags["a stranger"] = TlsFlags(cert=theirs.cert, key=theirs.key, ca=str(ours.path))
    server = transport(ours.flags("bigfleet://admin", name="server"), LOOPBACK)
    answers: dict[tuple[str, str], Answer] = {}
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(serving(handlers(behind), LOOPBACK, server))
        for name, given in flags.items():
            over = cast("MutualTls", transport(given, address))
            channel = await stack.enter_async_context(open_channel(address, over))
            for call in MAY:
                answers[call, name] = await answer_to(channel, call)
    return answers


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    return asyncio.run(ask_everything(tmp_path_factory.mktemp("access"), Behind()))


@pytest.fixture(scope="module")
def follower_answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    behind = Behind(leader="10.0.0.9:7790")
    return asyncio.run(ask_everything(tmp_path_factory.mktemp("follower"), behind))


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("call", MAY)
def test_a_call_reaches_whom_it_may_and_nobody_else(
    call: str, caller: str, answers: Answers
) -> None:
    code, details, _ = answers[call, caller]

    if caller in MAY[call]:
        reached = details == REACHED or (call.endswith("JoinRaftCluster") and "no Raft" in details)
        assert reached, (code, details)
    elif caller == "a stranger":
        assert code is Code.UNAVAILABLE
    else:
        assert code is Code.PERMISSION_DENIED
        assert "may not" in details or "identity" in details or "one bigfleet:// URI" in details


@pytest.mark.parametrize("caller", [name for name in CALLERS if name != "a stranger"])
@pytest.mark.parametrize("call", LED)
def test_one_that_does_not_lead_says_so_to_anybody(
    call: str, caller: str, follower_answers: Answers
) -> None:
    code, details, told = follower_answers[call, caller]

    if call == VIEW + "Standing":
        assert code is (Code.INVALID_ARGUMENT if caller in READERS else Code.PERMISSION_DENIED)
    else:
        assert (code, details) == (Code.FAILED_PRECONDITION, "not the leader")
        assert told[LEADER_KEY] == "10.0.0.9:7790"


def test_every_call_that_is_served_stands_in_the_table() -> None:
    table = {f"{service}/{call}" for service, calls in ACCESS.items() for call in calls}

    assert table == set(MAY)
    assert {f"{service}/{call}" for service, call in UNLED} == {VIEW + "Standing"}


def test_on_plaintext_nobody_is_asked_who_they_are() -> None:
    async def ask() -> dict[str, Answer]:
        async with serving(handlers(Behind()), LOOPBACK, Plaintext()) as address:
            async with open_channel(address, Plaintext()) as channel:
                return {call: await answer_to(channel, call) for call in MAY}

    refused = {
        call: details
        for call, (_, details, _) in asyncio.run(ask()).items()
        if details != REACHED and "no Raft" not in details
    }
    assert refused == {}
