"""The verbs that ask and tell a coordinator, over real processes; shards are told of by reports."""

import asyncio
import json
import os
import pty
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest
import yaml

import outside
from mainstay.bench.fleet_shards import KEY, SimulatedShard, heavy
from mainstay.cli import exits, main
from mainstay.model.coordination import (
    Domain,
    QuotaKind,
    QuotaLine,
    QuotaOf,
    ReportAck,
    ShardReport,
)
from mainstay.model.coordinator_views import ShardQuery, StandingQuery
from mainstay.model.errors import Unavailable
from mainstay.wire.coordinator_client import RemoteCoordinator
from mainstay.wire.coordinator_dialer import CoordinatorDialer
from mainstay.wire.tls import Plaintext
from running import PATIENCE_S, Home, Process, at_home, read_until
from tree import BIN

Captured = pytest.CaptureFixture[str]
AnswerT = TypeVar("AnswerT")

BODY: Final = heavy(600)


def started(home: Home, name: str = "c-0") -> Process:
    words = ("--id", name, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--insecure")
    return home.start("coordinator", "coordinator", *words)


def ask(
    addresses: list[str], question: Callable[[RemoteCoordinator], Awaitable[AnswerT]]
) -> AnswerT:
    """What the leader says, once one of them leads."""

    async def asked() -> AnswerT:
        dialer = CoordinatorDialer(addresses, Plaintext())
        try:
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    try:
                        return await dialer.ask(question)
                    except Unavailable:
                        await asyncio.sleep(0.05)
        finally:
            await dialer.close()

    return asyncio.run(asked())


class Fleet:
    """Two shards that report when they are told to."""

    def __init__(self, *coordinators: Process) -> None:
        self.addresses = [each.grpc for each in coordinators]
        self.a = SimulatedShard("a", BODY, [Domain(KEY, "r1"), Domain(KEY, "r2")])
        self.b = SimulatedShard("b", BODY, [Domain(KEY, "r3")])

    def report(self, *shards: SimulatedShard, **changes: Any) -> None:
        for shard in shards or (self.a, self.b):
            told = shard.report(1_000.0)
            report = ShardReport(**{name: getattr(told, name) for name in told.__slots__} | changes)
            shard.hear(report, ask(self.addresses, _reporting(report)))


def _reporting(report: ShardReport) -> Callable[[RemoteCoordinator], Awaitable[ReportAck]]:
    return lambda one: one.report(report)


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Home, Home]]:
    """Two fleets for many tests: of one everything is only read, the other is changed."""
    with at_home(tmp_path_factory.mktemp("quiet")) as quiet:
        with at_home(tmp_path_factory.mktemp("busy")) as busy:
            yield quiet, busy


@pytest.fixture(scope="module")
def fleets(homes: tuple[Home, Home]) -> tuple[Fleet, Fleet]:
    found = tuple(Fleet(started(home)) for home in homes)
    for fleet in found:
        fleet.report()
    return found[0], found[1]


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Home], None]:
    """Make commands look for servers in this home."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return lambda home: monkeypatch.setenv("MAINSTAY_HOME", str(home.path))


@pytest.fixture
def quiet(
    homes: tuple[Home, Home], fleets: tuple[Fleet, Fleet], at: Callable[[Home], None]
) -> Fleet:
    at(homes[0])
    return fleets[0]


@pytest.fixture
def busy(
    homes: tuple[Home, Home], fleets: tuple[Fleet, Fleet], at: Callable[[Home], None]
) -> Fleet:
    at(homes[1])
    return fleets[1]


@pytest.fixture
def home(tmp_path: Path, at: Callable[[Home], None]) -> Iterator[Home]:
    """A home of the test's own."""
    with at_home(tmp_path / "home") as home:
        at(home)
        yield home


def said(words: str, capsys: Captured) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main.dispatch(words.split())
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def table(words: str, capsys: Captured) -> list[list[str]]:
    """The rows below the header, by words."""
    code, out, err = said(words, capsys)
    assert code == exits.DONE, err
    return [line.split() for line in out.splitlines()[1:]]


def document(words: str, capsys: Captured) -> Any:
    code, out, err = said(f"{words} -o json", capsys)
    assert code == exits.DONE, err
    return json.loads(out)


class TestGet:
    def test_shards_that_have_reported_are_listed(self, quiet: Fleet, capsys: Captured) -> None:
        (a, b) = document("get shards", capsys)

        assert (a["id"], a["machines"], a["domains"], a["clusters"]) == ("a", 600, 2, 10)
        assert (b["id"], b["address"], b["shortfalls"]) == ("b", "b.example:7780", 20)
        assert table("get shards --shard b", capsys)[0][:2] == ["b", "b.example:7780"]

    def test_domains_are_limited_and_the_rest_is_counted(
        self, quiet: Fleet, capsys: Captured
    ) -> None:
        code, out, err = said("get domains --limit 2", capsys)

        assert (code, len(out.splitlines())) == (exits.DONE, 3)
        assert "1 more of 3 are not shown; raise --limit, 0 shows all." in err
        assert [row["value"] for row in document("get domains --shard a", capsys)] == ["r1", "r2"]

    def test_every_form_has_the_same_rows(self, quiet: Fleet, capsys: Captured) -> None:
        _, text, _ = said("get bindings --shard b --limit 0 -o yaml", capsys)
        _, wide, _ = said("get shards -o wide", capsys)

        assert [row["cluster"] for row in yaml.safe_load(text)] == [
            f"b-cluster-{number}" for number in range(10)
        ]
        assert "EPOCH" in wide.splitlines()[0]

    def test_a_cluster_that_two_shards_claim_is_a_conflict(
        self, busy: Fleet, capsys: Captured
    ) -> None:
        busy.report(busy.b, clusters=("a-cluster-0",))

        (conflict,) = document("get conflicts", capsys)

        assert (conflict["kind"], conflict["subject"]) == ("cluster", "a-cluster-0")
        assert (conflict["holder"], conflict["claimant"]) == ("a", "b")
        assert conflict["what_to_do"]

    @pytest.mark.parametrize("noun", ["instructions", "moves", "quotas", "conflicts"])
    def test_what_is_empty_says_so(self, noun: str, quiet: Fleet, capsys: Captured) -> None:
        assert said(f"get {noun}", capsys)[:2] == (exits.DONE, "(nothing)\n")

    def test_a_watched_list_is_shown_again(self, quiet: Fleet) -> None:
        command = [str(BIN / "mainstay"), "get", "moves", "--watch"]
        environment = outside.environment(MAINSTAY_COORDINATOR=quiet.addresses[0])
        terminal, its_end = pty.openpty()
        with subprocess.Popen(command, env=environment, stdout=its_end) as process:
            os.close(its_end)
            read_until(terminal, lambda seen: seen.count(b"(nothing)") >= 2)
            process.terminate()
        os.close(terminal)


class TestDomain:
    def test_an_assigned_domain_arrives_and_is_held(self, busy: Fleet, capsys: Captured) -> None:
        code, out, _ = said(f"domain assign {KEY}=r9 --shard b", capsys)
        assert (code, out.startswith(f"Assigned {KEY}=r9 to shard b;")) == (exits.DONE, True)
        assert table("get domains --value r9", capsys)[0][1:3] == ["b", "arriving"]
        told = document("get instructions --shard b", capsys)[-1]
        assert (told["kind"], told["what"]) == ("AssignDomain", f"take {KEY}=r9")

        busy.report(busy.b)
        busy.report(busy.b)

        assert table("get domains --value r9", capsys)[0][1:3] == ["b", "held"]
        assert document("get instructions --shard b", capsys) == []

    def test_a_domain_moves_when_its_owner_has_let_go(self, busy: Fleet, capsys: Captured) -> None:
        code, out, _ = said(f"domain move {KEY}=r1 --to b", capsys)
        assert (code, out) == (
            exits.DONE, f"{KEY}=r1: a is told to let go of it; then b gets it.\n",
        )  # fmt: skip
        assert table("get domains --value r1", capsys)[0][1:4] == ["a", "leaving", "b"]

        for shard in (busy.a, busy.a, busy.b, busy.b):
            busy.report(shard)

        assert table("get domains --value r1", capsys)[0][1:3] == ["b", "held"]

    def test_an_unassigned_domain_is_nobodys(self, busy: Fleet, capsys: Captured) -> None:
        assert said(f"domain unassign {KEY}=r2", capsys)[0] == exits.DONE
        busy.report(busy.a)
        busy.report(busy.a)

        assert document("get domains --value r2", capsys) == []

    @pytest.mark.parametrize(
        ("words", "line"),
        [
            (f"domain assign {KEY}=r3 --shard a", "b"),
            (f"domain assign {KEY}=r9 --shard nobody", "nobody"),
            (f"domain move {KEY}=nowhere --to b", "nowhere"),
            ("domain assign zone=z --shard a", KEY),
            ("shards remove nobody --yes", "nobody"),
            ("rebalance cancel m-9", "m-9"),
            ("rebalance return nobody --yes", "nobody"),
            ("rebalance return a m-9 --yes", "m-9"),
            ("cluster unbind nobody", "nobody"),
        ],
    )
    def test_what_cannot_be_is_refused_in_one_line_that_names_it(
        self, words: str, line: str, quiet: Fleet, capsys: Captured
    ) -> None:
        code, out, err = said(words, capsys)

        assert (code, out, err.count("\n")) == (exits.FAILED, "", 1)
        assert err.startswith("mainstay: ")
        assert line in err

    @pytest.mark.parametrize(
        "words",
        [
            "domain assign zone --shard a", "domain assign k=v", "domain move k=v",
            "quota set cluster web -1", "quota set cluster web many", "quota set place p 3",
            "shards remove a", "rebalance return a", "snapshot restore f",
        ],
    )  # fmt: skip
    def test_half_a_command_is_wrong_usage(self, words: str, home: Home, capsys: Captured) -> None:
        code, out, err = said(words, capsys)

        assert (code, out, err.count("\n")) == (exits.WRONG_USAGE, "", 1)


class TestQuota:
    def test_an_entitlement_is_set_listed_and_cleared(self, busy: Fleet, capsys: Captured) -> None:
        assert said("quota set cluster a-cluster-1 40", capsys)[0] == exits.DONE
        assert said("quota set place cloud zone-1 7 --reason stock", capsys)[0] == exits.DONE
        rows = table("get quotas", capsys)
        assert [row[:4] for row in rows] == [
            ["cluster", "a-cluster-1", "-", "40"], ["place", "cloud", "zone-1", "7"],
        ]  # fmt: skip

        code, out, _ = said("quota clear place cloud zone-1", capsys)

        assert (code, out.startswith("Quota of place cloud zone-1: ")) == (exits.DONE, True)
        assert [row["kind"] for row in document("get quotas", capsys)] == ["cluster"]


class TestRebalance:
    def test_the_plan_says_why_nothing_is_moved(self, quiet: Fleet, capsys: Captured) -> None:
        code, out, _ = said("rebalance plan", capsys)
        told = document("rebalance plan", capsys)

        assert code == exits.DONE
        assert out.startswith("0 moves; 40 shortfalls without one. Such plans are carried out")
        assert {row["shard"] for row in told["verdicts"]} == {"a", "b"}
        assert all(row["sentence"] for row in told["verdicts"])
        assert document("get moves", capsys) == []


class TestShards:
    QUOTA: Final = "quota set place cloud zone-1 7"

    def test_a_removed_shard_is_gone_with_all_it_had(self, home: Home, capsys: Captured) -> None:
        """Its quota waits for its machines, until somebody says that there are none."""
        fleet = Fleet(started(home))
        fleet.report()
        assert said(self.QUOTA, capsys)[0] == exits.DONE
        of = QuotaOf(QuotaKind.PLACE, "cloud", "zone-1")
        fleet.report(fleet.b, quota=(QuotaLine(of, 0, 0, 5),))
        code, _, err = said("shards remove b", capsys)
        assert code == exits.WRONG_USAGE
        assert "--yes" in err

        code, _, err = said("shards remove b --yes", capsys)
        assert (code, "force its removal" in err) == (exits.FAILED, True)
        code, out, _ = said("shards remove b --yes --force", capsys)

        assert (code, out.startswith("Removed shard b;")) == (exits.DONE, True)
        assert [row["id"] for row in document("get shards", capsys)] == ["a"]
        assert document("get domains --shard b", capsys) == []

        assert said(self.QUOTA, capsys)[0] == exits.DONE
        assert table("get quotas", capsys)[0][3:6] == ["7", "5", "2"]
        assert said(f"{self.QUOTA} --forget-waiting", capsys)[0] == exits.DONE
        assert table("get quotas", capsys)[0][3:6] == ["7", "0", "7"]

    def test_an_unbound_cluster_is_bound_by_the_next_report(
        self, busy: Fleet, capsys: Captured
    ) -> None:
        assert said("cluster unbind a-cluster-5", capsys)[0] == exits.DONE
        busy.report(busy.b, clusters=("a-cluster-5",))

        assert table("get bindings --cluster a-cluster-5", capsys)[0][:2] == ["a-cluster-5", "b"]


class TestSnapshot:
    def test_what_was_saved_is_there_after_a_restore(
        self, home: Home, tmp_path: Path, capsys: Captured
    ) -> None:
        fleet = Fleet(started(home))
        fleet.report()
        said("quota set cluster web 40", capsys)
        file, store = tmp_path / "fleet.snapshot", tmp_path / "restored.db"
        code, out, err = said(f"snapshot save {file}", capsys)
        assert (code, out.startswith(f"Saved the state of the fleet to {file}: ")) == (0, True), err
        home.started[-1].stop()

        code, out, err = said(f"snapshot restore {file} --store-file {store}", capsys)
        assert code == exits.DONE, err
        words = ("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--insecure")
        again = home.start("coordinator", "coordinator", *words, "--store-file", str(store))
        ask([again.grpc], lambda one: one.shards(ShardQuery()))

        assert [row["value"] for row in document("get domains", capsys)] == ["r1", "r2", "r3"]
        assert document("get quotas", capsys)[0]["entitled"] == 40
        terms = fleet.a.term
        fleet.addresses = [again.grpc]
        fleet.report()
        assert fleet.a.term > terms

    @pytest.mark.parametrize("cut", [0, 100, -1])
    def test_a_damaged_snapshot_changes_nothing(
        self, cut: int, quiet: Fleet, tmp_path: Path, capsys: Captured
    ) -> None:
        file, store = tmp_path / "fleet.snapshot", tmp_path / "restored.db"
        said(f"snapshot save {file}", capsys)
        whole = file.read_bytes()
        damaged = whole[:cut] if cut >= 0 else whole.replace(b"r1", b"r7", 1)
        file.write_bytes(damaged)

        code, out, err = said(f"snapshot restore {file} --store-file {store}", capsys)

        assert (code, out, err.count("\n")) == (exits.FAILED, "", 1)
        assert not store.exists()


class TestFinding:
    def test_nobody_there_is_its_own_exit_code(self, home: Home, capsys: Captured) -> None:
        code, _, err = said("get shards", capsys)

        assert code == exits.NOT_REACHABLE
        assert "no coordinator runs here" in err
        assert "--server HOST:PORT" in err

    def test_one_that_does_not_answer_is_named(
        self, home: Home, monkeypatch: pytest.MonkeyPatch, capsys: Captured
    ) -> None:
        monkeypatch.setenv("MAINSTAY_COORDINATOR", "127.0.0.1:1")
        code, out, err = said("get domains", capsys)

        assert (code, out) == (exits.NOT_REACHABLE, "")
        assert "127.0.0.1:1" in err

    def test_whoever_is_asked_the_leader_answers(self, home: Home, capsys: Captured) -> None:
        first = started(home, "c-0")
        fleet = Fleet(first)
        fleet.report()
        follower = started(home, "c-1")

        rows = document(f"get shards --server {follower.grpc}", capsys)

        assert [row["id"] for row in rows] == ["a", "b"]
        standing = ask([follower.grpc], lambda one: one.standing(StandingQuery()))
        assert (standing.id, standing.leads, standing.leader) == ("c-1", False, first.grpc)
