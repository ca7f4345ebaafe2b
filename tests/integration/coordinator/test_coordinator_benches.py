"""The benches of a coordinator run here once, small: their keys and fixtures, never their times."""

import io
import json
from contextlib import redirect_stdout
from typing import Any

import pytest

from mainstay.bench import etcd
from mainstay.bench.fleet_shards import KEY, SimulatedShard, heavy
from mainstay.cli import bench as command
from mainstay.cli import exits
from mainstay.model.coordination import (
    AssignDomain,
    Domain,
    Instruction,
    Outcome,
    ReportAck,
    UnassignDomain,
)


def answer_of(*words: str) -> Any:
    out = io.StringIO()
    with redirect_stdout(out):
        code = exits.run(command.app, [*words, "--json"], name="bench")
    assert code == exits.DONE
    return json.loads(out.getvalue())


@pytest.mark.needs("etcd-server")
def test_failover_prints_every_key_and_loses_nothing() -> None:
    answer = answer_of("failover", "--shards", "3", "--domains", "6", "--kills", "1")

    assert answer["fixture"] == {"shards": 3, "domains": 6}
    assert {len(samples) for samples in answer["samples"].values()} == {1}
    assert answer["samples"].keys() == {
        "killed_ms", "killed_all_shards_ms", "stopped_ms", "stopped_all_shards_ms",
    }  # fmt: skip
    assert (answer["lost"], answer["terms_fell"], answer["terms_grow"]) == (0, 0, True)
    assert len(answer["terms"]) == 3
    assert answer["writes_acknowledged"] > 0
    assert answer["budget"] == {"killed_max_ms": 3_000.0, "stopped_max_ms": 3_000.0}


def test_failover_without_an_etcd_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(etcd, "path", lambda: None)

    code = exits.run(command.app, ["failover"], name="bench")

    assert code == exits.NOT_REACHABLE
    assert "no etcd on PATH: install etcd-server" in capsys.readouterr().err


def test_a_large_fleet_is_measured_on_a_file_where_there_is_no_etcd(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(etcd, "path", lambda: None)
    words = ("--shards", "4", "--domains", "40", "--seconds", "0.3", "--writes", "8")

    answer = answer_of("coordinator", *words)

    assert answer["store"] == "embedded"
    assert answer["fixture"] == {
        "shards": 4, "domains": 40, "writes_of_quiet_reports": 0, "domains_after": 48,
    }  # fmt: skip
    assert answer["state_keys"] >= 4 + 40 + 40
    assert 10_000 < answer["report_bytes"] < 100_000
    for key in ("regain_s", "reports_per_s", "writes_per_s", "load_ms", "failover_first_ms"):
        assert answer[key] > 0, key


class TestSimulatedShard:
    @pytest.fixture
    def shard(self) -> SimulatedShard:
        return SimulatedShard("a", heavy(600), [Domain(KEY, "r1")])

    def told(self, shard: SimulatedShard, *payloads: object, term: int = 5) -> None:
        instructions = tuple(
            Instruction(term=term, sequence=n, id=f"i-{n}", payload=payload)  # type: ignore[arg-type]
            for n, payload in enumerate(payloads)
        )
        shard.hear(shard.report(0.0), ReportAck(term=term, instructions=instructions))

    def test_every_report_has_a_number_of_its_own(self, shard: SimulatedShard) -> None:
        assert [shard.report(0.0).number for _ in range(3)] == [1, 2, 3]

    def test_it_does_what_it_is_told_and_owes_the_answer(self, shard: SimulatedShard) -> None:
        added, gone = Domain(KEY, "r2"), Domain(KEY, "r1")
        self.told(shard, AssignDomain(domain=added), UnassignDomain(domain=gone))

        assert shard.domains == {added}
        assert {ack.outcome for ack in shard.report(0.0).acks} == {Outcome.ACCEPTED}

    def test_an_answer_is_owed_until_a_report_with_it_was_heard(
        self, shard: SimulatedShard
    ) -> None:
        self.told(shard, AssignDomain(domain=Domain(KEY, "r2")))
        sent = shard.report(0.0)
        assert len(shard.report(0.0).acks) == 1

        shard.hear(sent, ReportAck(term=5))

        assert shard.report(0.0).acks == ()

    def test_a_term_that_falls_is_counted_and_its_instructions_refused(
        self, shard: SimulatedShard
    ) -> None:
        self.told(shard, term=5)
        self.told(shard, AssignDomain(domain=Domain(KEY, "r2")), term=4)

        assert (shard.terms_fell, shard.term) == (1, 5)
        assert [ack.outcome for ack in shard.report(0.0).acks] == [Outcome.REJECTED_STALE]
