"""`mainstay coordinator` as people run it: real processes over both stores, real kills."""

import asyncio
import dataclasses
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import grpc
import pytest

from certificates import Authority
from coordinators import (
    ZONE,
    PaperShard,
    asked,
    coordinator,
    dialed,
    eventually,
    in_a_file,
    led,
    on_etcd,
    standing,
    to_assign,
)
from mainstay.coordinator import archive
from mainstay.model.coordination import (
    Domain,
    InstructAck,
    Missing,
    Outcome,
)
from mainstay.model.coordinator_views import (
    DomainQuery,
    InstructionQuery,
    ShardQuery,
)
from mainstay.model.errors import MainstayError
from mainstay.model.ids import ClusterId, ShardId
from mainstay.wire.coordinator_codec import report_to_wire
from mainstay.wire.coordinator_dialer import CoordinatorDialer
from mainstay.wire.pb.bigfleet.v1alpha1 import coordinator_pb2 as pb
from mainstay.wire.status import LEADER_KEY
from mainstay.wire.tls import Plaintext, TlsFlags, transport
from mainstay.wire.transport import Over, open_channel
from outside import examples
from running import Home, Process, at_home

EAST: Final = Domain(ZONE, "east")
WEST: Final = Domain(ZONE, "west")
SERVICE: Final = "/bigfleet.v1alpha1.Coordinator"

Words = Callable[[Home], tuple[str, ...]]
Code = grpc.StatusCode


@pytest.fixture(params=["embedded", pytest.param("etcd", marks=pytest.mark.needs("etcd-server"))])
def words(request: pytest.FixtureRequest) -> Words:
    """Which store the coordinators of a home share."""
    if request.param == "embedded":
        return in_a_file
    servers = request.getfixturevalue("etcd_cluster")
    chosen = on_etcd(servers.endpoints)
    return lambda _: chosen


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with at_home(tmp_path) as found:
        yield found


async def code_of(process: Process, call: str, data: bytes, over: Over | None = None) -> Code:
    """The status that a call ends with."""
    return (await ended(process, call, data, over)).code()


async def ended(
    process: Process, call: str, data: bytes, over: Over | None = None
) -> grpc.aio.AioRpcError:
    async with open_channel(process.grpc, over or Plaintext()) as channel:
        asking: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]
        asking = channel.unary_unary(f"{SERVICE}/{call}")
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await asking(data, timeout=10)
    return raised.value


async def state(dialer: CoordinatorDialer) -> bytes:
    """All that is stored."""
    return (await dialer.ask(lambda remote: remote.snapshot_save())).data


def assign(domain: Domain, shard: str) -> bytes:
    return pb.AssignDomainRequest(
        topology_key=domain.key, topology_value=domain.value, shard_id=shard
    ).SerializeToString()


def test_a_shard_registers_and_hears_of_its_domain(home: Home, words: Words) -> None:
    async def scenario() -> None:
        first = coordinator(home, "c-0", *words(home))
        shard = PaperShard("a")
        async with dialed(first) as dialer:
            await eventually(lambda: shard.tell(dialer, clusters=(ClusterId("web"),)))
            await dialer.ask(lambda remote: remote.assign_domain(EAST, "a"))
            waiting = await dialer.ask(lambda remote: remote.instructions(InstructionQuery()))
            await shard.tell(dialer)
            await shard.tell(dialer)
            found = await dialer.ask(lambda remote: remote.domains(DomainQuery()))
            shards = await dialer.ask(lambda remote: remote.shards(ShardQuery()))
            listed = await dialer.ask(lambda remote: remote.list_domain_assignments())

        assert [(row.kind, row.shard) for row in waiting.rows] == [("AssignDomain", "a")]
        assert shard.domains == {EAST}
        assert [(row.value, row.shard, row.state) for row in found.rows] == [("east", "a", "held")]
        (row,) = shards.rows
        assert (row.id, row.address, row.epoch, row.domains, row.clusters) == (
            "a", "127.0.0.1:9", 1, 1, 1,
        )  # fmt: skip
        assert (row.instructions, row.takes_all, row.last_heartbeat_ns > 0) == (0, False, True)
        assert [(each.domain, each.shard) for each in listed] == [(EAST, "a")]
        assert first.metric("mainstay_coordinator_leads") == 1
        assert first.metric("mainstay_coordinator_reports_total", outcome="accepted") >= 3

    asyncio.run(scenario())


def test_one_that_does_not_lead_says_who_does_and_nothing_else(home: Home, words: Words) -> None:
    async def scenario() -> None:
        both = [coordinator(home, name, *words(home)) for name in ("c-0", "c-1")]
        leader = await led(*both)
        (follower,) = [each for each in both if each is not leader]
        await eventually(lambda: _knows(follower, leader))

        refused = await ended(follower, "AssignDomain", assign(EAST, "a"))
        nonsense = await code_of(follower, "ReportShard", b"\xff\xff")
        async with dialed(follower) as dialer:
            await PaperShard("a").tell(dialer)
            rows = await dialer.ask(lambda remote: remote.list_shards())

        assert refused.code() is Code.FAILED_PRECONDITION
        assert (LEADER_KEY, leader.grpc) in tuple(refused.trailing_metadata() or ())
        assert nonsense is Code.FAILED_PRECONDITION
        assert [row.shard for row in rows] == ["a"]
        assert (follower.page("/readyz")[0], leader.page("/readyz")[0]) == (200, 200)
        assert follower.metric("mainstay_coordinator_leads") == 0

    async def _knows(follower: Process, leader: Process) -> bool:
        return (await standing(follower)).leader == leader.grpc

    asyncio.run(scenario())


def test_who_stops_hands_over_at_once(home: Home, words: Words) -> None:
    async def scenario() -> None:
        both = [coordinator(home, name, *words(home)) for name in ("c-0", "c-1")]
        leader = await led(*both)
        (other,) = [each for each in both if each is not leader]
        before = (await standing(leader)).term

        code = await asyncio.to_thread(leader.stop)
        await led(other)

        assert code == 0
        assert (await standing(other)).term > before
        assert not (home.path / "run" / f"coordinator-{leader.facts['id']}.json").exists()

    asyncio.run(scenario())


Wrong = Callable[[PaperShard], tuple[str, bytes]]


def a_replayed_report(shard: PaperShard) -> tuple[str, bytes]:
    shard.number -= 1
    return "ReportShard", report_to_wire(shard.report())


def an_older_life(shard: PaperShard) -> tuple[str, bytes]:
    return "ReportShard", report_to_wire(
        dataclasses.replace(shard.report(), epoch=shard.epoch - 1, number=1_000)
    )


def an_oversize_report(shard: PaperShard) -> tuple[str, bytes]:
    missing = tuple(Missing(fingerprint=str(number)) for number in range(101))
    return "ReportShard", report_to_wire(shard.report(missing=missing))


def too_many_clusters(shard: PaperShard) -> tuple[str, bytes]:
    clusters = tuple(ClusterId(f"c-{number}") for number in range(10_001))
    return "ReportShard", report_to_wire(shard.report(clusters=clusters))


def a_report_of_nobody(shard: PaperShard) -> tuple[str, bytes]:
    return "ReportShard", report_to_wire(dataclasses.replace(shard.report(), shard=ShardId("")))


WRONG: Final[dict[str, tuple[Wrong, Code]]] = {
    "a domain for an unknown shard": (
        lambda _: ("AssignDomain", assign(WEST, "nobody")), Code.NOT_FOUND,
    ),
    "a domain that another has": (
        lambda _: ("AssignDomain", assign(EAST, "b")), Code.ALREADY_EXISTS,
    ),
    "a domain without a value": (
        lambda _: ("AssignDomain", assign(Domain(ZONE, ""), "a")), Code.INVALID_ARGUMENT,
    ),
    "a domain by another label": (
        lambda _: ("AssignDomain", assign(Domain("rack", "r1"), "a")), Code.INVALID_ARGUMENT,
    ),
    "the removal of an unknown shard": (
        lambda _: ("RemoveShard", pb.RemoveShardRequest(shard_id="nobody").SerializeToString()),
        Code.NOT_FOUND,
    ),
    "a report that was heard before": (a_replayed_report, Code.INVALID_ARGUMENT),
    "a report of an older life": (an_older_life, Code.FAILED_PRECONDITION),
    "a report with too many shortfalls": (an_oversize_report, Code.INVALID_ARGUMENT),
    "a report with too many clusters": (too_many_clusters, Code.INVALID_ARGUMENT),
    "a report of nobody": (a_report_of_nobody, Code.INVALID_ARGUMENT),
    "what is no report": (lambda _: ("ReportShard", b"\xff\xff\xff"), Code.INVALID_ARGUMENT),
    "more than anybody reads": (
        lambda _: ("ReportShard", b"\0" * (5 << 20)), Code.RESOURCE_EXHAUSTED,
    ),
    "a member for a Raft": (
        lambda _: ("JoinRaftCluster", pb.JoinRaftClusterRequest(node_id="x").SerializeToString()),
        Code.UNIMPLEMENTED,
    ),
}  # fmt: skip


def test_what_is_wrong_is_refused_with_its_code_and_changes_nothing(
    home: Home, words: Words
) -> None:
    async def scenario() -> None:
        only = coordinator(home, "c-0", *words(home))
        a, b = PaperShard("a", epoch=2), PaperShard("b", epoch=2)
        found = {}
        async with dialed(only) as dialer:
            for shard in (a, b):
                await eventually(shard.telling(dialer))
            await dialer.ask(lambda remote: remote.assign_domain(EAST, "a"))
            for _ in range(2):
                await a.tell(dialer)
            before = await state(dialer)
            for name, (make, code) in WRONG.items():
                got = await code_of(only, *make(a))
                found[name] = got if got is not code else code
                assert await state(dialer) == before, name
            await a.tell(dialer)

        assert found == {name: code for name, (_, code) in WRONG.items()}

    asyncio.run(scenario())


def test_an_ack_that_comes_twice_or_out_of_order_or_for_nothing_is_ignored(
    home: Home, words: Words
) -> None:
    async def scenario() -> None:
        only = coordinator(home, "c-0", *words(home))
        shard = PaperShard("a")
        async with dialed(only) as dialer:
            await eventually(lambda: shard.tell(dialer))
            for domain in (EAST, WEST):
                await dialer.ask(to_assign(domain, "a"))
            await shard.tell(dialer)
            first, second = shard.acks
            strange = InstructAck(instruction="nobody said so", outcome=Outcome.ACCEPTED)
            await dialer.report(shard.report(acks=(second, strange)))
            one = await dialer.ask(lambda remote: remote.domains(DomainQuery()))
            await dialer.report(shard.report(acks=(first, second)))
            settled = await state(dialer)
            await dialer.report(shard.report(acks=(first, second, first)))
            both = await dialer.ask(lambda remote: remote.domains(DomainQuery()))
            again = await state(dialer)

        assert [(row.value, row.state) for row in one.rows] == [
            ("east", "arriving"), ("west", "held"),
        ]  # fmt: skip
        assert [row.state for row in both.rows] == ["held", "held"]
        assert again == settled

    asyncio.run(scenario())


def test_an_instruction_that_failed_is_offered_again(home: Home) -> None:
    async def scenario() -> None:
        only = coordinator(home, "c-0", *in_a_file(home))
        shard = PaperShard("a")
        async with dialed(only) as dialer:
            await eventually(lambda: shard.tell(dialer))
            await dialer.ask(lambda remote: remote.assign_domain(EAST, "a"))
            told = await dialer.report(shard.report(acks=()))
            failed = InstructAck(
                instruction=told.instructions[0].id, outcome=Outcome.FAILED, reason="disk full"
            )
            again = await dialer.report(shard.report(acks=(failed,)))
            rows = await dialer.ask(lambda remote: remote.instructions(InstructionQuery()))

        assert [each.id for each in again.instructions] == [told.instructions[0].id]
        (row,) = rows.rows
        assert (row.attempts, row.last_outcome, row.last_reason) == (1, "failed", "disk full")

    asyncio.run(scenario())


def flags(found: TlsFlags) -> tuple[str, ...]:
    return ("--tls-cert", found.cert, "--tls-key", found.key, "--tls-ca", found.ca)


def test_a_certificate_says_who_may_report_and_who_may_command(home: Home) -> None:
    async def scenario() -> None:
        ours = Authority(home.path)
        (home.path / "elsewhere").mkdir()
        foreign = Authority(home.path / "elsewhere")
        server = ours.flags("bigfleet://admin", name="server")
        only = coordinator(home, "c-0", *in_a_file(home), *flags(server))

        def over(authority: Authority, uri: str) -> Over:
            return transport(authority.flags(uri, name=uri.replace("/", "_")), only.grpc)

        admin, shard = over(ours, "bigfleet://admin"), over(ours, "bigfleet://shard/a")
        reader = over(ours, "bigfleet://readonly")
        async with asked(only, shard) as remote:
            await eventually(lambda: PaperShard("a").tell(remote))
        async with asked(only, admin) as remote:
            before = (await remote.snapshot_save()).data
        as_b = report_to_wire(PaperShard("b").report())
        refused = [
            await code_of(only, "ReportShard", as_b, shard),
            await code_of(only, "ReportShard", as_b, admin),
            await code_of(only, "AssignDomain", assign(EAST, "a"), reader),
            await code_of(only, "AssignDomain", assign(EAST, "a"), shard),
        ]
        unknown = over(foreign, "bigfleet://admin")
        assert isinstance(unknown, type(admin))
        stranger = await code_of(only, "AssignDomain", assign(EAST, "a"), unknown)
        plain = await code_of(only, "AssignDomain", assign(EAST, "a"))
        async with asked(only, reader) as remote:
            rows = await remote.list_shards()
        async with asked(only, admin) as remote:
            after = (await remote.snapshot_save()).data

        assert refused == [Code.PERMISSION_DENIED] * 4
        assert (stranger, plain) == (Code.UNAVAILABLE, Code.UNAVAILABLE)
        assert [row.shard for row in rows] == ["a"]
        assert after == before

    asyncio.run(scenario())


def test_an_address_changes_only_by_a_report_with_that_shards_certificate(home: Home) -> None:
    async def scenario() -> None:
        only = coordinator(home, "c-0", *in_a_file(home))
        async with dialed(only) as dialer:
            await eventually(lambda: PaperShard("a", address="127.0.0.1:1").tell(dialer))
            moved = PaperShard("a", epoch=2, address="127.0.0.1:2")
            answer = await moved.tell(dialer)
            rows = await dialer.ask(lambda remote: remote.list_shards())

        assert rows[0].address == "127.0.0.1:1"
        assert any("127.0.0.1:2 was not taken over" in each for each in answer.remarks)

    asyncio.run(scenario())


async def assigning(dialer: CoordinatorDialer, shard: str, stop: asyncio.Event) -> set[Domain]:
    """Assign one domain after the other; those that were acknowledged."""
    acknowledged: set[Domain] = set()
    number = 0
    while not stop.is_set():
        domain = Domain(ZONE, f"{shard}-{number}")
        number += 1
        try:
            await dialer.ask(to_assign(domain, shard))
        except MainstayError:
            continue
        acknowledged.add(domain)
    return acknowledged


def test_nothing_that_was_acknowledged_is_lost_when_the_leader_is_killed(
    home: Home, words: Words
) -> None:
    async def scenario() -> None:
        chosen = words(home)
        running = [coordinator(home, name, *chosen) for name in ("c-0", "c-1")]
        async with dialed(*running) as dialer:
            for name in ("a", "b"):
                await eventually(PaperShard(name).telling(dialer))
            for turn in range(examples(2)):
                stop = asyncio.Event()
                async with asyncio.TaskGroup() as tasks:
                    work = [
                        tasks.create_task(assigning(dialer, f"{name}", stop)) for name in ("a", "b")
                    ]
                    await asyncio.sleep(0.5)
                    leader = await led(*running)
                    await asyncio.to_thread(leader.kill)
                    (other,) = [each for each in running if each is not leader]
                    await led(other)
                    await asyncio.sleep(0.5)
                    stop.set()
                acknowledged = set.union(*(each.result() for each in work))
                found = await dialer.ask(lambda remote: remote.list_domain_assignments())
                kept = {each.domain for each in found}
                assert len(acknowledged) > 4, turn
                assert acknowledged - kept == set()
                back = coordinator(home, str(leader.facts["id"]), *chosen, listen=leader.grpc)
                running = [other, back]

    asyncio.run(scenario())


class TestSnapshots:
    def test_what_is_exported_is_restored_into_another_store_and_terms_go_on(
        self, home: Home, words: Words
    ) -> None:
        exports = home.path / "exports"
        export = ("--snapshot-export-dir", str(exports), "--snapshot-export-interval", "1")

        async def first() -> int:
            only = coordinator(home, "c-0", *words(home), *export)
            shard = PaperShard("a")
            async with dialed(only) as dialer:
                await eventually(lambda: shard.tell(dialer, clusters=(ClusterId("web"),)))
                await dialer.ask(lambda remote: remote.assign_domain(EAST, "a"))
                await shard.tell(dialer)
                await shard.tell(dialer)
            await eventually(_has_the_domain)
            term = (await standing(only)).term
            await asyncio.to_thread(only.stop)
            return term

        async def _has_the_domain() -> bool:
            state = exports / "latest" / "state"
            return state.exists() and b'"arriving"' not in state.read_bytes() and (
                b'"east"' in state.read_bytes()
            )  # fmt: skip

        async def second() -> None:
            only = coordinator(home, "c-9", "--store-file", str(home.path / "other.db"))
            async with dialed(only) as dialer:
                found = await eventually(
                    lambda: dialer.ask(lambda remote: remote.list_domain_assignments())
                )
            assert [(each.domain, each.shard) for each in found] == [(EAST, "a")]
            assert (await standing(only)).term > term

        term = asyncio.run(first())
        told = json.loads((exports / "latest" / "state").read_bytes())
        assert told["domain_to_shard"] == [{"domain": {"Key": ZONE, "Value": "east"}, "shard": "a"}]
        assert told["cluster_to_shard"] == {"web": "a"}
        assert [row["ID"] for row in told["shards"]] == ["a"]
        restored = restore(home, exports / "latest", "other.db")
        assert restored.returncode == 0, restored.stderr
        asyncio.run(second())

    def test_a_store_that_somebody_leads_or_that_is_not_empty_is_not_restored(
        self, home: Home
    ) -> None:
        async def saved() -> Path:
            only = coordinator(home, "c-0", *in_a_file(home))
            async with dialed(only) as dialer:
                await eventually(lambda: PaperShard("a").tell(dialer))
                found = await dialer.ask(lambda remote: remote.snapshot_save())
            path = home.path / "saved.tar"
            archive.written(archive.Archive(found.meta_json, found.data), path)
            refused = await asyncio.to_thread(restore, home, path, "shared.db")
            assert refused.returncode == 1
            assert "c-0 leads: stop every coordinator" in refused.stderr
            await asyncio.to_thread(only.stop)
            return path

        path = asyncio.run(saved())
        full = restore(home, path, "shared.db")
        assert full.returncode == 1
        assert "the store holds 2 records" in full.stderr
        replaced = restore(home, path, "shared.db", "--replace")
        assert replaced.returncode == 0, replaced.stderr

    @pytest.mark.parametrize("damage", ["state", "meta", "index", "cut"])
    def test_a_damaged_snapshot_is_refused_and_nothing_is_written(
        self, home: Home, damage: str
    ) -> None:
        good = archive.packed(archive.Meta("x", 5, 3), b'{"shards":[{"ID":"a"}]}')
        broken = {
            "state": good._replace(state=good.state.replace(b'"a"', b'"b"')),
            "meta": good._replace(meta=b"{"),
            "index": good._replace(meta=good.meta.replace(b'"Index": 5', b'"Index": 0')),
            "cut": good._replace(state=good.state[:-3]),
        }[damage]
        path = home.path / "broken.tar"
        archive.written(broken, path)

        ended = restore(home, path, "new.db")

        assert ended.returncode == 1
        assert "snapshot" in ended.stderr
        assert len(ended.stderr.splitlines()) == 1
        assert not (home.path / "new.db").exists()


def restore(home: Home, path: Path, store: str, *words: str) -> "subprocess.CompletedProcess[str]":
    store_file = str(home.path / store)
    return home.run("snapshot", "restore", str(path), "--store-file", store_file, *words)
