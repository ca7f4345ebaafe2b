"""The verbs that ask shards, against processes that answer: what a person sees."""

import json
import os
import pty
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

import outside
from live_shard import plain_need, short_need, started
from mainstay.cli import exits, main
from running import read_until
from tree import BIN

Captured = pytest.CaptureFixture[str]
PATIENCE_S: Final = 60.0
NEED: Final = short_need().profile.fingerprint[:8]
WEB_NEED: Final = plain_need().profile.fingerprint[:8]


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """A home with one shard, and one with two, of which the second serves blue and has zone-w."""
    one, two = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("two")
    processes = [started(one, "s-0"), started(two, "s-1"), started(two, "s-2", "blue")]
    yield one, two
    for process in processes:
        process.terminate()
        process.wait()


@pytest.fixture
def one(homes: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("MAINSTAY_HOME", str(homes[0]))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return homes[0]


@pytest.fixture
def two(homes: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("MAINSTAY_HOME", str(homes[1]))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return homes[1]


def said(words: str, capsys: Captured) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main.dispatch(words.split())
    told = capsys.readouterr()
    return code, told.out, told.err


def document(words: str, capsys: Captured) -> Any:
    code, out, _ = said(words, capsys)
    assert code == exits.DONE
    return json.loads(out)


class TestGet:
    def test_machines_are_limited_and_the_rest_is_counted(
        self, one: Path, capsys: Captured
    ) -> None:
        code, out, err = said("get machines", capsys)

        assert code == exits.DONE
        assert len(out.splitlines()) == 1 + 100
        assert "200 more of 300 are not shown; raise --limit, 0 shows all" in err

    def test_machines_are_found_by_what_they_are(self, one: Path, capsys: Captured) -> None:
        words = "get machines --state idle --state failed --zone zone-b --provider cloud -o json"
        found = document(words, capsys)

        assert {row["state"] for row in found} == {"Idle", "Failed"}
        assert {(row["zone"], row["provider"]) for row in found} == {("zone-b", "cloud")}
        assert len(found) == 11

    def test_all_machines_may_be_had_as_data(self, one: Path, capsys: Captured) -> None:
        found = document("get machines --limit 0 -o json", capsys)

        assert len(found) == 300
        assert found[0]["shard"] == "s-0"

    def test_needs_tell_what_is_missing_and_why(self, one: Path, capsys: Captured) -> None:
        _, out, _ = said("get needs --unmet", capsys)
        header, *lines = out.splitlines()

        assert header.split() == [
            "CLUSTER", "NEED", "GROUP", "PRIORITY", "ASKED", "MISSING", "REASON", "AGE",
            "MACHINES", "SERVING", "HELD", "BACK", "PARKED",
        ]  # fmt: skip
        assert len(lines) == 2
        assert lines[1].split()[:6] == ["batch", NEED, "-", "10", "cpu=900", "cpu=436"]

    def test_clusters_tell_who_is_there_and_what_it_costs(
        self, one: Path, capsys: Captured
    ) -> None:
        _, out, _ = said("get clusters", capsys)

        assert out.splitlines()[3].split() == [
            "web", "yes", "yes", "1", "0", "60", "0", "-", "Creating=6,Configured=60", "132.00",
            "-",
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("noun", "says"),
        [
            ("actions", "capped"),
            ("actions", "1970-01-12T13:46:39Z"),
            ("shortfalls", "preemption exhausted"),
            ("providers", "no route"),
            ("controls", "(nothing)"),
        ],
    )
    def test_every_other_noun_has_a_table(
        self, noun: str, says: str, one: Path, capsys: Captured
    ) -> None:
        code, out, _ = said(f"get {noun}", capsys)

        assert code == exits.DONE
        assert says in out

    def test_wide_shows_more_and_yaml_is_yaml(self, one: Path, capsys: Captured) -> None:
        _, wide, _ = said("get needs -o wide", capsys)
        _, text, _ = said("get needs -o yaml", capsys)

        assert "ASKS FOR" in wide.splitlines()[0]
        assert [row["priority"] for row in yaml.safe_load(text)] == [100, 50, 10]

    def test_a_state_that_is_none_is_refused(self, one: Path, capsys: Captured) -> None:
        code, out, err = said("get machines --state happy", capsys)

        assert (code, out) == (exits.FAILED, "")
        assert "no such state: 'happy' (one of Speculative" in err

    def test_a_reason_that_is_none_is_refused(self, one: Path, capsys: Captured) -> None:
        code, out, err = said("get needs --reason nonsense", capsys)

        assert (code, out) == (exits.FAILED, "")
        assert "no such reason: 'nonsense' (one of waiting, impossible, quota" in err

    @pytest.mark.parametrize("reason", ["preemption-exhausted", "preemption exhausted"])
    def test_a_reason_is_taken_as_it_is_shown_and_without_its_spaces(
        self, reason: str, one: Path, capsys: Captured
    ) -> None:
        assert main.dispatch(["get", "needs", "--reason", reason, "-o", "json"]) == exits.DONE
        found = json.loads(capsys.readouterr().out)

        assert [row["reason"] for row in found] == ["preemption exhausted"]

    def test_a_disposition_that_is_none_is_refused(self, one: Path, capsys: Captured) -> None:
        code, out, err = said("get actions --disposition nonsense", capsys)

        assert (code, out) == (exits.WRONG_USAGE, "")
        assert "'nonsense'" in err
        assert "'suppressed'" in err

    @pytest.mark.parametrize("noun", ["machines", "needs", "actions", "clusters"])
    def test_a_cluster_that_nobody_knows_is_told_of(
        self, noun: str, two: Path, capsys: Captured
    ) -> None:
        unknown = "No cluster nope is known here: `mainstay get clusters` lists those that are.\n"

        assert said(f"get {noun} --cluster nope", capsys) == (exits.DONE, "(nothing)\n", unknown)

    def test_a_cluster_that_is_known_and_has_none_of_them_is_no_mistake(
        self, one: Path, capsys: Captured
    ) -> None:
        words = "get machines --cluster web --state failed"

        assert said(words, capsys) == (exits.DONE, "(nothing)\n", "")


class TestOneByName:
    @pytest.mark.parametrize(
        ("words", "names"),
        [
            ("get machine c-001", ["c-001"]),
            ("get machines x-003 c-001", ["c-001", "x-003"]),
            (f"get need batch/{NEED}", [f"batch/{NEED}"]),
            ("get needs web", [f"web/{WEB_NEED}"]),
            ("get cluster web", ["web"]),
            ("get provider metal", ["metal"]),
        ],
    )
    def test_it_is_shown_alone(
        self, words: str, names: list[str], one: Path, capsys: Captured
    ) -> None:
        code, out, err = said(f"{words} -o name", capsys)

        assert (code, out.splitlines(), err) == (exits.DONE, names, "")

    @pytest.mark.parametrize(
        ("words", "error"),
        [
            ("get machine m-9", "no machine m-9: `mainstay get machines` lists them"),
            ("get need web/none", "no need web/none: `mainstay get needs` lists them"),
            ("get cluster none", "no cluster none: `mainstay get clusters` lists them"),
            ("get provider none", "no provider none: `mainstay get providers` lists them"),
        ],
    )
    def test_one_that_nobody_has_is_one_line_and_a_failure(
        self, words: str, error: str, one: Path, capsys: Captured
    ) -> None:
        code, out, err = said(f"{words} -o name", capsys)

        assert (code, out, err) == (exits.FAILED, "", f"mainstay: {error}\n")

    def test_what_is_there_is_shown_beside_what_is_not(self, two: Path, capsys: Captured) -> None:
        code, out, err = said("get machines c-001 m-9 -o name", capsys)

        assert (code, out.split()) == (exits.FAILED, ["c-001", "c-001"])
        assert err.count("\n") == 1

    def test_names_are_what_explain_takes(self, one: Path, capsys: Captured) -> None:
        _, names, _ = said("get needs -o name", capsys)
        for name in names.split():
            code, _, _ = said(f"explain need {name} --quick", capsys)
            assert code == exits.DONE


class TestSortAndSelect:
    def test_machines_by_price_the_dearest_first(self, one: Path, capsys: Captured) -> None:
        words = ["get", "machines", "--sort-by", "-$/hour", "--limit", "3", "-o", "json"]
        assert main.dispatch(words) == exits.DONE
        shown = capsys.readouterr()

        assert [row["price_per_hour"] for row in json.loads(shown.out)] == [3.0, 3.0, 3.0]
        assert "297 more of 300 are not shown" in shown.err

    def test_a_column_that_there_is_not_is_wrong_usage(self, one: Path, capsys: Captured) -> None:
        code, out, err = said("get needs --sort-by nothing", capsys)

        assert (code, out) == (exits.WRONG_USAGE, "")
        assert "no such column: nothing (one of shard, cluster, need," in err

    def test_machines_with_all_of_several_labels(self, one: Path, capsys: Captured) -> None:
        words = "get machines -l rack=r3,zone=zone-a,capacity=on-demand,state=idle -o name"
        _, out, _ = said(words, capsys)

        assert out.split() == ["i-003", "i-013", "i-023", "i-033"]

    def test_what_is_no_selector_is_refused(self, one: Path, capsys: Captured) -> None:
        code, _, err = said("get machines -l zone", capsys)

        assert code == exits.FAILED
        assert "not a selector: 'zone' (write it like zone=z1,capacity=spot)" in err

    def test_actions_of_one_kind(self, one: Path, capsys: Captured) -> None:
        found = document("get actions --kind reclaim -o json", capsys)

        assert [row["machine"] for row in found] == ["c-009"]

    def test_what_is_no_list_has_no_names(self, one: Path, capsys: Captured) -> None:
        code, out, err = said("explain cluster web -o name", capsys)

        assert (code, out) == (exits.WRONG_USAGE, "")
        assert "no list of names" in err


class TestMoney:
    @pytest.mark.parametrize("words", ["get money", "money"])
    def test_the_parts_and_the_whole_to_the_cent(
        self, words: str, one: Path, capsys: Captured
    ) -> None:
        code, out, err = said(f"{words} --by cluster", capsys)
        assert code == exits.DONE
        header, *rows = [line.split() for line in out.splitlines()]
        assert header[:3] == ["OF", "PAID", "FOR"]
        assert {row[0] for row in rows} >= {"web", "late", "(nobody)", "(all)"}
        spent = {row[0]: row[3].replace(",", "") for row in rows}
        assert sum(float(spent[name]) for name in spent if name != "(all)") == float(spent["(all)"])
        assert "cloud, metal does not tell when it charges" in err

    def test_as_data_it_is_in_billionths(self, one: Path, capsys: Captured) -> None:
        _, out, _ = said("money --by class -o json", capsys)
        rows = json.loads(out)
        assert rows[-1]["spent"] == sum(row["spent"] for row in rows[:-1]) > 10**9

    def test_top_has_a_line(self, one: Path, capsys: Captured) -> None:
        _, out, _ = said("top --once", capsys)
        assert "money     $" in out
        assert "of it waste" in out


class TestSeveralShards:
    def test_all_are_asked_and_a_column_says_which(self, two: Path, capsys: Captured) -> None:
        _, out, _ = said("get providers", capsys)

        lines = [line.split() for line in out.splitlines()]
        assert lines[0][0] == "SHARD"
        assert [(line[0], line[1]) for line in lines[1:]] == [
            ("s-1", "cloud"), ("s-1", "metal"), ("s-2", "cloud"), ("s-2", "metal"),
        ]  # fmt: skip

    def test_money_of_all_of_them_is_the_sum_of_each(self, two: Path, capsys: Captured) -> None:
        *rows, fleet = document("money --by class -o json", capsys)

        assert (fleet["shard"], fleet["name"]) == ("(all)", "(all)")
        wholes = [row for row in rows if row["name"] == "(all)"]
        assert [row["shard"] for row in wholes] == ["s-1", "s-2"]
        for amount in fleet.keys() - {"shard", "name"}:
            assert fleet[amount] == sum(row[amount] for row in wholes), amount
        assert fleet["spent"] > max(row["spent"] for row in wholes)

        _, out, _ = said("money", capsys)
        assert out.splitlines()[-1].split()[:2] == ["(all)", "(all)"]
        assert {row["shard"] for row in document("money --shard s-2 -o json", capsys)} == {"s-2"}

    def test_no_money_of_all_is_told_while_one_is_down(self, two: Path, capsys: Captured) -> None:
        up = json.loads((two / "run" / "shard-s-1.json").read_text())["addresses"]["grpc"]
        code, out, _ = said(f"money --server {up},127.0.0.1:1 -o json", capsys)

        assert code == exits.NOT_REACHABLE
        assert {row["shard"] for row in json.loads(out)} == {"s-1"}

    def test_one_of_them_may_be_meant(self, two: Path, capsys: Captured) -> None:
        found = document("get clusters --shard s-2 -o json", capsys)

        assert {row["shard"] for row in found} == {"s-2"}

    def test_a_shard_that_is_not_there_is_refused(self, two: Path, capsys: Captured) -> None:
        code, _, err = said("get clusters --shard s-9", capsys)

        assert code == exits.FAILED
        assert "no shard s-9 here: name one of s-1, s-2" in err

    def test_control_needs_one_to_be_named(self, two: Path, capsys: Captured) -> None:
        code, _, err = said("pause --reason test --for 1m", capsys)

        assert code == exits.FAILED
        assert "2 shards are running: name one with --shard (s-1, s-2)" in err

    def test_one_that_is_down_is_told_of_and_the_others_answer(
        self, two: Path, capsys: Captured
    ) -> None:
        up = json.loads((two / "run" / "shard-s-1.json").read_text())["addresses"]["grpc"]
        code, out, err = said(f"get clusters --server {up},127.0.0.1:1 -o json", capsys)

        assert code == exits.NOT_REACHABLE
        assert {row["shard"] for row in json.loads(out)} == {"s-1"}
        assert "shard 127.0.0.1:1 does not answer, is it running?" in err


class TestExplain:
    def test_a_need_is_explained_in_sentences(self, one: Path, capsys: Captured) -> None:
        code, out, _ = said(f"explain need batch/{NEED}", capsys)

        assert code == exits.DONE
        assert out.splitlines()[0].startswith(f"The need batch/{NEED} asks for cpu 900")
        assert "The smallest change that admits it" in out
        assert out.splitlines()[-1].startswith("When: never as things are, because")

    def test_a_machine_that_one_which_is_down_may_have_is_not_said_to_be_unknown(
        self, two: Path, capsys: Captured
    ) -> None:
        up = json.loads((two / "run" / "shard-s-1.json").read_text())["addresses"]["grpc"]
        code, out, err = said(f"explain machine w-0 --server {up},127.0.0.1:1", capsys)

        assert (code, out) == (exits.NOT_REACHABLE, "")
        assert "shard 127.0.0.1:1 does not answer, is it running?" in err

    def test_whoever_has_no_patience_is_told_of_one_change_and_that_others_were_left_out(
        self, one: Path, capsys: Captured
    ) -> None:
        _, out, _ = said(f"explain need batch/{NEED} --patience 0.01", capsys)

        assert "The smallest change that admits it" in out
        assert re.search(r"\d+ more ways? to change it .* not tried; with more --patience", out)

    def test_when_is_told_as_data_too(self, one: Path, capsys: Captured) -> None:
        (served,) = document("explain need web --quick -o json", capsys)
        (coming,) = document("explain machine n-000 -o json", capsys)

        assert served["expected"]["when"] == "now"
        assert coming["expected"]["when"] in {"unknown", "about"}
        assert coming["expected"]["because"]

    def test_the_same_need_by_two_words(self, one: Path, capsys: Captured) -> None:
        _, by_slash, _ = said(f"explain need batch/{NEED} --quick", capsys)
        _, by_words, _ = said(f"explain need batch {NEED} --quick", capsys)

        assert by_slash == by_words

    def test_as_data_it_is_the_certificate(self, one: Path, capsys: Captured) -> None:
        (told,) = document("explain gang batch train-1 --quick -o json", capsys)

        assert told["certificate"]["kind"] == "NeedCertificate"
        assert told["certificate"]["verdict"] == "impossible"
        assert told["sentences"][0].startswith("The gang batch/")

    def test_machines_and_clusters_too(self, one: Path, capsys: Captured) -> None:
        _, machine, _ = said("explain machine d-001", capsys)
        _, cluster, _ = said("explain cluster late -o yaml", capsys)

        assert "silence is not zero" in machine
        assert yaml.safe_load(cluster)[0]["certificate"]["heard"] is False

    def test_what_nobody_knows_says_what_to_do(self, one: Path, capsys: Captured) -> None:
        code, out, err = said("explain machine m-9", capsys)

        assert (code, out) == (exits.FAILED, "")
        assert "no machine m-9" in err
        assert "check the id" in err

    def test_of_several_shards_each_that_knows_answers(self, two: Path, capsys: Captured) -> None:
        _, out, _ = said("explain machine c-001", capsys)

        assert [line for line in out.splitlines() if line.startswith("Shard ")] == [
            "Shard s-1, cycle 12:", "Shard s-2, cycle 12:",
        ]  # fmt: skip


class TestWhatIf:
    def test_actions_and_dollars_before_and_after(self, one: Path, capsys: Captured) -> None:
        code, out, _ = said("whatif --lose-zone zone-b --price type=m5.2xlarge=2", capsys)

        assert code == exits.DONE
        assert "Nothing was done." in out
        assert out.splitlines()[2].split() == ["ACTION", "BEFORE", "AFTER"]
        assert "Dollars per hour: 275.00 before," in out
        assert f"batch/{NEED}: missed cpu=436, would miss cpu=900" in out

    @pytest.mark.parametrize(
        "change",
        ["--lose-zone zone-b", "--price type=m5.2xlarge=2", "--drain-rack r1",
         "--add web:cpu=80,unit.cpu=8,priority=200"],
    )  # fmt: skip
    def test_each_change_alone_is_told_in_actions_and_dollars(
        self, change: str, one: Path, capsys: Captured
    ) -> None:
        code, out, _ = said(f"whatif {change}", capsys)
        (told,) = document(f"whatif {change} -o json", capsys)

        assert code == exits.DONE
        assert ["ACTION", "BEFORE", "AFTER"] in [line.split() for line in out.splitlines()]
        assert re.search(r"Dollars per hour: [\d,.]+ before, [\d,.]+ after", out)
        was = told["actions_before"], told["cost_before"]
        assert (told["actions_after"], told["cost_after"]) != was

    def test_every_change_has_a_flag(self, one: Path, capsys: Captured) -> None:
        changes = "--drain-rack r1 --add web:cpu=80,unit.cpu=8,priority=200 --quota web=any"
        (told,) = document(f"whatif {changes} -o json", capsys)

        assert (told["shard"], told["cycle"]) == ("s-0", 12)
        assert told["cost_after"] != told["cost_before"]

    def test_of_several_shards_the_sum_comes_last(self, two: Path, capsys: Captured) -> None:
        _, out, _ = said("whatif --lose-zone zone-b", capsys)
        told = document("whatif --lose-zone zone-b -o json", capsys)
        cost = [sum(each[f"cost_{when}"] for each in told) for when in ("before", "after")]
        acts = [sum(sum(each[f"actions_{when}"].values()) for each in told)
                for when in ("before", "after")]  # fmt: skip
        lost = sum(each["unsatisfied_count"] for each in told)

        *_, dollars, actions, needs, _ = out.splitlines()
        assert "All 2 shards together:" in out.splitlines()
        assert f"{cost[0]:,.2f} before, {cost[1]:,.2f} after" in dollars
        assert f"{acts[0]:,} before, {acts[1]:,} after" in actions
        assert f"needs: {lost:,} no longer served in full" in needs

    def test_of_one_shard_there_is_no_sum(self, one: Path, capsys: Captured) -> None:
        assert "together" not in said("whatif --lose-zone zone-b", capsys)[1]

    @pytest.mark.parametrize("shard", ["", " --shard s-2"])
    def test_more_demand_meets_the_one_shard_that_serves_the_cluster(
        self, shard: str, two: Path, capsys: Captured
    ) -> None:
        change = f"whatif --add blue:cpu=80,unit.cpu=8,priority=200{shard}"
        (told,) = document(f"{change} -o json", capsys)

        assert told["shard"] == "s-2"
        assert told["cost_after"] > told["cost_before"]
        assert "together" not in said(change, capsys)[1]

    def test_other_changes_are_still_asked_of_every_shard(
        self, two: Path, capsys: Captured
    ) -> None:
        words = "whatif --add blue:cpu=80,unit.cpu=8,priority=200 --price type=m5.2xlarge=2"
        _, _, err = said(words, capsys)
        here, there = document(f"{words} -o json", capsys)
        (alone,) = document("whatif --price type=m5.2xlarge=2 --shard s-1 -o json", capsys)

        assert (here, there["shard"], err) == (alone, "s-2", "")

    @pytest.mark.parametrize(
        ("cluster", "why"),
        [
            ("green", "no shard that answers serves cluster green"),
            ("web", "2 shards serve cluster web (s-1, s-2)"),
        ],
    )
    def test_more_demand_of_a_cluster_that_not_one_shard_serves_says_what_to_do(
        self, cluster: str, why: str, two: Path, capsys: Captured
    ) -> None:
        code, out, err = said(f"whatif --add {cluster}:cpu=80", capsys)

        assert (code, out, err.count("\n")) == (exits.FAILED, "", 1)
        assert f"{why}: ask the one that is meant with `mainstay whatif --shard NAME`" in err
        assert said(f"whatif --add {cluster}:cpu=80 --shard s-1", capsys)[0] == exits.DONE

    def test_what_a_shard_has_nothing_of_is_left_out_there_and_the_rest_counts(
        self, two: Path, capsys: Captured
    ) -> None:
        words = "whatif --lose-zone zone-w --price type=m5.2xlarge=2"
        here, there = document(f"{words} -o json", capsys)
        _, out, _ = said(words, capsys)

        assert here["unmatched"] == ["topology.kubernetes.io/zone IN zone-w"]
        assert there["unmatched"] == []
        assert here["cost_after"] > here["cost_before"]
        before = here["cost_before"] + there["cost_before"]
        assert f"dollars per hour: {before:,.2f} before" in out
        assert out.count("No machine of this shard has topology.kubernetes.io/zone IN zone-w") == 1

    def test_a_shard_where_nothing_would_change_is_named(self, two: Path, capsys: Captured) -> None:
        code, out, err = said("whatif --lose-zone zone-w", capsys)

        assert (code, "Shard s-1" in out, "Shard s-2" in out) == (exits.DONE, False, True)
        assert err.startswith("Nothing would change there: shard s-1: no machine has ")

    @pytest.mark.parametrize(
        "change",
        ["--lose-zone zone-z", "--lose-zone zone-z --price type=m5.2xlarge=2",
         "--lose-zone zone-w --shard s-1",
         "--lose-zone zone-w --price type=m5.2xlarge=2 --shard s-1"],
    )  # fmt: skip
    def test_what_nobody_who_is_asked_has_is_refused(
        self, change: str, two: Path, capsys: Captured
    ) -> None:
        code, out, err = said(f"whatif {change}", capsys)

        assert (code, out, err.count("\n")) == (exits.FAILED, "", 1)
        assert "no machine has topology.kubernetes.io/zone IN zone-" in err

    @pytest.mark.parametrize(
        ("others", "answer"),
        [(" --price type=m5.2xlarge=2", ", on the plan of cycle 12"), ("", "")],
    )
    def test_what_only_one_that_is_down_may_have_is_not_said_to_be_nowhere(
        self, others: str, answer: str, two: Path, capsys: Captured
    ) -> None:
        up = json.loads((two / "run" / "shard-s-1.json").read_text())["addresses"]["grpc"]
        words = f"whatif --lose-zone zone-w{others} --server {up},127.0.0.1:1"
        code, out, err = said(words, capsys)

        assert (code, "no machine has" in err) == (exits.NOT_REACHABLE, False)
        assert "shard 127.0.0.1:1 does not answer, is it running?" in err
        assert answer in out
        left_out = "No machine of this shard has topology.kubernetes.io/zone IN zone-w"
        assert (left_out in out) == bool(answer)

    def test_without_a_change_it_is_wrong_usage(self, one: Path, capsys: Captured) -> None:
        code, _, err = said("whatif", capsys)

        assert code == exits.WRONG_USAGE
        assert "--lose-zone" in err


class TestControl:
    def test_pause_and_resume(self, one: Path, capsys: Captured) -> None:
        words = ["pause", "--cluster", "web", "--reason", "a drill", "--for", "30m"]
        assert main.dispatch(words) == exits.DONE
        assert "Set pause for cluster web of shard s-0 for 30m." in capsys.readouterr().out
        (control,) = document("get controls -o json", capsys)
        assert (control["kind"], control["reason"]) == ("pause", "a drill")

        code, out, _ = said("resume --cluster web --reason over", capsys)

        assert (code, out) == (exits.DONE, "Lifted pause for cluster web of shard s-0.\n")
        assert document("get controls -o json", capsys) == []

    def test_resume_leaves_limits_unless_all_are_meant(self, one: Path, capsys: Captured) -> None:
        said("limit --actions 5 --reason slow --for 1h", capsys)
        said("shadow --reason look --for 1h", capsys)

        said("resume --reason over", capsys)
        left = document("get controls -o json", capsys)
        said("resume --all --reason over", capsys)

        assert [(each["kind"], each["value"]) for each in left] == [("action_limit", 5.0)]
        assert document("get controls -o json", capsys) == []

    def test_what_was_set_lifted_and_retired_can_be_data(self, two: Path, capsys: Captured) -> None:
        meant = "--shard s-1 --reason drill -o json"
        (paused,) = document(f"pause --for 30m {meant}", capsys)
        (limited,) = document(f"limit --actions 5 --for 30m {meant}", capsys)
        listed = document("get controls --shard s-1 -o json", capsys)
        lifted = document(f"resume --all {meant}", capsys)
        (retired,) = document(f"retire x-003 {meant}", capsys)

        assert paused["expires_at_s"] - paused["set_at_s"] == 1800
        assert (limited["kind"], limited["value"], limited["shard"]) == ("action_limit", 5.0, "s-1")
        assert sorted(listed, key=str) == sorted(
            [{"shard": "s-1", **each} for each in (paused, limited)], key=str
        )
        assert {each["kind"] for each in lifted} == {"pause", "action_limit"}
        assert retired == {
            "machine": "x-003", "last_error": "create timed out", "shard": "s-1",
        }  # fmt: skip

    def test_nothing_to_resume_is_said(self, one: Path, capsys: Captured) -> None:
        code, _, err = said("resume --reason over", capsys)

        assert code == exits.FAILED
        assert "nothing holds the shard back" in err

    @pytest.mark.parametrize(
        "words",
        [
            "pause --for 1h", "pause --reason why", "shadow --reason why", "resume",
            "retire x-000", "limit --reason why --for 1h",
            "limit --reason why --for 1h --actions 5 --reclaims 0.1",
        ],
    )  # fmt: skip
    def test_reason_and_end_are_required(self, words: str, one: Path, capsys: Captured) -> None:
        code, out, _ = said(words, capsys)

        assert (code, out) == (exits.WRONG_USAGE, "")

    def test_a_failed_machine_is_retired_and_no_other(self, one: Path, capsys: Captured) -> None:
        code, out, _ = said("retire x-003 --reason broken", capsys)
        refused, _, err = said("retire c-003 --reason broken", capsys)

        assert (code, out) == (exits.DONE, "Retired x-003, which had failed: create timed out\n")
        assert refused == exits.FAILED
        assert "only Failed is retired" in err


class TestTop:
    def test_once_is_plain_text(self, one: Path, capsys: Captured) -> None:
        code, out, _ = said("top --once", capsys)

        assert code == exits.DONE
        for line in (
            "Shard s-0, epoch 7, cycle 12,", "300 machines", "needs     3, 2 unmet, 1 parked",
            "clusters  2 with needs, 1 connected", "cycle     25 ms (decide 20, reconcile 5)",
            "actions   12 per minute, 3 queued, 2 in flight", "spend     $278.00 per hour",
            "provider  metal lost, 0 machines, not listed: no route",
        ):  # fmt: skip
            assert line in out
        assert "\x1b" not in out

    def test_without_a_terminal_it_looks_again_and_again(self, one: Path) -> None:
        environment = outside.environment(MAINSTAY_HOME=str(one))
        command = [str(BIN / "mainstay"), "top", "--interval", "0.2"]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            looks = 0
            for line in process.stdout:
                looks += line.startswith(b"Shard s-0")
                if looks == 3:
                    break
            process.terminate()

        assert looks == 3

    def test_on_a_terminal_it_goes_on_until_ctrl_c_without_colour(self, one: Path) -> None:
        environment = outside.environment(MAINSTAY_HOME=str(one), NO_COLOR="1", TERM="xterm")
        terminal, its_end = pty.openpty()
        top = subprocess.Popen(
            [str(BIN / "mainstay"), "top"], env=environment, stdin=its_end, stdout=its_end
        )
        os.close(its_end)
        seen = read_until(terminal, lambda seen: b"per hour" in seen)
        top.send_signal(signal.SIGINT)
        code = top.wait(timeout=PATIENCE_S)
        os.close(terminal)

        assert code == exits.DONE
        assert b"Shard s-0" in seen
        assert b"\x1b[3" not in seen


def test_a_watched_list_in_a_pipe_tells_what_changes(one: Path, capsys: Captured) -> None:
    command = [str(BIN / "mainstay"), "get", "controls", "--watch", "-o", "json"]
    environment = outside.environment(MAINSTAY_HOME=str(one), PYTHONUNBUFFERED="1")
    said("pause --cluster web --reason first --for 30m", capsys)
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        told = [json.loads(process.stdout.readline())]
        said("pause --cluster web --reason second --for 30m", capsys)
        told.append(json.loads(process.stdout.readline()))
        said("resume --cluster web --reason over", capsys)
        told.append(json.loads(process.stdout.readline()))
        process.terminate()

    assert [(each["reason"], each["change"]) for each in told] == [
        ("first", ""), ("second", "changed"), ("second", "gone"),
    ]  # fmt: skip


def test_a_watched_list_on_a_terminal_is_drawn_again(one: Path) -> None:
    command = [str(BIN / "mainstay"), "get", "controls", "--watch"]
    terminal, its_end = pty.openpty()
    watching = subprocess.Popen(
        command, env=outside.environment(MAINSTAY_HOME=str(one)), stdout=its_end
    )
    os.close(its_end)
    seen = read_until(terminal, lambda seen: seen.count(b"(nothing)") >= 2)
    watching.send_signal(signal.SIGINT)
    code = watching.wait(timeout=PATIENCE_S)
    os.close(terminal)

    assert code == exits.DONE
    assert seen.count(b"\x1b[2J") >= 2


class TestServers:
    def test_nobody_there_is_its_own_exit_code(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Captured
    ) -> None:
        monkeypatch.setenv("MAINSTAY_HOME", str(tmp_path))
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
        code, _, err = said("get needs", capsys)

        assert code == exits.NOT_REACHABLE
        assert "no shard runs here" in err
        assert "--server HOST:PORT" in err

    def test_the_environment_names_a_server(
        self, one: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
    ) -> None:
        monkeypatch.setenv("MAINSTAY_SERVER", "127.0.0.1:1")

        code, _, err = said("get needs", capsys)

        assert code == exits.NOT_REACHABLE
        assert "shard 127.0.0.1:1 does not answer" in err
