"""A coordinator's calls over the network, and how the one that leads is found."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import grpc
import pytest

from certificates import Authority
from mainstay.model import coordination as m
from mainstay.model import coordinator_calls as c
from mainstay.model import coordinator_views as v
from mainstay.model.errors import (
    Fenced,
    NotLeading,
    NotSupported,
    Rejected,
    Taken,
    Unavailable,
    Unknown,
)
from mainstay.model.ids import ShardId
from mainstay.wire.coordinator_client import RemoteCoordinator
from mainstay.wire.coordinator_codec import REPORT_BYTES_MAX
from mainstay.wire.coordinator_dialer import CoordinatorDialer
from mainstay.wire.coordinator_lists import CHUNK_BYTES
from mainstay.wire.coordinator_server import (
    SERVER_OPTIONS,
    SERVICE,
    CoordinatorCalls,
    coordinator_handler,
)
from mainstay.wire.coordinator_view_server import (
    coordinator_control_handler,
    coordinator_view_handler,
)
from mainstay.wire.shard_view_server import method_of
from mainstay.wire.status import NotAllowed
from mainstay.wire.tls import Identity, Plaintext, Role, transport
from mainstay.wire.transport import Over, open_channel, serving

LOOPBACK = "127.0.0.1:0"
PLAIN = Plaintext()
STAMP = v.CoordinatorStamp(coordinator="c-0", term=7)
ZONE = m.Domain("zone", "z-1")
SHARD = ShardId("s-1")
REPORT = m.ShardReport(shard=SHARD, number=1, epoch=2, can_hand_over=True)
SNAPSHOT = c.Snapshot(b'{"index": 1}', b"x" * (2 * CHUNK_BYTES + 5))
ANSWERS: dict[str, Any] = {
    "report": m.ReportAck(term=7, remarks=("hello",)),
    "assign_domain": None,
    "unassign_domain": None,
    "remove_shard": None,
    "list_shards": (c.RegisteredShard("s-1", "s:1", 1, 2),),
    "list_domain_assignments": (c.AssignedDomain(ZONE, "s-1"),),
    "list_shard_reports": (c.SeenReport(shard="s-1", number=3),),
    "list_quotas": (c.QuotaAllocation(provider="metal", region="eu", per_shard={"s-1": 4}),),
    "list_providers": (c.RegisteredProvider("metal", "p:1", "eu"),),
    "snapshot_save": SNAPSHOT,
    "shards": v.ShardRows(stamp=STAMP, rows=(v.ShardRow(id="s-1", machines=3),)),
    "domains": v.DomainRows(stamp=STAMP, matched=9),
    "clusters": v.ClusterBindingRows(stamp=STAMP),
    "quotas": v.QuotaRows(stamp=STAMP),
    "providers": v.ProviderRegistryRows(stamp=STAMP),
    "instructions": v.InstructionRows(stamp=STAMP),
    "moves": v.MoveRows(stamp=STAMP),
    "conflicts": v.ConflictRows(stamp=STAMP),
    "plan": v.PlanRow(stamp=STAMP, at_ns=5),
    "standing": v.StandingRow(id="c-0", leads=True, term=7),
    "move_domain": c.CoordinatorDone(stamp=STAMP, sentence="moved"),
    "set_quota": c.CoordinatorDone(stamp=STAMP, sentence="set"),
    "clear_quota": c.CoordinatorDone(stamp=STAMP, sentence="cleared"),
    "unbind_cluster": c.CoordinatorDone(stamp=STAMP, sentence="unbound"),
    "cancel_move": c.CoordinatorDone(stamp=STAMP, sentence="cancelled"),
    "return_machines": c.CoordinatorDone(stamp=STAMP, sentence="returned"),
}

ASKED: dict[str, tuple[Any, ...]] = {
    "report": (REPORT,),
    "assign_domain": (ZONE, SHARD),
    "unassign_domain": (ZONE,),
    "remove_shard": (SHARD,),
    "list_shard_reports": ("s-1",),
    "shards": (v.ShardQuery(shard="s-1"),),
    "domains": (v.DomainQuery(key="zone", limit=3),),
    "clusters": (v.ClusterBindingQuery(cluster="web"),),
    "quotas": (v.QuotaQuery(kind="place"),),
    "providers": (v.ProviderRegistryQuery(),),
    "instructions": (v.InstructionQuery(shard="s-1"),),
    "moves": (v.MoveQuery(unsettled=True),),
    "conflicts": (v.ConflictQuery(),),
    "plan": (v.PlanQuery(),),
    "standing": (v.StandingQuery(),),
    "move_domain": (c.MoveDomainRequest(key="zone", value="z-1", to="s-2", by="me"),),
    "set_quota": (c.SetQuotaRequest(kind="cluster", name="web", entitled=3, by="me"),),
    "clear_quota": (c.ClearQuotaRequest(kind="cluster", name="web"),),
    "unbind_cluster": (c.UnbindClusterRequest(cluster="web"),),
    "cancel_move": (c.CancelMoveRequest(move="mv-1"),),
    "return_machines": (c.ReturnMachinesRequest(shard="s-1", machines=("m-1",)),),
}

SIGNED = ("report", "assign_domain", "unassign_domain", "remove_shard", "snapshot_save")
"""Calls that are told who asks."""


class Coordinator:
    """Answers from a table, and remembers what it was asked."""

    def __init__(self, *, leader: str | None = None) -> None:
        self.leader = leader
        self.asked: list[tuple[str, tuple[Any, ...]]] = []
        self.named: list[dict[str, Any]] = []
        self.raises: Exception | None = None
        self.hangs = False

    def require_leading(self) -> None:
        if self.leader is not None:
            raise NotLeading("not the leader", leader=self.leader)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in ANSWERS:
            raise AttributeError(name)

        async def call(*given: Any, **named: Any) -> Any:
            self.asked.append((name, given))
            self.named.append(named)
            if self.hangs:
                await asyncio.Event().wait()
            if self.raises is not None:
                raise self.raises
            return ANSWERS[name]

        return call


@asynccontextmanager
async def served(coordinator: Any, over: Over = PLAIN) -> AsyncIterator[str]:
    handlers = [
        coordinator_handler(cast("CoordinatorCalls", coordinator)),
        coordinator_view_handler(coordinator),
        coordinator_control_handler(coordinator),
    ]
    async with serving(handlers, LOOPBACK, over, options=SERVER_OPTIONS) as address:
        yield address


ResultT = TypeVar("ResultT")


def run(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    return asyncio.run(work)


async def with_remote(
    coordinator: Coordinator, ask: Callable[[RemoteCoordinator], Coroutine[Any, Any, ResultT]]
) -> ResultT:
    async with served(coordinator) as address, open_channel(address, Plaintext()) as channel:
        return await ask(RemoteCoordinator(channel, name="c-0"))


@pytest.mark.parametrize("name", ANSWERS)
def test_every_call_arrives_and_its_answer_comes_back(name: str) -> None:
    coordinator, given = Coordinator(), ASKED.get(name, ())

    answer = run(with_remote(coordinator, lambda remote: getattr(remote, name)(*given)))

    assert answer == ANSWERS[name]
    told = (*given, None) if name in SIGNED else given
    assert coordinator.asked == [(name, told)]


def test_raft_is_not_joined_and_the_refusal_says_what_to_do() -> None:
    with pytest.raises(NotSupported, match="no Raft for 'c-1' to join: start another"):
        run(with_remote(Coordinator(), lambda remote: remote.join_raft_cluster("c-1", "h:1")))


@pytest.mark.parametrize(
    "error", [Unknown("no shard x"), Taken("s-2 has it"), Rejected("no"), Fenced("older epoch")]
)
def test_what_the_coordinator_raises_is_raised_here(error: Exception) -> None:
    coordinator = Coordinator()
    coordinator.raises = error

    with pytest.raises(type(error), match=f"c-0: {error}") as raised:
        run(with_remote(coordinator, lambda remote: remote.remove_shard("x")))
    assert type(raised.value) is type(error)


@pytest.mark.parametrize(
    ("call", "request_bytes", "code"),
    [
        ("ReportShard", b"\xff" * 10, "INVALID_ARGUMENT"),
        ("ReportShard", b"\x0a" * (REPORT_BYTES_MAX + 1), "INVALID_ARGUMENT"),
        ("ReportShard", b"\x0a" * (5 << 20), "RESOURCE_EXHAUSTED"),
        ("AssignDomain", b"", "INVALID_ARGUMENT"),
        ("UnassignDomain", b"", "INVALID_ARGUMENT"),
        ("RemoveShard", b"", "INVALID_ARGUMENT"),
        ("ListShards", b"\xff", "INVALID_ARGUMENT"),
        ("SnapshotSave", b"\xff", "INVALID_ARGUMENT"),
    ],
)
def test_a_bad_request_has_the_documented_code_and_reaches_nobody(
    call: str, request_bytes: bytes, code: str
) -> None:
    coordinator = Coordinator()

    async def ask() -> grpc.StatusCode:
        async with served(coordinator) as address, open_channel(address, Plaintext()) as channel:
            kind: Any = channel.unary_stream if call == "SnapshotSave" else channel.unary_unary
            ended = kind(f"/{SERVICE}/{call}")(request_bytes, timeout=10)
            return cast("grpc.StatusCode", await ended.code())

    assert run(ask()).name == code
    assert coordinator.asked == []


def test_an_order_is_signed_with_the_certificate_of_who_gives_it(tmp_path: Path) -> None:
    authority, coordinator = Authority(tmp_path), Coordinator()

    async def ask() -> None:
        over = transport(authority.flags("bigfleet://admin"), LOOPBACK)
        async with served(coordinator, over) as address, open_channel(address, over) as channel:
            remote = RemoteCoordinator(channel, name="c-0")
            await remote.set_quota(c.SetQuotaRequest(kind="cluster", name="web", by="somebody"))
            await remote.remove_shard("s-1")

    run(ask())
    (_, (quota,)), (_, (_, by)) = coordinator.asked
    assert quota.by == "bigfleet://admin"
    assert by == Identity(Role.ADMIN)


class Raw:
    """A server that answers anything with the same bytes, or a status."""

    def __init__(self, answer: bytes = b"", code: grpc.StatusCode | None = None) -> None:
        self._answer, self._code = answer, code

    def handler(self) -> grpc.GenericRpcHandler:
        async def handle(_: bytes, context: Any) -> bytes:
            if self._code is not None:
                await context.abort(self._code, "not leader")
            return self._answer

        method: Any = grpc.unary_unary_rpc_method_handler(handle)
        return grpc.method_handlers_generic_handler(SERVICE, {"ReportShard": method})


def heard(raw: Raw) -> m.ReportAck:
    async def ask() -> m.ReportAck:
        async with serving([raw.handler()], LOOPBACK, Plaintext()) as address:
            dialer = CoordinatorDialer([address], Plaintext(), timeout_s=5)
            try:
                return await dialer.report(REPORT)
            finally:
                await dialer.close()

    return run(ask())


def test_an_answer_that_cannot_be_read_is_no_fault_of_the_report() -> None:
    with pytest.raises(Unavailable, match="its answer is broken: not a ReportAck"):
        heard(Raw(b"\xff\xff"))


def test_an_answer_above_four_mebibytes_is_refused() -> None:
    with pytest.raises(Unavailable, match="larger than max"):
        heard(Raw(bytes(4 * 2**20 + 1)))


def test_what_bigfleets_follower_says_is_that_it_does_not_lead() -> None:
    with pytest.raises(NotLeading, match="no coordinator leads"):
        heard(Raw(code=grpc.StatusCode.FAILED_PRECONDITION))


async def dialled(
    addresses: Sequence[str], *, timeout_s: float = 10.0
) -> tuple[m.ReportAck, CoordinatorDialer]:
    dialer = CoordinatorDialer(addresses, Plaintext(), timeout_s=timeout_s)
    try:
        return await dialer.report(REPORT), dialer
    finally:
        await dialer.close()


def test_a_follower_sends_us_to_the_leader_and_the_next_question_goes_there_at_once() -> None:
    leader, follower = Coordinator(), Coordinator()

    async def ask() -> str:
        async with AsyncExitStack() as stack:
            where = await stack.enter_async_context(served(leader))
            follower.leader = where
            dialer = CoordinatorDialer(
                [await stack.enter_async_context(served(follower))], Plaintext()
            )
            stack.push_async_callback(dialer.close)
            for _ in range(2):
                assert await dialer.report(REPORT) == ANSWERS["report"]
            follower.leader = None  # had it been asked again, it would have answered
            await dialer.report(REPORT)
            return "" if dialer.leader == where else dialer.leader

    assert run(ask()) == ""
    assert len(leader.asked) == 3
    assert follower.asked == []


def test_one_that_is_gone_is_passed_over() -> None:
    async def ask() -> m.ReportAck:
        async with served(Coordinator()) as gone:
            pass
        async with served(Coordinator()) as there:
            return (await dialled([gone, there]))[0]

    assert run(ask()) == ANSWERS["report"]


def test_one_that_hangs_has_only_its_share_of_the_time() -> None:
    stuck, leader = Coordinator(), Coordinator()
    stuck.hangs = True

    async def ask() -> m.ReportAck:
        async with served(stuck) as first, served(leader) as second:
            return (await dialled([first, second], timeout_s=2))[0]

    assert run(ask()) == ANSWERS["report"]
    assert len(stuck.asked) == 1


def test_a_leader_that_is_gone_is_forgotten_and_found_again_elsewhere() -> None:
    async def ask() -> list[str]:
        one, two = Coordinator(), Coordinator()
        led = []
        async with AsyncExitStack() as stack:
            second = await stack.enter_async_context(served(two))
            async with served(one) as first:
                two.leader = first
                dialer = CoordinatorDialer([first, second], Plaintext(), timeout_s=5)
                stack.push_async_callback(dialer.close)
                await dialer.report(REPORT)
                led.append("first" if dialer.leader == first else "")
            two.leader = None
            await dialer.report(REPORT)
            led.append("second" if dialer.leader == second else "")
        return led

    assert run(ask()) == ["first", "second"]


def test_two_that_name_each_other_are_asked_once_each() -> None:
    one, two = Coordinator(leader=""), Coordinator(leader="")
    rounds: list[str] = []

    async def ask() -> None:
        async with served(one) as first, served(two) as second:
            one.leader, two.leader = second, first
            one.require_leading = counted(one, "one")  # type: ignore[method-assign]
            two.require_leading = counted(two, "two")  # type: ignore[method-assign]
            await dialled([first, second])

    def counted(coordinator: Coordinator, name: str) -> Callable[[], None]:
        def require() -> None:
            rounds.append(name)
            Coordinator.require_leading(coordinator)

        return require

    with pytest.raises(NotLeading, match="no coordinator leads"):
        run(ask())
    assert rounds == ["one", "two"]


def test_one_question_follows_one_hint() -> None:
    first, second, third = Coordinator(leader=""), Coordinator(leader=""), Coordinator()

    async def ask() -> None:
        async with served(first) as one, served(second) as two, served(third) as three:
            first.leader, second.leader = two, three
            await dialled([one])

    with pytest.raises(NotLeading, match="no coordinator leads"):
        run(ask())
    assert third.asked == []


def test_nobody_sends_us_over_the_network_in_plaintext() -> None:
    async def ask() -> None:
        async with served(Coordinator(leader="192.0.2.1:7790")) as address:
            await dialled([address], timeout_s=3)

    with pytest.raises(NotLeading, match="no coordinator leads"):
        run(ask())


def test_the_leaders_no_is_final() -> None:
    leader, other = Coordinator(), Coordinator()
    leader.raises = Rejected("out of order")

    async def ask() -> None:
        async with served(leader) as first, served(other) as second:
            await dialled([first, second])

    with pytest.raises(Rejected, match="out of order"):
        run(ask())
    assert other.asked == []


def test_without_any_answer_one_line_names_all_that_were_asked() -> None:
    async def ask() -> None:
        async with served(Coordinator()) as one, served(Coordinator()) as two:
            pass
        gone.extend([one, two])
        await dialled(gone, timeout_s=5)

    gone: list[str] = []
    with pytest.raises(Unavailable, match="no coordinator that leads answers") as raised:
        run(ask())
    assert [address for address in gone if address not in raised.value.message] == []
    assert "\n" not in raised.value.message


def test_addresses_must_be_given() -> None:
    with pytest.raises(Rejected, match="no coordinator to ask"):
        CoordinatorDialer([], Plaintext())


def test_a_newer_certificate_is_used_by_the_next_question(tmp_path: Path) -> None:
    authority, coordinator = Authority(tmp_path), Coordinator()

    async def ask() -> None:
        over = transport(authority.flags("bigfleet://admin", name="server"), LOOPBACK)
        mine = transport(authority.flags("bigfleet://readonly", name="mine"), LOOPBACK)
        async with served(coordinator, over) as address:
            dialer = CoordinatorDialer([address], mine)
            with pytest.raises(NotAllowed, match="bigfleet://readonly may not control"):
                await dialer.ask(lambda remote: remote.remove_shard("s-1"))
            authority.write(["bigfleet://admin"], name="mine")
            await dialer.ask(lambda remote: remote.remove_shard("s-1"))
            await dialer.close()

    run(ask())
    assert coordinator.asked == [("remove_shard", ("s-1", Identity(Role.ADMIN)))]


def test_every_call_of_theirs_has_a_method_here() -> None:
    assert [name for name in ANSWERS if not hasattr(RemoteCoordinator, method_of(name))] == []


def test_whether_a_shard_is_removed_by_force_reaches_the_coordinator() -> None:
    coordinator = Coordinator()

    async def asking(remote: RemoteCoordinator) -> None:
        await remote.remove_shard("s-1")
        await remote.remove_shard("s-1", force=True)

    run(with_remote(coordinator, asking))
    assert coordinator.named == [{"force": False}, {"force": True}]
