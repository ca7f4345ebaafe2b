"""`mainstay cluster sim` against a shard and a provider, all of them processes of their own."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mainstay.runtime.children import Child, Children

SHARD = ["--listen", "127.0.0.1:0", "--http", "", "--insecure", "--cycle-interval", "0.2"]
CLUSTERS = ["--clusters", "3", "--machines", "20", "--every", "1", "--json"]


def serving(child: Child) -> str:
    """Its address, once it serves."""
    while (facts := child.announced()) is None:
        assert child.is_running, child.tail()
    return str(facts["addresses"]["grpc"])


@pytest.fixture(scope="module")
def children(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Children]:
    with Children(tmp_path_factory.mktemp("home")) as children:
        yield children


@pytest.fixture(scope="module")
def shard(children: Children) -> str:
    provider = serving(children.command("provider", ["provider", "sim", "--listen", "127.0.0.1:0"]))
    return serving(children.command("shard", ["shard", "--provider", f"sim={provider}", *SHARD]))


Sim = Callable[..., tuple[int, list[dict[str, Any]]]]


@pytest.fixture(scope="module")
def sim(children: Children, shard: str) -> Sim:
    def run(*words: str) -> tuple[int, list[dict[str, Any]]]:
        command = ["cluster", "sim", "--server", shard, *CLUSTERS, *words]
        child = children.command("clusters", command)
        code = child.process.wait(60)
        lines = child.log.read_text(encoding="utf-8").splitlines()
        return code, [json.loads(line) for line in lines if line.startswith("{")]

    return run


def test_steady_clusters_get_what_they_ask_for_and_keep_it(sim: Sim) -> None:
    code, reports = sim("--name", "calm", "--steady", "--exact", "--steps", "12")

    last = reports[-1]
    assert code == 0
    assert (last["step"], last["clusters"], last["connected"], last["sessions"]) == (12, 3, 3, 3)
    assert last["nodes"] == {"Configured": last["asked"]}
    assert last["bootstraps"] == last["asked"] > 0
    assert len({report["asked"] for report in reports}) == 1
    assert last["reclaims"] == 0


def test_what_clusters_ask_for_changes_from_step_to_step(sim: Sim) -> None:
    code, reports = sim("--name", "lively", "--steps", "3", "--day", "4")

    assert code == 0
    assert len({report["asked"] for report in reports}) > 1


def test_a_shard_that_is_found_by_itself_is_used(children: Children, shard: str) -> None:
    child = children.command("found", ["cluster", "sim", "--steps", "1", "--every", "0.5"])

    assert child.process.wait(60) == 0, child.tail()
    assert "1 of 1 clusters connected" in child.tail()


def test_a_server_that_is_not_there_is_told_and_waited_for(tmp_path: Path) -> None:
    with Children(tmp_path) as children:
        words = ["cluster", "sim", "--server", "127.0.0.1:1", "--insecure", "--steps", "1"]
        child = children.command("alone", [*words, "--every", "1"])

        assert child.process.wait(60) == 0
        assert "0 of 1 clusters connected" in child.tail()
        assert "127.0.0.1:1" in child.tail()
